//! The writers, one for each branch that is written.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::ends::{StartWriter, WriterStart};
use crate::routing::Target;
use crate::writer::{Common, FromWriter, Told};

/// So many changes wait for a writer that is busy taking others; it takes them while it pushes.
const CHANGES: usize = 1024;

pub(super) struct Writers {
    start: StartWriter,
    common: Arc<Common>,
    reports: mpsc::UnboundedSender<FromWriter>,
    inboxes: HashMap<Target, mpsc::Sender<Told>>,
    tasks: JoinSet<()>,
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
            inboxes: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Tells the writer of a branch, which is started if there is none.
    pub(super) async fn tell(&mut self, target: &Target, told: Told) {
        let inbox = self.inboxes.entry(target.clone()).or_insert_with(|| {
            let (inbox, receiver) = mpsc::channel(CHANGES);
            let writer = (self.start)(WriterStart {
                target: target.clone(),
                common: self.common.clone(),
                inbox: receiver,
                reports: self.reports.clone(),
            });
            self.tasks.spawn(writer);
            inbox
        });
        // One that ends before its inbox is closed ends the process.
        let _ = inbox.send(told).await;
    }

    /// Waits until a writer has ended that was not told to.
    pub(super) async fn ended(&mut self) {
        if self.tasks.join_next().await.is_none() {
            std::future::pending::<()>().await;
        }
    }

    /// Lets every writer write what is waiting, and end.
    pub(super) async fn finish(&mut self) {
        self.inboxes.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
