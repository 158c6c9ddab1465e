//! Servers, mirrors and plans for the tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use reverser_git::{
    BlobId, BranchName, Change, CommitPlan, CommitTime, Committed, Credentials, FolderPath, Git,
    Mirror, MirrorOptions, Person, PushOptions, PushOutcome, RemoteUrl, RepoPath, Scheme, Stamp,
    Timeouts,
};
use reverser_testkit::certificates::Authority;
use reverser_testkit::git_server::{BareRepository, GitDaemon, HttpFront, Sshd};
use tempfile::TempDir;

pub(crate) const ALL_SCHEMES: &[Scheme] = &[
    Scheme::Https,
    Scheme::Ssh,
    Scheme::Http,
    Scheme::File,
    Scheme::Git,
];

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Path,
    Http,
    Https,
    Ssh,
    /// A server that speaks only git's oldest protocol.
    OldSsh,
    Daemon,
}

/// A repository and the server in front of it.
pub(crate) struct Server {
    pub(crate) repository: BareRepository,
    pub(crate) url: String,
    /// The data of the Secret that lets us in.
    pub(crate) secret: BTreeMap<String, Vec<u8>>,
    pub(crate) front: Option<HttpFront>,
    // Kept running.
    _daemon: Option<GitDaemon>,
    pub(crate) root: TempDir,
}

pub(crate) fn sshd() -> &'static Sshd {
    static SHARED: OnceLock<Sshd> = OnceLock::new();
    SHARED.get_or_init(Sshd::start)
}

fn old_sshd() -> &'static Sshd {
    static SHARED: OnceLock<Sshd> = OnceLock::new();
    SHARED.get_or_init(Sshd::start_with_old_protocol)
}

impl Server {
    /// An empty repository behind a server that wants no password.
    pub(crate) fn start(transport: Transport) -> Self {
        let root = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(root.path(), "r.git");
        let mut secret = BTreeMap::new();
        let (mut front, mut daemon) = (None, None);
        let url = match transport {
            Transport::Path => format!("file://{}", repository.path().display()),
            Transport::Http => front.insert(HttpFront::start(root.path())).url("r.git"),
            Transport::Https => {
                let authority = Authority::new("git servers").unwrap();
                secret.insert("ca.crt".to_owned(), authority.pem().into_bytes());
                front
                    .insert(HttpFront::start_tls(root.path(), &authority))
                    .url("r.git")
            }
            Transport::Ssh | Transport::OldSsh => {
                let server = if transport == Transport::Ssh {
                    sshd()
                } else {
                    old_sshd()
                };
                secret = ssh_secret(server);
                server.url(repository.path())
            }
            Transport::Daemon => daemon.insert(GitDaemon::start(root.path())).url("r.git"),
        };
        Self {
            repository,
            url,
            secret,
            front,
            _daemon: daemon,
            root,
        }
    }

    pub(crate) fn front(&self) -> &HttpFront {
        self.front.as_ref().expect("an HTTP server")
    }

    pub(crate) fn credentials(&self) -> Credentials {
        Credentials::from_secret(&self.secret, &remote(&self.url)).unwrap()
    }

    /// A mirror of `branch` in a folder of its own.
    pub(crate) fn mirror(&self, branch: &str) -> TestMirror {
        let folder = tempfile::tempdir().unwrap();
        let mirror = self.open(folder.path(), branch);
        TestMirror { mirror, folder }
    }

    pub(crate) fn open(&self, folder: &Path, branch: &str) -> Mirror {
        self.open_with(folder, branch, quick())
    }

    pub(crate) fn open_with(&self, folder: &Path, branch: &str, options: MirrorOptions) -> Mirror {
        let branch = BranchName::parse(branch).unwrap();
        Mirror::open(
            git(),
            remote(&self.url),
            branch,
            folder,
            self.credentials(),
            options,
        )
        .unwrap()
    }
}

pub(crate) fn ssh_secret(server: &Sshd) -> BTreeMap<String, Vec<u8>> {
    BTreeMap::from([
        ("identity".to_owned(), server.key().into_bytes()),
        ("known_hosts".to_owned(), server.known_hosts().into_bytes()),
    ])
}

pub(crate) fn secret(entries: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    entries
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect()
}

pub(crate) fn git() -> Git {
    static FOUND: OnceLock<Git> = OnceLock::new();
    FOUND.get_or_init(|| Git::find().unwrap()).clone()
}

pub(crate) fn remote(url: &str) -> RemoteUrl {
    RemoteUrl::parse(url, ALL_SCHEMES).unwrap()
}

/// Deadlines long enough for a busy machine, short enough for a test that hangs.
pub(crate) fn quick() -> MirrorOptions {
    let timeouts = Timeouts {
        transfer: Duration::from_mins(1),
        ask: Duration::from_secs(30),
    };
    MirrorOptions {
        timeouts,
        ..MirrorOptions::default()
    }
}

/// A mirror and its folder.
pub(crate) struct TestMirror {
    // Before its folder.
    pub(crate) mirror: Mirror,
    pub(crate) folder: TempDir,
}

impl std::ops::Deref for TestMirror {
    type Target = Mirror;
    fn deref(&self) -> &Mirror {
        &self.mirror
    }
}

impl std::ops::DerefMut for TestMirror {
    fn deref_mut(&mut self) -> &mut Mirror {
        &mut self.mirror
    }
}

pub(crate) fn folder(path: &str) -> FolderPath {
    FolderPath::parse(path).unwrap()
}

pub(crate) fn path(path: &str) -> RepoPath {
    RepoPath::parse(path).unwrap()
}

pub(crate) fn stamp(name: &str) -> Stamp {
    let person = Person::new(name, &format!("{}@example.com", name.to_lowercase())).unwrap();
    Stamp {
        person,
        time: CommitTime::utc(1_700_000_000),
    }
}

/// Content to write, or none to delete.
pub(crate) type Edit<'a> = (&'a str, Option<&'a str>);

/// A plan of one commit by Alice, whose contents are staged.
pub(crate) fn plan(mirror: &Mirror, folder_path: &str, edits: &[Edit<'_>]) -> CommitPlan {
    let changes = edits
        .iter()
        .map(|(file, content)| match content {
            Some(content) => {
                let blob = mirror.staged().write(content.as_bytes()).unwrap();
                Change::Put {
                    path: path(file),
                    blob,
                }
            }
            None => Change::Delete { path: path(file) },
        })
        .collect();
    CommitPlan {
        folder: folder(folder_path),
        author: stamp("Alice"),
        committer: stamp("Bot"),
        message: format!("Change {} files", edits.len()),
        changes,
    }
}

/// Commits and pushes edits below `live`, on the tip that is known.
pub(crate) fn write(mirror: &mut Mirror, edits: &[Edit<'_>]) -> PushOutcome {
    let plan = plan(mirror, "live", edits);
    let committed = mirror.commit(&[plan], None).unwrap();
    push(mirror, &committed)
}

pub(crate) fn push(mirror: &mut Mirror, committed: &Committed) -> PushOutcome {
    assert_eq!(committed.refused, [], "nothing was to be refused");
    let prepared = committed.prepared.as_ref().expect("something changes");
    mirror.push(prepared, &PushOptions::default()).unwrap()
}

/// Fetches, and brings `live` to exactly these files, as often as it takes.
pub(crate) fn settle(mirror: &mut Mirror, desired: &BTreeMap<String, String>) {
    try_settle(mirror, desired).unwrap();
}

/// The same, where something is broken and an attempt may fail.
pub(crate) fn try_settle(
    mirror: &mut Mirror,
    desired: &BTreeMap<String, String>,
) -> Result<(), String> {
    for _ in 0..5 {
        mirror.fetch().map_err(|error| format!("{error:?}"))?;
        let snapshot = mirror
            .snapshot(&folder("live"))
            .map_err(|error| format!("{error:?}"))?;
        let mut edits: Vec<Edit<'_>> = Vec::new();
        for (file, content) in desired {
            let there = snapshot.get(&path(file)).and_then(|entry| entry.blob);
            if there != Some(BlobId::of(content.as_bytes())) {
                edits.push((file, Some(content)));
            }
        }
        let gone = snapshot
            .iter()
            .map(|entry| std::str::from_utf8(entry.path).unwrap());
        edits.extend(
            gone.filter(|file| !desired.contains_key(*file))
                .map(|file| (file, None)),
        );
        if edits.is_empty() {
            return Ok(());
        }
        let plan = plan(mirror, "live", &edits);
        let committed = mirror
            .commit(&[plan], None)
            .map_err(|error| format!("{error:?}"))?;
        match push(mirror, &committed) {
            PushOutcome::Pushed { .. } => return Ok(()),
            PushOutcome::Stale { .. } => {}
            other => return Err(format!("{other:?}")),
        }
    }
    Err("it is stale again and again".to_owned())
}

pub(crate) fn pushed(outcome: &PushOutcome) -> String {
    match outcome {
        PushOutcome::Pushed { tip } => tip.to_string(),
        other => panic!("not pushed: {other:?}"),
    }
}

/// What is in a folder, however deep.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// The command lines of the programs that a mirror in this folder has started.
pub(crate) fn running_for(folder: &Path) -> Vec<String> {
    let mark = format!(
        "GITOPS_REVERSER_MIRROR={}",
        folder.canonicalize().unwrap().display()
    );
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let environ = std::fs::read(process.path().join("environ")).unwrap_or_default();
        if environ
            .split(|byte| *byte == 0)
            .any(|entry| entry == mark.as_bytes())
        {
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            found.push(String::from_utf8_lossy(&line).replace('\0', " "));
        }
    }
    found
}
