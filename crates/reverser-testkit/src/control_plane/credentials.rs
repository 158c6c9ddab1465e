use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::KeyPair;
use serde_json::json;

use super::User;
use crate::certificates::Authority;

/// The group that may do everything, by a binding and not past all checks as `system:masters`.
pub(super) const DEVELOPERS: &str = "developers";
/// What the controller-manager is called in every cluster; its rights are built in.
const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
/// Where the servers are reached: from outside, and as pods would.
const SERVER_NAMES: [&str; 6] = [
    "127.0.0.1",
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "10.0.0.1",
];

/// Why the keys of a plane cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A certificate cannot be made.
    #[error("cannot make certificates")]
    Certificates(#[from] rcgen::Error),
    /// No random numbers.
    #[error("cannot make tokens")]
    Tokens(#[source] io::Error),
    /// A file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// The files that the programs are started with.
#[derive(Debug)]
pub(super) struct Credentials {
    authority: Authority,
    tokens: BTreeMap<User, String>,
    controller_manager_token: String,
    folder: PathBuf,
}

impl Credentials {
    /// New ones for every plane, as files in a new folder.
    pub(super) fn create(folder: PathBuf) -> Result<Self, CredentialsError> {
        let authority = Authority::new("test control plane")?;
        let server = authority.issue(&SERVER_NAMES)?;
        let service_accounts = KeyPair::generate()?;

        let mut tokens = BTreeMap::new();
        for user in [User::Admin, User::Alice, User::Bob, User::Tenant] {
            tokens.insert(user, token().map_err(CredentialsError::Tokens)?);
        }
        let controller_manager_token = token().map_err(CredentialsError::Tokens)?;

        let made = Self {
            authority,
            tokens,
            controller_manager_token,
            folder,
        };
        write_private(&made.authority_file(), &made.authority.pem())?;
        write_private(&made.server_certificate(), &server.certificate_pem)?;
        write_private(&made.server_key(), &server.key_pem)?;
        write_private(
            &made.service_account_key(),
            &service_accounts.serialize_pem(),
        )?;
        write_private(
            &made.service_account_public_key(),
            &service_accounts.public_key_pem(),
        )?;
        write_private(&made.token_file(), &made.token_table())?;
        Ok(made)
    }

    pub(super) fn authority_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    pub(super) fn server_certificate(&self) -> PathBuf {
        self.folder.join("server.crt")
    }

    pub(super) fn server_key(&self) -> PathBuf {
        self.folder.join("server.key")
    }

    pub(super) fn service_account_key(&self) -> PathBuf {
        self.folder.join("service-accounts.key")
    }

    pub(super) fn service_account_public_key(&self) -> PathBuf {
        self.folder.join("service-accounts.pub")
    }

    pub(super) fn token_file(&self) -> PathBuf {
        self.folder.join("tokens.csv")
    }

    /// token, user, uid, groups
    fn token_table(&self) -> String {
        let groups = |user| match user {
            User::Admin => "system:masters",
            User::Alice | User::Bob => DEVELOPERS,
            User::Tenant | User::Robot => "",
        };
        let line = |token: &str, name: &str, groups: &str| {
            format!("{token},{name},uid-of-{name},\"{groups}\"\n")
        };
        let people = self
            .tokens
            .iter()
            .map(|(&user, token)| line(token, user.username(), groups(user)));
        let manager = line(&self.controller_manager_token, CONTROLLER_MANAGER, "");
        people.chain([manager]).collect()
    }

    /// The service account's token exists only once the API server runs.
    pub(super) fn set_robot_token(&mut self, token: String) {
        self.tokens.insert(User::Robot, token);
    }

    fn token(&self, user: User) -> &str {
        let token = self.tokens.get(&user);
        token.expect("all tokens are there before a plane is handed out")
    }

    /// How to reach a server as this user.
    pub(super) fn kube_config(&self, url: &http::Uri, user: User) -> kube::Config {
        let mut config = self.anonymous(url);
        config.auth_info.token = Some(self.token(user).to_owned().into());
        config
    }

    /// How to reach a server as nobody.
    pub(super) fn anonymous(&self, url: &http::Uri) -> kube::Config {
        let mut config = kube::Config::new(url.clone());
        config.root_cert = Some(vec![self.authority.der()]);
        config
    }

    pub(super) fn write_kubeconfig(
        &self,
        path: &Path,
        url: &http::Uri,
        user: User,
    ) -> Result<(), CredentialsError> {
        self.write_kubeconfig_for(path, url, user.short_name(), self.token(user))
    }

    pub(super) fn write_controller_manager_kubeconfig(
        &self,
        path: &Path,
        url: &http::Uri,
    ) -> Result<(), CredentialsError> {
        self.write_kubeconfig_for(
            path,
            url,
            "controller-manager",
            &self.controller_manager_token,
        )
    }

    /// A kubeconfig is YAML, and JSON is YAML.
    fn write_kubeconfig_for(
        &self,
        path: &Path,
        url: &http::Uri,
        user: &str,
        token: &str,
    ) -> Result<(), CredentialsError> {
        let cluster = json!({
            "server": url.to_string(),
            "certificate-authority": self.authority_file(),
        });
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}],
        });
        write_private(path, &format!("{kubeconfig:#}\n"))
    }
}

/// Writes a file that only its owner may read.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), CredentialsError> {
    let write = || {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(path)?.write_all(text.as_bytes())
    };
    write().map_err(|source| CredentialsError::Write {
        path: path.to_owned(),
        source,
    })
}

/// 128 random bits.
fn token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}
