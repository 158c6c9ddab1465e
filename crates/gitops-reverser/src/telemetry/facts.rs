//! One struct per fact: what it says in the log, and what it counts.

mod record_store;

use std::net::SocketAddr;
use std::time::Duration;

use jiff::Timestamp;
use reverser_core::object_key::TypeKey;
use reverser_git::CommitId;
use tracing::{debug, error, info, trace, warn};

pub use self::record_store::{
    RecordNotShared, RecordStoreFailed, RecordStoreWorks, RecordUnreadable,
};
pub use super::labels::AdmissionOutcome;
use super::labels::{AdmissionLabels, BranchLabels, DestinationLabels, TypeLabels, WorkerLabels};
use super::metrics::Metrics;

/// Something that happened, that somebody outside may want to know.
///
/// A fact names objects, and never holds them: their content may be secret.
pub trait Fact {
    /// Says it in the log.
    fn log(&self);
    /// Counts it.
    fn count(&self, metrics: &Metrics);
}

/// The operator begins.
#[derive(Debug)]
pub struct Started<'a> {
    /// The name of the installation.
    pub instance_id: &'a str,
    /// The version of the program.
    pub version: &'a str,
}

impl Fact for Started<'_> {
    fn log(&self) {
        let Self {
            instance_id,
            version,
        } = self;
        info!(instance_id, version, "started");
    }

    fn count(&self, _: &Metrics) {}
}

/// The operator was asked to end, and does.
#[derive(Debug)]
pub struct Stopping<'a> {
    /// What asked.
    pub signal: &'a str,
}

impl Fact for Stopping<'_> {
    fn log(&self) {
        info!(signal = self.signal, "stopping");
    }

    fn count(&self, _: &Metrics) {}
}

/// Somebody asked for more of the log, or for as much as before.
#[derive(Debug)]
pub struct LogLevelChanged<'a> {
    /// What is logged from now on.
    pub filter: &'a str,
}

impl Fact for LogLevelChanged<'_> {
    fn log(&self) {
        error!(filter = self.filter, "log level changed");
    }

    fn count(&self, _: &Metrics) {}
}

/// A server can be reached.
#[derive(Debug)]
pub struct Serving<'a> {
    /// What it serves.
    pub paths: &'a str,
    /// Where.
    pub address: SocketAddr,
}

impl Fact for Serving<'_> {
    fn log(&self) {
        info!(paths = self.paths, address = %self.address, "serving");
    }

    fn count(&self, _: &Metrics) {}
}

/// A page of a list, or a whole one, was read.
#[derive(Debug)]
pub struct ObjectsListed<'a> {
    /// Of which type.
    pub of: &'a TypeLabels,
    /// How many.
    pub objects: usize,
}

impl Fact for ObjectsListed<'_> {
    fn log(&self) {
        debug!(
            gvk = self.of.gvk(),
            objects = self.objects,
            "objects listed"
        );
    }

    fn count(&self, metrics: &Metrics) {
        let scanned = metrics.objects_scanned.get_or_create(self.of);
        scanned.inc_by(self.objects as u64);
    }
}

/// A watch event of an object was processed.
#[derive(Debug)]
pub struct EventProcessed<'a> {
    /// The type of the object.
    pub of: &'a TypeLabels,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub event: &'a str,
    /// The namespace of the object, if it has one.
    pub namespace: Option<&'a str>,
    /// The name of the object.
    pub name: &'a str,
}

impl Fact for EventProcessed<'_> {
    fn log(&self) {
        let Self {
            of,
            event,
            namespace,
            name,
        } = self;
        trace!(gvk = of.gvk(), event, namespace, name, "event processed");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.events_processed.inc();
        metrics.objects_scanned.get_or_create(self.of).inc();
    }
}

/// The types of a group, or of the whole cluster, could not be found out. The last known ones stay.
#[derive(Debug)]
pub struct DiscoveryFailed<'a> {
    /// `group/version`, or nothing where all of it failed.
    pub group: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for DiscoveryFailed<'_> {
    fn log(&self) {
        let Self { group, reason } = self;
        warn!(
            group,
            reason, "discovery failed; the types that are known stay"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.discovery_errors.inc();
    }
}

/// Our own objects, or what else says what is to be done, cannot be read. What is known stays.
#[derive(Debug)]
pub struct ConfigurationUnreadable<'a> {
    /// Which of them.
    pub what: &'a str,
    /// Why.
    pub reason: &'a str,
    /// What a person can do about it, or nothing.
    pub cure: &'a str,
}

impl Fact for ConfigurationUnreadable<'_> {
    fn log(&self) {
        let Self { what, reason, cure } = self;
        warn!(what, "cannot be read: {reason}{cure}");
    }

    fn count(&self, _: &Metrics) {}
}

/// The remote has confirmed a commit.
#[derive(Debug)]
pub struct CommitPushed<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Whose files.
    pub destination: &'a DestinationLabels,
    /// Which commit.
    pub commit: &'a CommitId,
    /// How many files were created or changed, by the type of their objects.
    pub written: &'a [(TypeLabels, usize)],
    /// How many files were removed.
    pub deleted: usize,
    /// The content of the files that were created or changed.
    pub bytes: usize,
}

impl Fact for CommitPushed<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            commit,
            written,
            deleted,
            bytes,
        } = self;
        let written: usize = written.iter().map(|(_, files)| files).sum();
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            %commit,
            written,
            deleted,
            bytes,
            "commit pushed"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.commits.inc();
        metrics.commit_bytes.inc_by(self.bytes as u64);
        for (of, files) in self.written {
            let written = metrics.objects_written.get_or_create(of);
            written.inc_by(*files as u64);
        }
        if self.deleted > 0 {
            let deleted = metrics.files_deleted.get_or_create(self.destination);
            deleted.inc_by(self.deleted as u64);
        }
    }
}

/// The remote has confirmed a batch, of one commit or several.
#[derive(Debug)]
pub struct BatchPushed<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// How many commits.
    pub commits: usize,
    /// How long the push took.
    pub took: Duration,
    /// For each change that a watch event brought, how long ago that was.
    pub since_events: &'a [Duration],
}

impl Fact for BatchPushed<'_> {
    fn log(&self) {
        let Self {
            branch,
            commits,
            took,
            since_events,
        } = self;
        let oldest = since_events.iter().max().copied().unwrap_or_default();
        debug!(
            repo = branch.repo(),
            branch = branch.branch(),
            commits,
            push_seconds = took.as_secs_f64(),
            oldest_event_seconds = oldest.as_secs_f64(),
            "batch pushed"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.commit_batches.inc();
        metrics.push_duration.observe(self.took.as_secs_f64());
        for since in self.since_events {
            metrics.event_to_push.observe(since.as_secs_f64());
        }
    }
}

/// A destination's folder was found to hold what the cluster holds, for the first time since the start.
#[derive(Debug)]
pub struct DestinationInSync<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Which destination.
    pub destination: &'a DestinationLabels,
    /// How many objects.
    pub objects: usize,
}

impl Fact for DestinationInSync<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            objects,
        } = self;
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            objects,
            "in sync"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// Somebody else moved the branch: the difference is computed again, onto the new tip.
#[derive(Debug)]
pub struct BranchMoved<'a> {
    /// Which branch.
    pub branch: &'a BranchLabels,
    /// The how manieth time for this batch, from 1.
    pub attempt: usize,
}

impl Fact for BranchMoved<'_> {
    fn log(&self) {
        let Self { branch, attempt } = self;
        info!(
            repo = branch.repo(),
            branch = branch.branch(),
            attempt,
            "the branch has moved; computing the difference again"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.rebase_retries.inc();
    }
}

/// A push failed and is tried again.
#[derive(Debug)]
pub struct PushRetried<'a> {
    /// Where to.
    pub branch: &'a BranchLabels,
    /// The how manieth time for this batch, from 1.
    pub attempt: usize,
    /// When.
    pub after: Duration,
    /// What went wrong, without credentials.
    pub reason: &'a str,
}

impl Fact for PushRetried<'_> {
    fn log(&self) {
        let Self {
            branch,
            attempt,
            after,
            reason,
        } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            attempt,
            after_seconds = after.as_secs_f64(),
            reason,
            "push failed; trying again"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.push_retries.get_or_create(self.branch).inc();
    }
}

/// This replica does not lead, and waits.
#[derive(Debug)]
pub struct StandingBy;

impl Fact for StandingBy {
    fn log(&self) {
        info!("standing by: another replica may lead");
    }

    fn count(&self, _: &Metrics) {}
}

/// This replica leads.
#[derive(Debug)]
pub struct Leading;

impl Fact for Leading {
    fn log(&self) {
        info!("leading");
    }

    fn count(&self, _: &Metrics) {}
}

/// A lease could be neither taken nor renewed; it is tried again.
#[derive(Debug)]
pub struct LeaseFailed<'a> {
    /// The name of the lease.
    pub worker: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for LeaseFailed<'_> {
    fn log(&self) {
        let Self { worker, reason } = self;
        warn!(lease = worker, reason, "lease not taken; trying again");
    }

    fn count(&self, metrics: &Metrics) {
        let worker = WorkerLabels::new(self.worker);
        metrics.lease_acquire_failures.get_or_create(&worker).inc();
    }
}

/// Another installation has the branch, and what waits here waits on.
#[derive(Debug)]
pub struct OwnershipConflict<'a> {
    /// Which branch.
    pub branch: &'a BranchLabels,
    /// Who has it.
    pub reason: &'a str,
}

impl Fact for OwnershipConflict<'_> {
    fn log(&self) {
        let Self { branch, reason } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            reason,
            "not our turn to write"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.ownership_conflicts.inc();
    }
}

/// A folder carries the mark of another installation.
#[derive(Debug)]
pub struct MarkerConflict<'a> {
    /// Whose folder it was to be.
    pub destination: &'a DestinationLabels,
    /// Whose it is.
    pub reason: &'a str,
    /// Whether it is left alone.
    pub refused: bool,
}

impl Fact for MarkerConflict<'_> {
    fn log(&self) {
        let Self {
            destination,
            reason,
            refused,
        } = self;
        let destination = destination.as_str();
        warn!(destination, reason, refused, "the folder has another owner");
    }

    fn count(&self, metrics: &Metrics) {
        let conflicts = &metrics.marker_conflicts;
        conflicts.get_or_create(self.destination).inc();
        if self.refused {
            metrics.ownership_conflicts.inc();
        }
    }
}

/// The label of the leader's pod could not be moved; it is tried again.
#[derive(Debug)]
pub struct PodLabelFailed<'a> {
    /// The pod.
    pub pod: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl Fact for PodLabelFailed<'_> {
    fn log(&self) {
        let Self { pod, reason } = self;
        warn!(pod, reason, "the pod of the leader could not be labelled");
    }

    fn count(&self, _: &Metrics) {}
}

/// Objects of a type cannot be read: their files stay as they are.
#[derive(Debug)]
pub struct ObjectsUnreadable<'a> {
    /// The type.
    pub type_key: &'a TypeKey,
    /// Which, and why.
    pub sentence: &'a str,
}

impl Fact for ObjectsUnreadable<'_> {
    fn log(&self) {
        let Self { type_key, sentence } = self;
        warn!(%type_key, "{sentence}; their files stay, and the type is listed again");
    }

    fn count(&self, _: &Metrics) {}
}

/// The operator ends before it could push all that waits: the next one computes it anew.
#[derive(Debug)]
pub struct WorkLeftBehind;

impl Fact for WorkLeftBehind {
    fn log(&self) {
        warn!("not all that waits could be pushed in time; the next leader pushes it");
    }

    fn count(&self, _: &Metrics) {}
}

/// The API server asked before it stored a change, and was answered.
#[derive(Debug)]
pub struct AdmissionAnswered<'a> {
    /// What became of the question.
    pub outcome: AdmissionOutcome,
    /// How long that took, without the time in which the question arrived.
    pub took: Duration,
    /// Why nothing was noted, if so.
    pub why: &'a str,
}

impl Fact for AdmissionAnswered<'_> {
    fn log(&self) {
        let Self { outcome, took, why } = self;
        trace!(
            ?outcome,
            took_seconds = took.as_secs_f64(),
            why,
            "admission answered"
        );
    }

    fn count(&self, metrics: &Metrics) {
        let labels = AdmissionLabels {
            outcome: self.outcome,
        };
        metrics.admission_reviews.get_or_create(&labels).inc();
        if self.outcome != AdmissionOutcome::Refused {
            metrics.admission_duration.observe(self.took.as_secs_f64());
        }
    }
}

/// Somebody wanted to talk to the webhook and may not, or did not say anything.
#[derive(Debug)]
pub struct ConnectionRefused<'a> {
    /// Why.
    pub reason: &'a str,
}

impl Fact for ConnectionRefused<'_> {
    fn log(&self) {
        // Anybody can cause as many as they like.
        debug!(reason = self.reason, "connection to the webhook refused");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.admission_connections_refused.inc();
    }
}

/// The certificates of the webhook were made or replaced.
#[derive(Debug)]
pub struct CertificatesChanged<'a> {
    /// What is new.
    pub change: &'a str,
    /// When the serving certificate ends.
    pub until: Option<Timestamp>,
}

impl Fact for CertificatesChanged<'_> {
    fn log(&self) {
        let Self { change, until } = self;
        let until = until.map(|until| until.to_string());
        info!(change, until, "certificates of the webhook changed");
    }

    fn count(&self, _: &Metrics) {}
}

/// The webhook shows another certificate from now on.
#[derive(Debug)]
pub struct CertificateLoaded {
    /// When it ends.
    pub until: Option<Timestamp>,
}

impl Fact for CertificateLoaded {
    fn log(&self) {
        let until = self.until.map(|until| until.to_string());
        info!(until, "the webhook shows a new certificate");
    }

    fn count(&self, metrics: &Metrics) {
        let seconds = self.until.map_or(0, Timestamp::as_second);
        metrics.webhook_certificate_end.set(seconds);
    }
}

/// Certificates that cannot be used. Those that are in use stay.
#[derive(Debug)]
pub struct CertificateUnusable<'a> {
    /// Why, without anything of a key.
    pub reason: &'a str,
}

impl Fact for CertificateUnusable<'_> {
    fn log(&self) {
        warn!(
            reason = self.reason,
            "the certificate of the webhook cannot be used; the one before stays"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// The API server asks the webhook about these types from now on.
#[derive(Debug)]
pub struct WebhookRegistered<'a> {
    /// The name of the configuration.
    pub name: &'a str,
    /// How many types.
    pub types: usize,
}

impl Fact for WebhookRegistered<'_> {
    fn log(&self) {
        let Self { name, types } = self;
        info!(name, types, "webhook registered");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(1);
    }
}

/// Nothing is watched that the API server could ask about, or it does not know yet whom to trust.
#[derive(Debug)]
pub struct NobodyAsked;

impl Fact for NobodyAsked {
    fn log(&self) {
        info!("the API server asks about nothing for now");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(0);
    }
}

/// The API server does not ask the webhook, or not about the right types.
#[derive(Debug)]
pub struct WebhookNotRegistered<'a> {
    /// Why, and what would help.
    pub reason: &'a str,
}

impl Fact for WebhookNotRegistered<'_> {
    fn log(&self) {
        warn!(
            reason = self.reason,
            "the webhook is not registered: authors are unknown, everything else goes on"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.webhook_registered.set(0);
    }
}

/// Records of who tried what had to go before their time.
#[derive(Debug)]
pub struct RecordsEvicted {
    /// How many.
    pub records: usize,
}

impl Fact for RecordsEvicted {
    fn log(&self) {
        debug!(
            records = self.records,
            "more is tried than can be kept; some changes will have no author"
        );
    }

    fn count(&self, metrics: &Metrics) {
        metrics.kv_evictions.inc_by(self.records as u64);
    }
}

/// It was found out who made changes, or not.
#[derive(Debug)]
pub struct ChangesAttributed {
    /// How many have a user.
    pub named: usize,
    /// How many have none.
    pub unknown: usize,
}

impl Fact for ChangesAttributed {
    fn log(&self) {
        let Self { named, unknown } = self;
        debug!(named, unknown, "changes attributed");
    }

    fn count(&self, metrics: &Metrics) {
        metrics.enrich_hits.inc_by(self.named as u64);
        metrics.enrich_misses.inc_by(self.unknown as u64);
    }
}

/// A server does not take an author.
#[derive(Debug)]
pub struct AuthorRefused<'a> {
    /// Where.
    pub branch: &'a BranchLabels,
    /// Whose files.
    pub destination: &'a DestinationLabels,
    /// What the server said.
    pub reason: &'a str,
}

impl Fact for AuthorRefused<'_> {
    fn log(&self) {
        let Self {
            branch,
            destination,
            reason,
        } = self;
        warn!(
            repo = branch.repo(),
            branch = branch.branch(),
            destination = destination.as_str(),
            reason,
            "the server refuses an author; the operator is the author instead"
        );
    }

    fn count(&self, _: &Metrics) {}
}

/// The real names of users were read.
#[derive(Debug)]
pub struct AuthorMapRead<'a> {
    /// From which ConfigMap.
    pub from: &'a str,
    /// How many users it names.
    pub users: usize,
    /// Lines that say nothing, with their place.
    pub bad: &'a [String],
}

impl Fact for AuthorMapRead<'_> {
    fn log(&self) {
        let Self { from, users, bad } = self;
        if let Some(first) = bad.first() {
            let lines = bad.len();
            warn!(
                from,
                users, lines, first, "names of authors were read, but for some lines"
            );
        } else {
            info!(from, users, "names of authors were read");
        }
    }

    fn count(&self, _: &Metrics) {}
}
