use std::os::unix::fs::symlink;

use reverser_testkit::command;
use reverser_testkit::control_plane::User;

use super::world::World;

const COMMANDS: &[&str] = &[
    "controller",
    "mirror",
    "verify",
    "status",
    "log",
    "blame",
    "restore",
    "clean",
    "crds",
    "demo",
    "completion",
];

#[test]
fn every_command_helps_with_examples() {
    let world = World::empty("help");
    for name in COMMANDS {
        let run = world.run(&[name, "--help"]);
        assert_eq!(run.code, Some(0), "{run:?}");
        let example = format!("\n  gitops-reverser {name}");
        let has = run.stdout.contains("Example")
            && (run.stdout.contains(&example)
                || *name == "clean"
                || *name == "completion"
                || *name == "demo");
        assert!(has, "{name}: {}", run.stdout);
    }
    let all = world.run(&["--help"]).stdout;
    for name in COMMANDS {
        assert!(all.contains(&format!("\n  {name} ")), "{name}: {all}");
    }
}

#[test]
fn what_mirror_may_end_with_is_documented() {
    let world = World::empty("numbers");
    let help = world.run(&["mirror", "--help"]).stdout;
    let (_, numbers) = help.split_once("Exit status: ").unwrap();
    let documented: Vec<u8> = numbers
        .split(|character: char| !character.is_ascii_digit())
        .filter_map(|word| word.parse().ok())
        .collect();
    let possible = [0, 1, 2, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23, 64, 130];
    assert_eq!(documented, possible, "{numbers}");
}

#[test]
fn shells_are_told_how_to_complete() {
    let world = World::empty("completion");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = world.run(&["completion", shell]);
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.stdout.contains("acknowledge-mass-delete"), "{shell}");
    }
    let script = world.path("completion.bash");
    std::fs::write(&script, world.run(&["completion", "bash"]).stdout).unwrap();
    let test = format!(
        "source {script}; COMP_WORDS=(gitops-reverser mirror --sel); COMP_CWORD=2; \
         _gitops__reverser gitops-reverser --sel mirror; echo ${{COMPREPLY[@]}}"
    );
    let mut bash = std::process::Command::new("bash");
    assert_eq!(
        command::run(bash.args(["-c", &test])).stdout.trim(),
        "--selector"
    );
}

#[test]
fn kubectl_finds_it_as_a_plugin() {
    let world = World::empty("plugin");
    let binary = assert_cmd::cargo::cargo_bin!("gitops-reverser");
    symlink(binary, world.folder.path().join("kubectl-reverser")).unwrap();
    let mut path = world.folder.path().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut kubectl = world.plane.kubectl(User::Alice);
    kubectl.env("PATH", path).current_dir(world.folder.path());
    kubectl.env("HOME", world.folder.path());
    kubectl.args([
        "reverser",
        "mirror",
        "--repo",
        "backup",
        "-n",
        &world.namespace,
        "--once",
    ]);
    let said = command::run(&mut kubectl).stdout;
    assert!(said.contains("objects in branch main of"), "{said}");
    let mut help = std::process::Command::new(world.folder.path().join("kubectl-reverser"));
    let help = command::run(help.args(["mirror", "--help"])).stdout;
    assert!(help.contains("Usage: kubectl reverser mirror"), "{help}");
}
