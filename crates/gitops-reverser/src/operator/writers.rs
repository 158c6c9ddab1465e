//! The writers, one for each branch that is written.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::ends::{StartWriter, WriterStart};
use crate::dispatch::ToWriter;
use crate::identity::Id;
use crate::routing::Target;
use crate::writer::{Common, FromWriter};

/// So many changes wait for a writer that is busy taking others; it takes them while it pushes.
const CHANGES: usize = 1024;

pub(super) struct Writers {
    start: StartWriter,
    common: Arc<Common>,
    reports: mpsc::UnboundedSender<FromWriter>,
    running: HashMap<Target, Running>,
}

struct Running {
    inbox: mpsc::Sender<(Id, ToWriter)>,
    task: JoinHandle<()>,
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
            running: HashMap::new(),
        }
    }

    /// Tells the writer of a branch, which is started if there is none.
    pub(super) async fn tell(&mut self, target: &Target, id: Id, message: ToWriter) {
        let running = self.running.entry(target.clone()).or_insert_with(|| {
            let (inbox, receiver) = mpsc::channel(CHANGES);
            let writer = (self.start)(WriterStart {
                target: target.clone(),
                common: self.common.clone(),
                inbox: receiver,
                reports: self.reports.clone(),
            });
            Running {
                inbox,
                task: tokio::spawn(writer),
            }
        });
        // It ends only when its inbox is closed, or with the process.
        let _ = running.inbox.send((id, message)).await;
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
