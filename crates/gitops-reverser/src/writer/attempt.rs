//! One attempt to bring a branch in line: it blocks, so it runs beside the executor.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use reverser_core::attribution::Verdict;
use reverser_core::author::AuthorMap;
use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::message;
use reverser_core::object_key::TypeKey;
use reverser_core::plan::{MassDelete, Proofs, PrunePolicy, Put, Wanted};
use reverser_core::repo_path::RepoPath;
use reverser_core::transition_log::{Change as LoggedChange, Credit, Share, lay};
use reverser_git::{
    Change, CommitId, CommitPlan, CommitTime, Mirror, PathRefusal, Person, PushOptions,
    PushOutcome, RefusalKind, RefusedChange, Stamp,
};

use super::authors::RefusedAuthors;
use super::common::{Common, Permits};
use super::comparison::plan_job;
use super::contents::Contents;
use super::doubt::Doubt;
use super::owner::Owner;
use super::places::{folder_path, git_id, git_path};
use super::refusals::{self, local};
use super::search::{Found, Search};
use super::state::SetAside;
use super::{Access, HeldBack, WriterSettings};
use crate::identity::Id;
use crate::leases::branch::Gate;
use crate::routing::{CommitSettings, Refusal};
use crate::telemetry::facts::{BatchPushed, ChangesAttributed, CommitPushed};
use crate::telemetry::labels::{BranchLabels, DestinationLabels, TypeLabels};
use crate::telemetry::spans;

/// What an attempt needs.
pub(super) struct Attempt {
    pub(super) settings: WriterSettings,
    pub(super) common: Arc<Common>,
    pub(super) branch: BranchLabels,
    pub(super) mirror: Mirror,
    pub(super) access: Access,
    pub(super) push_options: PushOptions,
    pub(super) jobs: Vec<Job>,
    /// The folders of its jobs; without any, those of all destinations of the branch, which will follow.
    pub(super) folders: Vec<BaseFolder>,
    /// Whether the remote is to be asked for its tip.
    pub(super) look: bool,
    /// Whether the server has taken anything from this writer.
    pub(super) has_pushed: bool,
    pub(super) pushes: usize,
    /// What came of using the remote; nothing as long as it was not used.
    pub(super) remote: Option<Result<(), Refusal>>,
    /// What is asked before anything is written; nothing where nobody else writes.
    pub(super) gate: Option<Gate>,
    pub(super) permits: Permits,
    /// Whether pushes are left to a later attempt while the repository may not be pushed to.
    pub(super) paced: bool,
}

/// One destination's part of an attempt, and what became of it.
pub(super) struct Job {
    pub(super) id: Id,
    pub(super) folder: BaseFolder,
    pub(super) wanted: Arc<BTreeMap<RepoPath, Wanted>>,
    pub(super) proofs: Proofs,
    /// Where the folder is compared; of other places nothing is said here.
    pub(super) doubt: Doubt,
    pub(super) policy: PrunePolicy,
    pub(super) contents: Contents,
    pub(super) equal_in_form: Arc<HashMap<RepoPath, (BlobId, BlobId)>>,
    pub(super) set_aside: Arc<BTreeMap<RepoPath, SetAside>>,
    pub(super) first_mirror: bool,
    /// The round of lists that brought what is wanted.
    pub(super) round: u64,
    pub(super) commit: CommitSettings,
    /// The changes since the last push, and whose they are.
    pub(super) log: Vec<LoggedChange>,
    /// Users whom the server does not take as authors.
    pub(super) refused_authors: Arc<RefusedAuthors>,
    pub(super) committer: Person,
    /// Whether a refused push is worth narrowing down.
    pub(super) narrow: bool,
    /// Under which settings of the destination it began.
    pub(super) settings: u64,
    /// How far earlier attempts have come with that.
    pub(super) found: Found,
    /// When watch events brought what is written.
    pub(super) events: Vec<Instant>,
    pub(super) owner: Owner,
    pub(super) done: Done,
}

/// What an attempt did for one destination.
#[derive(Default)]
pub(super) struct Done {
    pub(super) failure: Option<Refusal>,
    /// The last commit and when it was pushed, if there was one.
    pub(super) pushed: Option<(CommitId, i64)>,
    pub(super) deletes: Vec<RepoPath>,
    pub(super) stopped: Option<MassDelete>,
    pub(super) gone: Gone,
    /// Deletions that wait for more lists.
    pub(super) awaiting_lists: usize,
    /// Another installation that has marked the folder.
    pub(super) foreign_owner: Option<String>,
    pub(super) capped: usize,
    /// Deletions that do not pass, where the whole folder was compared.
    pub(super) held_back: Option<HeldBack>,
    /// Files of types that no rule selects, where the whole folder was compared.
    pub(super) unselected: Option<BTreeMap<TypeKey, usize>>,
    /// How many files differed, or still do.
    pub(super) planned: usize,
    /// Files that were left out because their content is nowhere.
    pub(super) content_missing: usize,
    /// What of the changes that were set aside before is still to be made, where the whole folder was
    /// compared.
    pub(super) still_refused: Option<BTreeSet<RepoPath>>,
    /// Objects that are refused, by the server or by what stands in their place.
    pub(super) set_aside: Vec<(RepoPath, SetAside)>,
    /// The server refuses everything: nothing says that it is about single objects.
    pub(super) refused_whole: bool,
    /// The rest is written as soon as the repository may be pushed to again.
    pub(super) paused: bool,
    /// Whether the server has taken any of it, or nobody can tell.
    pub(super) may_have_written: bool,
}

/// Files that went because their objects were not seen any more.
#[derive(Default)]
pub(super) struct Gone {
    pub(super) files: Vec<RepoPath>,
    /// A person has let them go.
    pub(super) released: bool,
}

/// How an attempt ended.
pub(super) enum End {
    /// Each job says what became of it.
    Done,
    /// Somebody else moved the branch.
    Moved,
    /// There is something to write, and it is another's turn.
    NotOurTurn,
    /// Nothing more could be done.
    Failed(Refusal),
}

/// What an attempt did.
pub(super) struct Finished {
    pub(super) mirror: Option<Mirror>,
    pub(super) end: End,
    pub(super) jobs: Vec<Job>,
    pub(super) pushes: usize,
    pub(super) remote: Option<Result<(), Refusal>>,
    /// Given back when all of this was taken note of.
    pub(super) permits: Option<Permits>,
}

/// Some of the changes of one job: what one commit holds.
#[derive(Clone)]
pub(super) struct Part {
    pub(super) job: usize,
    pub(super) share: Share,
}

/// What became of a push.
pub(super) enum Tried {
    Written,
    Moved,
    NotOurTurn,
    /// The repository may not be pushed to now.
    Later,
    Refused(reverser_git::Refusal),
}

impl Job {
    fn take_found(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }
}

impl Attempt {
    pub(super) fn run(mut self) -> Finished {
        let _span = spans::batch(&self.branch).entered();
        self.mirror.set_credentials(self.access.credentials.clone());
        let end = match self.bring_in_line() {
            Ok(Tried::Moved) => End::Moved,
            Ok(Tried::NotOurTurn) => End::NotOurTurn,
            Ok(_) => End::Done,
            Err(refusal) => {
                if refusals::is_of_remote(&refusal) {
                    self.remote = Some(Err(refusal.clone()));
                }
                End::Failed(refusal)
            }
        };
        Finished {
            mirror: Some(self.mirror),
            end,
            jobs: self.jobs,
            pushes: self.pushes,
            remote: self.remote,
            permits: Some(self.permits),
        }
    }

    fn bring_in_line(&mut self) -> Result<Tried, Refusal> {
        let known = self.mirror.tip();
        if self.look || known.is_none() {
            let _span = spans::fetch().entered();
            let fetched = self.mirror.fetch();
            let fetched = fetched.map_err(|error| refusals::fetch(&error));
            self.remote = Some(fetched.clone().map(|_| ()));
            let tip = fetched?;
            // A job that compares a part relies on the rest being as it was left.
            if known != Some(tip) && self.jobs.iter().any(|job| !job.doubt.is_whole()) {
                return Ok(Tried::Moved);
            }
            let markers = self.fetch_markers();
            // Where nothing is to be written yet, what fails fails again when it matters.
            if !self.jobs.is_empty() {
                markers?;
            }
        }
        let mut parts = Vec::new();
        for at in 0..self.jobs.len() {
            if !self.is_ours_to_write(at)? {
                continue;
            }
            let job = &mut self.jobs[at];
            let _span = spans::plan(&job.id).entered();
            let Some(plan) = plan_job(&mut self.mirror, job)? else {
                continue;
            };
            job.mark(&self.settings.installation, &plan);
            job.done.stopped.clone_from(&plan.stopped);
            job.done.gone.released = plan.released;
            job.done.capped = plan.capped;
            job.done.awaiting_lists = plan.awaiting_lists;
            if job.doubt.is_whole() {
                job.done.unselected = Some(plan.unselected.clone());
                job.done.held_back = Some(HeldBack {
                    by_mode: plan.held_by_mode,
                    by_cap: plan.capped,
                });
                job.policy.shown.clone_from(&plan.shown);
            }
            job.done.planned = plan.puts.len() + plan.deletes.len();
            let deletes = plan.deletes.iter();
            job.done.deletes = deletes.map(|delete| delete.path().clone()).collect();
            let shares = lay(&job.log, &plan, &job.ground());
            // Of everything else the branch has the content already.
            let named = shares.iter().flat_map(|share| &share.puts);
            let named = named.map(|put| put.blob).chain(job.owner.mark());
            job.contents
                .stage_only(&named.collect(), self.mirror.staged())
                .map_err(|error| local(&error))?;
            parts.extend(shares.into_iter().map(|share| Part { job: at, share }));
        }
        self.count_named();
        let mut found: Vec<Found> = self.jobs.iter_mut().map(Job::take_found).collect();
        if let Some((refusal, pushes)) = found.iter_mut().find_map(|found| found.authors.take()) {
            return self.push_without_authors(&parts, &refusal, pushes);
        }
        if let Some(search) = Search::go_on(found, &parts) {
            return self.search(search);
        }
        match self.push(&parts)? {
            Tried::Refused(refusal) if refusal.kind == RefusalKind::Author => {
                if let [only] = &parts[..] {
                    self.refuse_author(only, &refusal.reason);
                }
                self.push_without_authors(&parts, &refusal, 0)
            }
            Tried::Refused(refusal) => self.narrow(parts, &refusal),
            Tried::Later => {
                self.pause(&parts, None);
                Ok(Tried::Later)
            }
            tried => Ok(tried),
        }
    }

    /// These wait until the repository may be pushed to again.
    pub(super) fn pause(&mut self, parts: &[Part], refusal: Option<&Refusal>) {
        for part in parts {
            let done = &mut self.jobs[part.job].done;
            done.paused = true;
            if done.failure.is_none() {
                done.failure = refusal.cloned();
            }
        }
    }

    /// Counts for how many changes a user was found. One that goes to several places counts once.
    fn count_named(&self) {
        let (mut named, mut unknown) = (0, 0);
        for change in self.jobs.iter().flat_map(|job| &job.log) {
            if change.origin.counts() {
                match change.origin.verdict(change.old).0 {
                    Verdict::Named(..) => named += 1,
                    Verdict::Ambiguous | Verdict::Unseen => unknown += 1,
                }
            }
        }
        if named + unknown > 0 {
            let telemetry = &self.common.telemetry;
            telemetry.emit(ChangesAttributed { named, unknown });
        }
    }

    /// Commits and pushes these changes, if it is our turn. What was fetched is from before this
    /// question: one who wakes up late has either an old tip, which the server refuses, or no turn.
    pub(super) fn push(&mut self, parts: &[Part]) -> Result<Tried, Refusal> {
        if parts.is_empty() {
            return Ok(Tried::Written);
        }
        if self.paced && self.permits.is_too_early() {
            return Ok(Tried::Later);
        }
        let turn = self.gate.as_ref().map(Gate::pass);
        if matches!(turn, Some(None)) {
            return Ok(Tried::NotOurTurn);
        }
        let time = jiff::Timestamp::now().as_second();
        let authors = self.common.authors();
        let mut plans: Vec<CommitPlan> = parts
            .iter()
            .map(|part| {
                let job = &self.jobs[part.job];
                commit_plan(&self.settings, job, &part.share, &authors, time)
            })
            .collect::<Result<_, _>>()?;
        let marked = self.add_marks(&mut plans, parts)?;
        let committed = self
            .mirror
            .commit(&plans, self.access.signer.as_deref())
            .map_err(|error| local(&error))?;
        for RefusedChange { commit, path, why } in &committed.refused {
            let job = &mut self.jobs[parts[*commit].job];
            note_left_out(job, &parts[*commit].share, path, why);
        }
        let Some(prepared) = &committed.prepared else {
            return Ok(Tried::Written);
        };
        self.pushes += 1;
        self.permits.spend();
        let start = Instant::now();
        let _span = spans::push(plans.len()).entered();
        let outcome = self.mirror.push(prepared, &self.push_options);
        if !outcome.as_ref().is_ok_and(leaves_all_as_it_was) {
            for part in parts {
                self.jobs[part.job].done.may_have_written = true;
            }
        }
        match outcome.map_err(|error| local(&error))? {
            PushOutcome::Pushed { .. } => {
                self.remote = Some(Ok(()));
                self.has_pushed = true;
                self.note_pushed(parts, &committed.commits, time, start.elapsed());
                self.forget_marks(&marked);
                Ok(Tried::Written)
            }
            PushOutcome::Stale { .. } => Ok(Tried::Moved),
            PushOutcome::Refused(refusal) => Ok(Tried::Refused(refusal)),
            other => Err(refusals::push(other)),
        }
    }

    fn note_pushed(
        &mut self,
        parts: &[Part],
        commits: &[Option<CommitId>],
        time: i64,
        took: Duration,
    ) {
        let mut since_events = Vec::new();
        let mut count = 0;
        for (part, commit) in parts.iter().zip(commits) {
            let Some(commit) = commit else { continue };
            count += 1;
            let job = &mut self.jobs[part.job];
            job.done.pushed = Some((*commit, time));
            since_events.extend(job.events.drain(..).map(|event| event.elapsed()));
            let Share { puts, deletes, .. } = &part.share;
            let inferred = deletes.iter().filter(|delete| delete.proof().is_inferred());
            let inferred = inferred.map(|delete| delete.path().clone());
            job.done.gone.files.extend(inferred);
            let sizes = puts.iter().map(|put| job.contents.size_of(put.blob));
            self.common.telemetry.emit(CommitPushed {
                branch: &self.branch,
                destination: &DestinationLabels::new(&job.id.namespace, &job.id.name),
                commit,
                written: &written_types(&self.common, puts),
                deleted: deletes.len(),
                bytes: sizes.sum(),
            });
        }
        self.common.telemetry.emit(BatchPushed {
            branch: &self.branch,
            commits: count,
            took,
            since_events: &since_events,
        });
    }
}

/// Whether it is certain that the remote has nothing of a push.
fn leaves_all_as_it_was(outcome: &PushOutcome) -> bool {
    match outcome {
        PushOutcome::Refused(_)
        | PushOutcome::Unreachable { .. }
        | PushOutcome::Unauthorised { .. } => true,
        PushOutcome::Pushed { .. } | PushOutcome::Stale { .. } | PushOutcome::Unknown { .. } => {
            false
        }
    }
}

/// A change that the clone did not take: its content is to be sent again, or something that is not
/// ours stands in its place.
fn note_left_out(job: &mut Job, part: &Share, path: &reverser_git::RepoPath, why: &PathRefusal) {
    if matches!(why, PathRefusal::ContentMissing { .. }) {
        job.done.content_missing += 1;
        return;
    }
    let puts = part.puts.iter().map(|put| (&put.path, Some(put.blob)));
    let deletes = part.deletes.iter().map(|delete| (delete.path(), None));
    let mut changes = puts.chain(deletes);
    if let Some((file, blob)) = changes.find(|(file, _)| job.folder.join(file) == path.as_str()) {
        let set_aside = SetAside {
            blob,
            message: why.to_string(),
            proven: true,
            by_branch: true,
        };
        job.done.set_aside.push((file.clone(), set_aside));
    }
}

fn written_types(common: &Common, puts: &[Put]) -> Vec<(TypeLabels, usize)> {
    let mut written: HashMap<TypeLabels, usize> = HashMap::new();
    for put in puts {
        let identity = RepoPath::parse(put.path.as_str()).ok();
        let labels = identity.and_then(|identity| (common.type_names)(&identity.type_key));
        if let Some(labels) = labels {
            *written.entry(labels).or_default() += 1;
        }
    }
    written.into_iter().collect()
}

fn commit_plan(
    settings: &WriterSettings,
    job: &Job,
    share: &Share,
    authors: &AuthorMap,
    time: i64,
) -> Result<CommitPlan, Refusal> {
    let path = |path: &RepoPath| git_path(&job.folder, path);
    let Share {
        credit,
        puts,
        deletes,
    } = share;
    let mut changes = Vec::with_capacity(puts.len() + deletes.len());
    for put in puts {
        changes.push(Change::Put {
            path: path(&put.path)?,
            blob: git_id(put.blob),
        });
    }
    for delete in deletes {
        changes.push(Change::Delete {
            path: path(delete.path())?,
        });
    }
    let stamp = |person: Person| Stamp {
        person,
        time: CommitTime::utc(u64::try_from(time).unwrap_or_default()),
    };
    let first_mirror = job.first_mirror && *credit == Credit::Reconcile;
    Ok(CommitPlan {
        folder: folder_path(&job.folder)?,
        author: stamp(job.author_of(credit, authors)),
        committer: stamp(job.committer.clone()),
        message: message(
            job.commit.subject_prefix.as_deref(),
            puts,
            deletes,
            first_mirror,
            &job.attributed(credit),
            &settings.installation,
        ),
        changes,
    })
}
