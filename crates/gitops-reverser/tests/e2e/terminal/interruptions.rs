//! Servers that fail for a moment, and people who have waited enough.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use reverser_testkit::control_plane::User;
use reverser_testkit::fault_proxy::{Fault, FaultProxy};
use reverser_testkit::git_server::BareRepository;
use reverser_testkit::wait;
use rustix::process::Signal;

use super::world::{OnTerminal, SOON, World};

/// A kubeconfig that leads through a proxy.
fn through(world: &World, proxy: &FaultProxy) -> String {
    let text = fs::read_to_string(world.plane.kubeconfig(User::Alice)).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (url, authority) = proxy.address();
    let trusted = world.path("proxy.pem");
    fs::write(&trusted, authority).unwrap();
    let cluster = config["clusters"][0]["cluster"].as_object_mut().unwrap();
    cluster.remove("certificate-authority-data");
    cluster.insert("server".to_owned(), url.into());
    cluster.insert("certificate-authority".to_owned(), trusted.into());
    let path = world.path("proxied.yaml");
    fs::write(&path, config.to_string()).unwrap();
    path
}

#[test]
fn a_server_that_fails_for_a_moment_costs_a_pass_only_time() {
    let world = World::new("moment");
    let proxy = FaultProxy::start(&world.plane.kube_config(User::Alice));
    let kubeconfig = through(&world, &proxy);
    let once = [
        "mirror",
        "--once",
        "-n",
        &world.namespace,
        "--repo",
        "backup",
        "--kubeconfig",
        &kubeconfig,
    ];
    let busy = || Fault::answer(503, "");
    proxy.fault("/configmaps? limit=", Fault::Close, 1);
    proxy.fault("/configmaps? limit=", busy(), 1);
    proxy.fault("/secrets?", Fault::CutAfter(10), 2);
    let run = world.run(&once);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(world.files().len(), 3);
    let tries = proxy.seen();
    let tries = tries
        .iter()
        .filter(|line| line.contains("/configmaps?limit"));
    assert_eq!(tries.count(), 3);
    // One that does not come back is told, and what is known of the rest is written.
    world.kubectl(&["delete", "configmap", "settings"]);
    proxy.fault("/deployments?", busy(), usize::MAX);
    let run = world.run(&once);
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stdout.contains("apps/v1/deployments: 503"), "{run:?}");
    assert_eq!(world.files().len(), 2);
}

/// A repository whose server takes a push only when it is told to.
struct SlowServer<'w> {
    world: &'w World,
    repository: BareRepository,
}

impl<'w> SlowServer<'w> {
    fn new(world: &'w World) -> Self {
        let repository = BareRepository::create(world.folder.path(), "backup");
        let hook = repository.path().join("hooks/pre-receive");
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        let script = format!(
            "#!/bin/sh\n: > {started}\nwhile [ ! -e {go} ]; do sleep 0.05; done\n",
            started = world.path("started"),
            go = world.path("go"),
        );
        fs::write(&hook, script).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
        Self { world, repository }
    }

    /// A pass in the middle of its push.
    fn pushing(&self) -> OnTerminal {
        let ns = &self.world.namespace;
        let arguments = ["mirror", "--repo", "backup", "-n", ns, "--once"];
        let run = OnTerminal::start(self.world.binary(&arguments));
        let started = self.world.folder.path().join("started");
        wait::until_blocking("a push", SOON, || {
            started.exists().then_some(()).ok_or_else(|| run.seen())
        })
        .unwrap_or_else(|error| panic!("{error}"));
        run
    }

    fn go_on(&self) {
        fs::write(self.world.path("go"), "").unwrap();
    }
}

impl Drop for SlowServer<'_> {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// The commands that receive a push to a repository at this moment.
fn pushes_to(repository: &Path) -> Vec<String> {
    let repository = repository.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let commands = processes.filter_map(|process| {
        let command = fs::read(process.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&command).replace('\0', " "))
    });
    commands
        .filter(|command| command.contains("receive-pack") && command.contains(&repository))
        .collect()
}

#[test]
fn the_first_interruption_lets_a_push_end() {
    let world = World::new("gentle");
    let server = SlowServer::new(&world);
    let run = server.pushing();
    run.await_text("100%");
    run.await_text("objects of Git");
    run.signal(Signal::INT);
    run.await_text("Ctrl-C again ends it at once");
    server.go_on();
    run.await_text("the next run goes on");
    let (code, seen) = run.end();
    assert_eq!(code, Some(130), "{seen}");
    assert_eq!(server.repository.files("main").len(), 3);
}

#[test]
fn the_second_interruption_waits_for_nothing() {
    let world = World::new("forced");
    let server = SlowServer::new(&world);
    let run = server.pushing();
    assert!(!pushes_to(server.repository.path()).is_empty());
    run.signal(Signal::INT);
    run.await_text("Ctrl-C again ends it at once");
    run.signal(Signal::INT);
    run.await_text("error: ended at once");
    let (code, seen) = run.end();
    assert_eq!(code, Some(130), "{seen}");
    // The server still waits; nobody else does.
    wait::until_blocking("the end of the push", SOON, || {
        let pushes = pushes_to(server.repository.path());
        pushes.is_empty().then_some(()).ok_or(pushes.join("\n"))
    })
    .unwrap_or_else(|error| panic!("{error}"));
    drop(server);
    // The next run finishes it, whatever became of that push.
    assert_eq!(world.mirror(&["--quiet"]).code, Some(0));
    assert_eq!(world.files().len(), 3);
}

/// Waits until the proxy was asked for something.
fn await_request(proxy: &FaultProxy, words: &[&str]) {
    wait::until_blocking(format!("a request with {words:?}"), SOON, || {
        let seen = proxy.seen();
        let asked = |line: &String| words.iter().all(|word| line.contains(word));
        let found = seen.iter().any(asked);
        found.then_some(()).ok_or_else(|| seen.join("\n"))
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_interruption_while_listing_ends_it_and_the_next_run_goes_on() {
    let world = World::new("listing");
    let proxy = FaultProxy::start(&world.plane.kube_config(User::Alice));
    let kubeconfig = through(&world, &proxy);
    proxy.fault("/configmaps?", Fault::Hang, usize::MAX);
    let ns = &world.namespace;
    let once = ["mirror", "--once", "-n", ns, "--repo", "backup"];
    let arguments = [&once[..], &["--kubeconfig", &kubeconfig]].concat();
    let run = OnTerminal::start(world.binary(&arguments));
    await_request(&proxy, &["/configmaps?"]);
    run.signal(Signal::INT);
    let (code, seen) = run.end();
    assert_eq!(code, Some(130), "{seen}");
    assert!(seen.contains("the next run goes on"), "{seen}");
    proxy.heal();
    world.mirror(&[]);
    assert_eq!(world.files().len(), 3);
}

#[test]
fn an_interruption_while_restoring_tells_what_is_done() {
    let world = World::new("applying");
    world.mirror(&[]);
    world.kubectl(&["delete", "configmap", "settings"]);
    world.kubectl(&["delete", "deployment", "web"]);
    let proxy = FaultProxy::start(&world.plane.kube_config(User::Alice));
    let kubeconfig = through(&world, &proxy);
    // ConfigMaps come before Deployments.
    proxy.fault("PATCH /deployments/", Fault::Hang, usize::MAX);
    let all = ["restore", ".", "--repo", "backup", "--at", "HEAD", "--yes"];
    let arguments = [&all[..], &["--kubeconfig", &kubeconfig]].concat();
    let run = OnTerminal::start(world.binary(&arguments));
    let ns = &world.namespace;
    run.await_text(&format!("{ns}/settings (configmaps)"));
    await_request(&proxy, &["PATCH", "/deployments/"]);
    run.signal(Signal::INT);
    run.await_text("objects that were named above are restored");
    let (code, seen) = run.end();
    assert_eq!(code, Some(130), "{seen}");
    proxy.heal();
    world.kubectl(&["get", "configmap", "settings"]);
}
