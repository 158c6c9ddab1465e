//! The four kinds on a real API server: what it refuses and in which words, what it accepts, what
//! it fills in, and what a person sees.

#![allow(clippy::unwrap_used, reason = "all of this binary is tests")]

/// The definitions, installed in the shared control plane, and ways to ask the API server.
mod installed;
/// Tables of objects that are refused or accepted.
mod table;
/// What is refused and accepted in a label selector, wherever one stands.
mod label_selector;
/// What is refused and accepted in an access policy, on both kinds that have one.
mod access_policy;
mod git_repo_config;
mod git_destination;
mod watch_rule;
mod cluster_watch_rule;
/// Nothing is refused that no table shows.
mod coverage;
/// Limits, enumerations and required fields, each broken once.
mod limits;
/// The files in `config/samples`.
mod samples;
/// What kubectl shows.
mod kubectl;
/// What only the operator writes.
mod status;

#[test]
fn every_file_of_this_folder_is_part_of_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/api");
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = entry.unwrap().path();
        let name = file.file_stem().unwrap().to_str().unwrap();
        assert!(
            name == "main" || include_str!("main.rs").contains(&format!("\nmod {name};")),
            "{name}.rs is not listed in main.rs, so its tests do not run"
        );
    }
}
