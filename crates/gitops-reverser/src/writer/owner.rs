//! Whose the folder of a destination is, as its marker says.

use reverser_api::conditions::destination_reason;
use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use reverser_core::owner_marker::{ForeignOwner, OWNER_MARKER, OwnerMarker, Ownership};
use reverser_core::plan::Plan;
use reverser_git::{Change, CommitPlan, EntryKind, FolderPath, RepoPath};
use tokio::runtime::Handle;

use super::attempt::{Attempt, Job, Part};
use super::places::git_id;
use super::refusals::{self, local};
use crate::leases::presence::Presence;
use crate::routing::{Destination, MarkedFolder, Refusal};
use crate::telemetry::facts::MarkerConflict;
use crate::telemetry::labels::DestinationLabels;

/// What a job knows about the owner of its folder.
pub(super) struct Owner {
    folder: MarkedFolder,
    /// Another owner that somebody was told of.
    told: Option<String>,
    ownership: Ownership,
    /// Another has marked it, and does not keep it: a person says so, or it is not there any more.
    taken_over: bool,
    /// The marker that the next commit writes.
    mark: Option<BlobId>,
}

impl Owner {
    pub(super) fn new(destination: &Destination, told: Option<String>) -> Self {
        Self {
            folder: destination.marked.clone(),
            told,
            ownership: Ownership::Unmarked,
            taken_over: false,
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
        self.jobs[at].owner.ownership = ownership.clone();
        let Ownership::Foreign(other) = ownership else {
            return Ok(true);
        };
        let presence = self.presence_of(&other);
        let ForeignOwner {
            id,
            owner,
            other_cluster,
            ..
        } = other;
        let job = &mut self.jobs[at];
        job.policy.other_cluster = other_cluster.then(|| id.clone());
        job.owner.taken_over =
            presence == Presence::Gone || job.owner.folder.take_over.as_ref() == Some(&id);
        if job.owner.taken_over {
            return Ok(true);
        }
        let silence = describe(presence);
        let sentence = format!(
            "the folder is marked as that of {owner}{silence}: if that one does not write it any \
             more, set the annotation configbutler.ai/take-over: {id}"
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

    /// Whether the owner of a folder is there. Of another cluster nobody can tell.
    fn presence_of(&self, other: &ForeignOwner) -> Presence {
        let leases = self.common.leases.as_ref();
        let owner = other.installation.as_ref();
        match leases.zip(owner.filter(|_| !other.other_cluster)) {
            // An attempt blocks anyway, on a thread that is made for that.
            Some((leases, owner)) => Handle::current().block_on(leases.neighbours.look(owner)),
            None => Presence::Maybe,
        }
    }

    /// Fetches the markers of all folders at once.
    pub(super) fn fetch_markers(&mut self) -> Result<(), Refusal> {
        if !self.settings.marks_folders {
            return Ok(());
        }
        let mut blobs = Vec::new();
        for folder in std::mem::take(&mut self.folders) {
            if let Marker::File(blob) = self.marker(&marker_path(&folder))? {
                blobs.push(blob);
            }
        }
        let fetched = self.mirror.blobs(&blobs);
        let _blobs = fetched.map_err(|error| refusals::fetch(&error))?;
        Ok(())
    }

    /// What the marker at the tip says.
    fn ownership(&mut self, at: usize) -> Result<Ownership, Refusal> {
        let path = marker_path(&self.jobs[at].folder);
        let installation = self.settings.installation.clone();
        let blob = match self.marker(&path)? {
            Marker::None => return Ok(Ownership::Unmarked),
            Marker::Other => return Ok(Ownership::of(b"", &installation)),
            Marker::File(blob) => blob,
        };
        let blobs = self.mirror.blobs(&[blob]);
        let mut blobs = blobs.map_err(|error| refusals::fetch(&error))?;
        match blobs.found.remove(&blob) {
            Some(file) => Ok(Ownership::of(&file, &installation)),
            None => Err(Refusal {
                reason: reverser_api::conditions::reason::PROGRESSING,
                message: format!("{path} could not be read from the remote"),
            }),
        }
    }

    /// What stands at the tip where a marker would be.
    fn marker(&mut self, path: &str) -> Result<Marker, Refusal> {
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let folder = FolderPath::parse(folder).map_err(|error| local(&error))?;
        let path = RepoPath::parse(path).map_err(|error| local(&error))?;
        let snapshot = match self.mirror.snapshot(&folder) {
            Ok(snapshot) => snapshot,
            // Something else stands in its place.
            Err(error) if refusals::of_one_folder(&error).is_some() => return Ok(Marker::Other),
            Err(error) => return Err(local(&error)),
        };
        let Some(entry) = snapshot.get(&path) else {
            return Ok(Marker::None);
        };
        let blob = entry.blob.filter(|_| entry.kind == EntryKind::File);
        Ok(blob.map_or(Marker::Other, Marker::File))
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
                let path =
                    RepoPath::parse(&marker_path(&job.folder)).map_err(|error| local(&error))?;
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

/// What stands where a marker would be.
enum Marker {
    None,
    File(reverser_git::BlobId),
    /// No file.
    Other,
}

fn marker_path(folder: &BaseFolder) -> String {
    match folder.as_str() {
        "" => OWNER_MARKER.to_owned(),
        folder => format!("{folder}/{OWNER_MARKER}"),
    }
}

impl Job {
    /// Prepares the marker, if the next commit has to write it: the first one, and the first one
    /// after what another has marked was taken over or released.
    pub(super) fn mark(&mut self, installation: &Installation, plan: &Plan) {
        let writes = match &self.owner.ownership {
            Ownership::Unmarked => true,
            Ownership::Ours => false,
            Ownership::Foreign(owner) => {
                let released = owner.other_cluster && plan.released && !self.owner.folder.exclusive;
                plan.stopped.is_none() && (self.owner.taken_over || released)
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

/// What is seen of another, as a part of a sentence. The same as long as it is silent.
fn describe(presence: Presence) -> String {
    match presence {
        Presence::Silent(since, Some(until)) => {
            format!(", which was last seen at {since:.0} and is waited for until {until:.0}")
        }
        Presence::Silent(since, None) => format!(", which was last seen at {since:.0}"),
        Presence::Maybe | Presence::Gone => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn a_person_is_told_since_when_an_owner_is_silent_and_how_long_that_goes_on() {
        let (since, until) = (
            Timestamp::UNIX_EPOCH,
            Timestamp::from_second(604_800).unwrap(),
        );
        assert_eq!(
            describe(Presence::Silent(since, Some(until))),
            ", which was last seen at 1970-01-01T00:00:00Z and is waited for until 1970-01-08T00:00:00Z"
        );
        assert!(describe(Presence::Silent(since, None)).ends_with("at 1970-01-01T00:00:00Z"));
        assert_eq!(describe(Presence::Maybe), "");
    }
}
