use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, CommandError};

/// Where others keep these programs; envtest reads it too.
const ASSETS: &str = "KUBEBUILDER_ASSETS";

/// The programs of a control plane.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    pub(super) etcd: PathBuf,
    pub(super) kube_apiserver: PathBuf,
    pub(super) kube_controller_manager: PathBuf,
    pub(super) kubectl: PathBuf,
}

/// Why there are no programs to run.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// The build script cannot say where they would be.
    #[error("cannot tell where the control plane is; run make control-plane")]
    Unknown(#[source] CommandError),
    /// One is missing.
    #[error("{} is missing; run make control-plane", .program.display())]
    Missing {
        /// Where it was looked for.
        program: PathBuf,
    },
    /// One is missing in the folder that the environment names.
    #[error(
        "{} is missing; {ASSETS} names that folder: unset it and run make control-plane",
        .program.display()
    )]
    MissingAsset {
        /// Where it was looked for.
        program: PathBuf,
    },
}

impl Binaries {
    /// Those that are there; the controller-manager only if it is wanted, because the folders that
    /// others fill do not have it.
    pub(super) fn find(controller_manager: bool) -> Result<Self, BinariesError> {
        match std::env::var_os(ASSETS).filter(|folder| !folder.is_empty()) {
            Some(folder) => Self::in_folder(Path::new(&folder), controller_manager)
                .map_err(|program| BinariesError::MissingAsset { program }),
            None => Self::in_folder(&built_folder()?, controller_manager)
                .map_err(|program| BinariesError::Missing { program }),
        }
    }

    fn in_folder(folder: &Path, controller_manager: bool) -> Result<Self, PathBuf> {
        let binaries = Self {
            etcd: folder.join("etcd"),
            kube_apiserver: folder.join("kube-apiserver"),
            kube_controller_manager: folder.join("kube-controller-manager"),
            kubectl: folder.join("kubectl"),
        };
        let mut needed = vec![&binaries.etcd, &binaries.kube_apiserver, &binaries.kubectl];
        if controller_manager {
            needed.push(&binaries.kube_controller_manager);
        }
        match needed.into_iter().find(|program| !program.is_file()) {
            Some(missing) => Err(missing.clone()),
            None => Ok(binaries),
        }
    }
}

/// The folder that `make control-plane` fills. Its name has a hash over what was built, which only
/// the build script knows.
fn built_folder() -> Result<PathBuf, BinariesError> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../hack/control-plane/build.sh");
    let output = command::try_run(Command::new(script).arg("--print-dir"));
    let output = output.map_err(BinariesError::Unknown)?;
    Ok(PathBuf::from(output.stdout.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("etcd"), "").unwrap();
        let program = Binaries::in_folder(folder.path(), false).unwrap_err();
        let text = BinariesError::Missing { program }.to_string();
        assert!(text.ends_with("kube-apiserver is missing; run make control-plane"));
    }

    #[test]
    fn the_controller_manager_is_looked_for_only_if_wanted() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["etcd", "kube-apiserver", "kubectl"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(Binaries::in_folder(folder.path(), false).is_ok());
        let missing = Binaries::in_folder(folder.path(), true).unwrap_err();
        assert!(missing.ends_with("kube-controller-manager"));
    }
}
