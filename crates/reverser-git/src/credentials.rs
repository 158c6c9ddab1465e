//! What a Secret says about how to log in, checked once, and how `git` gets to know it.
//!
//! Nothing here reaches an argument, a log or an error text: `Debug` is redacted, errors name the
//! key of the Secret and never its value.

mod secret_data;
mod of_user;
mod access;
#[cfg(test)]
pub(crate) mod test_keys;

use std::ffi::OsString;
use std::fmt;

use secrecy::SecretString;

pub(crate) use access::Access;
pub use secret_data::BadCredentials;

/// How to log in to a repository.
#[derive(Clone, Default)]
pub struct Credentials {
    login: Login,
    proxy: Option<Proxy>,
}

#[derive(Clone, Default)]
enum Login {
    #[default]
    Anonymous,
    Http(HttpLogin),
    Ssh(SshLogin),
    /// The keys and the agent of the person at the terminal, with their own command for it.
    UserSsh(Option<OsString>),
}

#[derive(Clone, Default)]
struct HttpLogin {
    /// The value of the `Authorization` header.
    authorization: Option<SecretString>,
    /// The secrets inside that header, to be kept out of texts.
    parts: Vec<SecretString>,
    ca: Option<String>,
    client: Option<ClientCertificate>,
}

#[derive(Clone)]
struct ClientCertificate {
    certificate: String,
    key: SecretString,
}

#[derive(Clone)]
struct SshLogin {
    private_key: SecretString,
    passphrase: Option<SecretString>,
    known_hosts: String,
}

#[derive(Clone)]
struct Proxy {
    /// May hold a user and password.
    url: SecretString,
    no_proxy: Option<String>,
}

impl Credentials {
    /// No login: public repositories, and repositories on this machine.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::default()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.login {
            Login::Anonymous => "anonymous",
            Login::Http(_) => "https",
            Login::Ssh(_) | Login::UserSsh(_) => "ssh",
        };
        write!(f, "Credentials({kind})")
    }
}
