//! Whose the folder of a destination is, as its marker says.

use reverser_api::conditions::destination_reason;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use reverser_core::owner_marker::{ForeignOwner, OWNER_MARKER, OwnerMarker, Ownership};
use reverser_core::plan::Plan;
use reverser_git::{Change, CommitPlan, EntryKind, FolderPath, RepoPath};

use super::attempt::{Attempt, Job, Part, git_id};
use super::refusals::{self, local};
use crate::routing::{Destination, MarkedFolder, Refusal};
use crate::telemetry::facts::MarkerConflict;
use crate::telemetry::labels::DestinationLabels;

/// What a job knows about the owner of its folder.
pub(super) struct Owner {
    folder: MarkedFolder,
    /// Another owner that somebody was told of.
    told: Option<String>,
    ownership: Ownership,
    /// The marker that the next commit writes.
    mark: Option<BlobId>,
}

impl Owner {
    pub(super) fn new(destination: &Destination, told: Option<String>) -> Self {
        Self {
            folder: destination.marked.clone(),
            told,
            ownership: Ownership::Unmarked,
            mark: None,
        }
    }

    /// The marker that the next commit writes.
    pub(super) fn mark(&self) -> Option<BlobId> {
        self.mark
    }
}

impl Attempt {
    /// Looks at the marker of a folder, and tells whether it may be written.
    pub(super) fn is_ours_to_write(&mut self, at: usize) -> Result<bool, Refusal> {
        if !self.settings.marks_folders {
            self.jobs[at].owner.ownership = Ownership::Ours;
            return Ok(true);
        }
        let ownership = self.ownership(at)?;
        let job = &mut self.jobs[at];
        job.owner.ownership = ownership.clone();
        let Ownership::Foreign(ForeignOwner {
            id,
            owner,
            other_cluster,
        }) = ownership
        else {
            return Ok(true);
        };
        job.policy.other_cluster = other_cluster.then(|| id.clone());
        if job.owner.folder.take_over.as_ref() == Some(&id) {
            return Ok(true);
        }
        let sentence = format!(
            "the folder is marked as that of {owner}: if that one does not write it any more, set the \
             annotation configbutler.ai/take-over: {id}"
        );
        if job.owner.told.as_ref() != Some(&sentence) {
            let destination = DestinationLabels::new(&job.id.namespace, &job.id.name);
            self.common.telemetry.emit(MarkerConflict {
                destination: &destination,
                reason: &sentence,
                refused: job.owner.folder.exclusive,
            });
        }
        let exclusive = job.owner.folder.exclusive;
        if exclusive {
            job.done.failure = Some(Refusal {
                reason: destination_reason::OWNERSHIP_CONFLICT,
                message: format!("spec.exclusiveMode is true, and {sentence}"),
            });
        }
        job.done.foreign_owner = Some(sentence);
        Ok(!exclusive)
    }

    /// What the marker at the tip says.
    fn ownership(&mut self, at: usize) -> Result<Ownership, Refusal> {
        let installation = &self.settings.installation;
        let path = self.jobs[at].marker_path();
        let unreadable = || Ownership::of(b"", installation);
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = FolderPath::parse(folder).map_err(|error| local(&error))?;
        let snapshot = match self.mirror.snapshot(&folder) {
            Ok(snapshot) => snapshot,
            // Something else stands in its place.
            Err(error) if refusals::of_one_folder(&error).is_some() => return Ok(unreadable()),
            Err(error) => return Err(local(&error)),
        };
        let mut entries = snapshot.iter();
        let Some(entry) = entries.find(|entry| entry.path == path.as_bytes()) else {
            return Ok(Ownership::Unmarked);
        };
        let Some(blob) = entry.blob.filter(|_| entry.kind == EntryKind::File) else {
            return Ok(unreadable());
        };
        let blobs = self.mirror.blobs(&[blob]);
        let mut blobs = blobs.map_err(|error| refusals::fetch(&error))?;
        match blobs.found.remove(&blob) {
            Some(file) => Ok(Ownership::of(&file, installation)),
            None => Err(Refusal {
                reason: reverser_api::conditions::reason::PROGRESSING,
                message: format!("{path} could not be read from the remote"),
            }),
        }
    }

    /// Puts markers into the first commit of each destination that needs one; tells of which.
    pub(super) fn add_marks(
        &mut self,
        plans: &mut [CommitPlan],
        parts: &[Part],
    ) -> Result<Vec<usize>, Refusal> {
        let mut marked = Vec::new();
        for (plan, part) in plans.iter_mut().zip(parts) {
            let job = &self.jobs[part.job];
            if let Some(mark) = job.owner.mark
                && !marked.contains(&part.job)
            {
                let path = RepoPath::parse(&job.marker_path()).map_err(|error| local(&error))?;
                let blob = git_id(mark);
                plan.changes.push(Change::Put { path, blob });
                marked.push(part.job);
            }
        }
        Ok(marked)
    }

    /// The remote has these.
    pub(super) fn forget_marks(&mut self, marked: &[usize]) {
        for job in marked {
            self.jobs[*job].owner.mark = None;
        }
    }
}

impl Job {
    fn marker_path(&self) -> String {
        match self.folder.as_str() {
            "" => OWNER_MARKER.to_owned(),
            folder => format!("{folder}/{OWNER_MARKER}"),
        }
    }

    /// Prepares the marker, if the next commit has to write it: the first one, and the first one
    /// after a person has released what another has marked.
    pub(super) fn mark(&mut self, installation: &Installation, plan: &Plan) {
        let writes = match &self.owner.ownership {
            Ownership::Unmarked => true,
            Ownership::Ours => false,
            Ownership::Foreign(owner) => {
                let taken_over = self.owner.folder.take_over.as_ref() == Some(&owner.id);
                let released = owner.other_cluster && plan.released && !self.owner.folder.exclusive;
                plan.stopped.is_none() && (taken_over || released)
            }
        };
        if !writes || plan.is_empty() {
            return;
        }
        let marker = OwnerMarker {
            owner: installation.clone(),
            created: jiff::Timestamp::now()
                .strftime("%Y-%m-%dT%H:%M:%SZ")
                .to_string(),
        };
        let file = marker.to_yaml();
        let blob = BlobId::of(file.as_bytes());
        self.contents.insert(blob, file.into());
        self.owner.mark = Some(blob);
    }
}
