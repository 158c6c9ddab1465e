//! The writers, one for each branch that is written.

use std::collections::HashMap;
use std::sync::Arc;

use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::routing::Target;
use crate::writer::{Common, FromWriter, Told, Writer, WriterSettings};

/// So many changes wait for a writer that is busy taking others; it takes them while it pushes.
const CHANGES: usize = 1024;

pub(super) struct Writers {
    client: Client,
    settings: WriterSettings,
    common: Arc<Common>,
    reports: mpsc::UnboundedSender<FromWriter>,
    running: HashMap<Target, Running>,
}

struct Running {
    inbox: mpsc::Sender<Told>,
    task: JoinHandle<()>,
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
            running: HashMap::new(),
        }
    }

    /// Tells the writer of a branch, which is started if there is none.
    pub(super) async fn tell(&mut self, target: &Target, told: Told) {
        let running = self.running.entry(target.clone()).or_insert_with(|| {
            let access = crate::credentials::source(self.client.clone(), target);
            let (settings, common) = (self.settings.clone(), self.common.clone());
            let reports = self.reports.clone();
            let writer = Writer::new(settings, common, target.clone(), access, reports);
            let (inbox, receiver) = mpsc::channel(CHANGES);
            Running {
                inbox,
                task: tokio::spawn(writer.run(receiver)),
            }
        });
        // It ends only when its inbox is closed, or with the process.
        let _ = running.inbox.send(told).await;
    }

    /// Lets every writer write what is waiting, and end.
    pub(super) async fn finish(self) {
        let Self {
            running, reports, ..
        } = self;
        drop(reports);
        for (_, Running { inbox, task }) in running {
            drop(inbox);
            let _ = task.await;
        }
    }
}
