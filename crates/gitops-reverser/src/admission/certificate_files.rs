//! Certificates that somebody else keeps: files in a folder, as cert-manager's Secret is mounted.

use std::path::{Path, PathBuf};
use std::{fs, io};

use secrecy::SecretString;

use super::certificates::Certificates;

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub(super) struct FileError {
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// Reads `tls.crt` and `tls.key`, and `ca.crt` if it is there.
pub(super) fn read(folder: &Path) -> Result<Certificates, FileError> {
    Ok(Certificates {
        authorities: authorities(folder)?.unwrap_or_default(),
        // Whoever keeps the files keeps this.
        authority_key: SecretString::default(),
        serving: text(&folder.join("tls.crt"))?,
        serving_key: text(&folder.join("tls.key"))?.into(),
    })
}

/// Reads `ca.crt` if it is there.
pub(super) fn authorities(folder: &Path) -> Result<Option<String>, FileError> {
    match text(&folder.join("ca.crt")) {
        Ok(pem) => Ok(Some(pem)),
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn text(path: &Path) -> Result<String, FileError> {
    fs::read_to_string(path).map_err(|source| FileError {
        path: path.to_owned(),
        source,
    })
}
