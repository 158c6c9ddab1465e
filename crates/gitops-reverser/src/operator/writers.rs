//! The writers, one for each branch that is written.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::{Id as TaskId, JoinSet};
use tokio_util::sync::CancellationToken;

use super::ends::{StartWriter, WriterStart};
use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::routing::Target;
use crate::writer::{Common, FromWriter, Told};

/// So many changes wait for a writer that is busy taking others; it takes them while it pushes.
const CHANGES: usize = 1024;

/// A writer without destinations, its clone and its lease are kept so long: a destination that is
/// refused for a while need not be fetched anew.
const DISUSE: Duration = Duration::from_mins(10);

pub(super) struct Writers {
    start: StartWriter,
    common: Arc<Common>,
    reports: mpsc::UnboundedSender<FromWriter>,
    branches: HashMap<Target, Branch>,
    /// Those that were told to end, until they have: the next one of the branch waits for that,
    /// because they have one clone.
    ending: HashMap<Target, CancellationToken>,
    tasks: JoinSet<()>,
    told_to_end: HashSet<TaskId>,
}

/// A branch that is written.
struct Branch {
    inbox: mpsc::Sender<Told>,
    destinations: HashSet<Id>,
    unused_since: Option<Instant>,
    task: TaskId,
    ended: CancellationToken,
}

impl Writers {
    pub(super) fn new(
        start: StartWriter,
        common: Arc<Common>,
        reports: mpsc::UnboundedSender<FromWriter>,
    ) -> Self {
        Self {
            start,
            common,
            reports,
            branches: HashMap::new(),
            ending: HashMap::new(),
            tasks: JoinSet::new(),
            told_to_end: HashSet::new(),
        }
    }

    /// Tells the writer of a branch, which is started if there is none.
    pub(super) async fn tell(&mut self, target: &Target, told: Told) {
        if !self.branches.contains_key(target) {
            if matches!(told.message, ToWriter::Forget) {
                return;
            }
            let branch = self.start(target);
            self.branches.insert(target.clone(), branch);
        }
        let Some(branch) = self.branches.get_mut(target) else {
            return;
        };
        match told.message {
            ToWriter::Settings(_) => {
                branch.destinations.insert(told.id.clone());
                branch.unused_since = None;
            }
            ToWriter::Forget => {
                branch.destinations.remove(&told.id);
                let unused = branch.destinations.is_empty();
                branch.unused_since = unused.then(Instant::now);
            }
            _ => {}
        }
        // One that ends before its inbox is closed ends the process.
        let _ = branch.inbox.send(told).await;
    }

    fn start(&mut self, target: &Target) -> Branch {
        let (inbox, receiver) = mpsc::channel(CHANGES);
        let writer = (self.start)(WriterStart {
            target: target.clone(),
            common: self.common.clone(),
            inbox: receiver,
            reports: self.reports.clone(),
        });
        let before = self.ending.remove(target);
        let ended = CancellationToken::new();
        let over = ended.clone().drop_guard();
        let task = self.tasks.spawn(async move {
            if let Some(before) = before {
                before.cancelled().await;
            }
            writer.await;
            drop(over);
        });
        Branch {
            inbox,
            destinations: HashSet::new(),
            unused_since: None,
            task: task.id(),
            ended,
        }
    }

    /// Ends writers that have had no destination for a while.
    pub(super) fn end_unused(&mut self, now: Instant) {
        self.ending.retain(|_, ended| !ended.is_cancelled());
        let unused = self.branches.extract_if(|_, branch| {
            let since = branch.unused_since;
            since.is_some_and(|since| now.saturating_duration_since(since) >= DISUSE)
        });
        for (target, branch) in unused {
            self.told_to_end.insert(branch.task);
            self.ending.insert(target, branch.ended);
        }
    }

    /// Waits until a writer has ended that was not told to.
    pub(super) async fn ended(&mut self) {
        loop {
            match self.tasks.join_next_with_id().await {
                None => std::future::pending().await,
                Some(Ok((task, ()))) if self.told_to_end.remove(&task) => {}
                Some(_) => return,
            }
        }
    }

    /// Lets every writer write what is waiting, and end.
    pub(super) async fn finish(&mut self) {
        self.branches.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt as _;
    use reverser_git::{BranchName, RemoteUrl, Scheme};
    use tokio::sync::Notify;

    use super::*;
    use crate::routing::Destination;
    use crate::telemetry::Telemetry;

    #[tokio::test]
    async fn a_branch_that_nobody_writes_any_more_has_no_writer_and_its_next_one_waits_for_its_end()
    {
        let steps = Arc::new(Mutex::new(Vec::new()));
        let last_push_ends = Arc::new(Notify::new());
        let start: StartWriter = {
            let (steps, last_push_ends) = (steps.clone(), last_push_ends.clone());
            Box::new(move |mut start: WriterStart| {
                let (steps, last_push_ends) = (steps.clone(), last_push_ends.clone());
                async move {
                    steps.lock().unwrap().push("begins");
                    while start.inbox.recv().await.is_some() {}
                    last_push_ends.notified().await;
                    steps.lock().unwrap().push("ended");
                }
                .boxed()
            })
        };
        let telemetry = Telemetry::register(&mut prometheus_client::registry::Registry::default());
        let common = Common::new(telemetry, Box::new(|_| None), 1, 1);
        let (reports, _heard) = mpsc::unbounded_channel();
        let mut writers = Writers::new(start, Arc::new(common), reports);
        let target = Target {
            url: RemoteUrl::parse("https://git.example.com/r", Scheme::DEFAULT_ALLOWED).unwrap(),
            branch: BranchName::parse("main").unwrap(),
            repo: Id::new("shop", "repo"),
        };
        let told = |message| Told {
            id: Id::new("shop", "prod"),
            message,
            since: None,
        };
        let settings = || {
            let destination = Destination::sample(target.clone());
            told(ToWriter::Settings(Box::new(destination)))
        };
        let later = || Instant::now() + DISUSE;
        writers.tell(&target, settings()).await;
        writers.end_unused(later());
        assert_eq!(writers.branches.len(), 1, "it has a destination");
        writers.tell(&target, told(ToWriter::Forget)).await;
        writers.end_unused(Instant::now());
        assert_eq!(writers.branches.len(), 1, "it may come back");
        writers.end_unused(later());
        assert_eq!(writers.branches.len(), 0);

        writers.tell(&target, settings()).await;
        last_push_ends.notify_one();
        tokio::select! {
            () = writers.ended() => panic!("it was told to end"),
            () = async {
                while steps.lock().unwrap().len() < 3 {
                    tokio::task::yield_now().await;
                }
            } => {}
        }
        assert_eq!(*steps.lock().unwrap(), ["begins", "ended", "begins"]);
        last_push_ends.notify_one();
        writers.finish().await;
    }
}
