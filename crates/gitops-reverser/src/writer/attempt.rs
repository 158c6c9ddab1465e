//! One attempt to bring a branch in line: it blocks, so it runs beside the executor.

use std::collections::{BTreeMap, HashMap};

use reverser_api::conditions::{destination_reason, remote_reason};
use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::{Attribution, message};
use reverser_core::plan::{MassDelete, Plan, Proofs, PrunePolicy, TreeFile, Wanted};
use reverser_core::repo_path::RepoPath;
use reverser_core::yaml_read;
use reverser_git::{
    Change, CommitId, CommitPlan, CommitTime, Credentials, EntryKind, FetchError, FolderPath,
    Mirror, PathRefusal, PushOptions, PushOutcome, RemoteFailure, Stamp, UnreachableCause,
};

use super::WriterSettings;
use super::state::plan_of;
use crate::identity::Id;
use crate::routing::{Refusal, Target};

/// So often the tip may move under an attempt before it waits.
const MOVED_TIPS: usize = 5;

/// What an attempt needs.
pub(super) struct Attempt {
    pub(super) settings: WriterSettings,
    pub(super) target: Target,
    pub(super) mirror: Option<Mirror>,
    pub(super) credentials: Credentials,
    pub(super) jobs: Vec<Job>,
    /// Whether the remote is to be asked for its tip.
    pub(super) look: bool,
}

/// One destination's part of an attempt.
pub(super) struct Job {
    pub(super) id: Id,
    pub(super) folder: BaseFolder,
    pub(super) wanted: BTreeMap<RepoPath, Wanted>,
    pub(super) proofs: Proofs,
    pub(super) policy: PrunePolicy,
    pub(super) contents: HashMap<BlobId, Box<str>>,
    pub(super) equal_in_form: HashMap<RepoPath, (BlobId, BlobId)>,
    pub(super) first_mirror: bool,
    pub(super) subject_prefix: Option<String>,
}

/// What an attempt did.
pub(super) struct Finished {
    pub(super) mirror: Option<Mirror>,
    /// Why nothing could be done at all.
    pub(super) result: Result<(), Refusal>,
    pub(super) done: BTreeMap<Id, Done>,
    /// Contents that were not written, because nothing was.
    pub(super) unwritten: BTreeMap<Id, HashMap<BlobId, Box<str>>>,
}

/// What an attempt did for one destination.
pub(super) struct Done {
    pub(super) contents: HashMap<BlobId, Box<str>>,
    pub(super) equal_in_form: HashMap<RepoPath, (BlobId, BlobId)>,
    /// The commit and when it was pushed, if there was one.
    pub(super) outcome: Result<Option<(CommitId, i64)>, Refusal>,
    pub(super) plan: PlanSummary,
    pub(super) content_missing: bool,
}

/// What is left of a plan when it is done.
#[derive(Default)]
pub(super) struct PlanSummary {
    pub(super) deletes: Vec<RepoPath>,
    pub(super) stopped: Option<MassDelete>,
    pub(super) capped: usize,
    pub(super) waiting: usize,
}

impl Attempt {
    pub(super) fn run(mut self) -> Finished {
        let mirror = match self.mirror.take() {
            Some(mut mirror) => {
                mirror.set_credentials(self.credentials.clone());
                Ok(mirror)
            }
            None => self.settings.open(&self.target, self.credentials.clone()),
        };
        let mut mirror = match mirror {
            Ok(mirror) => mirror,
            Err(error) => return self.failed(None, local(&error)),
        };
        match self.bring_in_line(&mut mirror) {
            Ok(done) => Finished {
                mirror: Some(mirror),
                result: Ok(()),
                done,
                unwritten: BTreeMap::new(),
            },
            Err(refusal) => self.failed(Some(mirror), refusal),
        }
    }

    fn failed(self, mirror: Option<Mirror>, refusal: Refusal) -> Finished {
        let unwritten = self
            .jobs
            .into_iter()
            .map(|job| (job.id, job.contents))
            .collect();
        Finished {
            mirror,
            result: Err(refusal),
            done: BTreeMap::new(),
            unwritten,
        }
    }

    fn bring_in_line(&mut self, mirror: &mut Mirror) -> Result<BTreeMap<Id, Done>, Refusal> {
        let mut fetch = self.look || mirror.tip().is_none();
        for _ in 0..MOVED_TIPS {
            if fetch {
                mirror.fetch().map_err(|error| fetch_refusal(&error))?;
            }
            match self.try_once(mirror)? {
                Some(done) => return Ok(done),
                None => fetch = true,
            }
        }
        Err(Refusal {
            reason: remote_reason::UNREACHABLE,
            message: format!("the branch moved {MOVED_TIPS} times while it was being written"),
        })
    }

    /// Nothing if the tip has moved meanwhile.
    fn try_once(&mut self, mirror: &mut Mirror) -> Result<Option<BTreeMap<Id, Done>>, Refusal> {
        let mut plans = Vec::new();
        for job in &mut self.jobs {
            let mut plan = plan_on_tip(mirror, job)?;
            if keep_equal_forms(mirror, job, &plan)? {
                plan = plan_on_tip(mirror, job)?;
            }
            plans.push(plan);
        }
        for job in &self.jobs {
            stage(mirror, job)?;
        }
        let time = jiff::Timestamp::now().as_second();
        let commits: Vec<CommitPlan> = self
            .jobs
            .iter()
            .zip(&plans)
            .filter(|(_, plan)| !plan.is_empty())
            .map(|(job, plan)| commit_plan(&self.settings, job, plan, time))
            .collect::<Result<_, _>>()?;
        let committed = mirror
            .commit(&commits, None)
            .map_err(|error| local(&error))?;
        let missing: Vec<_> = committed
            .refused
            .iter()
            .filter(|refused| matches!(refused.why, PathRefusal::ContentMissing { .. }))
            .map(|refused| refused.path.as_str().to_owned())
            .collect();
        let outcome = match &committed.prepared {
            None => Ok(None),
            Some(prepared) => {
                match mirror
                    .push(prepared, &PushOptions::default())
                    .map_err(|error| local(&error))?
                {
                    PushOutcome::Pushed { tip } => Ok(Some((tip, time))),
                    PushOutcome::Stale { .. } => return Ok(None),
                    other => Err(push_refusal(other)),
                }
            }
        };
        Ok(Some(self.summarise(plans, &outcome, &missing)))
    }

    fn summarise(
        &mut self,
        plans: Vec<Plan>,
        outcome: &Result<Option<(CommitId, i64)>, Refusal>,
        missing: &[String],
    ) -> BTreeMap<Id, Done> {
        let jobs = std::mem::take(&mut self.jobs);
        let done = jobs.into_iter().zip(plans).map(|(job, plan)| {
            let empty = plan.is_empty();
            let outcome = match outcome {
                Ok(pushed) => Ok(pushed.filter(|_| !empty)),
                Err(_) if empty => Ok(None),
                Err(refusal) => Err(refusal.clone()),
            };
            let content_missing = plan
                .puts
                .iter()
                .any(|put| missing.contains(&job.folder.join(&put.path)));
            let summary = PlanSummary {
                deletes: plan
                    .deletes
                    .iter()
                    .map(|delete| delete.path().clone())
                    .collect(),
                stopped: plan.stopped,
                capped: plan.capped,
                waiting: plan.puts.len() + plan.deletes.len(),
            };
            let done = Done {
                contents: job.contents,
                equal_in_form: job.equal_in_form,
                outcome,
                plan: summary,
                content_missing,
            };
            (job.id, done)
        });
        done.collect()
    }
}

fn folder_path(folder: &BaseFolder) -> Result<FolderPath, Refusal> {
    FolderPath::parse(folder.as_str()).map_err(|error| local(&error))
}

/// The difference between what a destination wants and what the tip holds.
fn plan_on_tip(mirror: &mut Mirror, job: &Job) -> Result<Plan, Refusal> {
    let snapshot = mirror
        .snapshot(&folder_path(&job.folder)?)
        .map_err(|error| local(&error))?;
    let skip = job.folder.as_str().len() + 1;
    let files = snapshot.iter().filter_map(|entry| {
        let path = std::str::from_utf8(entry.path).ok()?.get(skip..)?;
        let blob = entry.blob.filter(|_| entry.kind == EntryKind::File)?;
        Some(TreeFile {
            path,
            blob: BlobId::from_bytes(*blob.as_bytes()),
        })
    });
    Ok(plan_of(job, files))
}

/// Looks into files that are to be replaced: one that says the same in another form stays. Tells
/// whether there was one.
fn keep_equal_forms(mirror: &mut Mirror, job: &mut Job, plan: &Plan) -> Result<bool, Refusal> {
    let doubtful: Vec<(&RepoPath, BlobId, BlobId)> = plan
        .puts
        .iter()
        .filter_map(|put| Some((&put.path, put.replaces?, put.blob)))
        .collect();
    if doubtful.is_empty() {
        return Ok(false);
    }
    // What was pushed before is not kept, but the clone may still have it.
    let ids: Vec<reverser_git::BlobId> = doubtful
        .iter()
        .flat_map(|(_, there, wanted)| [*there, *wanted])
        .filter(|blob| !job.contents.contains_key(blob))
        .map(git_id)
        .collect();
    let blobs = mirror.blobs(&ids).map_err(|error| fetch_refusal(&error))?;
    let content = |blob: BlobId| match job.contents.get(&blob) {
        Some(content) => Some(&**content),
        None => std::str::from_utf8(blobs.found.get(&git_id(blob))?).ok(),
    };
    let says_the_same = |(_, there, wanted): &&(&RepoPath, BlobId, BlobId)| {
        let read = |blob| yaml_read::read(content(blob)?).ok();
        read(*there).is_some_and(|file| read(*wanted) == Some(file))
    };
    let equal: Vec<_> = doubtful
        .iter()
        .filter(says_the_same)
        .map(|(path, there, wanted)| ((*path).clone(), (*there, *wanted)))
        .collect();
    let any = !equal.is_empty();
    job.equal_in_form.extend(equal);
    Ok(any)
}

fn git_id(blob: BlobId) -> reverser_git::BlobId {
    reverser_git::BlobId::from_bytes(*blob.as_bytes())
}

fn stage(mirror: &Mirror, job: &Job) -> Result<(), Refusal> {
    let mut batch = mirror.staged().batch();
    for content in job.contents.values() {
        batch
            .write(content.as_bytes())
            .map_err(|error| local(&error))?;
    }
    batch.finish().map_err(|error| local(&error))
}

fn commit_plan(
    settings: &WriterSettings,
    job: &Job,
    plan: &Plan,
    time: i64,
) -> Result<CommitPlan, Refusal> {
    let path = |path: &RepoPath| {
        reverser_git::RepoPath::parse(&job.folder.join(path)).map_err(|error| local(&error))
    };
    let mut changes = Vec::with_capacity(plan.puts.len() + plan.deletes.len());
    for put in &plan.puts {
        changes.push(Change::Put {
            path: path(&put.path)?,
            blob: git_id(put.blob),
        });
    }
    for delete in &plan.deletes {
        changes.push(Change::Delete {
            path: path(delete.path())?,
        });
    }
    let stamp = Stamp {
        person: settings.committer.clone(),
        time: CommitTime::utc(u64::try_from(time).unwrap_or_default()),
    };
    let attribution = if job.first_mirror {
        Attribution::Reconcile
    } else {
        Attribution::Unknown
    };
    Ok(CommitPlan {
        folder: folder_path(&job.folder)?,
        author: stamp.clone(),
        committer: stamp,
        message: message(
            job.subject_prefix.as_deref(),
            &plan.puts,
            &plan.deletes,
            job.first_mirror,
            attribution,
            &settings.installation,
        ),
        changes,
    })
}

/// Something is wrong on this machine: the disk, the clone, the program.
fn local(error: &dyn std::error::Error) -> Refusal {
    Refusal {
        reason: reverser_api::conditions::reason::PROGRESSING,
        message: error.to_string(),
    }
}

fn fetch_refusal(error: &FetchError) -> Refusal {
    match error {
        FetchError::Remote(RemoteFailure::Unauthorised { reason }) => unauthorised(reason),
        FetchError::Remote(RemoteFailure::Unreachable { cause, reason }) => {
            unreachable(*cause, reason)
        }
        error => local(error),
    }
}

fn unauthorised(reason: &str) -> Refusal {
    Refusal {
        reason: remote_reason::CREDENTIALS_REFUSED,
        message: reason.to_owned(),
    }
}

fn unreachable(cause: UnreachableCause, message: &str) -> Refusal {
    let reason = match cause {
        UnreachableCause::Tls | UnreachableCause::HostKey => remote_reason::HOST_NOT_TRUSTED,
        _ => remote_reason::UNREACHABLE,
    };
    Refusal {
        reason,
        message: message.to_owned(),
    }
}

fn push_refusal(outcome: PushOutcome) -> Refusal {
    match outcome {
        PushOutcome::Refused(refusal) => Refusal {
            reason: destination_reason::PUSH_REFUSED,
            message: refusal.reason,
        },
        PushOutcome::Unreachable { cause, reason } => unreachable(cause, &reason),
        PushOutcome::Unauthorised { reason } => unauthorised(&reason),
        PushOutcome::Unknown { reason } => Refusal {
            reason: remote_reason::UNREACHABLE,
            message: reason,
        },
        PushOutcome::Pushed { .. } | PushOutcome::Stale { .. } => Refusal {
            reason: remote_reason::UNREACHABLE,
            message: "the branch moved".to_owned(),
        },
    }
}
