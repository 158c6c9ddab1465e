//! A type whose objects the API server can read only by way of a webhook.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use k8s_openapi::ByteString;
use reverser_testkit::certificates::Authority;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};

use super::custom_resources::{REFRESH, definition};
use super::installation::Installation;
use super::oracle::Expected;

/// Converts objects by giving them the version that is asked for, unless it is down.
struct Converter {
    url: String,
    authority: String,
    down: Arc<AtomicBool>,
}

impl Converter {
    fn start() -> Self {
        let authority = Authority::new("conversion").unwrap();
        let identity = authority.issue(&["127.0.0.1"]).unwrap();
        let certificate =
            CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap();
        let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let (tls, down) = (Arc::new(tls), Arc::new(AtomicBool::new(false)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://{}/convert", listener.local_addr().unwrap());
        let is_down = down.clone();
        // It listens as long as the process lives.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (tls, is_down) = (tls.clone(), is_down.clone());
                thread::spawn(move || {
                    if !is_down.load(Ordering::Relaxed) {
                        // Whoever hangs up is not answered.
                        let _ = answer(stream, tls);
                    }
                });
            }
        });
        Self {
            url,
            authority: authority.pem(),
            down,
        }
    }

    fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::Relaxed);
    }

    fn strategy(&self) -> Value {
        let authority = ByteString(self.authority.clone().into_bytes());
        json!({"strategy": "Webhook", "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": self.url, "caBundle": authority},
        }})
    }
}

/// One question, one answer.
fn answer(stream: TcpStream, tls: Arc<ServerConfig>) -> io::Result<()> {
    let connection = ServerConnection::new(tls).map_err(io::Error::other)?;
    let mut client = BufReader::new(StreamOwned::new(connection, stream));
    let mut length = 0;
    loop {
        let mut line = String::new();
        client.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    client.read_exact(&mut body)?;
    let review: Value = serde_json::from_slice(&body)?;
    let mut objects = review["request"]["objects"].clone();
    for object in objects.as_array_mut().into_iter().flatten() {
        object["apiVersion"] = review["request"]["desiredAPIVersion"].clone();
    }
    let answer = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {
            "uid": review["request"]["uid"], "result": {"status": "Success"},
            "convertedObjects": objects,
        },
    });
    let answer = answer.to_string();
    let mut client = client.into_inner();
    write!(
        client,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{answer}",
        answer.len()
    )?;
    client.conn.send_close_notify();
    client.flush()
}

#[test]
fn a_type_whose_conversion_is_down_is_unknown_and_followed_once_it_is_repaired() {
    let mut world = Installation::prepare("conversion");
    world.settings.discovery_refresh = REFRESH;
    let converter = Converter::start();
    let group = format!("{}.example.com", world.namespace);
    // Stored as v1, and read as v2, which is preferred.
    let mut crd = definition(&group, "Thing", &[("v1", true), ("v2", true)]);
    crd["spec"]["versions"][0]["storage"] = json!(true);
    crd["spec"]["versions"][1]["storage"] = json!(false);
    crd["spec"]["conversion"] = converter.strategy();
    world.apply(&crd);
    world.plane.await_kinds([format!("things.{group}")]);
    let thing = |name: &str, number: usize| {
        json!({
            "apiVersion": format!("{group}/v1"), "kind": "Thing",
            "metadata": {"name": name, "namespace": world.namespace}, "spec": {"number": number},
        })
    };
    for name in ["gone", "kept"] {
        world.create_all(&[thing(name, 1)]);
    }
    let new = thing("new", 1);
    world.apply(&world.config_map("web", "one"));
    let rules =
        json!([{"resources": ["configmaps"]}, {"apiGroups": [group], "resources": ["things"]}]);
    world.apply(&world.rule("rule", &rules));
    world.run();
    let expected = [
        Expected::new(&group, "v2", "things", "Thing").within(&world.namespace),
        Expected::config_maps(&world.namespace),
    ];
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");
    let things = |world: &Installation| {
        let mut files = world.files();
        files.retain(|path, _| path.contains("/things/"));
        files
    };
    let before = things(&world);
    assert_eq!(before.len(), 2);

    converter.set_down(true);
    let stored = format!("things.v1.{group}");
    world.create_all(&[new]);
    world.kubectl(&["delete", &stored, "gone", "--wait=false"]);
    let message = world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    assert!(message.contains("things"), "{message}");
    world.apply(&world.config_map("web", "two"));
    world.await_file("web", "value: two");
    world.assert_quiet();
    assert_eq!(things(&world), before, "unknown is not empty");

    // Whoever starts meanwhile knows no more.
    world.stop();
    world.run();
    world.await_ready("gitdestination/prod", "False", "ScopeUnknown");
    world.apply(&world.config_map("web", "three"));
    world.await_file("web", "value: three");
    assert_eq!(things(&world), before);

    converter.set_down(false);
    world.await_mirror(&expected);
    world.await_ready("gitdestination/prod", "True", "InSync");
    assert_eq!(things(&world).len(), 2);
    world.finish();
}
