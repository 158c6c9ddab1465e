//! Where the store is, and by what it lets one in.

use std::fmt;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use secrecy::SecretString;

/// The files of the folder of credentials, as the keys of a Secret; each may be missing.
const USERNAME: &str = "username";
const PASSWORD: &str = "password";
const AUTHORITY: &str = "ca.crt";

/// A Redis or Valkey.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAddress {
    pub(super) tls: bool,
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) database: u32,
    /// Read for each connection, so that a password that is changed is used.
    credentials: Option<PathBuf>,
}

/// Why a text is not the address of a store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadStore {
    /// Neither. What was written may be a password.
    #[error(
        "this is neither memory nor the URL of a Redis or Valkey; write memory, or \
         redis://host:6379, or rediss://host:6379 for TLS"
    )]
    Scheme,
    /// No host, or no port.
    #[error(
        "the URL has no host, or a port that is none; write one such as \
         redis://redis.example.com:6379"
    )]
    Host,
    /// Everyone who may see the pod would see them.
    #[error(
        "the URL holds a user or a password, which everyone can read who may see this pod; write them \
         into the files username and password of a folder, and name that in \
         --attribution-store-credentials-dir"
    )]
    Credentials,
    /// Not a number.
    #[error(
        "the part behind the host is not the number of a database; write one such as \
         redis://host:6379/0, or none"
    )]
    Database,
}

/// What lets one in.
#[derive(Debug, Default)]
pub(super) struct Login {
    pub(super) username: Option<String>,
    pub(super) password: Option<SecretString>,
}

const DEFAULT_PORT: u16 = 6379;

impl StoreAddress {
    /// Reads `redis://host[:port][/database]`, or `rediss://…` for TLS; the folder may hold
    /// `username`, `password` and `ca.crt`.
    pub fn parse(url: &str, credentials: Option<PathBuf>) -> Result<Self, BadStore> {
        let (tls, rest) = match (url.strip_prefix("redis://"), url.strip_prefix("rediss://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return Err(BadStore::Scheme),
        };
        if rest.contains('@') {
            return Err(BadStore::Credentials);
        }
        let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = match place
            .strip_prefix('[')
            .and_then(|rest| rest.split_once(']'))
        {
            Some((host, "")) => (host, ""),
            Some((host, port)) => (host, port.strip_prefix(':').ok_or(BadStore::Host)?),
            None => place.split_once(':').unwrap_or((place, "")),
        };
        let port = match port {
            "" => DEFAULT_PORT,
            port => port.parse().map_err(|_| BadStore::Host)?,
        };
        let in_names = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
        if host.is_empty() || port == 0 || !host.bytes().all(in_names) {
            return Err(BadStore::Host);
        }
        let database = match database {
            "" => 0,
            number => number.parse().map_err(|_| BadStore::Database)?,
        };
        Ok(Self {
            tls,
            host: host.to_owned(),
            port,
            database,
            credentials,
        })
    }

    /// What lets one in, as the files say now.
    pub(super) fn login(&self) -> Result<Login, String> {
        Ok(Login {
            username: self.file(USERNAME)?,
            password: self.file(PASSWORD)?.map(SecretString::from),
        })
    }

    /// The authority of the folder, or those that the system trusts.
    pub(super) fn tls_config(&self) -> Result<ClientConfig, String> {
        let mut roots = RootCertStore::empty();
        if let Some(pem) = self.file(AUTHORITY)? {
            let unusable = |why: String| format!("the file {AUTHORITY} cannot be used: {why}");
            for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
                let certificate = certificate.map_err(|error| unusable(error.to_string()))?;
                let added = roots.add(certificate);
                added.map_err(|error| unusable(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(unusable("it holds no certificate".to_owned()));
            }
        } else {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        Ok(config.with_root_certificates(roots).with_no_client_auth())
    }

    /// A file of the folder, without the line end that editors add; nothing if there is none.
    fn file(&self, name: &str) -> Result<Option<String>, String> {
        let Some(folder) = &self.credentials else {
            return Ok(None);
        };
        match fs::read_to_string(folder.join(name)) {
            Ok(text) => Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("the file {name} cannot be read: {error}")),
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<StoreAddress, BadStore> {
        StoreAddress::parse(url, None)
    }

    #[test]
    fn a_url_says_where_the_store_is() {
        let plain = parse("redis://redis").unwrap();
        assert_eq!(plain.to_string(), "redis://redis:6379");
        let full = parse("rediss://[::1]:7000/3").unwrap();
        assert_eq!(full.to_string(), "rediss://[::1]:7000");
        assert_eq!((full.tls, full.database), (true, 3));
    }

    #[test]
    fn what_is_no_url_is_refused_and_a_password_is_never_repeated() {
        assert_eq!(parse("redis://:hunter2@host"), Err(BadStore::Credentials));
        assert_eq!(parse("redis://hunter2@host"), Err(BadStore::Credentials));
        assert_eq!(parse("http://a:hunter2@host"), Err(BadStore::Scheme));
        for bad in [
            "redis://",
            "redis://host:0",
            "redis://host:x",
            "redis://[::1]7",
        ] {
            assert_eq!(parse(bad), Err(BadStore::Host), "{bad}");
        }
        assert_eq!(parse("redis://host?x=y"), Err(BadStore::Host));
        assert_eq!(parse("redis://host/a"), Err(BadStore::Database));
    }

    #[test]
    fn credentials_are_read_from_files_as_they_are_now() {
        let folder = tempfile::tempdir().unwrap();
        let address = StoreAddress::parse("redis://host", Some(folder.path().to_owned())).unwrap();
        assert!(address.login().unwrap().password.is_none());
        fs::write(folder.path().join("password"), "hunter2\n").unwrap();
        let login = address.login().unwrap();
        assert!(login.password.is_some() && login.username.is_none());
        assert!(!format!("{login:?}").contains("hunter2"));
        fs::write(folder.path().join("ca.crt"), "no certificate").unwrap();
        assert!(address.tls_config().is_err());
    }
}
