//! What the history of a branch tells about those who wrote it.

use std::collections::BTreeMap;

use super::load::USERS;
use super::stage::Stage;

/// A change of one file, in the order of the history.
pub(crate) struct Written {
    /// The name of the object.
    pub(crate) name: String,
    /// Its number; nothing if it was deleted.
    pub(crate) number: Option<usize>,
    /// The trailer that names the user.
    pub(crate) user: String,
    /// When, in seconds since 1970, by the clock of the replica that wrote it.
    pub(crate) time: i64,
}

/// What was written to ConfigMaps, oldest first; fails if a commit changes nothing.
pub(crate) fn read(stage: &Stage) -> Vec<Written> {
    let log = stage.cluster.repository.git(&[
        "log",
        "--reverse",
        "-p",
        "--unified=0",
        "--no-renames",
        "--format=commit %ct%n%B",
        "refs/heads/main",
    ]);
    let mut written = Vec::new();
    let (mut time, mut user) = (0, String::new());
    let mut name = String::new();
    let mut changed = true;
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("commit ") {
            assert!(changed, "a commit at {time} changes nothing:\n{log}");
            changed = false;
            time = rest.parse().unwrap();
        } else if let Some(rest) = line.strip_prefix("X-ConfigButler-User: ") {
            rest.clone_into(&mut user);
        } else if let Some(path) = line.strip_prefix("diff --git a/") {
            changed = true;
            let file = path.rsplit('/').next().unwrap();
            file.trim_end_matches(".yaml").clone_into(&mut name);
        } else {
            let number = line.strip_prefix("+  number: ");
            let number = number.map(|number| number.trim_matches(['"', '\'']).parse().unwrap());
            if number.is_some() || line.starts_with("deleted file") {
                written.push(Written {
                    name: name.clone(),
                    number,
                    user: user.clone(),
                    time,
                });
            }
        }
    }
    written
}

/// What the history of a branch says about how it came to be.
pub(crate) struct Account {
    /// How many changes were written.
    pub(crate) changes: usize,
    /// How many of them have no author.
    pub(crate) unknown: usize,
}

impl Account {
    /// How many changes have their author, of a hundred.
    pub(crate) fn share(&self) -> usize {
        100 * (self.changes - self.unknown) / self.changes.max(1)
    }
}

/// Nothing was written twice, nothing older over something newer, nothing under another's name, and
/// no file went but that of an object which somebody deleted between what was written before and
/// what was written after.
#[track_caller]
pub(crate) fn assert_honest(written: &[Written], deletions: &[(String, usize)]) -> Account {
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    let mut gone: BTreeMap<&str, usize> = BTreeMap::new();
    let mut unknown = 0;
    let deleted_within = |name: &str, after: usize, before: usize| {
        let of_name = deletions.iter().filter(|(deleted, _)| deleted == name);
        of_name
            .map(|(_, number)| *number)
            .any(|number| after < number && number < before)
    };
    for Written {
        name, number, user, ..
    } in written
    {
        if let Some(number) = number {
            let before = newest.insert(name, *number);
            assert!(before < Some(*number), "{name}: {number} after {before:?}");
            if let Some(before) = gone.remove(name.as_str()) {
                let deleted = deleted_within(name, before, *number);
                assert!(
                    deleted,
                    "{name} was never deleted from {before} to {number}"
                );
            }
        } else {
            let before = newest[name.as_str()];
            assert_eq!(gone.insert(name, before), None, "{name} was deleted twice");
        }
        let owner = USERS
            .iter()
            .find(|user| name.starts_with(&format!("{}-", user.short_name())))
            .unwrap();
        assert!(
            user == "unknown" || user == owner.username(),
            "{name} was written under the name of {user}"
        );
        unknown += usize::from(user == "unknown");
    }
    for (name, before) in gone {
        let deleted = deleted_within(name, before, usize::MAX);
        assert!(deleted, "{name} was never deleted after {before}");
    }
    Account {
        changes: written.len(),
        unknown,
    }
}
