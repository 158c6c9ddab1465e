//! The real binary and the real pieces against a real control plane, shared by all tests here.

/// A file that no `mod` line names would silently not run.
#[test]
fn every_file_of_this_folder_is_part_of_the_tests() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e");
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(module) = name.strip_suffix(".rs").filter(|module| *module != "main") {
            let line = format!("\nmod {module};\n");
            assert!(include_str!("main.rs").contains(&line), "main.rs lacks `mod {module};`");
        }
    }
}
