//! What the history of a branch tells about those who wrote it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::load::USERS;
use super::stage::Stage;

/// A change of one file, in the order of the history.
pub(crate) struct Written {
    /// The name of the object.
    pub(crate) name: String,
    pub(crate) number: usize,
    /// The trailer that names the user.
    pub(crate) user: String,
    /// Seconds since 1970.
    pub(crate) time: u64,
}

/// What was written to ConfigMaps, oldest first; fails if a commit deletes or changes nothing.
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
    let mut name = None;
    let mut changed = true;
    for line in log.lines() {
        if let Some(rest) = line.strip_prefix("commit ") {
            assert!(changed, "a commit at {time} changes nothing:\n{log}");
            changed = false;
            time = rest.parse().unwrap();
        } else if let Some(rest) = line.strip_prefix("X-ConfigButler-User: ") {
            rest.clone_into(&mut user);
        } else if line.starts_with("deleted file") {
            panic!("an object that lives was deleted at {time}:\n{log}");
        } else if let Some(path) = line.strip_prefix("+++ b/") {
            changed = true;
            let file = path.rsplit('/').next().unwrap();
            name = file.strip_suffix(".yaml").map(str::to_owned);
        } else if let Some(number) = line.strip_prefix("+  number: ") {
            let number = number.trim_matches(['"', '\'']).parse().unwrap();
            written.push(Written {
                name: name.clone().unwrap(),
                number,
                user: user.clone(),
                time,
            });
        }
    }
    written
}

/// Nothing was written twice, nothing older over something newer, and nothing under another's name.
/// Tells the longest time between two commits.
#[track_caller]
pub(crate) fn assert_honest(written: &[Written]) -> Duration {
    let mut newest: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut gap, mut last) = (0, None);
    for Written {
        name,
        number,
        user,
        time,
        ..
    } in written
    {
        let before = newest.insert(name, *number);
        assert!(before < Some(*number), "{name}: {number} after {before:?}");
        let owner = USERS
            .iter()
            .find(|user| name.starts_with(&format!("{}-", user.short_name())))
            .unwrap();
        assert!(
            user == "unknown" || user == owner.username(),
            "{name} was written under the name of {user}"
        );
        gap = gap.max(last.map_or(0, |last| time.saturating_sub(last)));
        last = Some(*time);
    }
    Duration::from_secs(gap)
}
