//! Folders that go with the test process, and stay when a test failed.
//!
//! A folder is removed when it is dropped. A plane that is shared by all tests of a binary lives in
//! a static and is never dropped, and a killed process drops nothing, so each folder also has an
//! undertaker: a small shell that waits for its input to end, which happens when the test process
//! is gone in whatever way, then ends the programs whose process ids the folder holds, and removes
//! the folder. What even the undertaker could not see to (a power cut) goes at the next start,
//! because its lock is free.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

/// Names a folder for all files of tests, instead of the one of the system.
pub const ROOT_VARIABLE: &str = "REVERSER_TEST_TMP";

const PREFIX: &str = "run-";
const LOCK: &str = "lock";
const KEPT: &str = "kept";
const PIDS: &str = "pids";
const DATA: &str = "data";
/// What was kept of a failed test is looked at within a day, or never.
const KEPT_FOR: Duration = Duration::from_hours(24);

/// `$1` is the folder. `cat` ends when the test process does.
const UNDERTAKER: &str = r#"
cat >/dev/null
for file in "$1"/pids/*; do
  if [ -f "$file" ]; then kill -9 "$(cat "$file")"; fi
done
if [ -e "$1/kept" ]; then set -- "$1/data" "$1/pids"; fi
rm -rf "$@" || rm -rf "$@"
"#;

/// The folder that holds everything that tests of this user write.
pub fn root() -> io::Result<PathBuf> {
    let above = std::env::var_os(ROOT_VARIABLE).map_or_else(std::env::temp_dir, PathBuf::from);
    let user = rustix::process::getuid().as_raw();
    let root = std::path::absolute(above.join(format!("gitops-reverser-tests-{user}")))?;
    fs::create_dir_all(&root)?;
    // There are private keys and tokens below.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o700))?;
    Ok(root)
}

/// A folder of this process.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    undertaker: Child,
    /// Held, not read: a free lock means that the owner is gone.
    _lock: File,
}

impl Scratch {
    /// A new empty folder; `label` is there for people who look at it.
    pub fn create(label: &str) -> io::Result<Self> {
        let root = root()?;
        // Nobody may take a folder for abandoned between its making and its locking.
        let making = File::create(root.join("making"))?;
        making.lock()?;
        sweep(&root);

        let path = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{label}-"))
            .tempdir_in(&root)?
            .keep();
        let lock = File::create(path.join(LOCK))?;
        lock.lock()?;
        fs::create_dir(path.join(PIDS))?;
        fs::create_dir(path.join(DATA))?;
        let undertaker = Command::new("sh")
            .args(["-c", UNDERTAKER, "undertaker"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C reaches the group of the test process; this one has still work to do then.
            .process_group(0)
            .spawn()?;
        Ok(Self {
            path,
            undertaker,
            _lock: lock,
        })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder for what is large and of no use after a failure: it goes in any case.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path.join(DATA)
    }

    /// The file that names a running program, for the undertaker.
    pub(crate) fn pid_file(&self, name: &str) -> PathBuf {
        self.path.join(PIDS).join(name)
    }

    /// Keeps the folder, without its data, for whoever wants to know why a test failed, and says
    /// where it is.
    pub fn keep(&self) {
        eprintln!("logs stay in {}", self.path.display());
        // Without the mark the folder is lost, which is no reason to fail otherwise.
        let _ = File::create(self.path.join(KEPT));
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.keep();
        }
        // The undertaker knows what to do; the lock is still held while it works.
        drop(self.undertaker.stdin.take());
        let _ = self.undertaker.wait();
    }
}

/// Removes the folders whose owner is gone. The caller holds the lock on making folders.
fn sweep(root: &Path) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_name().to_string_lossy().starts_with(PREFIX) && is_abandoned(&path) {
            // Another process may sweep it too.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

fn is_abandoned(path: &Path) -> bool {
    let kept_since = fs::metadata(path.join(KEPT)).and_then(|kept| kept.modified());
    if let Ok(since) = kept_since {
        let age = SystemTime::now().duration_since(since);
        if age.is_ok_and(|age| age < KEPT_FOR) {
            return false;
        }
    }
    match File::open(path.join(LOCK)) {
        Ok(lock) => lock.try_lock().is_ok(),
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_folder_is_gone() {
        let scratch = Scratch::create("test").unwrap();
        let path = scratch.path().to_owned();
        fs::write(scratch.data().join("much"), "much").unwrap();
        assert!(path.is_dir());
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn a_failed_test_keeps_the_folder_without_its_data() {
        let path = thread::spawn(|| {
            let scratch = Scratch::create("test").unwrap();
            let path = scratch.path().to_owned();
            fs::write(path.join("log"), "why").unwrap();
            fs::write(scratch.data().join("much"), "much").unwrap();
            // The panic carries the path out; resuming does not print a report of it.
            std::panic::resume_unwind(Box::new(path));
        })
        .join()
        .unwrap_err()
        .downcast::<PathBuf>()
        .unwrap();
        assert_eq!(fs::read_to_string(path.join("log")).unwrap(), "why");
        assert!(!path.join(DATA).exists());
        fs::remove_dir_all(&*path).unwrap();
    }

    #[test]
    fn an_abandoned_folder_goes_at_the_next_start_and_one_in_use_stays() {
        let in_use = Scratch::create("test").unwrap();
        let abandoned = root().unwrap().join("run-test-abandoned");
        fs::create_dir_all(abandoned.join(DATA)).unwrap();
        let next = Scratch::create("test").unwrap();
        assert!(!abandoned.exists());
        assert!(in_use.path().is_dir());
        drop(next);
    }
}
