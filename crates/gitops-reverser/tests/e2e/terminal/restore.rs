use rustix::process::Signal;

use super::world::{OnTerminal, World};
use crate::operator::installation::await_right;

/// A Deployment that was scaled from 1 to 3 after the first commit.
fn scaled(name: &str) -> World {
    let world = World::new(name);
    world.mirror(&["--secrets", "as-is"]);
    world.kubectl(&["scale", "deployment", "web", "--replicas=3"]);
    world.mirror(&["--secrets", "as-is"]);
    world
}

fn replicas(world: &World) -> String {
    world.kubectl(&[
        "get",
        "deployment",
        "web",
        "-o",
        "jsonpath={.spec.replicas}",
    ])
}

#[test]
fn an_object_comes_back_after_a_person_agreed() {
    let world = scaled("harbour");
    let arguments = [
        "restore",
        "deploy/web",
        "--repo",
        "backup",
        "--at",
        "HEAD~1",
    ];
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(64), "nobody can be asked: {run:?}");
    world.golden("restore-asks", &format!("{}{}", run.stdout, run.stderr));
    assert_eq!(replicas(&world), "3");

    let mut no = OnTerminal::start(world.binary(&arguments));
    no.await_text("Apply? [y/N]");
    no.type_in("n\n");
    let (code, seen) = no.end();
    assert_eq!(code, Some(1), "{seen}");
    assert!(seen.contains("nothing was applied"), "{seen}");
    assert_eq!(replicas(&world), "3");

    let hesitant = OnTerminal::start(world.binary(&arguments));
    hesitant.await_text("Apply? [y/N]");
    hesitant.signal(Signal::INT);
    let (code, seen) = hesitant.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("stopped; nothing was applied"), "{seen}");
    assert_eq!(replicas(&world), "3");

    let mut yes = OnTerminal::start(world.binary(&arguments));
    yes.await_text("Apply? [y/N]");
    yes.type_in("y\n");
    let (code, seen) = yes.end();
    assert_eq!(code, Some(0), "{seen}");
    assert_eq!(replicas(&world), "1");
    let managers = world.kubectl(&[
        "get",
        "deployment",
        "web",
        "-o",
        "jsonpath={.metadata.managedFields[*].manager}",
        "--show-managed-fields",
    ]);
    assert!(managers.contains("gitops-reverser-restore"), "{managers}");
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(0), "nothing is left to do: {run:?}");
}

#[test]
fn a_dry_run_changes_nothing_and_the_server_has_its_say() {
    let world = scaled("restore-dry");
    let arguments = [
        "restore",
        "deploy/web",
        "--repo",
        "backup",
        "--at",
        "HEAD~1",
        "--dry-run",
    ];
    let run = world.run(&arguments);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(
        run.stdout.ends_with(&format!(
            "would restore {}/web (deployments.apps)\n",
            world.namespace
        )),
        "{run:?}"
    );
    assert_eq!(replicas(&world), "3");
}

#[test]
fn a_folder_comes_back_with_its_namespace_and_its_definitions_first() {
    let world = World::empty("restore-folder");
    let group = format!("{}.example.com", world.namespace);
    let crd = format!(
        r#"{{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
            "metadata":{{"name":"gadgets.{group}"}},"spec":{{"group":"{group}","scope":"Namespaced",
            "names":{{"plural":"gadgets","kind":"Gadget"}},"versions":[{{"name":"v1","served":true,
            "storage":true,"schema":{{"openAPIV3Schema":{{"type":"object",
            "x-kubernetes-preserve-unknown-fields":true}}}}}}]}}}}"#
    );
    let gadget = format!(
        r#"{{"apiVersion":"{group}/v1","kind":"Gadget","metadata":{{"name":"one"}},"size":3}}"#
    );
    let apply = |text: &str| {
        let file = world.path("object.json");
        std::fs::write(&file, text).unwrap();
        world.kubectl(&["apply", "-f", &file]);
    };
    apply(&crd);
    world.plane.await_kinds([format!("gadgets.{group}")]);
    apply(&gadget);
    let include = format!("customresourcedefinitions,gadgets.{group}");
    let run = world.run(&[
        "mirror",
        "--repo",
        "backup",
        "-A",
        "--once",
        "--include",
        &include,
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    // The definitions of others are theirs.
    world.shell(&format!(
        "git clone -q backup work; cd work; cd $(dirname $(git ls-files | grep /gadgets.{group})); \
         git rm -q -- $(git ls-files . | grep -v ^gadgets.{group}) || true; \
         git commit -q --allow-empty -m 'ours only'; git push -q"
    ));
    world.kubectl(&[
        "delete",
        "crd",
        &format!("gadgets.{group}"),
        "--timeout=180s",
    ]);
    let at = world.git(&["rev-parse", "main"]);
    let run = world.run(&[
        "restore",
        ".",
        "--repo",
        "backup",
        "--at",
        at.trim(),
        "--yes",
    ]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let place = |text: &str| {
        run.stdout
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {run:?}"))
    };
    let (first, second) = (
        place(&format!(
            "created gadgets.{group} (customresourcedefinitions"
        )),
        place(&format!("created {}/one (gadgets", world.namespace)),
    );
    assert!(first < second);
    assert_eq!(
        world.kubectl(&[
            "get",
            &format!("gadgets.{group}"),
            "one",
            "-o",
            "jsonpath={.size}"
        ]),
        "3"
    );
}

#[test]
fn a_time_leads_to_the_commit_of_that_time_and_what_is_redacted_stays() {
    let world = World::new("restore-time");
    world.mirror(&[]);
    world.kubectl(&["delete", "configmap", "settings"]);
    world.kubectl(&[
        "patch",
        "secret",
        "db",
        "-p",
        r#"{"stringData":{"password":"other"}}"#,
    ]);
    let time = world.git(&["log", "-1", "--format=%cI", "main"]);
    let run = world.run(&[
        "restore",
        ".",
        "--repo",
        "backup",
        "--at",
        time.trim(),
        "--yes",
    ]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let ns = &world.namespace;
    assert!(
        run.stdout
            .contains(&format!("created {ns}/settings (configmaps)")),
        "{run:?}"
    );
    assert!(
        run.stdout.contains(&format!(
            "failed {ns}/db (secrets): its values are redacted"
        )),
        "{run:?}"
    );
    let run = world.run(&[
        "restore",
        ".",
        "--repo",
        "backup",
        "--at",
        "1970-01-02",
        "--yes",
    ]);
    assert_eq!(run.code, Some(16), "{run:?}");
    let run = world.run(&[
        "restore", ".", "--repo", "backup", "--at", "soonish", "--yes",
    ]);
    assert_eq!(run.code, Some(64), "{run:?}");
}

/// Somebody who may only read and write ConfigMaps of the namespace; alice speaks for them.
fn who_may_write_config_maps(world: &World) -> String {
    let user = format!("writer-of-{}", world.namespace);
    let may = ["--verb=get,create,patch", "--resource=configmaps"];
    world.kubectl(&[&["create", "role", "writer"], &may[..]].concat());
    let binding = ["create", "rolebinding", "writer", "--role=writer", "--user"];
    world.kubectl(&[&binding[..], &[&user]].concat());
    let right = ["patch", "configmaps", "-n", &world.namespace];
    await_right(&world.plane, &user, &right);
    world.impersonating(&user)
}

#[test]
fn an_object_that_may_not_be_read_is_reported_and_the_others_come_back() {
    let world = World::new("restore-forbidden");
    world.mirror(&["--secrets", "as-is"]);
    world.kubectl(&["delete", "configmap", "settings"]);
    let other = r#"{"stringData":{"password":"other"}}"#;
    world.kubectl(&["patch", "secret", "db", "-p", other]);
    let kubeconfig = who_may_write_config_maps(&world);
    let run = world.run(&[
        "restore",
        ".",
        "--repo",
        "backup",
        "--at",
        "HEAD",
        "--yes",
        "--kubeconfig",
        &kubeconfig,
    ]);
    assert_eq!(run.code, Some(2), "{run:?}");
    let ns = &world.namespace;
    for line in [
        format!("created {ns}/settings (configmaps)\n"),
        format!("failed {ns}/db (secrets): it cannot be compared with the cluster: 403"),
        format!("failed {ns}/web (deployments.apps): it cannot be compared with the cluster: 403"),
        "1 object of commit".to_owned(),
    ] {
        assert!(run.stdout.contains(&line), "{line}: {run:?}");
    }

    // With the rights it is the Secret that is left, of which no value is shown.
    let all = ["restore", ".", "--repo", "backup", "--at", "HEAD", "--yes"];
    let run = world.run(&all);
    assert_eq!(run.code, Some(0), "{run:?}");
    let masked = "-  password: \"*** (before)\"\n+  password: \"*** (after)\"\n";
    assert!(run.stdout.contains(masked), "{run:?}");
    for value in ["hunter2", "aHVudGVyMg", "b3RoZXI"] {
        assert!(!run.stdout.contains(value), "{run:?}");
    }
}

#[test]
fn an_object_that_is_as_large_as_the_server_takes_comes_back() {
    let world = World::empty("restore-large");
    // Each of these characters takes two in JSON.
    let large = world.path("large");
    std::fs::write(&large, "\"".repeat(700_000)).unwrap();
    let file = format!("--from-file={large}");
    world.kubectl(&["create", "configmap", "large", &file]);
    world.kubectl(&["create", "configmap", "small", "--from-literal=a=b"]);
    world.mirror(&["--include", "configmaps"]);
    world.kubectl(&["label", "configmap", "large", "small", "changed=true"]);
    world.kubectl(&["delete", "configmap", "small"]);
    let all = ["restore", ".", "--repo", "backup", "--at", "HEAD", "--yes"];
    let run = world.run(&all);
    let told = |what: &str| run.stdout.contains(&format!("{what} {}/", world.namespace));
    let end = &run.stdout[run.stdout.len().saturating_sub(500)..];
    assert_eq!(run.code, Some(0), "{end} {}", run.stderr);
    assert!(told("created") && told("restored"), "{end}");
}

#[test]
fn what_its_namespace_is_missing_for_fails_by_itself() {
    let world = World::empty("restore-nowhere");
    world.kubectl(&["create", "configmap", "here", "--from-literal=a=b"]);
    world.mirror(&["--include", "configmaps"]);
    let ns = &world.namespace;
    world.shell(&format!(
        "git clone -q backup work; cd work/core/v1/configmaps; cp -r {ns} {ns}-gone; \
         sed -i 's/namespace: .*/namespace: {ns}-gone/' {ns}-gone/here.yaml; \
         git add .; git commit -qm gone; git push -q"
    ));
    world.kubectl(&["delete", "configmap", "here"]);
    let all = ["restore", ".", "--repo", "backup", "--at", "HEAD", "--yes"];
    let run = world.run(&all);
    assert_eq!(run.code, Some(2), "{run:?}");
    let lost = format!("failed {ns}-gone/here (configmaps): ");
    let lost = run.stdout.lines().find(|line| line.starts_with(&lost));
    let lost = lost.unwrap_or_else(|| panic!("{run:?}"));
    assert!(
        lost.contains(&format!("namespaces \"{ns}-gone\" not found")),
        "{lost}"
    );
    let found = format!("created {ns}/here (configmaps)\n");
    assert!(run.stdout.contains(&found), "{run:?}");
}
