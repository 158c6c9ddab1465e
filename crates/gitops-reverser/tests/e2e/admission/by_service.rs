//! The webhook as it is reached in a cluster: by the Service of the chart, under its name.

use std::net::{IpAddr, UdpSocket};

use gitops_reverser::admission::Endpoint;
use reverser_testkit::control_plane::ControlPlane;
use serde_json::json;

use super::registering::{await_asked, await_resources, rule_on};
use super::webhook::Webhook;
use crate::operator::installation::Installation;

/// An address of this machine by which others reach it, if it has one: no other may be behind a Service.
fn reachable() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent: this only asks which address would be used.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

#[test]
fn the_api_server_reaches_the_webhook_by_the_service_of_the_chart() {
    let Some(address) = reachable() else {
        println!("not shown: this machine has no address but its own");
        return;
    };
    // No proxy of nodes is there, so the API server looks up itself who is behind a Service.
    let plane = ControlPlane::builder().apiserver_argument("--enable-aggregator-routing=true");
    let mut world = Installation::on_plane(plane, "by-service");
    let mut webhook = Webhook::part_of(&mut world);
    let home = webhook.settings.namespace.clone();
    world.apply_of_release(&home, &["webhook"], &[]);
    let service = format!("{home}-webhook");
    // What Kubernetes makes of the pod that the Service selects.
    world.apply(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "leader", "namespace": home,
            "labels": {"kubernetes.io/service-name": service},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [address.to_string()]}],
        "ports": [{"name": "webhook", "port": webhook.port(), "protocol": "TCP"}],
    }));
    webhook.host = address;
    webhook.settings.endpoint = Endpoint::Service {
        namespace: home,
        name: service,
    };
    webhook.start();
    world.settings.admission = Some(webhook.settings.clone());
    world.run();
    world.apply(&world.rule("rule", &rule_on(&["configmaps"])));
    await_resources(&world, &webhook, &["configmaps"]);
    await_asked(&world, &webhook);
}
