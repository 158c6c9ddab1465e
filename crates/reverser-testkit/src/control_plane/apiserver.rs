use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::component::Component;
use super::credentials::{Credentials, CredentialsError};
use super::user::User;

/// An API server and the ways to reach it.
///
/// It can be paused, killed and started again as every [`Component`].
#[derive(Debug)]
pub struct ApiServer {
    component: Component,
    url: http::Uri,
    ways: BTreeMap<User, Way>,
    kubectl: PathBuf,
    home: PathBuf,
    audit_log: Option<PathBuf>,
}

/// How a user reaches it.
#[derive(Debug)]
struct Way {
    config: kube::Config,
    file: PathBuf,
}

/// The places that an API server is given by the plane.
pub(super) struct Places {
    pub(super) kubectl: PathBuf,
    pub(super) kubeconfigs: PathBuf,
    pub(super) home: PathBuf,
    pub(super) audit_log: Option<PathBuf>,
}

impl ApiServer {
    /// Wraps a server that runs, and writes the files by which it is reached.
    pub(super) fn new(
        component: Component,
        url: http::Uri,
        credentials: &Credentials,
        places: Places,
    ) -> Result<Self, CredentialsError> {
        let Places {
            kubectl,
            kubeconfigs,
            home,
            audit_log,
        } = places;
        let mut ways = BTreeMap::new();
        for user in User::ALL {
            let config = credentials.kube_config(&url, user);
            let file = kubeconfigs.join(format!("{}.yaml", user.short_name()));
            credentials.write_kubeconfig(&file, &url, user)?;
            ways.insert(user, Way { config, file });
        }
        Ok(Self {
            component,
            url,
            ways,
            kubectl,
            home,
            audit_log,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn url(&self) -> &http::Uri {
        &self.url
    }

    /// A new client, for the runtime that this is called in.
    pub fn client(&self, user: User) -> Result<kube::Client, kube::Error> {
        kube::Client::try_from(self.kube_config(user))
    }

    /// The configuration of a client, to be changed as a test needs.
    #[must_use]
    pub fn kube_config(&self, user: User) -> kube::Config {
        self.ways[&user].config.clone()
    }

    /// A file for other programs; only its owner may read it.
    #[must_use]
    pub fn kubeconfig(&self, user: User) -> &Path {
        &self.ways[&user].file
    }

    /// The real kubectl, which sees nothing of the configuration of whoever runs the tests.
    #[must_use]
    pub fn kubectl(&self, user: User) -> Command {
        let mut command = Command::new(&self.kubectl);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("KUBE") {
                command.env_remove(name);
            }
        }
        command
            .env("HOME", &self.home)
            .env("KUBECONFIG", self.kubeconfig(user));
        command
    }

    /// The file in which it says who did what, one JSON object a line.
    #[must_use]
    pub fn audit_log(&self) -> Option<&Path> {
        self.audit_log.as_deref()
    }

    pub(super) fn component(&self) -> &Component {
        &self.component
    }
}

impl Deref for ApiServer {
    type Target = Component;

    fn deref(&self) -> &Component {
        &self.component
    }
}
