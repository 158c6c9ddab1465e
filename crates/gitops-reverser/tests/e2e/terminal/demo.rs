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
    let commits: Vec<_> = commits
        .map(|commit| format!("{} {}", commit["user"], commit["attribution"]))
        .collect();
    assert_eq!(commits, [r#""bob" "exact""#, r#""alice" "exact""#], "{told}");
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

#[test]
fn on_the_users_own_cluster_the_demo_asks_tidies_up_and_takes_nothing_that_is_there() {
    let world = World::empty("demo-own");
    // With its controller-manager, which removes what is in a namespace and then the namespace.
    let plane = ControlPlane::builder().controller_manager(true).start();
    let plane = plane.unwrap();
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl(User::Admin);
        command::run(kubectl.args(arguments)).stdout
    };
    let ours = || {
        let kinds = "crd,namespace,lease,secret";
        let there = kubectl(&["get", kinds, "--all-namespaces", "--output=name"]);
        let ours = there.lines().filter(|name| {
            ["configbutler", "gitops-reverser", "/shop", "/reverser"]
                .iter()
                .any(|word| name.contains(word))
        });
        ours.map(str::to_owned).collect::<Vec<_>>()
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
    wait::until_blocking("everything to be gone", SOON, || {
        let left = ours();
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join(" "))
        }
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_interrupted_demo_removes_what_it_has_made_of_the_users_cluster_and_says_so() {
    let world = World::empty("demo-stopped");
    let plane = ControlPlane::builder().start().unwrap();
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl(User::Admin);
        command::run(kubectl.args(arguments)).stdout
    };
    let asked = OnTerminal::start(on_own_cluster(&world, &plane, &[]));
    asked.await_text("Go on? [y/N]");
    asked.signal(Signal::INT);
    let (code, seen) = asked.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("stopped; nothing was created"), "{seen}");
    let rooms = ["get", "namespace", "shop", "reverser", "--ignore-not-found"];
    assert_eq!(kubectl(&rooms), "");

    let demo = OnTerminal::start(on_own_cluster(&world, &plane, &["--yes"]));
    demo.await_text("alice$ kubectl create deployment");
    demo.signal(Signal::INT);
    demo.await_text("removing what the demo has made; Ctrl-C again ends it at once");
    let (code, seen) = demo.end();
    assert_eq!(code, Some(130), "{seen}");
    let last = "stopped; what the demo had made is removed";
    assert!(seen.contains(last), "{seen}");
    // Nobody here takes apart what is in a namespace, so both are on their way for ever.
    let phases = kubectl(&[&rooms[..], &["-o", "jsonpath={.items[*].status.phase}"]].concat());
    assert_eq!(phases, "Terminating Terminating");
    wait::until_blocking("the definitions to go", SOON, || {
        let there = kubectl(&["get", "crd", "-o", "name"]);
        if there.is_empty() { Ok(()) } else { Err(there) }
    })
    .unwrap_or_else(|error| panic!("{error}"));
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
    let plane = ControlPlane::builder().start().unwrap();
    let mut command = on_own_cluster(&world, &plane, &["--yes"]);
    // A cluster that does not answer any more: kubectl stands still when Bob scales.
    let tools = world.folder.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let real = plane.kubectl(User::Admin);
    let (started, go) = (world.path("started"), world.path("go"));
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *' scale '*) : > {started}; \
         while [ ! -e {go} ]; do sleep 0.05; done;; esac\nexec {} \"$@\"\n",
        Path::new(real.get_program()).display()
    );
    // By another process, for the reason that is told below.
    let write = ["-c", "cat > \"$0\" && chmod +x \"$0\""];
    let mut write_script = Command::new("sh");
    write_script.args(write).arg(tools.join("kubectl"));
    command::run_with_input(&mut write_script, script.as_bytes());
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let demo = OnTerminal::start({
        command.env("PATH", path);
        command
    });
    wait::until_blocking("Bob", SOON, || {
        let is_there = Path::new(&started).exists();
        is_there.then_some(()).ok_or_else(|| demo.seen())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let folder = format!("gitops-reverser-demo-{}", demo.id());
    assert_ne!(processes(&folder), <[&str; 0]>::default());
    demo.signal(Signal::INT);
    demo.await_text("Ctrl-C again ends it at once");
    demo.signal(Signal::INT);
    demo.await_text("error: ended at once");
    let (code, seen) = demo.end();
    std::fs::write(go, "").unwrap();
    assert_eq!(code, Some(130), "{seen}");
    assert!(!Path::new("/tmp").join(&folder).exists());
    wait::until_blocking("the processes to go", SOON, || {
        let there = processes(&folder);
        if there.is_empty() { Ok(()) } else { Err(there.join("; ")) }
    })
    .unwrap_or_else(|error| panic!("{error}"));
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
