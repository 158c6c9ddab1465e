//! What a folder of a branch lacks, and what it has too much, compared with the cluster.

use std::collections::{BTreeMap, HashMap};

use futures::FutureExt as _;
use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::canon::say_the_same;
use reverser_core::plan::{Proofs, PrunePolicy, TreeFile, Wanted, plan};
use reverser_core::repo_path::RepoPath;
use reverser_git::{
    BranchName, Credentials, EntryKind, FolderPath, Git, Mirror, MirrorOptions, RemoteUrl,
};
use tokio::sync::mpsc;

use super::exit::{Complaint, Exit};
use super::repository::of_fetch;
use crate::dispatch::{Knowledge, ToWriter};
use crate::operator::{StartWriter, WriterStart};
use crate::writer::Told;

/// What a folder should hold, once everything has been listed.
#[derive(Debug, Default)]
pub struct Wishes {
    wanted: BTreeMap<RepoPath, Wanted>,
    contents: HashMap<BlobId, Box<str>>,
    proofs: Proofs,
    /// What could not be listed, and why.
    pub unknown: Vec<String>,
}

/// How folder and cluster compare.
#[derive(Debug, Default)]
pub struct Comparison {
    /// How many files say what the cluster says.
    pub same: usize,
    /// Objects without a file.
    pub missing: Vec<RepoPath>,
    /// Files without an object.
    pub extra: Vec<RepoPath>,
    /// Files that say something else.
    pub different: Vec<Different>,
}

/// A file that says something else than the cluster.
#[derive(Debug)]
pub struct Different {
    /// Where.
    pub path: RepoPath,
    /// What the file says.
    pub file: String,
    /// What it would say of the live object.
    pub live: String,
}

/// Takes the place of a writer: gathers what it would have to write, and gives it away as soon as
/// everything is listed.
#[must_use]
pub fn gatherer() -> (StartWriter, mpsc::Receiver<Wishes>) {
    let (tx, rx) = mpsc::channel(1);
    let start = move |start: WriterStart| gather(start, tx.clone()).boxed();
    (Box::new(start), rx)
}

async fn gather(mut start: WriterStart, told: mpsc::Sender<Wishes>) {
    let mut wishes = Wishes::default();
    while let Some(Told { message, .. }) = start.inbox.recv().await {
        if wishes.take(message) {
            // Only the first is asked for.
            let _ = told.try_send(std::mem::take(&mut wishes));
            break;
        }
    }
    while start.inbox.recv().await.is_some() {}
}

impl Wishes {
    /// Whether that was the last.
    fn take(&mut self, message: ToWriter) -> bool {
        match message {
            ToWriter::Put {
                path,
                wanted,
                content,
                ..
            } => {
                self.contents.insert(wanted.blob, content);
                self.wanted.insert(path, wanted);
            }
            ToWriter::Remove { path, .. } => {
                self.wanted.remove(&path);
            }
            ToWriter::Knowledge(knowledge) => {
                let Knowledge {
                    complete,
                    deletable,
                    needed,
                    gone,
                    unknown,
                    pending,
                    round: _,
                } = *knowledge;
                self.proofs = Proofs {
                    complete,
                    deletable,
                    needed,
                    gone_types: gone,
                    ..Proofs::default()
                };
                let unknown = unknown.iter();
                self.unknown = unknown
                    .map(|(scope, why)| format!("{}: {why}", scope.type_key))
                    .collect();
                return pending.is_empty();
            }
            ToWriter::Together(messages) => {
                let mut is_last = false;
                for message in messages {
                    is_last |= self.take(message);
                }
                return is_last;
            }
            ToWriter::Settings(_) | ToWriter::Forget | ToWriter::Withdraw(..) => {}
        }
        false
    }
}

/// A branch as it stands on its server.
pub struct Branch {
    mirror: Mirror,
}

impl Branch {
    /// Fetches it into a clone of its own below `work_dir`.
    pub fn fetch(
        git: Git,
        url: &RemoteUrl,
        branch: &BranchName,
        credentials: Credentials,
        work_dir: &std::path::Path,
    ) -> Result<Self, Complaint> {
        let name = format!("read\n{url}\n{}", branch.as_str());
        let folder = work_dir.join(BlobId::of(name.as_bytes()).to_string());
        let mut mirror = Mirror::open(
            git,
            url.clone(),
            branch.clone(),
            &folder,
            credentials,
            MirrorOptions::default(),
        )
        .map_err(Complaint::failed)?;
        mirror.fetch().map_err(|error| of_fetch(&error))?;
        Ok(Self { mirror })
    }

    /// Every file below a folder; empty where the branch does not exist.
    pub fn files(&mut self, folder: &str) -> Result<Vec<(String, BlobId)>, Complaint> {
        let unusable =
            |error: &dyn std::fmt::Display| Complaint::new(Exit::FolderUnusable, error.to_string());
        let folder = FolderPath::or_root(folder).map_err(|error| unusable(&error))?;
        let snapshot = self
            .mirror
            .snapshot(&folder)
            .map_err(|error| unusable(&error))?;
        let files = snapshot.iter().filter_map(|entry| {
            let path = std::str::from_utf8(entry.path).ok()?;
            let blob = entry.blob.filter(|_| entry.kind == EntryKind::File)?;
            Some((path.to_owned(), BlobId::from_bytes(*blob.as_bytes())))
        });
        Ok(files.collect())
    }

    /// Compares a folder with what it should hold: what the operator would do to it, told and not done.
    pub fn compare(
        &mut self,
        folder: &BaseFolder,
        wishes: &Wishes,
    ) -> Result<Comparison, Complaint> {
        let files = self.files(folder.as_str())?;
        let skip = match folder.as_str() {
            "" => 0,
            folder => folder.len() + 1,
        };
        let tree = files.iter().filter_map(|(path, blob)| {
            Some(TreeFile {
                path: path.get(skip..)?,
                blob: *blob,
            })
        });
        let policy = PrunePolicy::unlimited();
        let plan = plan(&wishes.wanted, tree, &wishes.proofs, &policy);
        let mut comparison = Comparison {
            extra: plan
                .deletes
                .iter()
                .map(|delete| delete.path().clone())
                .collect(),
            ..Comparison::default()
        };
        let id = |blob: BlobId| reverser_git::BlobId::from_bytes(*blob.as_bytes());
        let replaced: Vec<_> = plan
            .puts
            .iter()
            .filter_map(|put| put.replaces.map(id))
            .collect();
        let blobs = self
            .mirror
            .blobs(&replaced)
            .map_err(|error| of_fetch(&error))?;
        for put in plan.puts {
            let Some(there) = put.replaces else {
                comparison.missing.push(put.path);
                continue;
            };
            let file = blobs
                .found
                .get(&id(there))
                .map(|bytes| String::from_utf8_lossy(bytes));
            let file = file.unwrap_or_default().into_owned();
            let live = wishes
                .contents
                .get(&put.blob)
                .map_or("", |content| &**content);
            if !say_the_same(&file, live) {
                comparison.different.push(Different {
                    path: put.path,
                    file,
                    live: live.to_owned(),
                });
            }
        }
        let changed = comparison.missing.len() + comparison.different.len();
        comparison.same = wishes.wanted.len() - changed;
        Ok(comparison)
    }
}
