//! Shows on a real control plane what a live object is, and what Git would hold of it.

#![allow(clippy::print_stdout, reason = "a demo speaks")]

use std::process::Command;

use reverser_core::canon::canonicalise;
use reverser_core::object::Object;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, StartError, User};

fn main() -> Result<(), StartError> {
    say("Starting etcd and kube-apiserver …");
    let plane = ControlPlane::builder().start()?;
    let namespace = plane.namespace("shop");
    let kubectl = |arguments: &[&str]| -> Command {
        let mut kubectl = plane.kubectl(User::Alice);
        kubectl.args(["-n", &namespace]).args(arguments);
        kubectl
    };

    let create = [
        "create",
        "deployment",
        "web",
        "--image=nginx:1.29",
        "--port=80",
    ];
    let expose = ["expose", "deployment", "web", "--type=NodePort"];
    for arguments in [&create[..], &expose] {
        say(&format!("alice$ kubectl {}", arguments.join(" ")));
        print!("{}", command::run(&mut kubectl(arguments)).stdout);
    }

    let get = [
        "get",
        "service",
        "web",
        "-o",
        "json",
        "--show-managed-fields",
    ];
    let live = command::run(&mut kubectl(&get)).stdout;
    say(&format!(
        "alice$ kubectl {}    # {} lines",
        get.join(" "),
        live.lines().count()
    ));
    println!("…");
    let object = Object::from_json(&live, None).expect("the API server gives an object");
    let manifest = canonicalise(object);
    let yaml = manifest.to_yaml();
    say(&format!(
        "What Git would hold of it: {} lines, blob {}",
        yaml.lines().count(),
        manifest.blob_id()
    ));
    print!("{yaml}");
    say("Try your own: kubectl get deployment NAME -o yaml | gitops-reverser clean");
    Ok(())
}

fn say(line: &str) {
    println!("\n\u{25b8} {line}");
}
