//! With a controller-manager things happen by themselves, under the names of the controllers.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use reverser_testkit::command::{run, try_run};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::wait;

const SOON: Duration = Duration::from_mins(2);

#[test]
fn controllers_act_under_their_own_names() {
    let plane = ControlPlane::builder()
        .controller_manager(true)
        .audit_log(true)
        .start()
        .unwrap();
    let namespace = plane.namespace("managed");
    let kubectl = |arguments: &[&str]| {
        let mut command = plane.kubectl(User::Alice);
        command.args(["--namespace", &namespace]).args(arguments);
        command
    };

    // A pod is created, so the default service account is there and admitted.
    run(&mut kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=web",
    ]));
    wait::until_blocking("a pod of the deployment", SOON, || {
        let pods = run(&mut kubectl(&["get", "pods", "--output=name"])).stdout;
        (pods.lines().count() == 1).then_some(()).ok_or(pods)
    })
    .unwrap();

    for controller in ["deployment-controller", "replicaset-controller"] {
        let name = format!(r#""username":"system:serviceaccount:kube-system:{controller}""#);
        // A request is written down after it is answered.
        wait::until_blocking(controller, SOON, || {
            let audit = fs::read_to_string(plane.audit_log().unwrap()).unwrap();
            audit.contains(&name).then_some(()).ok_or("did nothing")
        })
        .unwrap();
    }

    // While it is stopped nothing happens by itself.
    plane.controller_manager().stop().unwrap();
    run(&mut kubectl(&[
        "delete",
        "namespace",
        &namespace,
        "--wait=false",
    ]));
    run(&mut kubectl(&["get", "namespace", &namespace]));
    plane.controller_manager().start().unwrap();
    wait::until_blocking("the end of the namespace", SOON, || {
        match try_run(&mut kubectl(&["get", "namespace", &namespace])) {
            Ok(there) => Err(there.stdout),
            Err(error) if error.to_string().contains("NotFound") => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    })
    .unwrap();
}

#[test]
fn a_plane_without_one_says_how_to_get_one() {
    // Outside of what panics, because it would take the panic for a failed test.
    let plane = ControlPlane::shared();
    let without = AssertUnwindSafe(|| plane.controller_manager().name().to_owned());
    let panic = catch_unwind(without).unwrap_err();
    let text = panic.downcast_ref::<&str>().unwrap();
    assert!(text.contains("controller_manager(true)"), "{text}");
}
