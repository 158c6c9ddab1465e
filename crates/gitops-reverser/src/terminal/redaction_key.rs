//! The key of redacted Secrets, kept on this machine so that the next run makes the same hashes.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use futures::FutureExt as _;
use reverser_core::redaction::RedactionKey;

use crate::operator::KeySource;

/// Reads the key when it is needed, and makes it where it is missing.
pub(super) fn in_file(path: PathBuf) -> KeySource {
    Box::new(move || {
        let key = read_or_create(&path).map_err(|error| {
            format!(
                "{} cannot be used: {error}; name another with --redaction-key",
                path.display()
            )
        });
        async move { key }.boxed()
    })
}

/// Where it is unless somebody says otherwise.
pub(super) fn default_path() -> PathBuf {
    super::repository::user_folder("XDG_CONFIG_HOME", ".config").join("redaction.key")
}

fn read_or_create(path: &Path) -> io::Result<RedactionKey> {
    match fs::read(path) {
        Ok(bytes) => key(&bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let mut bytes = [0; 32];
            fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            let new = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path);
            match new {
                Ok(mut file) => file.write_all(&bytes)?,
                // Another run was faster: its key counts.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    return key(&fs::read(path)?);
                }
                Err(error) => return Err(error),
            }
            Ok(RedactionKey::new(bytes))
        }
        Err(error) => Err(error),
    }
}

fn key(bytes: &[u8]) -> io::Result<RedactionKey> {
    let bytes = <[u8; 32]>::try_from(bytes)
        .map_err(|_| io::Error::other("it is not 32 bytes long, as a key is"))?;
    Ok(RedactionKey::new(bytes))
}
