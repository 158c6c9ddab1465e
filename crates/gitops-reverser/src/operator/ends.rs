//! What the operator is connected to: where its configuration comes from, who writes, and who hears
//! how things stand. The installed operator has all of that in the cluster; a command brings its own.

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kube::Client;
use reverser_core::commit_message::Installation;
use reverser_git::RemoteUrl;
use tokio::sync::{mpsc, watch};

use super::cluster::{another_cluster, cluster_uid};
use super::parts::Parts;
use super::redacting::{self, KeySource};
use super::{OperatorSettings, Progress, write_statuses};
use crate::attribution::Attribution;
use crate::configuration::Trouble;
use crate::identity::Id;
use crate::routing::{Configuration, Target};
use crate::status::{StatusWriter, Statuses};
use crate::telemetry::Telemetry;
use crate::writer::{AccessSource, Common, FromWriter, Told, Writer, WriterSettings};

/// The two ends of the data's way, and what else the operator needs of its surroundings.
pub struct Ends {
    /// What is to be mirrored, whenever that changes.
    pub configuration: watch::Receiver<Option<Arc<Configuration>>>,
    /// Hears how everything stands.
    pub statuses: watch::Sender<Statuses>,
    /// Takes what each branch should hold.
    pub writers: StartWriter,
    /// With what repositories are asked that nobody writes to; nothing where nobody wants to know.
    pub probes: Option<AccessTo>,
    /// By what Secrets are redacted.
    pub redaction: KeySource,
    /// Whose changes they are.
    pub attribution: Attribution,
    /// Whether types are listed namespace by namespace from the start, and not everywhere where
    /// that is allowed: for somebody who wants few namespaces of many.
    pub namespaces_first: bool,
    /// How far the lists have come.
    pub progress: Arc<Progress>,
    /// What keeps these ends going; if one ends, the operator does.
    pub parts: Parts,
}

/// How a repository is reached that a GitRepoConfig names.
pub type AccessTo = Box<dyn Fn(&Id, &RemoteUrl) -> AccessSource + Send + Sync>;

/// Starts what takes the changes of one branch. It works until its inbox is closed.
pub type StartWriter = Box<dyn Fn(WriterStart) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the writer of a branch is given.
pub struct WriterStart {
    /// The branch.
    pub target: Target,
    /// What all writers share.
    pub common: Arc<Common>,
    /// What it is told.
    pub inbox: mpsc::Receiver<Told>,
    /// Where it says how it stands.
    pub reports: mpsc::UnboundedSender<FromWriter>,
}

/// How the API server is spoken to.
pub(super) struct Clients {
    /// Questions and answers: one that does not come in time is an error.
    asking: Client,
    /// Watches, which may be silent for long.
    following: Client,
}

impl Clients {
    pub(super) fn new(config: &kube::Config) -> Result<Self, kube::Error> {
        Ok(Self {
            asking: crate::api_read::asking(config.clone(), crate::api_read::ANSWER)?,
            following: crate::api_read::following(config)?,
        })
    }
}

impl Ends {
    /// Our own kinds in the cluster say what is mirrored, and their status how it stands.
    pub(super) fn of_installation(
        Clients { asking, following }: &Clients,
        settings: &OperatorSettings,
        attribution: Attribution,
        trouble: Trouble,
        telemetry: Telemetry,
    ) -> Self {
        let (configuration_tx, configuration) = watch::channel(None);
        let (statuses, statuses_rx) = watch::channel(Statuses::default());
        let mut parts = Parts::default();
        parts.spawn(
            "the follower of rules",
            crate::configuration::follow(
                following.clone(),
                settings.own_labels.clone(),
                trouble,
                configuration_tx,
            ),
        );
        parts.spawn(
            "the writer of statuses",
            write_statuses(
                StatusWriter::new(asking.clone(), &settings.instance_id, telemetry),
                statuses_rx,
            ),
        );
        // Nobody waits for it before there is something to write.
        let (uid_tx, uid) = watch::channel(None);
        let client = asking.clone();
        parts.spawn_ending("the identity of the cluster", async move {
            let uid = match cluster_uid(&client).await {
                Ok(uid) => uid,
                Err(error) => return Some(error),
            };
            uid_tx.send_replace(Some(uid.clone()));
            Some(another_cluster(&client, &uid).await)
        });
        let writers = {
            let (client, settings) = (asking.clone(), settings.clone());
            move |start: WriterStart| {
                let Target { repo, url, .. } = &start.target;
                let access = crate::credentials::source(client.clone(), repo, url);
                let (settings, mut uid) = (settings.clone(), uid.clone());
                async move {
                    let known = uid.wait_for(Option::is_some).await;
                    // If it is never known, the operator ends, and this with it.
                    let Some(uid) = known.ok().and_then(|uid| uid.clone()) else {
                        return std::future::pending().await;
                    };
                    start.write(settings.writers(uid), access).await;
                }
                .boxed()
            }
        };
        Self {
            configuration,
            statuses,
            writers: Box::new(writers),
            probes: Some({
                let client = asking.clone();
                Box::new(move |repo, url| crate::credentials::source(client.clone(), repo, url))
            }),
            redaction: redacting::installation_key(asking.clone(), &settings.namespace),
            attribution,
            namespaces_first: false,
            progress: Arc::default(),
            parts,
        }
    }
}

impl WriterStart {
    /// Writes to the repository.
    pub fn write(self, settings: WriterSettings, access: AccessSource) -> BoxFuture<'static, ()> {
        let Self {
            target,
            common,
            inbox,
            reports,
        } = self;
        let writer = Writer::new(settings, common, target, access, reports);
        writer.run(inbox).boxed()
    }
}

impl OperatorSettings {
    /// This installation, in a cluster that is called so.
    pub(super) fn identity(&self, cluster_uid: String) -> Installation {
        Installation {
            cluster_uid,
            controller_namespace: self.namespace.clone(),
            controller_name: "gitops-reverser".to_owned(),
            instance_id: self.instance_id.clone(),
        }
    }

    /// What writers are told, in a cluster that is called so.
    #[must_use]
    pub fn writers(&self, cluster_uid: String) -> WriterSettings {
        WriterSettings {
            git: self.git.clone(),
            cut_off: self.cut_off.clone(),
            work_dir: self.work_dir.clone(),
            limits: self.limits,
            poll: self.poll,
            deletes_cap: self.deletes_cap,
            grace: self.attribution.grace,
            committer: self.committer.clone(),
            installation: self.identity(cluster_uid),
            marks_folders: true,
            on_push: None,
        }
    }
}
