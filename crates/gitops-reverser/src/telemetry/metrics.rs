//! Every metric with its name, its unit and its meaning.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::labels::{
    AdmissionLabels, BranchLabels, DestinationLabels, NotReadyLabels, TypeLabels, WorkerLabels,
};
use super::state::{OperatorState, StateReader};

/// What every name begins with.
pub const PREFIX: &str = "gitopsreverser";

/// A registry for our metrics, with the prefix that is documented.
#[must_use]
pub fn registry() -> Registry {
    Registry::with_prefix(PREFIX)
}

/// A lone change is to be pushed within half a second, and a busy cluster within the longest wait.
const EVENT_TO_PUSH_BUCKETS: [f64; 14] = [
    0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0,
];
/// From a server on the same machine to one that is about to give up.
const PUSH_BUCKETS: [f64; 11] = [0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// The webhook's own time: a usual object takes some tens of microseconds.
const ADMISSION_BUCKETS: [f64; 10] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.25,
];

/// What is counted. Only [`super::facts`] counts.
#[derive(Debug)]
pub struct Metrics {
    pub(super) objects_scanned: Family<TypeLabels, Counter>,
    pub(super) objects_written: Family<TypeLabels, Counter>,
    pub(super) files_deleted: Family<DestinationLabels, Counter>,
    pub(super) events_processed: Counter,
    pub(super) commits: Counter,
    pub(super) commit_bytes: Counter,
    pub(super) commit_batches: Counter,
    pub(super) rebase_retries: Counter,
    pub(super) push_retries: Family<BranchLabels, Counter>,
    pub(super) discovery_errors: Counter,
    pub(super) attribution_store_errors: Counter,
    pub(super) attribution_store_dropped: Counter,
    pub(super) ownership_conflicts: Counter,
    pub(super) marker_conflicts: Family<DestinationLabels, Counter>,
    pub(super) enrich_hits: Counter,
    pub(super) enrich_misses: Counter,
    pub(super) kv_evictions: Counter,
    pub(super) lease_acquire_failures: Family<WorkerLabels, Counter>,
    pub(super) event_to_push: Histogram,
    pub(super) push_duration: Histogram,
    pub(super) admission_reviews: Family<AdmissionLabels, Counter>,
    pub(super) admission_duration: Histogram,
    pub(super) admission_connections_refused: Counter,
    pub(super) leader: Gauge,
    pub(super) objects_not_ready: Family<NotReadyLabels, Gauge>,
    pub(super) webhook_registered: Gauge,
    pub(super) webhook_certificate_end: Gauge,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            objects_scanned: Family::default(),
            objects_written: Family::default(),
            files_deleted: Family::default(),
            events_processed: Counter::default(),
            commits: Counter::default(),
            commit_bytes: Counter::default(),
            commit_batches: Counter::default(),
            rebase_retries: Counter::default(),
            push_retries: Family::default(),
            discovery_errors: Counter::default(),
            attribution_store_errors: Counter::default(),
            attribution_store_dropped: Counter::default(),
            ownership_conflicts: Counter::default(),
            marker_conflicts: Family::default(),
            enrich_hits: Counter::default(),
            enrich_misses: Counter::default(),
            kv_evictions: Counter::default(),
            lease_acquire_failures: Family::default(),
            event_to_push: Histogram::new(EVENT_TO_PUSH_BUCKETS),
            push_duration: Histogram::new(PUSH_BUCKETS),
            admission_reviews: Family::default(),
            admission_duration: Histogram::new(ADMISSION_BUCKETS),
            admission_connections_refused: Counter::default(),
            leader: Gauge::default(),
            objects_not_ready: Family::default(),
            webhook_registered: Gauge::default(),
            webhook_certificate_end: Gauge::default(),
        }
    }
}

/// What a metric is about.
#[derive(Debug, Clone)]
struct Description {
    /// Without prefix, unit and `_total`, all of which the encoder adds.
    name: &'static str,
    unit: Option<Unit>,
    help: &'static str,
}

const fn about(name: &'static str, help: &'static str) -> Description {
    Description {
        name,
        unit: None,
        help,
    }
}

const fn measured(name: &'static str, unit: Unit, help: &'static str) -> Description {
    Description {
        name,
        unit: Some(unit),
        help,
    }
}

/// Encodes all metrics. A registry leaves out what has no value yet; here a metric is described
/// from the first scrape on, so that a dashboard or an alert can be checked before anything happens.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) metrics: Arc<Metrics>,
    pub(super) state: Arc<StateReader>,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        encode_counts(&self.metrics, &mut encoder)?;
        encode_state(&self.state.read(), Instant::now(), &mut encoder)
    }
}

fn encode_counts(metrics: &Metrics, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let Metrics {
        objects_scanned,
        objects_written,
        files_deleted,
        events_processed,
        commits,
        commit_bytes,
        commit_batches,
        rebase_retries,
        push_retries,
        discovery_errors,
        attribution_store_errors,
        attribution_store_dropped,
        ownership_conflicts,
        marker_conflicts,
        enrich_hits,
        enrich_misses,
        kv_evictions,
        lease_acquire_failures,
        event_to_push,
        push_duration,
        admission_reviews,
        admission_duration,
        admission_connections_refused,
        leader,
        objects_not_ready,
        webhook_registered,
        webhook_certificate_end,
    } = metrics;
    #[rustfmt::skip]
    let all: &[(Description, &dyn EncodeMetric)] = &[
        (about("objects_scanned", "Objects that were read from the API server, by lists and by watches"), objects_scanned),
        (about("events_processed", "Watch events that were processed, whether an object of theirs is selected or not"), events_processed),
        (about("objects_written", "Objects whose files were created or changed by a pushed commit"), objects_written),
        (about("files_deleted", "Files that were removed by a pushed commit"), files_deleted),
        (about("commits", "Commits that the remote has confirmed"), commits),
        (measured("commit", Unit::Bytes, "Content of the files that were created or changed by pushed commits"), commit_bytes),
        (about("commit_batches", "Batches of changes that were pushed, of one commit or several"), commit_batches),
        (about("rebase_retries", "Batches that were computed again because somebody else had moved the branch"), rebase_retries),
        (about("push_retries", "Pushes that failed and were tried again"), push_retries),
        (about("discovery_errors", "Groups of the API server whose types could not be found out"), discovery_errors),
        (about("ownership_conflicts", "Times that a batch had to wait because another installation has the branch or the folder"), ownership_conflicts),
        (about("marker_conflicts", "Times that a folder was found to carry the mark of another installation"), marker_conflicts),
        (about("enrich_hits", "Changes that a user was found for"), enrich_hits),
        (about("enrich_misses", "Changes that nobody was found for, and that the operator is the author of"), enrich_misses),
        (about("kv_evictions", "Records of who tried what that had to go before their time, for want of room"), kv_evictions),
        (about("attribution_store_errors", "Times that the store of who tried what that replicas share could not be used, and records in it that nobody can read"), attribution_store_errors),
        (about("attribution_store_dropped", "Records of who tried what that were not shared, because too many waited for the store"), attribution_store_dropped),
        (about("lease_acquire_failures", "Attempts to take or renew a Lease that failed, by the name of the Lease"), lease_acquire_failures),
        (measured("event_to_push", Unit::Seconds, "Time from the watch event of a change until the remote confirmed its commit"), event_to_push),
        (measured("push_duration", Unit::Seconds, "Time that a push took, from the start of git until the remote confirmed"), push_duration),
        (about("admission_reviews", "Questions that the webhook was asked before changes were stored, by what became of them"), admission_reviews),
        (measured("admission_duration", Unit::Seconds, "Time that the webhook took for a question, once it had arrived"), admission_duration),
        (about("admission_connections_refused", "Connections to the webhook that were refused: no certificate, no handshake, or too many at once"), admission_connections_refused),
        (about("leader", "Whether this replica leads and writes (1) or stands by (0)"), leader),
        (about("objects_not_ready", "Objects of the four kinds that are not Ready, as the leader last told their status"), objects_not_ready),
        (about("webhook_registered", "Whether the API server asks the webhook (1) or not (0), as this replica last wrote it"), webhook_registered),
        (measured("webhook_certificate_end", Unit::Seconds, "When the certificate that the webhook shows ends, in seconds since 1970; 0 while there is none"), webhook_certificate_end),
    ];
    for (description, metric) in all {
        encode(description, *metric, encoder)?;
    }
    Ok(())
}

fn encode_state(
    state: &OperatorState,
    now: Instant,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let OperatorState {
        watched_types,
        unknown_scopes,
        active_workers,
        branches,
        last_round: _,
    } = state;
    #[rustfmt::skip]
    let singles = [
        (about("watched_types", "Types that are watched"), watched_types),
        (about("unknown_scopes", "Types, in all namespaces or in one, that could not be listed completely; their files stay as they are"), unknown_scopes),
        (about("repo_branch_active_workers", "Branches that are being written at this moment"), active_workers),
    ];
    for (description, value) in singles {
        encode(&description, &ConstGauge::new(*value as u64), encoder)?;
    }
    let depths = branches
        .iter()
        .map(|branch| (&branch.branch, branch.queue_depth as u64));
    let depth = about("repo_branch_queue_depth", "Files that wait to be pushed");
    encode_per_branch(&depth, depths, encoder)?;
    let held = branches
        .iter()
        .map(|branch| (&branch.branch, branch.held_back as u64));
    let held_back = about(
        "repo_branch_deletions_held_back",
        "Files that stay although their objects are gone, because spec.prune.mode or --deletes-cap-per-cycle holds their deletion back",
    );
    encode_per_branch(&held_back, held, encoder)?;
    let ages = branches.iter().filter_map(|branch| {
        let age = now.saturating_duration_since(branch.last_push?);
        Some((&branch.branch, age.as_secs_f64()))
    });
    let age = measured(
        "last_push_age",
        Unit::Seconds,
        "Time since the last successful push; nothing before the first",
    );
    encode_per_branch(&age, ages, encoder)
}

fn encode(
    of: &Description,
    metric: &dyn EncodeMetric,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let Description { name, unit, help } = of;
    let encoder = encoder.encode_descriptor(name, help, unit.as_ref(), metric.metric_type())?;
    metric.encode(encoder)
}

/// A gauge for each branch, and its description also where there is none.
fn encode_per_branch<'a, N: EncodeGaugeValue>(
    of: &Description,
    values: impl Iterator<Item = (&'a BranchLabels, N)>,
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let Description { name, unit, help } = of;
    let mut encoder = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
    for (labels, value) in values {
        encoder.encode_family(labels)?.encode_gauge(&value)?;
    }
    Ok(())
}
