//! The keys of a Secret, in the spellings of Kubernetes, Flux and Argo CD.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding};
use secrecy::{ExposeSecret, SecretString};
use ssh_key::PrivateKey;

use super::{ClientCertificate, Credentials, HttpLogin, Login, Proxy, SshLogin};
use crate::remote_url::{RemoteUrl, Scheme};

/// What is wrong with a Secret. Names keys, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCredentials {
    /// A key that is needed is not there.
    #[error("the Secret has no {key}: {hint}")]
    Missing {
        /// The key, in the spelling that the documentation uses.
        key: &'static str,
        /// What to put there.
        hint: &'static str,
    },
    /// A value that cannot be what its key says.
    #[error("the Secret's {key} {problem}")]
    Invalid {
        /// The key as the Secret spells it.
        key: &'static str,
        /// What is wrong, and what to write instead.
        problem: &'static str,
    },
}

// First the spelling of our own documentation, then those of Flux and Argo CD.
const USERNAME: &[&str] = &["username"];
const PASSWORD: &[&str] = &["password"];
const BEARER: &[&str] = &["bearerToken"];
const CA: &[&str] = &["ca.crt", "caFile"];
const CLIENT_CERTIFICATE: &[&str] = &["tls.crt", "certFile", "tlsClientCertData"];
const CLIENT_KEY: &[&str] = &["tls.key", "keyFile", "tlsClientCertKey"];
const SSH_KEY: &[&str] = &["ssh-privatekey", "identity", "sshPrivateKey"];
const SSH_PASSPHRASE: &[&str] = &["ssh-password", "password"];
const KNOWN_HOSTS: &[&str] = &["known_hosts"];
const PROXY: &[&str] = &["proxy"];
const NO_PROXY: &[&str] = &["noProxy"];

type SecretData = BTreeMap<String, Vec<u8>>;

impl Credentials {
    /// Reads the data of a Secret for this repository; which keys count depends on its scheme.
    ///
    /// # Errors
    /// A key that is missing or whose value cannot be used. Nothing is started to find out.
    pub fn from_secret(data: &SecretData, remote: &RemoteUrl) -> Result<Self, BadCredentials> {
        let login = match remote.scheme() {
            Scheme::Https | Scheme::Http => Login::Http(http_login(data)?),
            Scheme::Ssh => Login::Ssh(ssh_login(data)?),
            Scheme::File | Scheme::Git => Login::Anonymous,
        };
        Ok(Self {
            login,
            proxy: proxy(data)?,
        })
    }
}

fn http_login(data: &SecretData) -> Result<HttpLogin, BadCredentials> {
    let username = line(data, USERNAME)?;
    let password = line(data, PASSWORD)?;
    let bearer = line(data, BEARER)?;
    let (header, parts) = match (username, password, bearer) {
        (_, _, Some((_, token))) => (Some(format!("Bearer {token}")), vec![token]),
        (Some((key, name)), Some((_, password)), None) => {
            if name.contains(':') {
                return Err(invalid(
                    key,
                    "contains `:`, which HTTP forbids in a user name",
                ));
            }
            let encoded = Base64::encode_string(format!("{name}:{password}").as_bytes());
            (Some(format!("Basic {encoded}")), vec![password, encoded])
        }
        (Some(_), None, None) => return Err(missing("password", "it goes with the username")),
        (None, Some(_), None) => {
            return Err(missing(
                "username",
                "it goes with the password; any name does for most tokens",
            ));
        }
        (None, None, None) => (None, vec![]),
    };
    Ok(HttpLogin {
        authorization: header.map(SecretString::from),
        parts: parts.into_iter().map(SecretString::from).collect(),
        ca: certificate(data, CA)?,
        client: client_certificate(data)?,
    })
}

fn client_certificate(data: &SecretData) -> Result<Option<ClientCertificate>, BadCredentials> {
    match (
        certificate(data, CLIENT_CERTIFICATE)?,
        text(data, CLIENT_KEY)?,
    ) {
        (None, None) => Ok(None),
        (Some(certificate), Some((key_name, key))) => {
            if !key.contains("PRIVATE KEY-----") {
                return Err(invalid(key_name, "is not a private key in PEM form"));
            }
            Ok(Some(ClientCertificate {
                certificate,
                key: key.into(),
            }))
        }
        (Some(_), None) => Err(missing(
            "tls.key",
            "it goes with the client certificate tls.crt",
        )),
        (None, Some(_)) => Err(missing("tls.crt", "it goes with the client key tls.key")),
    }
}

fn ssh_login(data: &SecretData) -> Result<SshLogin, BadCredentials> {
    let Some((key_name, key)) = text(data, SSH_KEY)? else {
        return Err(missing(
            "ssh-privatekey",
            "put the private key there that the repository knows",
        ));
    };
    // ssh refuses a key with carriage returns or without a final newline.
    let private_key = format!("{}\n", key.replace("\r\n", "\n").trim());
    let passphrase = line(data, SSH_PASSPHRASE)?.map(|(_, phrase)| phrase);
    check_private_key(key_name, &private_key, passphrase.as_deref())?;
    let Some((_, known_hosts)) = text(data, KNOWN_HOSTS)? else {
        return Err(missing(
            "known_hosts",
            "put the output of `ssh-keyscan <host>` there, after checking it",
        ));
    };
    let is_entry = |line: &str| !line.starts_with('#') && line.split_whitespace().count() >= 3;
    if !known_hosts.lines().any(is_entry) {
        return Err(invalid(
            "known_hosts",
            "has no line of the form `host algorithm key`",
        ));
    }
    Ok(SshLogin {
        private_key: private_key.into(),
        passphrase: passphrase.map(SecretString::from),
        known_hosts: format!("{}\n", known_hosts.trim()),
    })
}

/// Tells a locked or broken key before ssh does, which says only "Permission denied".
fn check_private_key(
    name: &'static str,
    key: &str,
    passphrase: Option<&str>,
) -> Result<(), BadCredentials> {
    if !key.starts_with("-----BEGIN ") || !key.contains("PRIVATE KEY-----") {
        return Err(invalid(
            name,
            "is not a private key (a public one, perhaps?)",
        ));
    }
    let locked = "is locked by a passphrase; put it into ssh-password";
    if !key.starts_with("-----BEGIN OPENSSH") {
        // The older forms say in plain text that they are encrypted; ssh can read them.
        let encrypted = key.contains("ENCRYPTED");
        return if encrypted && passphrase.is_none() {
            Err(invalid(name, locked))
        } else {
            Ok(())
        };
    }
    let Ok(parsed) = PrivateKey::from_openssh(key) else {
        return Err(invalid(
            name,
            "is damaged: it cannot be read as an OpenSSH private key",
        ));
    };
    match passphrase {
        None if parsed.is_encrypted() => Err(invalid(name, locked)),
        Some(phrase) if parsed.is_encrypted() && parsed.decrypt(phrase).is_err() => {
            Err(invalid("ssh-password", "does not open the private key"))
        }
        _ => Ok(()),
    }
}

fn proxy(data: &SecretData) -> Result<Option<Proxy>, BadCredentials> {
    let Some((key, url)) = line(data, PROXY)? else {
        return Ok(None);
    };
    let known = [
        "http://",
        "https://",
        "socks4://",
        "socks4a://",
        "socks5://",
        "socks5h://",
    ];
    if !known.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(invalid(
            key,
            "is not a proxy URL; write for instance `http://proxy:3128`",
        ));
    }
    let no_proxy = line(data, NO_PROXY)?.map(|(_, hosts)| hosts);
    Ok(Some(Proxy {
        url: url.into(),
        no_proxy,
    }))
}

fn certificate(
    data: &SecretData,
    keys: &'static [&'static str],
) -> Result<Option<String>, BadCredentials> {
    match text(data, keys)? {
        Some((key, value)) if !value.contains("-----BEGIN CERTIFICATE-----") => {
            Err(invalid(key, "holds no certificate in PEM form"))
        }
        other => Ok(other.map(|(_, value)| value)),
    }
}

/// A value of one line. A newline at its end comes from `echo` and is dropped; one inside would
/// end a header.
fn line(
    data: &SecretData,
    keys: &'static [&'static str],
) -> Result<Option<(&'static str, String)>, BadCredentials> {
    let Some((key, value)) = text(data, keys)? else {
        return Ok(None);
    };
    let value = value.trim_end_matches(['\r', '\n']);
    if value.is_empty() {
        return Err(invalid(key, "is empty"));
    }
    if value.contains(char::is_control) {
        return Err(invalid(
            key,
            "contains a newline or another control character",
        ));
    }
    Ok(Some((key, value.to_owned())))
}

fn text(
    data: &SecretData,
    keys: &'static [&'static str],
) -> Result<Option<(&'static str, String)>, BadCredentials> {
    let Some((key, value)) = keys.iter().find_map(|key| Some((*key, data.get(*key)?))) else {
        return Ok(None);
    };
    match String::from_utf8(value.clone()) {
        Ok(value) if !value.contains('\0') => Ok(Some((key, value))),
        _ => Err(invalid(key, "is not text (is it encoded twice?)")),
    }
}

fn missing(key: &'static str, hint: &'static str) -> BadCredentials {
    BadCredentials::Missing { key, hint }
}

fn invalid(key: &'static str, problem: &'static str) -> BadCredentials {
    BadCredentials::Invalid { key, problem }
}

impl Credentials {
    /// Everything that must not appear in a text, longest first so that a part of one does not
    /// hide the rest of another.
    pub(crate) fn secrets(&self) -> Vec<SecretString> {
        let mut secrets = Vec::new();
        match &self.login {
            Login::Anonymous | Login::UserSsh(_) => {}
            Login::Http(login) => {
                secrets.extend(login.authorization.clone());
                secrets.extend(login.parts.iter().cloned());
                secrets.extend(login.client.iter().map(|client| client.key.clone()));
            }
            Login::Ssh(login) => {
                secrets.push(login.private_key.clone());
                secrets.extend(login.passphrase.clone());
            }
        }
        if let Some(proxy) = &self.proxy {
            let password = proxy
                .url
                .expose_secret()
                .split_once("://")
                .and_then(|(_, rest)| {
                    rest.rsplit_once('@')?
                        .0
                        .split_once(':')
                        .map(|(_, password)| password.to_owned())
                });
            secrets.extend(password.map(SecretString::from));
        }
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        secrets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::test_keys::{PASSPHRASE, locked_key, open_key};

    fn url(text: &str) -> RemoteUrl {
        RemoteUrl::parse(text, Scheme::DEFAULT_ALLOWED).unwrap()
    }

    fn data(entries: &[(&str, &str)]) -> SecretData {
        entries
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec()))
            .collect()
    }

    fn https(entries: &[(&str, &str)]) -> Result<Credentials, BadCredentials> {
        Credentials::from_secret(&data(entries), &url("https://host/x"))
    }

    fn ssh(entries: &[(&str, &str)]) -> Result<Credentials, BadCredentials> {
        Credentials::from_secret(&data(entries), &url("git@host:x"))
    }

    fn header(credentials: &Credentials) -> Option<&str> {
        match &credentials.login {
            Login::Http(login) => login
                .authorization
                .as_ref()
                .map(ExposeSecret::expose_secret),
            _ => None,
        }
    }

    const HOSTS: &str = "host ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO";
    const PEM: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const PEM_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n";

    #[test]
    fn basic_and_bearer_become_one_header() {
        let basic = https(&[("username", "u"), ("password", "p\n")]).unwrap();
        assert_eq!(header(&basic), Some("Basic dTpw"));
        let bearer = https(&[("bearerToken", "t"), ("username", "u"), ("password", "p")]).unwrap();
        assert_eq!(header(&bearer), Some("Bearer t"));
        assert_eq!(header(&https(&[]).unwrap()), None);
    }

    #[test]
    fn the_spellings_of_flux_and_argo_cd_are_understood() {
        for (cert, key, ca) in [
            ("tls.crt", "tls.key", "ca.crt"),
            ("certFile", "keyFile", "caFile"),
            ("tlsClientCertData", "tlsClientCertKey", "ca.crt"),
        ] {
            let credentials = https(&[(cert, PEM), (key, PEM_KEY), (ca, PEM)]).unwrap();
            let Login::Http(login) = credentials.login else {
                panic!()
            };
            assert!(login.client.is_some() && login.ca.is_some(), "{cert}");
        }
        let (key_text, locked) = (open_key(), locked_key());
        for key in ["ssh-privatekey", "identity", "sshPrivateKey"] {
            ssh(&[
                (key, &key_text),
                ("known_hosts", HOSTS),
                ("url", "git@host:x"),
                ("type", "git"),
            ])
            .unwrap_or_else(|e| panic!("{key}: {e}"));
        }
        for phrase in ["ssh-password", "password"] {
            ssh(&[
                ("identity", &locked),
                (phrase, &format!("{PASSPHRASE}\n")),
                ("known_hosts", HOSTS),
            ])
            .unwrap_or_else(|e| panic!("{phrase}: {e}"));
        }
        let proxied =
            https(&[("proxy", "http://u:hunter2@proxy:3128"), ("noProxy", "a,b")]).unwrap();
        assert!(proxied.proxy.is_some());
    }

    #[test]
    fn what_is_wrong_with_a_secret_is_said_without_its_values() {
        let (key, locked) = (open_key(), locked_key());
        let cases = [
            (https(&[("username", "u")]), "no password"),
            (https(&[("password", "hunter2")]), "no username"),
            (
                https(&[("username", "hunter2:x"), ("password", "hunter2")]),
                "username contains `:`",
            ),
            (
                https(&[("bearerToken", "hunter2\nX-Evil: 1")]),
                "contains a newline",
            ),
            (https(&[("bearerToken", "\n")]), "is empty"),
            (https(&[("ca.crt", "hunter2")]), "no certificate"),
            (https(&[("tls.crt", PEM)]), "no tls.key"),
            (https(&[("tls.key", PEM_KEY)]), "no tls.crt"),
            (
                https(&[("tls.crt", PEM), ("tls.key", "hunter2")]),
                "not a private key",
            ),
            (https(&[("proxy", "hunter2")]), "not a proxy URL"),
            (ssh(&[]), "no ssh-privatekey"),
            (ssh(&[("identity", &key)]), "no known_hosts"),
            (
                ssh(&[("identity", &key), ("known_hosts", "# none\n")]),
                "has no line",
            ),
            (
                ssh(&[
                    ("identity", "ssh-ed25519 AAAA hunter2"),
                    ("known_hosts", HOSTS),
                ]),
                "public one",
            ),
            (
                ssh(&[("identity", &key[..20]), ("known_hosts", HOSTS)]),
                "not a private key",
            ),
            (
                ssh(&[
                    ("identity", &key.replace("AAAA", "BBBB")),
                    ("known_hosts", HOSTS),
                ]),
                "damaged",
            ),
            (
                ssh(&[("identity", &locked), ("known_hosts", HOSTS)]),
                "locked by a passphrase",
            ),
            (
                ssh(&[
                    ("identity", &locked),
                    ("password", "hunter2"),
                    ("known_hosts", HOSTS),
                ]),
                "does not open",
            ),
        ];
        for (result, expected) in cases {
            let error = result.expect_err(expected).to_string();
            assert!(error.contains(expected), "{error} should say {expected}");
            assert!(!error.contains("hunter2"), "{error}");
        }
        let mut binary = data(&[]);
        binary.insert("bearerToken".into(), vec![0xff, 0xfe]);
        assert!(Credentials::from_secret(&binary, &url("https://host/x")).is_err());
    }

    #[test]
    fn secrets_never_show_in_debug() {
        let credentials = https(&[("username", "u"), ("password", "hunter2")]).unwrap();
        assert_eq!(format!("{credentials:?}"), "Credentials(https)");
        assert!(
            credentials
                .secrets()
                .iter()
                .any(|s| s.expose_secret() == "hunter2")
        );
    }
}
