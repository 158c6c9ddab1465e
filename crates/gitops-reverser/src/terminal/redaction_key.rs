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
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path)?,
        Err(error) => return Err(error),
        Ok(bytes) => return key(&bytes),
    }
    // Another run may have been faster: then its key counts.
    key(&fs::read(path)?)
}

/// Makes a key, which is there whole or not at all. One that is there already stays.
fn create(path: &Path) -> io::Result<()> {
    let mut bytes = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = path.with_extension(format!("new-{:x}", fastrand::u64(..)));
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    let made = file
        .write_all(&bytes)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::hard_link(&new, path));
    fs::remove_file(&new)?;
    match made {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

fn key(bytes: &[u8]) -> io::Result<RedactionKey> {
    let bytes = <[u8; 32]>::try_from(bytes)
        .map_err(|_| io::Error::other("it is not 32 bytes long, as a key is"))?;
    Ok(RedactionKey::new(bytes))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn runs_that_begin_at_once_agree_on_one_key_that_only_its_owner_can_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/redaction.key");
        let runs: Vec<_> = (0..8)
            .map(|_| {
                let path = path.clone();
                std::thread::spawn(move || read_or_create(&path).map(drop))
            })
            .collect();
        for run in runs {
            run.join().unwrap().unwrap();
        }
        let files: Vec<_> = fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(files.len(), 1, "{files:?}");
        let file = fs::metadata(&path).unwrap();
        assert_eq!(file.len(), 32);
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}
