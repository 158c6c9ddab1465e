//! Callers that are not the API server.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use reverser_testkit::certificates::{Authority, Identity};
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::git_server::BareRepository;
use reverser_testkit::ports::Port;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::{command, wait};
use serde_json::{Value, json};

use super::caller::Caller;
use super::webhook::SOON;
use gitops_reverser::admission;

/// So much may come and go with questions that are being read.
const FLAT: u64 = 64 * 1024;

/// What makes an API server show a certificate to webhooks.
fn client_certificate_of_the_api_server(folder: &Path, identity: &Identity) -> String {
    let (certificate, key) = (folder.join("client.crt"), folder.join("client.key"));
    fs::write(&certificate, &identity.certificate_pem).unwrap();
    fs::write(&key, &identity.key_pem).unwrap();
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config",
        "users": [{"name": "*", "user": {
            "client-certificate": certificate, "client-key": key,
        }}],
    });
    let kubeconfig_file = folder.join("webhooks.kubeconfig");
    fs::write(&kubeconfig_file, kubeconfig.to_string()).unwrap();
    let configuration = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ValidatingAdmissionWebhook", "configuration": {
            "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": kubeconfig_file,
        }}],
    });
    let file = folder.join("admission.json");
    fs::write(&file, configuration.to_string()).unwrap();
    format!("--admission-control-config-file={}", file.display())
}

/// A cluster with one rule, and the real program, which answers only who shows a certificate.
struct Guarded {
    plane: ControlPlane,
    process: Process,
    webhook: Port,
    metrics: Port,
    api_server: Identity,
    _scratch: Scratch,
}

impl Guarded {
    fn start() -> Self {
        let scratch = Scratch::create("guarded").unwrap();
        let folder = scratch.path();
        let authority = Authority::new("callers").unwrap();
        let api_server = authority.issue_client("kube-apiserver").unwrap();
        let client_ca = folder.join("client-ca.crt");
        fs::write(&client_ca, authority.pem()).unwrap();
        let argument = client_certificate_of_the_api_server(folder, &api_server);
        let plane = ControlPlane::builder()
            .apiserver_argument(argument)
            .start()
            .unwrap();
        let repository = BareRepository::create(folder, "repo.git");
        let url = format!("file://{}", repository.path().display());
        apply(
            &plane,
            &["--server-side"],
            &reverser_api::crd_yaml::crds_yaml(),
        );
        let kinds = reverser_api::crd_yaml::crds().into_iter();
        plane.await_kinds(kinds.filter_map(|crd| crd.metadata.name));
        for (kind, spec) in [
            (
                "GitRepoConfig",
                json!({"repoUrl": url, "allowedBranches": ["main"]}),
            ),
            (
                "GitDestination",
                json!({"repoRef": {"name": "it"}, "branch": "main", "baseFolder": "a"}),
            ),
            (
                "WatchRule",
                json!({"destinationRef": {"name": "it"}, "rules": [{"resources": ["configmaps"]}]}),
            ),
        ] {
            let object = json!({
                "apiVersion": "configbutler.ai/v1alpha1", "kind": kind,
                "metadata": {"name": "it", "namespace": "default"}, "spec": spec,
            });
            apply(&plane, &[], &object.to_string());
        }
        let (webhook, metrics) = (Port::reserve().unwrap(), Port::reserve().unwrap());
        // Another namespace than the one with the rule is home.
        command::run(
            plane
                .kubectl(User::Admin)
                .args(["create", "namespace", "gitops"]),
        );
        let kubeconfig = folder.join("home.kubeconfig");
        fs::copy(plane.kubeconfig(User::Admin), &kubeconfig).unwrap();
        let home = ["config", "set-context", "--current", "--namespace=gitops"];
        command::run(
            plane
                .kubectl(User::Admin)
                .args(home)
                .env("KUBECONFIG", &kubeconfig),
        );
        let address = format!("127.0.0.1:{}", webhook.number());
        let arguments = [
            "controller".to_owned(),
            "--leader-elect=false".to_owned(),
            "--allow-url-schemes=file".to_owned(),
            format!("--webhook-url=https://{address}{}", admission::PATH),
            format!("--webhook-bind-address={address}"),
            format!("--webhook-client-ca={}", client_ca.display()),
            format!("--metrics-bind-address=127.0.0.1:{}", metrics.number()),
            "--health-probe-bind-address=0".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--work-dir={}", folder.join("work").display()),
        ];
        let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
        let process = Process::new(&scratch, "controller", &program, arguments.to_vec());
        process.start().unwrap();
        Self {
            plane,
            process,
            webhook,
            metrics,
            api_server,
            _scratch: scratch,
        }
    }

    /// The authority that the configuration names.
    fn authorities(&self) -> String {
        let get = [
            "get",
            "secret",
            "gitops-reverser-webhook-certificate",
            "--namespace=gitops",
            "-o",
            "json",
        ];
        let look = || {
            let output = self.plane.kubectl(User::Admin).args(get).output().unwrap();
            let secret: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            let encoded: Option<k8s_openapi::ByteString> =
                serde_json::from_value(secret["data"]["ca.crt"].clone()).ok();
            let encoded = encoded.filter(|encoded| !encoded.0.is_empty());
            encoded.ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let found = wait::until_blocking("the certificate's Secret", SOON, look).unwrap();
        String::from_utf8(found.0).unwrap()
    }

    fn write(&self, value: usize) {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"value": value.to_string()},
            "metadata": {"name": "probe", "namespace": "default"},
        });
        apply(&self.plane, &[], &object.to_string());
    }

    fn metric(&self, series: &str) -> u64 {
        let url = format!("http://127.0.0.1:{}/metrics", self.metrics.number());
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--fail", "--noproxy", "*", &url]);
        curl.stdin(Stdio::null());
        let scrape = String::from_utf8(curl.output().unwrap().stdout).unwrap();
        let value = scrape.lines().find_map(|line| {
            let rest = line.strip_prefix("gitopsreverser_")?.strip_prefix(series)?;
            rest.trim().parse().ok()
        });
        value.unwrap_or(0)
    }

    /// In KiB.
    fn memory(&self) -> u64 {
        let pid = self.process.pid().unwrap();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.unwrap()
            .trim()
            .trim_end_matches(" kB")
            .parse()
            .unwrap()
    }
}

fn apply(plane: &ControlPlane, flags: &[&str], objects: &str) {
    let mut kubectl = plane.kubectl(User::Alice);
    kubectl.args(["apply", "-f", "-"]).args(flags);
    command::run_with_input(&mut kubectl, objects.as_bytes());
}

/// What would name somebody, if anybody believed it.
fn forged() -> Vec<u8> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "uid": "u"},
    });
    let request = json!({
        "uid": "r", "operation": "CREATE", "object": object,
        "userInfo": {"username": "mallory"},
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    });
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
        .into_bytes()
}

#[test]
fn who_is_not_the_api_server_is_refused_and_whatever_is_sent_memory_stays_flat() {
    let guarded = Guarded::start();
    let (port, authorities) = (guarded.webhook.number(), guarded.authorities());
    let recorded = "admission_reviews_total{outcome=\"Recorded\"}";
    let refused = "admission_reviews_total{outcome=\"Refused\"}";

    // The API server shows its certificate, and is answered.
    let mut count = 0;
    let answered = || {
        count += 1;
        guarded.write(count);
        guarded.metric(recorded) > 0
    };
    wait::until_blocking("the API server is answered", SOON, answered).unwrap();

    // Nobody else is: no certificate, or one of an authority of their own.
    let before = guarded.metric(recorded);
    let stranger = Authority::new("strangers").unwrap();
    let stranger = stranger.issue_client("kube-apiserver").unwrap();
    for identity in [None, Some(&stranger)] {
        for _ in 0..20 {
            let called = Caller::connect(port, &authorities, identity);
            let answer = called.and_then(|mut caller| caller.post(&forged()));
            assert!(answer.is_err(), "{answer:?}");
        }
    }
    let all_refused = || guarded.metric("admission_connections_refused_total") >= 40;
    wait::until_blocking("all of them are refused", SOON, all_refused).unwrap();
    assert_eq!(guarded.metric(recorded), before);

    // Even who has the key can send only so much at once.
    let flood = |body: &[u8], times: usize, status: u16| {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let identity = Some(&guarded.api_server);
                    let mut caller = Caller::connect(port, &authorities, identity).unwrap();
                    for _ in 0..times / 4 {
                        assert_eq!(caller.post(body).unwrap(), status);
                    }
                });
            }
        });
    };
    let garbage = vec![b'['; 3 << 20];
    flood(&garbage, 40, 400);
    flood(b"{\"apiVersion\": 7}", 400, 400);
    let usual = guarded.memory();
    flood(b"{\"apiVersion\": 7}", 10_000, 400);
    flood(&garbage, 400, 400);
    // What the allocator gives back, it gives back later.
    let flat = || {
        let now = guarded.memory();
        if now <= usual + FLAT {
            Ok(())
        } else {
            Err(format!("{usual} KiB became {now} KiB"))
        }
    };
    wait::until_blocking("memory stays flat", Duration::from_mins(1), flat).unwrap();
    assert!(guarded.metric(refused) >= 10_840);
    assert_eq!(guarded.metric(recorded), before);
    guarded.write(0);
    assert_eq!(
        guarded.metric(recorded),
        before + 1,
        "the API server is answered still"
    );
}
