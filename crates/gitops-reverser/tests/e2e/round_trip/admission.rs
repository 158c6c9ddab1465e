use std::collections::HashMap;
use std::fs;

use gitops_reverser::admission::CertificateSource;
use reverser_core::admission_record::{AdmittedChange, FormId};
use reverser_core::blob_id::BlobId;
use reverser_core::canon::canonicalise;
use reverser_core::object::Object;
use reverser_testkit::certificates::Authority;
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use serde_json::{Value, json};

use super::cases::Case;
use super::stage::Stage;
use crate::admission::webhook::Webhook;

/// About these the API server asks nobody.
const NEVER_ASKED: &[&str] = &[
    "mutatingadmissionpolicy",
    "mutatingwebhookconfiguration",
    "validatingadmissionpolicy",
    "validatingadmissionpolicybinding",
    "validatingwebhookconfiguration",
];

/// A webhook that is asked about everything, with certificates from files.
fn ask_about_everything(stage: &Stage) -> Webhook {
    let plane = stage.plane();
    let mut webhook = Webhook::prepare(plane);
    let authority = Authority::new("webhook").unwrap();
    let identity = authority.issue(&["127.0.0.1"]).unwrap();
    let folder = plane.dir().join("webhook");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("tls.crt"), &identity.certificate_pem).unwrap();
    fs::write(folder.join("tls.key"), &identity.key_pem).unwrap();
    webhook.settings.certificates = CertificateSource::Folder {
        folder,
        inject_from: None,
    };
    webhook.start();
    let bundle = authority.pem();
    let bundle = serde_json::to_value(k8s_openapi::ByteString(bundle.into_bytes())).unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "everything"},
        "webhooks": [{
            "name": "everything.configbutler.ai",
            "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
            // What is not seen would be missed here.
            "failurePolicy": "Fail", "timeoutSeconds": 30,
            "clientConfig": {"url": webhook.url(), "caBundle": bundle},
            "rules": [{
                "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*", "*/scale"],
                "operations": ["CREATE", "UPDATE", "DELETE"],
            }],
        }],
    });
    let mut kubectl = plane.kubectl(User::Admin);
    let input = configuration.to_string();
    command::run_with_input(kubectl.args(["apply", "-f", "-"]), input.as_bytes());
    webhook.await_told("alice updates namespaces shop", || {
        let label = ["label", "namespace", "shop", "--overwrite"];
        for value in ["probe=1", "probe=2", "probe-"] {
            command::run(plane.kubectl(User::Alice).args(label).arg(value));
        }
    });
    webhook
}

/// What was told of one object.
#[derive(Default)]
struct Told {
    forms: Vec<FormId>,
    replicas: Vec<i64>,
}

impl Told {
    /// Whether somebody was named for the object as it is stored.
    fn explains(&self, live: &str, blob: BlobId) -> bool {
        let scaled = || {
            let live: Value = serde_json::from_str(live).unwrap();
            let replicas = live["spec"]["replicas"].as_i64();
            replicas.is_some_and(|replicas| self.replicas.contains(&replicas))
        };
        self.forms.iter().any(|form| form.blob == blob) || scaled()
    }
}

#[test]
fn what_admission_sees_has_the_form_of_what_is_stored() {
    let cases = Case::all();
    let asked: Vec<_> = cases
        .iter()
        .filter(|case| !NEVER_ASKED.iter().any(|kind| case.name.starts_with(kind)))
        .collect();
    let stage = Stage::start();
    let webhook = ask_about_everything(&stage);
    stage.set_up(&asked);
    let live = stage.live(&asked);
    let mut told: HashMap<String, Told> = HashMap::new();
    for record in webhook.records() {
        let told = told.entry(record.uid).or_default();
        match record.change {
            AdmittedChange::Create { new } | AdmittedChange::Update { new, .. } => {
                told.forms.push(new);
            }
            AdmittedChange::Scale { replicas, .. } => told.replicas.push(replicas),
            AdmittedChange::Delete { .. } => {}
        }
    }
    let mut unexplained = Vec::new();
    for (case, live) in asked.iter().zip(&live) {
        let object = Object::from_json(live, None).unwrap();
        let uid = object.uid().to_owned();
        let blob = canonicalise(object).blob_id();
        if !told.get(&uid).is_some_and(|told| told.explains(live, blob)) {
            unexplained.push(&case.name);
        }
    }
    assert!(unexplained.is_empty(), "{unexplained:#?}");
}
