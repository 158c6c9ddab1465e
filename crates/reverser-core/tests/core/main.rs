//! The pure core against the readers that its output is for, and against recorded live objects.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may fail and may speak"
)]

mod golden;
mod idempotence;
mod paths;
mod random_values;
mod readers;
mod reference;
mod yaml_for_everybody;

/// A file that no `mod` line names would silently not run.
#[test]
fn every_file_of_this_folder_is_part_of_the_tests() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/core");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") {
            let line = format!("\nmod {module};\n");
            assert!(
                include_str!("main.rs").contains(&line),
                "main.rs lacks `mod {module};`"
            );
        }
    }
}

/// The root of the repository.
fn repository() -> &'static std::path::Path {
    std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
