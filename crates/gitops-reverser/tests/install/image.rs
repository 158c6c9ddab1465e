//! The files of the image, put into a folder by the script that the Dockerfile uses, and the operator
//! at work with nothing but them.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::git_server::{BareRepository, Sshd};
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use serde_json::json;

use crate::cluster::soon;
use crate::repository;

/// A user that no password file knows, as platforms choose them.
const ANYBODY: &str = "1000770000:0";

#[test]
fn the_dockerfile_takes_its_files_from_the_script_and_names_a_user_without_rights() {
    let dockerfile = repository::read("Dockerfile");
    for line in [
        "RUN /image/rootfs.sh /gitops-reverser /rootfs \\",
        "COPY --from=rootfs /rootfs /",
        "USER 65532:65532",
    ] {
        assert!(dockerfile.lines().any(|one| one == line), "{line}");
    }
    assert!(
        dockerfile
            .contains("xargs apt-get install --yes --no-install-recommends < /image/packages")
    );
}

#[test]
fn the_files_of_the_image_are_enough_for_whoever_runs_it() {
    if !rustix::process::geteuid().is_root() {
        // Past what the harness keeps back: a test that shows nothing must not look like one that does.
        let said = "NOT SHOWN: whether the files of the image are enough. Only root may change the root \
                    folder of a process: run this test as root.\n";
        std::io::stderr().write_all(said.as_bytes()).unwrap();
        return;
    }
    let scratch = Scratch::create("image").unwrap();
    let root = scratch.data().join("rootfs");
    let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
    let mut script = Command::new(repository::path("image/rootfs.sh"));
    command::run(script.arg(program).arg(&root));
    devices(&root);
    let chroot = command::run(Command::new("sh").args(["-c", "command -v chroot"])).stdout;
    let chroot_program = chroot.trim();
    let inside = |user: &str, program: &str| {
        let mut chroot = Command::new(chroot_program);
        chroot
            .arg(format!("--userspec={user}"))
            .arg(&root)
            .arg(program)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        chroot
    };
    let version = command::run(inside(ANYBODY, "gitops-reverser").arg("--version")).stdout;
    assert!(version.starts_with("gitops-reverser "), "{version}");
    // Beside git, ssh and bash there are no programs.
    let programs =
        command::run(inside(ANYBODY, "bash").args(["-c", "echo /bin/* /usr/bin/*"])).stdout;
    assert_eq!(
        programs.trim(),
        "/bin/bash /bin/sh /usr/bin/git /usr/bin/ssh"
    );

    let plane = ControlPlane::builder().start().unwrap();
    let crds = reverser_api::crd_yaml::crds_yaml();
    let mut kubectl = plane.kubectl(User::Admin);
    command::run_with_input(
        kubectl.args(["apply", "--server-side", "-f", "-"]),
        crds.as_bytes(),
    );
    let kinds = reverser_api::crd_yaml::crds().into_iter();
    plane.await_kinds(kinds.filter_map(|crd| crd.metadata.name));
    let namespace = plane.namespace("image");
    let git = BareRepository::create(&scratch.data(), "mirror.git");
    let sshd = Sshd::start();
    let object = |api: &str, kind: &str, rest: serde_json::Value| {
        let mut object = rest;
        object["apiVersion"] = json!(api);
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": "mirror", "namespace": namespace});
        let mut kubectl = plane.kubectl(User::Alice);
        let apply = kubectl.args(["apply", "-f", "-"]);
        command::run_with_input(apply, object.to_string().as_bytes());
    };
    let ours = "configbutler.ai/v1alpha1";
    object(
        "v1",
        "Secret",
        json!({"stringData": {"ssh-privatekey": sshd.key(), "known_hosts": sshd.known_hosts()}}),
    );
    let spec = json!({
        "repoUrl": sshd.url(git.path()), "allowedBranches": ["main"], "secretRef": {"name": "mirror"},
    });
    object(ours, "GitRepoConfig", json!({"spec": spec}));
    let spec = json!({
        "repoRef": {"name": "mirror"}, "branch": "main", "baseFolder": "clusters/prod",
        "secrets": {"mode": "Redact"},
    });
    object(ours, "GitDestination", json!({"spec": spec}));
    let spec = json!({"destinationRef": {"name": "mirror"}, "rules": [{}]});
    object(ours, "WatchRule", json!({"spec": spec}));
    object("v1", "ConfigMap", json!({"data": {"colour": "green"}}));

    let kubeconfig = fs::read_to_string(plane.kubeconfig(User::Admin)).unwrap();
    let authority: serde_json::Value = serde_json::from_str(&kubeconfig).unwrap();
    let authority = authority["clusters"][0]["cluster"]["certificate-authority"].clone();
    let authority = Path::new(authority.as_str().unwrap());
    fs::copy(authority, root.join("tmp/authority")).unwrap();
    let kubeconfig = kubeconfig.replace(&authority.display().to_string(), "/tmp/authority");
    fs::write(root.join("tmp/kubeconfig"), kubeconfig).unwrap();
    for file in ["tmp/authority", "tmp/kubeconfig"] {
        command::run(Command::new("chmod").arg("0644").arg(root.join(file)));
    }
    let root_folder = root.display().to_string();
    let user = format!("--userspec={ANYBODY}");
    let arguments = [
        &user,
        &root_folder,
        "gitops-reverser",
        "controller",
        "--kubeconfig=/tmp/kubeconfig",
        "--leader-elect=false",
        "--webhook-bind-address=0",
        "--metrics-bind-address=127.0.0.1:0",
        "--health-probe-bind-address=127.0.0.1:0",
    ];
    let operator = Process::new(&scratch, "operator", Path::new(chroot_program), arguments)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin");
    operator.start().unwrap();
    soon("a file in Git", || {
        let files = git
            .tip("main")
            .map(|_| git.files("main"))
            .unwrap_or_default();
        let found = files.keys().any(|path| path.ends_with("/mirror.yaml"));
        if found {
            Ok(())
        } else {
            Err(operator.log_tail())
        }
    });
    operator.stop().unwrap();
}

/// Those of the devices that every container has, which the operator and git use.
fn devices(root: &Path) {
    for (name, minor) in [("null", "3"), ("urandom", "9")] {
        let device = root.join("dev").join(name);
        command::run(
            Command::new("mknod")
                .args(["-m", "0666"])
                .arg(device)
                .args(["c", "1", minor]),
        );
    }
}
