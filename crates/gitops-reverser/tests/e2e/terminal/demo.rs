use std::path::Path;
use std::process::Command;

use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;
use rustix::process::Signal;

use super::picture;
use super::world::{OnTerminal, SOON, World, golden, run};

#[test]
fn the_demo_tells_its_story_and_names_alice_and_bob() {
    let world = World::empty("demo");
    // It installs what it needs, so it has a plane to itself.
    let plane = ControlPlane::builder().start().unwrap();
    let description = world.path("plane.json");
    std::fs::write(&description, plane.description().to_string()).unwrap();
    let demo = OnTerminal::start(world.binary(&["demo", "--once", "--plane", &description]));
    let (code, seen) = demo.end();
    assert_eq!(code, Some(0), "{seen}");
    let seen = seen.replace('\r', "");
    let (story, rest) = seen.split_once("\u{25b8} Where to look further").unwrap();
    let story = without_commits(story.strip_suffix("\u{1b}[1m").unwrap_or(story));
    golden("demo", &picture::plain(&story));
    for (who, what) in [("alice", "Create"), ("bob", "Update"), ("bob", "Delete")] {
        let named = |line: &str| line.contains(&format!(" {who} ")) && line.contains(what);
        assert!(story.lines().any(named), "{who} {what}: {story}");
    }
    for word in ["git -C ", "KUBECONFIG=", "/metrics"] {
        assert!(rest.contains(word), "{rest}");
    }
    // The picture of the README is this very output.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/demo.svg");
    let svg = picture::svg(&story);
    if std::env::var_os("REVERSER_BLESS").is_some() {
        std::fs::write(&file, &svg).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == svg,
        "docs/demo.svg is another story; REVERSER_BLESS=1 draws it again"
    );
}

#[test]
fn on_a_terminal_the_demo_stays_until_it_is_ended() {
    let world = World::empty("demo-stays");
    let plane = ControlPlane::builder().start().unwrap();
    let description = world.path("plane.json");
    std::fs::write(&description, plane.description().to_string()).unwrap();
    let demo = OnTerminal::start(world.binary(&["demo", "--plane", &description]));
    demo.await_text("Everything keeps running");
    // Meanwhile its repository tells who did what, and how that is known.
    let repository = format!("/tmp/gitops-reverser-demo-{}/repository.git", demo.id());
    let in_it = ["--repo", &repository, "--folder", "clusters/demo"];
    let log = world.run(&[&["log", "deployment/web", "--json"], &in_it[..]].concat());
    let told: serde_json::Value = serde_json::from_str(&log.stdout).unwrap();
    let commits = told["commits"].as_array().unwrap().iter();
    let told_of = |(commit, who): (&serde_json::Value, &str)| {
        let how = commit["attribution"].as_str();
        commit["user"] == who && how.is_some_and(|how| how == "exact" || how == "coalesced")
    };
    assert_eq!(commits.len(), 2, "{told}");
    assert!(commits.zip(["bob", "alice"]).all(told_of), "{told}");
    let blame = world.run(&[&["blame", "deployment/web"], &in_it[..]].concat());
    let line = |text: &str| blame.stdout.lines().find(|line| line.contains(text));
    assert!(line("replicas: 3").unwrap().contains(" bob "), "{blame:?}");
    assert!(line("nginx:1.29").unwrap().contains(" alice "), "{blame:?}");
    demo.signal(Signal::INT);
    let (code, seen) = demo.end();
    assert_eq!(code, Some(0), "{seen}");
}

/// The demo as somebody starts it who has a cluster, a kubeconfig and kubectl.
fn on_own_cluster(world: &World, plane: &ControlPlane, more: &[&str]) -> Command {
    let mut command = world.binary(&["demo", "--use-current-context", "--once"]);
    let kubectl = plane.kubectl(User::Admin);
    let tools = Path::new(kubectl.get_program()).parent().unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    command
        .args(more)
        .env("KUBECONFIG", plane.kubeconfig(User::Admin))
        .env("PATH", path);
    command
}

/// With the controllers of Kubernetes, which put the role together that Alice and Bob have, and remove
/// what is in a namespace and then the namespace.
fn own_cluster() -> ControlPlane {
    let plane = ControlPlane::builder().controller_manager(true);
    let plane = plane.start().unwrap();
    wait::until_blocking("the role of Alice and Bob", SOON, || {
        let mut kubectl = plane.kubectl(User::Admin);
        let role = ["get", "clusterrole", "admin", "-o", "jsonpath={.rules}"];
        let rules = command::run(kubectl.args(role)).stdout;
        rules
            .contains("deployments/scale")
            .then_some(())
            .ok_or(rules)
    })
    .unwrap_or_else(|error| panic!("{error}"));
    plane
}

/// A demo on somebody's cluster that stands still in the middle of its story, as if the cluster did not
/// answer any more: when Bob scales, until it is told to go on.
struct StandingStill<'w> {
    world: &'w World,
    demo: OnTerminal,
}

impl<'w> StandingStill<'w> {
    fn start(world: &'w World, plane: &ControlPlane) -> Self {
        let tools = world.folder.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        let (started, go) = (world.path("started"), world.path("go"));
        let script = format!(
            "#!/bin/sh\ncase \"$*\" in *' scale '*) : > {started}; \
             while [ -e {started} -a ! -e {go} ]; do sleep 0.05; done;; esac\nexec {} \"$@\"\n",
            plane.kubectl(User::Admin).get_program().display()
        );
        // By another process, for the reason that is told below.
        let mut write = Command::new("sh");
        write.args(["-c", "cat > \"$0\" && chmod +x \"$0\""]);
        command::run_with_input(write.arg(tools.join("kubectl")), script.as_bytes());
        let mut command = on_own_cluster(world, plane, &["--yes"]);
        let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
        command.env("PATH", path);
        let demo = OnTerminal::start(command);
        wait::until_blocking("Bob", SOON, || {
            let is_there = Path::new(&started).exists();
            is_there.then_some(()).ok_or_else(|| demo.seen())
        })
        .unwrap_or_else(|error| panic!("{error}"));
        Self { world, demo }
    }

    fn interrupt(&self) {
        self.demo.signal(Signal::INT);
        let sentence = "removing what the demo has made; Ctrl-C again ends it at once";
        self.demo.await_text(sentence);
    }

    fn go_on(&self) {
        std::fs::write(self.world.path("go"), "").unwrap();
    }
}

/// Everything that a demo could have left behind.
fn left_by_the_demo(plane: &ControlPlane) -> Vec<String> {
    let mut kubectl = plane.kubectl(User::Admin);
    let kinds = "crd,namespace,lease,secret";
    let there = command::run(kubectl.args(["get", kinds, "--all-namespaces", "--output=name"]));
    let ours = there.stdout.lines().filter(|name| {
        ["configbutler", "gitops-reverser", "/shop", "/reverser"]
            .iter()
            .any(|word| name.contains(word))
    });
    ours.map(str::to_owned).collect()
}

#[track_caller]
fn await_nothing(look: impl Fn() -> Vec<String>) {
    wait::until_blocking("everything to be gone", SOON, || {
        let left = look();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(" "))
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn on_the_users_own_cluster_the_demo_asks_tidies_up_and_takes_nothing_that_is_there() {
    let world = World::empty("demo-own");
    let plane = own_cluster();
    let ours = || left_by_the_demo(&plane);
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl(User::Admin);
        command::run(kubectl.args(arguments));
    };
    let nobody = run(&mut on_own_cluster(&world, &plane, &[]));
    assert_eq!(nobody.code, Some(64), "{nobody:?}");
    let mut hesitant = OnTerminal::start(on_own_cluster(&world, &plane, &[]));
    hesitant.await_text("Go on? [y/N]");
    hesitant.type_in("n\n");
    hesitant.await_text("nothing was created");
    let (code, seen) = hesitant.end();
    assert_eq!(code, Some(1), "{seen}");
    assert_eq!(ours(), <[&str; 0]>::default());

    kubectl(&["create", "namespace", "shop"]);
    let taken = run(&mut on_own_cluster(&world, &plane, &["--yes"]));
    assert_eq!(taken.code, Some(1), "{taken:?}");
    let sentence = "namespace/shop is there already, and the demo would remove it";
    assert!(taken.stderr.contains(sentence), "{taken:?}");
    assert_eq!(ours(), ["namespace/shop"]);
    kubectl(&["delete", "namespace", "shop"]);

    let mut willing = OnTerminal::start(on_own_cluster(&world, &plane, &[]));
    willing.await_text("Go on? [y/N]");
    willing.type_in("y\n");
    willing.await_text("git log");
    let (code, seen) = willing.end();
    assert_eq!(code, Some(0), "{seen}");
    await_nothing(ours);
}

#[test]
fn an_interrupted_demo_removes_what_it_has_made_of_the_users_cluster_and_says_so() {
    let world = World::empty("demo-stopped");
    let plane = own_cluster();
    let asked = OnTerminal::start(on_own_cluster(&world, &plane, &[]));
    asked.await_text("Go on? [y/N]");
    asked.signal(Signal::INT);
    let (code, seen) = asked.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("stopped; nothing was created"), "{seen}");
    assert_eq!(left_by_the_demo(&plane), <[&str; 0]>::default());

    let still = StandingStill::start(&world, &plane);
    still.interrupt();
    still.go_on();
    let (code, seen) = still.demo.end();
    assert_eq!(code, Some(130), "{seen}");
    let last = "stopped; what the demo had made is removed";
    assert!(seen.contains(last), "{seen}");
    await_nothing(|| left_by_the_demo(&plane));
}

/// Every process whose command line has this word.
fn processes(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(word)).collect()
}

#[test]
fn the_second_interruption_of_a_demo_waits_for_nothing_and_leaves_no_process() {
    let world = World::empty("demo-forced");
    let plane = own_cluster();
    let still = StandingStill::start(&world, &plane);
    let folder = format!("gitops-reverser-demo-{}", still.demo.id());
    assert_ne!(processes(&folder), <[&str; 0]>::default());
    still.interrupt();
    still.demo.signal(Signal::INT);
    still.demo.await_text("error: ended at once");
    still.go_on();
    let (code, seen) = still.demo.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(!Path::new("/tmp").join(&folder).exists());
    await_nothing(|| processes(&folder));
}

#[test]
fn without_a_control_plane_the_demo_says_where_to_get_one() {
    let world = World::empty("demo-none");
    let copy = world.folder.path().join("gitops-reverser");
    // By another process: a file that this one has open for writing cannot be run, and neither can
    // one that a process started meanwhile has inherited.
    let program = assert_cmd::cargo::cargo_bin!("gitops-reverser");
    command::run(Command::new("cp").arg(program).arg(&copy));
    let run = run(Command::new(copy).args(["demo", "--once"]));
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(
        run.stderr.contains("run `make demo` in the source"),
        "{run:?}"
    );
}

/// The short names of commits, made the same.
fn without_commits(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let is_commit = word.len() == 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
        let line = if is_commit {
            format!("4f3c2a1 {rest}")
        } else {
            line.to_owned()
        };
        match line.split_once("git show ") {
            Some((before, rest)) => format!("{before}git show 4f3c2a1{}\n", &rest[7..]),
            None => line + "\n",
        }
    });
    lines.collect()
}
