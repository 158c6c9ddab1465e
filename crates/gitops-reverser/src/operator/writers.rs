//! The writers, one for each branch that is written.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::routing::Target;
use crate::writer::{Common, FromWriter, Writer, WriterSettings};

/// So many changes wait for a writer that is busy taking others; it takes them while it pushes.
const CHANGES: usize = 1024;

pub(super) struct Writers {
    client: Client,
    settings: WriterSettings,
    common: Arc<Common>,
    reports: mpsc::UnboundedSender<FromWriter>,
    inboxes: HashMap<Target, mpsc::Sender<(Id, ToWriter)>>,
    tasks: JoinSet<()>,
}

impl Writers {
    pub(super) fn new(
        client: Client,
        settings: WriterSettings,
        common: Arc<Common>,
        reports: mpsc::UnboundedSender<FromWriter>,
    ) -> Self {
        Self {
            client,
            settings,
            common,
            reports,
            inboxes: HashMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Tells the writer of a branch, which is started if there is none.
    pub(super) async fn tell(&mut self, target: &Target, id: Id, message: ToWriter) {
        let inbox = self.inboxes.entry(target.clone()).or_insert_with(|| {
            let access = crate::credentials::source(self.client.clone(), target);
            let (settings, common) = (self.settings.clone(), self.common.clone());
            let reports = self.reports.clone();
            let writer = Writer::new(settings, common, target.clone(), access, reports);
            let (inbox, receiver) = mpsc::channel(CHANGES);
            self.tasks.spawn(writer.run(receiver));
            inbox
        });
        // One that ends before its inbox is closed ends the process.
        let _ = inbox.send((id, message)).await;
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
