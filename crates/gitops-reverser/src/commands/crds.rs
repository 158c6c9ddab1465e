//! `crds`: the definitions of the four kinds, for `kubectl apply -f -`.

use std::process::ExitCode;

pub(super) fn run() -> ExitCode {
    match super::print(&reverser_api::crd_yaml::crds_yaml()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}
