use serde_json::Value;

use super::world::{OnTerminal, World};

fn verify(world: &World, more: &[&str]) -> super::world::Run {
    let mut arguments = vec!["verify", "--repo", "backup", "-n", &world.namespace];
    arguments.extend(more);
    world.run(&arguments)
}

#[test]
fn same_missing_extra_and_different_are_told_apart() {
    let world = World::new("bakery");
    world.mirror(&[]);
    let same = verify(&world, &[]);
    assert_eq!(
        (same.code, &*same.stdout),
        (Some(0), "3 same, 0 different, 0 missing, 0 extra\n")
    );
    world.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    world.kubectl(&["create", "configmap", "new", "--from-literal=a=b"]);
    world.kubectl(&["delete", "secret", "db"]);
    let run = verify(&world, &[]);
    assert_eq!(run.code, Some(1), "{run:?}");
    world.golden("verify", &run.stdout);
    let run = verify(&world, &["--json"]);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((run.code, &told["same"]), (Some(1), &1.into()));
    let path = format!("apps/v1/deployments/{}/web.yaml", world.namespace);
    assert_eq!(told["different"][0]["path"], path.as_str());
    assert!(
        told["different"][0]["diff"]
            .as_str()
            .unwrap()
            .contains("+  replicas: 3")
    );
    assert_eq!(told["missing"].as_array().unwrap().len(), 1);
    assert_eq!(told["extra"].as_array().unwrap().len(), 1);
    // Nothing was written.
    assert_eq!(world.git(&["rev-list", "--count", "main"]).trim(), "1");
}

#[test]
fn differences_are_coloured_on_a_terminal_only() {
    let world = World::new("colour");
    world.mirror(&["--include", "configmaps"]);
    world.kubectl(&[
        "patch",
        "configmap",
        "settings",
        "-p",
        r#"{"data":{"colour":"red"}}"#,
    ]);
    let arguments = [
        "verify",
        "--repo",
        "backup",
        "-n",
        &world.namespace,
        "--include",
        "configmaps",
    ];
    let (code, seen) = OnTerminal::start(world.binary(&arguments)).end();
    assert_eq!(code, Some(1), "{seen}");
    assert!(
        seen.contains("\u{1b}[32m+  colour: red\u{1b}[0m"),
        "{seen:?}"
    );
    assert!(
        seen.contains("\u{1b}[31m-  colour: blue\u{1b}[0m"),
        "{seen:?}"
    );
    assert!(!world.run(&arguments).stdout.contains('\u{1b}'));
}

#[test]
fn a_file_in_another_form_is_the_same_and_other_peoples_files_do_not_count() {
    let world = World::new("form");
    world.mirror(&["--include", "configmaps"]);
    let file = format!("core/v1/configmaps/{}/settings.yaml", world.namespace);
    let script = format!(
        "git clone -q backup work; cd work; sed -i '1i # a comment' {file}; touch README.md; \
         git add .; git commit -qm x; git push -q"
    );
    world.shell(&script);
    let run = verify(&world, &["--include", "configmaps"]);
    assert_eq!(
        (run.code, &*run.stdout),
        (Some(0), "1 same, 0 different, 0 missing, 0 extra\n"),
        "{run:?}"
    );
}
