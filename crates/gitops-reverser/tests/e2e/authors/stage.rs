//! An installation whose webhook the API server asks, and what the remote's history says.

use std::io;
use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use gitops_reverser::admission::{
    self, AdmissionSettings, CertificateSource, Endpoint, Lifetimes, Records,
};
use gitops_reverser::telemetry::{Telemetry, metrics};
use reverser_testkit::command;
use reverser_testkit::control_plane::User;
use reverser_testkit::ports::Port;
use reverser_testkit::wait;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::operator::installation::Installation;

/// A busy machine, and an API server that learns of a webhook when it gets round to it.
pub(super) const SOON: Duration = Duration::from_mins(2);

/// Everything of a namespace that these tests touch is mirrored into `clusters/prod`.
pub(super) struct Stage {
    installation: Installation,
    port: Port,
    admission: AdmissionSettings,
    runtime: Runtime,
    serving: Option<(CancellationToken, JoinHandle<io::Result<()>>)>,
}

impl Deref for Stage {
    type Target = Installation;

    fn deref(&self) -> &Installation {
        &self.installation
    }
}

impl DerefMut for Stage {
    fn deref_mut(&mut self) -> &mut Installation {
        &mut self.installation
    }
}

impl Stage {
    pub(super) fn start(name: &str) -> Self {
        Self::on(Installation::prepare(name))
    }

    pub(super) fn with_controllers(name: &str) -> Self {
        Self::on(Installation::with_controllers(name))
    }

    /// With an operator that is not started yet, and is by now as the test wants it.
    pub(super) fn on(mut installation: Installation) -> Self {
        let port = Port::reserve().unwrap();
        let url = format!("https://127.0.0.1:{}{}", port.number(), admission::PATH);
        let home = installation.plane.namespace("home");
        installation.be_a_release(&home, &[]);
        let admission = AdmissionSettings {
            name: home.clone(),
            endpoint: Endpoint::Url(url),
            certificates: CertificateSource::Own {
                secret: format!("{home}-webhook-certificate"),
            },
            namespace: home,
            lifetimes: Lifetimes::default(),
            client_authority: None,
            owner_cluster_role: None,
        };
        installation.settings.admission = Some(admission.clone());
        let resources = ["configmaps", "deployments", "services", "serviceaccounts"];
        let rule = installation.rule(
            "all",
            &json!([{"resources": resources, "includeOwned": true}]),
        );
        installation.apply(&rule);
        let mut stage = Self {
            installation,
            port,
            admission,
            runtime: Runtime::new().unwrap(),
            serving: None,
        };
        stage.serve();
        stage.run();
        stage.await_asked();
        stage
    }

    /// The webhook answers.
    pub(super) fn serve(&mut self) {
        let records: Records = Arc::new(self.attribution.clone());
        let telemetry = Telemetry::register(&mut metrics::registry());
        let (settings, port) = (self.admission.clone(), self.port.number());
        let (config, stop) = (self.config.clone(), CancellationToken::new());
        let until = stop.clone();
        let task = self.runtime.spawn(async move {
            let listener = loop {
                match TcpListener::bind(("127.0.0.1", port)).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::task::yield_now().await,
                }
            };
            let client = kube::Client::try_from(config).unwrap();
            admission::serve(listener, client, settings, records, telemetry, until).await
        });
        self.serving = Some((stop, task));
    }

    /// The webhook is gone, and the API server goes on without it.
    pub(super) fn stop_serving(&mut self) {
        if let Some((stop, task)) = self.serving.take() {
            stop.cancel();
            self.runtime.block_on(task).unwrap().unwrap();
        }
    }

    /// Waits until the API server asks about what is done.
    pub(super) fn await_asked(&self) {
        self.await_asked_about(&self.path("probe"), |number| {
            self.apply(&self.config_map("probe", &number.to_string()));
        });
    }

    /// Changes an object in Alice's name, each time with another number, until that is known of its
    /// file.
    pub(super) fn await_asked_about(&self, path: &str, change: impl Fn(usize)) {
        wait::until_blocking("an author", SOON, || {
            let commits = self.log(path).len();
            let log = self.after(path, 1, || change(commits));
            if log == ["alice exact"] {
                Ok(())
            } else {
                Err(format!("{log:?}"))
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }

    pub(super) fn kubectl_as(&self, user: User) -> Command {
        let mut kubectl = self.plane.kubectl(user);
        kubectl.args(["-n", &self.namespace]);
        kubectl
    }

    pub(super) fn does(&self, user: User, arguments: &[&str]) {
        command::run(self.kubectl_as(user).args(arguments));
    }

    pub(super) fn fails(&self, user: User, arguments: &[&str]) {
        command::run_to_fail(self.kubectl_as(user).args(arguments));
    }

    /// The same with an object that the server is to refuse.
    pub(super) fn fails_with(&self, user: User, object: &serde_json::Value, arguments: &[&str]) {
        let file = self.folder.path().join("refused.json");
        std::fs::write(&file, object.to_string()).unwrap();
        let mut kubectl = self.kubectl_as(user);
        command::run_to_fail(kubectl.args(arguments).arg("-f").arg(file));
    }

    pub(super) fn applies(&self, user: User, object: &serde_json::Value, arguments: &[&str]) {
        let mut kubectl = self.kubectl_as(user);
        kubectl.args(arguments).args(["-f", "-"]);
        command::run_with_input(&mut kubectl, object.to_string().as_bytes());
    }

    /// `user how` of every commit that touched a file of the folder, the newest first.
    pub(super) fn log(&self, path: &str) -> Vec<String> {
        let trailer =
            |key: &str| format!("%(trailers:key=X-ConfigButler-{key},valueonly,separator=%x2C)");
        let format = format!("--format={} {}", trailer("User"), trailer("Attribution"));
        self.git_log(&format, path)
    }

    /// Waits until the newest commit to a file has this author. Files of one change may come in
    /// several commits.
    #[track_caller]
    pub(super) fn await_log(&self, path: &str, author: &str) {
        wait::until_blocking(format!("{author} in {path}"), SOON, || {
            let log = self.log(path);
            match log.first() {
                Some(newest) if newest == author => Ok(()),
                _ => Err(format!("{log:?}")),
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
    }

    /// Something of every commit that touched a file of the folder, or of another one by its whole
    /// path, the newest first.
    pub(super) fn git_log(&self, format: &str, path: &str) -> Vec<String> {
        if self.repository.tip("main").is_none() {
            return Vec::new();
        }
        let path = if path.starts_with("clusters/") {
            path.to_owned()
        } else {
            format!("clusters/prod/{path}")
        };
        let log = self.repository.git(&["log", format, "main", "--", &path]);
        log.lines().map(str::to_owned).collect()
    }

    /// Does something, and waits for the commits to a file that follow from it, the oldest first.
    #[track_caller]
    pub(super) fn after(&self, path: &str, commits: usize, act: impl FnOnce()) -> Vec<String> {
        let before = self.log(path).len();
        act();
        let log = wait::until_blocking(format!("{commits} commits to {path}"), SOON, || {
            let log = self.log(path);
            if log.len() >= before + commits {
                Ok(log)
            } else {
                Err(format!("{log:?}"))
            }
        })
        .unwrap_or_else(|error| panic!("{error}"));
        log.into_iter().take(commits).rev().collect()
    }

    /// The same for one commit, whose user and how that is known must be these.
    #[track_caller]
    pub(super) fn expect(&self, what: &str, path: &str, author: &str, act: impl FnOnce()) {
        assert_eq!(self.after(path, 1, act), [author], "{what}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.installation.stop();
        self.stop_serving();
        // The other tests of this plane need not ask it any more.
        let mut kubectl = self.installation.plane.kubectl(User::Admin);
        let name = self.admission.name.clone();
        let _ = kubectl
            .args(["delete", "validatingwebhookconfiguration", &name])
            .output();
    }
}
