//! Asks repositories that no writer uses, so that their status can be told: one that a platform team
//! has set up is Ready, or says why not, before anybody writes to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reverser_git::{CancelToken, Git};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::OperatorSettings;
use super::ends::AccessTo;
use crate::identity::Id;
use crate::routing::{Configuration, Refusal, RepoState, Routing};
use crate::writer::{AccessSource, Reaching, RemoteAnswer, after_failures};

/// So many are asked at once.
const AT_ONCE: usize = 4;

/// What a repository answered.
pub(super) type Answer = (Id, RemoteAnswer);

/// Those who ask, one for each repository.
pub(super) struct Probes {
    access: Option<AccessTo>,
    git: Git,
    folder: PathBuf,
    poll: Duration,
    turns: Arc<Semaphore>,
    running: BTreeMap<Id, Probe>,
    /// How many were begun: what an earlier one heard says nothing.
    begun: u64,
    answers_tx: mpsc::UnboundedSender<(u64, Answer)>,
    answers: mpsc::UnboundedReceiver<(u64, Answer)>,
}

/// A repository that is asked again and again, until this is dropped.
struct Probe {
    of: RepoState,
    number: u64,
    cancel: CancelToken,
    task: AbortHandle,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// The repositories that can be asked and that no destination in effect writes to.
pub(super) fn unused(configuration: &Configuration, routing: &Routing) -> BTreeMap<Id, RepoState> {
    let destinations = routing.destinations.values().flatten();
    let used: BTreeSet<&Id> = destinations.map(|one| &one.target.repo).collect();
    let repos = configuration.repos.iter();
    let asked = repos.filter_map(|(id, repo)| {
        let url = routing.repos.get(id)?.as_ref().ok()?.clone();
        let generation = repo.metadata.generation;
        (!used.contains(id)).then(|| (id.clone(), RepoState { url, generation }))
    });
    asked.collect()
}

impl Probes {
    pub(super) fn new(access: Option<AccessTo>, settings: &OperatorSettings) -> Self {
        let folder = format!(".gitops-reverser-probes-{}", std::process::id());
        let folder = settings.work_dir.join(folder);
        if access.is_some() {
            // What one of that number left behind that was killed.
            let _ = std::fs::remove_dir_all(&folder);
        }
        let (answers_tx, answers) = mpsc::unbounded_channel();
        Self {
            access,
            git: settings.git.clone(),
            folder,
            poll: settings.poll,
            turns: Arc::new(Semaphore::new(AT_ONCE)),
            running: BTreeMap::new(),
            begun: 0,
            answers_tx,
            answers,
        }
    }

    /// Asks these, and no others any more. Gives those of which nothing is known that counts.
    pub(super) fn ask(&mut self, wanted: BTreeMap<Id, RepoState>) -> Vec<Id> {
        let Some(access) = &self.access else {
            return Vec::new();
        };
        self.running
            .retain(|id, probe| wanted.get(id) == Some(&probe.of));
        let mut anew = Vec::new();
        for (id, of) in wanted {
            if self.running.contains_key(&id) {
                continue;
            }
            self.begun += 1;
            let cancel = CancelToken::new();
            let asking = Asking {
                id: id.clone(),
                number: self.begun,
                of: of.clone(),
                access: access(&id, &of.url),
                git: self.git.clone(),
                folder: self.folder.join(self.begun.to_string()),
                poll: self.poll,
                turns: self.turns.clone(),
                cancel: cancel.clone(),
                answers: self.answers_tx.clone(),
            };
            let probe = Probe {
                of,
                number: self.begun,
                cancel,
                task: tokio::spawn(asking.run()).abort_handle(),
            };
            self.running.insert(id.clone(), probe);
            anew.push(id);
        }
        anew
    }

    /// The next answer of one that is still asked.
    pub(super) async fn next(&mut self) -> Answer {
        while let Some((number, answer)) = self.answers.recv().await {
            let probe = self.running.get(&answer.0);
            if probe.is_some_and(|probe| probe.number == number) {
                return answer;
            }
        }
        std::future::pending().await
    }
}

/// Asks one repository again and again.
struct Asking {
    id: Id,
    number: u64,
    of: RepoState,
    access: AccessSource,
    git: Git,
    folder: PathBuf,
    poll: Duration,
    turns: Arc<Semaphore>,
    cancel: CancelToken,
    answers: mpsc::UnboundedSender<(u64, Answer)>,
}

impl Asking {
    async fn run(self) {
        let mut failures = 0;
        loop {
            let result = self.ask().await;
            let wait = if result.is_ok() {
                failures = 0;
                self.poll
            } else {
                failures += 1;
                after_failures(failures).min(self.poll)
            };
            let of = self.of.clone();
            let answer = (self.id.clone(), RemoteAnswer { of, result });
            if self.answers.send((self.number, answer)).is_err() {
                return;
            }
            tokio::time::sleep(wait).await;
        }
    }

    async fn ask(&self) -> Result<(), Refusal> {
        // The semaphore is never closed.
        let turn = self.turns.clone().acquire_owned().await.ok();
        let access = (self.access)().await?;
        let (git, url, cancel) = (self.git.clone(), self.of.url.clone(), self.cancel.clone());
        let folder = self.folder.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let reaching = Reaching {
                git,
                url,
                credentials: access.credentials,
                cancel,
                folder: &folder,
            };
            reaching.ask()
        });
        asked.await.unwrap_or_else(|error| {
            Err(Refusal {
                reason: reverser_api::conditions::reason::PROGRESSING,
                message: format!("asking broke down: {error}"),
            })
        })
    }
}
