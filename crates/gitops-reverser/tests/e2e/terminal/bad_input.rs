//! Every mistake is a sentence with its cure, has its own number, and writes nothing.

use std::fmt::Write as _;

use reverser_testkit::control_plane::User;
use reverser_testkit::git_server::HttpFront;

use super::world::{Run, World, golden, run};

/// What went wrong, as a person reads it, and the number that a script sees.
struct Mistakes {
    world: World,
    told: String,
}

impl Mistakes {
    fn new(namespace: &str) -> Self {
        Self {
            world: World::new(namespace),
            told: String::new(),
        }
    }

    #[track_caller]
    fn golden(&self, name: &str) {
        golden(name, &self.told);
        let written = self.world.folder.path().join("backup");
        assert!(!written.exists(), "nothing is written");
    }

    fn try_it(&mut self, what: &str, arguments: &[&str], code: i32) {
        let run = self.world.run(arguments);
        self.note(what, &run, code);
    }

    fn note(&mut self, what: &str, run: &Run, code: i32) {
        assert_eq!(run.code, Some(code), "{what}: {run:?}");
        let error = run.stderr.lines().find(|line| line.starts_with("error: "));
        let error = error.unwrap_or_else(|| panic!("{what}: {run:?}"));
        let error = self.world.stable(error);
        // What the system and the server say of it changes with their versions.
        let error = error.split(" (").next().unwrap_or_default();
        let error = error
            .split(": Failed to connect")
            .next()
            .unwrap_or_default();
        let _infallible = writeln!(self.told, "{what} ({code})\n  {error}\n");
    }
}

#[test]
fn each_mistake_about_the_cluster_has_a_sentence_and_a_number_of_its_own() {
    let mut all = Mistakes::new("mistaken");
    let ns = all.world.namespace.clone();
    let good = std::fs::read_to_string(all.world.plane.kubeconfig(User::Alice)).unwrap();
    let file = |name: &str, text: &str| {
        let path = all.world.path(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let mut config: serde_json::Value = serde_json::from_str(&good).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].clone();
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    let gone = file("gone.yaml", &config.to_string());
    config["clusters"][0]["cluster"]["server"] = server;
    config["users"][0]["user"] = serde_json::json!({"token": "expired"});
    let expired = file("expired.yaml", &config.to_string());
    let once = ["mirror", "--repo", "backup", "--once", "-n", &*ns];
    let with = |more: &[&'static str]| -> Vec<String> {
        once.iter()
            .chain(more)
            .map(|text| (*text).to_owned())
            .collect()
    };
    let mut kubeconfig = |what: &str, path: &str, code| {
        all.try_it(
            what,
            &["mirror", "--repo", "backup", "--once", "--kubeconfig", path],
            code,
        );
    };
    kubeconfig("no kubeconfig", "/nowhere", 10);
    kubeconfig("an unreachable cluster", &gone, 12);
    kubeconfig("an expired token", &expired, 13);
    for (what, more, code) in [
        ("an unknown context", &["--context", "nope"][..], 11),
        ("an unknown type", &["--include", "gadgets"], 15),
        (
            "a type that lives in no namespace",
            &["--include", "clusterroles"],
            15,
        ),
        ("a subresource", &["--include", "deployments/scale"], 15),
        (
            "a folder that Git servers run code from",
            &["--folder", ".github/workflows"],
            23,
        ),
        ("a folder that leads upwards", &["--folder", "../etc"], 23),
        (
            "a selector that is none",
            &["--selector", "app within web"],
            64,
        ),
        ("a branch that is none", &["--branch", "a..b"], 64),
        ("an unknown flag", &["--upside-down"], 64),
    ] {
        let arguments = with(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        all.try_it(what, &arguments, code);
    }
    all.try_it(
        "an unknown namespace",
        &["mirror", "--repo", "backup", "--once", "-n", "nope"],
        14,
    );
    all.golden("mistakes-about-the-cluster");
}

#[test]
fn each_mistake_about_a_repository_has_a_sentence_too() {
    let mut all = Mistakes::new("unversed");
    let ns = all.world.namespace.clone();
    let full = all.world.folder.path().join("full");
    std::fs::create_dir(&full).unwrap();
    std::fs::write(full.join("photo.jpg"), "").unwrap();
    let mirror = |repo: &'static str| ["mirror", "--once", "-n", &*ns, "--repo", repo];
    all.try_it("no repository named", &["mirror", "--once", "-n", &ns], 64);
    all.try_it("a folder full of other things", &mirror("full"), 20);
    all.try_it(
        "an address that is none",
        &mirror("ftp://example.com/x"),
        20,
    );
    all.try_it(
        "a password in the address",
        &mirror("https://me:hunter2@example.com/x"),
        20,
    );
    all.try_it(
        "a host that does not answer",
        &mirror("http://127.0.0.1:1/x"),
        20,
    );
    all.try_it(
        "no such repository to read",
        &["log", "cm/a", "--repo", "nowhere"],
        20,
    );
    all.try_it(
        "an object without a name",
        &["log", "deployment", "--repo", "full"],
        64,
    );
    all.golden("mistakes-about-the-repository");
}

#[test]
fn a_repository_that_does_not_let_us_in_says_so() {
    let world = World::new("refused");
    let front = HttpFront::start(world.folder.path());
    front.require(&["Basic bWU6aHVudGVyMg=="]);
    let url = front.url("repo.git");
    let run = world.run(&["mirror", "--once", "-n", &world.namespace, "--repo", &url]);
    assert_eq!(run.code, Some(21), "{run:?}");
    assert!(
        run.stderr.contains("check that your Git credentials"),
        "{run:?}"
    );
}

#[test]
fn a_folder_inside_of_another_tools_folder_is_refused() {
    let world = World::new("inside");
    world.mirror(&["--folder", "clusters/prod"]);
    let commit = |path: &str| {
        world.shell(&format!(
            "git clone -q backup work; mkdir -p work/$(dirname {path}); touch work/{path}; \
             git -C work add .; git -C work commit -qm x; git -C work push -q; rm -rf work"
        ));
    };
    commit("charts/web/Chart.yaml");
    let run = world.run(&[
        "mirror",
        "--once",
        "-n",
        &world.namespace,
        "--repo",
        "backup",
        "--folder",
        "charts/web/templates",
    ]);
    assert_eq!(run.code, Some(23), "{run:?}");
    world.golden(
        "mirror-inside-a-chart",
        run.stderr.lines().last().unwrap_or_default(),
    );
    for mark in [
        "overlays/prod/kustomization.yaml",
        "overlays/test/kustomization.yml",
        "overlays/old/Kustomization",
        "packages/web/Kptfile",
        "bundles/web/fleet.yaml",
        "clusters/one/flux-system/gotk-components.yaml",
        "clusters/two/flux-system/gotk-sync.yaml",
        "clusters/three/.configbutler/owner.yaml",
    ] {
        commit(mark);
        let (above, _) = mark.rsplit_once('/').unwrap();
        let above = above.trim_end_matches("/.configbutler");
        let inside = format!("{above}/live");
        let run = world.run(&[
            "mirror",
            "--once",
            "-n",
            &world.namespace,
            "--repo",
            "backup",
            "--folder",
            &inside,
        ]);
        assert_eq!(run.code, Some(23), "{mark}: {run:?}");
        assert!(run.stderr.contains(&format!("as {mark} says")), "{run:?}");
    }
    // Beside them is fine.
    world.mirror(&["--folder", "charts/web-live"]);
    world.mirror(&["--folder", "clusters/live"]);
}

#[test]
fn somebody_without_any_kubeconfig_is_told_where_one_is_looked_for() {
    let world = World::empty("nowhere");
    let mut binary = world.binary(&["mirror", "--repo", "backup", "--once"]);
    let run = run(binary.env_remove("KUBECONFIG"));
    assert_eq!(run.code, Some(10), "{run:?}");
    for said in ["--kubeconfig", "KUBECONFIG", "~/.kube/config"] {
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
    assert!(!world.folder.path().join("backup").exists());
}
