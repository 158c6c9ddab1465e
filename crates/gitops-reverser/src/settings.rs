//! The flags of `controller`, read once: everything after this knows types and no text.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use reverser_api::git_destination::SecretsMode;
use reverser_core::attribution::StoreLimits;
use reverser_core::noise::NoiseFilter;
use reverser_git::{Person, Scheme};

use crate::admission::CertificateSource;
use crate::attribution::AuthorMapName;
use crate::attribution::shared_records::StoreAddress;
use crate::command_line::{
    AttributionArguments, CommitArguments, ControllerArguments, DestinationArguments,
    DiscoveryArguments, GitBatchArguments, LeaseArguments, TelemetryArguments, WebhookArguments,
    WorkArguments,
};
use crate::leases::LeaseSettings;
use crate::telemetry::logging::{LogFilter, LogFormat};

mod duration;
mod excluded_type;
mod refusal;
mod repo_urls;
mod values;

pub use excluded_type::ExcludedType;
pub use refusal::{BadValue, SettingsError, environment_variable};
pub use repo_urls::{AllowedRepoUrls, BadUrlGlob};

use refusal::At;
use values::Count;

/// What the flags of `controller` say.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Whether objects are watched and written; without, the four kinds are only checked.
    pub enable_watch_ingestion: bool,
    /// The file that says how to reach the cluster, if it is not where clients look for it anyway.
    pub kubeconfig: Option<PathBuf>,
    /// The name of this installation, the same for all of its replicas.
    pub instance_id: String,
    /// The ClusterRole with which everything goes that is made in the cluster.
    pub owner_cluster_role: Option<String>,
    /// What is watched.
    pub discovery: DiscoverySettings,
    /// Who writes, where several could.
    pub ownership: OwnershipSettings,
    /// How much is done at once, and where.
    pub work: WorkSettings,
    /// When changes are committed and pushed.
    pub batch: BatchSettings,
    /// What may go where, and what may be removed.
    pub destination: DestinationSettings,
    /// Who commits.
    pub committer: Person,
    /// Who made changes.
    pub attribution: AttributionSettings,
    /// How the API server asks who did it.
    pub webhook: WebhookSettings,
    /// How it is observed.
    pub telemetry: TelemetrySettings,
}

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoverySettings {
    /// How often the types that the cluster serves are asked for.
    pub refresh: Duration,
    /// Whether rules that name no resources select every type.
    pub watch_all: bool,
    /// Types that no rule selects unless it names them, beside those that are left out by default.
    pub exclude: BTreeSet<ExcludedType>,
    /// Whether types are left out by default.
    pub default_exclusions: bool,
    /// The most types that are watched at once.
    pub max_types: usize,
    /// The most lists that run at once.
    pub max_concurrent_lists: usize,
    /// The rules about objects that no person wrote that apply.
    pub noise: NoiseFilter,
}

/// Who writes, where several could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipSettings {
    /// Whether replicas agree on a leader.
    pub leader_elect: bool,
    /// How leases are kept.
    pub leases: LeaseSettings,
    /// Where the leases of branches are, if not beside the operator.
    pub leases_namespace: Option<String>,
    /// After this time the folder of an installation that is not there any more is taken over;
    /// nothing means never.
    pub take_over_after: Option<Duration>,
}

/// How much is done at once, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkSettings {
    /// The most branches that are written at the same time.
    pub workers_max_global: usize,
    /// The most branches of one repository that are written at the same time.
    pub workers_max_per_repo: usize,
    /// Where the clones are kept.
    pub folder: PathBuf,
}

/// When changes are committed and pushed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchSettings {
    /// Push as soon as this many files wait.
    pub max_files: usize,
    /// Push as soon as this many bytes wait.
    pub max_bytes: usize,
    /// Push when the oldest change has waited this long.
    pub max_wait: Duration,
    /// Push when nothing has changed for this long.
    pub quiet: Duration,
    /// How often each remote is asked for its branch.
    pub poll: Duration,
}

/// What may go where, and what may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationSettings {
    /// The most files that one cycle removes from one destination.
    pub deletes_cap: DeletesCap,
    /// How repositories may be reached.
    pub allowed_schemes: Vec<Scheme>,
    /// The repositories that may be written.
    pub allowed_repo_urls: AllowedRepoUrls,
    /// How Secrets are written where a destination does not say.
    pub secrets_mode: SecretsMode,
}

/// The most files that one cycle removes from one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletesCap {
    /// All that have to go.
    None,
    /// This many, in the order of their paths.
    AtMost(usize),
}

/// Who made changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttributionSettings {
    /// How long a commit waits for names.
    pub grace: Duration,
    /// How long it is remembered who tried what.
    pub ttl: Duration,
    /// How many attempts are remembered.
    pub max_entries: usize,
    /// Where real names and addresses are written down.
    pub author_map: Option<AuthorMapName>,
    /// Where replicas share it, if they do.
    pub store: Option<StoreAddress>,
}

/// How the API server asks who did it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookSettings {
    /// Where the webhook is served, if anywhere.
    pub address: Option<SocketAddr>,
    /// The URL by which the API server reaches it, if not by its Service.
    pub url: Option<String>,
    /// The Service.
    pub service_name: String,
    /// The namespace of the Service, if it is not the operator's.
    pub service_namespace: Option<String>,
    /// The ValidatingWebhookConfiguration.
    pub configuration_name: String,
    /// Where certificates come from.
    pub certificates: CertificateSource,
    /// The authority of callers, if they need a certificate.
    pub client_authority: Option<PathBuf>,
}

/// How it is observed.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetrySettings {
    /// Where `/metrics` is served, if anywhere.
    pub metrics_address: Option<SocketAddr>,
    /// Where `/healthz` and `/readyz` are served, if anywhere.
    pub probe_address: Option<SocketAddr>,
    /// How log lines look.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_filter: LogFilter,
    /// Where spans are sent, if anywhere.
    pub collector: Option<String>,
}

impl Settings {
    /// Reads every flag, and refuses the first that cannot be used.
    pub fn from_arguments(arguments: ControllerArguments) -> Result<Self, SettingsError> {
        // Without `..`, here and below: a new flag does not compile until somebody has thought of it.
        let ControllerArguments {
            enable_watch_ingestion,
            kubeconfig,
            instance_id,
            owner_cluster_role,
            discovery,
            leases,
            work,
            batch,
            destination,
            commit,
            attribution,
            webhook,
            telemetry,
        } = arguments;
        Ok(Self {
            enable_watch_ingestion: values::boolean(&enable_watch_ingestion)
                .at("enable-watch-ingestion")?,
            kubeconfig: kubeconfig
                .map(|path| values::file(&path))
                .transpose()
                .at("kubeconfig")?,
            instance_id: values::instance_id(&instance_id).at("instance-id")?,
            owner_cluster_role: given(owner_cluster_role)
                .map(|text| values::role_name(&text))
                .transpose()
                .at("owner-cluster-role")?,
            discovery: DiscoverySettings::from_arguments(discovery)?,
            ownership: OwnershipSettings::from_arguments(leases)?,
            work: WorkSettings::from_arguments(work)?,
            batch: BatchSettings::from_arguments(batch)?,
            destination: DestinationSettings::from_arguments(destination)?,
            committer: committer(commit)?,
            attribution: AttributionSettings::from_arguments(attribution)?,
            webhook: WebhookSettings::from_arguments(webhook)?,
            telemetry: TelemetrySettings::from_arguments(telemetry)?,
        })
    }
}

impl DiscoverySettings {
    fn from_arguments(arguments: DiscoveryArguments) -> Result<Self, SettingsError> {
        const TYPES: Count = Count::from(1).to(5_000).such_as("300");
        const LISTS: Count = Count::from(1).to(1_000).such_as("50");
        const SHORTEST_REFRESH: Duration = Duration::from_secs(10);
        const LONGEST_REFRESH: Duration = Duration::from_hours(24);
        let DiscoveryArguments {
            discovery_refresh,
            watch_all,
            discovery_exclude,
            discovery_no_default_exclusions,
            discovery_max_types,
            watch_max_concurrent_lists,
            disable_noise_rule,
        } = arguments;
        let no_default_exclusions = values::boolean(&discovery_no_default_exclusions)
            .at("discovery-no-default-exclusions")?;
        Ok(Self {
            refresh: values::duration(&discovery_refresh, SHORTEST_REFRESH, LONGEST_REFRESH)
                .at("discovery-refresh")?,
            watch_all: values::boolean(&watch_all).at("watch-all")?,
            exclude: values::list(&discovery_exclude)
                .map(values::excluded_type)
                .collect::<Result<_, _>>()
                .at("discovery-exclude")?,
            default_exclusions: !no_default_exclusions,
            max_types: TYPES.read(&discovery_max_types).at("discovery-max-types")?,
            max_concurrent_lists: LISTS
                .read(&watch_max_concurrent_lists)
                .at("watch-max-concurrent-lists")?,
            noise: NoiseFilter::without(values::list(&disable_noise_rule))
                .map_err(BadValue::NoiseRule)
                .at("disable-noise-rule")?,
        })
    }
}

impl OwnershipSettings {
    fn from_arguments(arguments: LeaseArguments) -> Result<Self, SettingsError> {
        const SECONDS: Count = Count::from(1).to(3_600).such_as("8");
        const LEASE_SECONDS: Count = Count::from(2).to(3_600).such_as("24");
        const LONGEST_ABSENCE: Duration = Duration::from_hours(10_000);
        let LeaseArguments {
            leader_elect,
            leases_renew_sec,
            leases_lease_sec,
            leases_namespace,
            leases_take_over_after,
        } = arguments;
        let renew = SECONDS
            .read_seconds(&leases_renew_sec)
            .at("leases-renew-sec")?;
        let length = LEASE_SECONDS
            .read_seconds(&leases_lease_sec)
            .at("leases-lease-sec")?;
        if length < renew * 2 {
            return Err(BadValue::LeaseTooShort { renew, length }).at("leases-lease-sec");
        }
        Ok(Self {
            leader_elect: values::boolean(&leader_elect).at("leader-elect")?,
            leases: LeaseSettings { renew, length },
            leases_namespace: leases_namespace
                .map(|name| values::namespace(&name))
                .transpose()
                .at("leases-namespace")?,
            take_over_after: match leases_take_over_after.as_str() {
                "never" => None,
                // What is not renewed for less may only be late.
                text => Some(
                    values::duration(text, length, LONGEST_ABSENCE).at("leases-take-over-after")?,
                ),
            },
        })
    }
}

impl WorkSettings {
    fn from_arguments(arguments: WorkArguments) -> Result<Self, SettingsError> {
        const WORKERS: Count = Count::from(1).to(1_000).such_as("24");
        const WORKERS_PER_REPO: Count = Count::from(1).to(1_000).such_as("5");
        let WorkArguments {
            workers_max_global,
            workers_max_per_repo,
            work_dir,
        } = arguments;
        Ok(Self {
            workers_max_global: WORKERS.read(&workers_max_global).at("workers-max-global")?,
            workers_max_per_repo: WORKERS_PER_REPO
                .read(&workers_max_per_repo)
                .at("workers-max-per-repo")?,
            folder: values::folder(&work_dir).at("work-dir")?,
        })
    }
}

impl BatchSettings {
    fn from_arguments(arguments: GitBatchArguments) -> Result<Self, SettingsError> {
        const FILES: Count = Count::from(1).to(100_000).such_as("200");
        const MEBIBYTES: Count = Count::from(1).to(1_024).such_as("1");
        const WAIT_SECONDS: Count = Count::from(1).to(3_600).such_as("20");
        const QUIET_MILLISECONDS: Count = Count::from(0).to(60_000).such_as("300");
        const POLL_SECONDS: Count = Count::from(1).to(86_400).such_as("60");
        let GitBatchArguments {
            git_batch_max_files,
            git_batch_max_bytes_mib,
            git_batch_max_wait_sec,
            git_batch_quiet_ms,
            git_poll_sec,
        } = arguments;
        let mebibytes = MEBIBYTES
            .read(&git_batch_max_bytes_mib)
            .at("git-batch-max-bytes-mib")?;
        let max_wait = WAIT_SECONDS
            .read_seconds(&git_batch_max_wait_sec)
            .at("git-batch-max-wait-sec")?;
        let quiet = QUIET_MILLISECONDS
            .read_milliseconds(&git_batch_quiet_ms)
            .at("git-batch-quiet-ms")?;
        if quiet > max_wait {
            return Err(BadValue::QuietLongerThanWait { quiet, max_wait }).at("git-batch-quiet-ms");
        }
        Ok(Self {
            max_files: FILES.read(&git_batch_max_files).at("git-batch-max-files")?,
            max_bytes: mebibytes << 20,
            max_wait,
            quiet,
            poll: POLL_SECONDS
                .read_seconds(&git_poll_sec)
                .at("git-poll-sec")?,
        })
    }
}

impl DestinationSettings {
    fn from_arguments(arguments: DestinationArguments) -> Result<Self, SettingsError> {
        let DestinationArguments {
            deletes_cap_per_cycle,
            allow_url_schemes,
            allowed_repo_urls,
            secrets_mode,
        } = arguments;
        let allowed_schemes = values::schemes(&allow_url_schemes).at("allow-url-schemes")?;
        let globs = values::list(&allowed_repo_urls);
        Ok(Self {
            deletes_cap: values::deletes_cap(&deletes_cap_per_cycle).at("deletes-cap-per-cycle")?,
            allowed_repo_urls: AllowedRepoUrls::parse(globs, &allowed_schemes)
                .map_err(BadValue::UrlGlob)
                .at("allowed-repo-urls")?,
            allowed_schemes,
            secrets_mode: values::secrets_mode(&secrets_mode).at("secrets-mode")?,
        })
    }
}

impl Default for AttributionSettings {
    /// As without flags.
    fn default() -> Self {
        let StoreLimits { ttl, entries, .. } = StoreLimits::default();
        Self {
            grace: Duration::from_millis(250),
            ttl,
            max_entries: entries,
            author_map: None,
            store: None,
        }
    }
}

impl AttributionSettings {
    /// How much is remembered, and how long.
    #[must_use]
    pub fn limits(&self) -> StoreLimits {
        StoreLimits {
            ttl: self.ttl,
            entries: self.max_entries,
            ..StoreLimits::default()
        }
    }

    fn from_arguments(arguments: AttributionArguments) -> Result<Self, SettingsError> {
        const GRACE_MILLISECONDS: Count = Count::from(0).to(10_000).such_as("250");
        const SECONDS: Count = Count::from(1).to(3_600).such_as("60");
        const ENTRIES: Count = Count::from(1).to(1_000_000).such_as("10000");
        let AttributionArguments {
            attribution_grace_ms,
            attribution_ttl_sec,
            attribution_max_entries,
            attribution_store,
            attribution_store_credentials_dir,
            author_map_configmap,
        } = arguments;
        let credentials = attribution_store_credentials_dir
            .filter(|text| !text.is_empty())
            .map(|folder| values::folder(&folder))
            .transpose()
            .at("attribution-store-credentials-dir")?;
        Ok(Self {
            grace: GRACE_MILLISECONDS
                .read_milliseconds(&attribution_grace_ms)
                .at("attribution-grace-ms")?,
            ttl: SECONDS
                .read_seconds(&attribution_ttl_sec)
                .at("attribution-ttl-sec")?,
            max_entries: ENTRIES
                .read(&attribution_max_entries)
                .at("attribution-max-entries")?,
            author_map: author_map_configmap
                .map(|name| values::config_map(&name))
                .transpose()
                .at("author-map-configmap")?,
            store: match attribution_store.as_str() {
                "memory" => None,
                url => Some(
                    StoreAddress::parse(url, credentials)
                        .map_err(BadValue::Store)
                        .at("attribution-store")?,
                ),
            },
        })
    }
}

impl WebhookSettings {
    fn from_arguments(arguments: WebhookArguments) -> Result<Self, SettingsError> {
        let WebhookArguments {
            webhook_bind_address,
            webhook_url,
            webhook_service_name,
            webhook_service_namespace,
            webhook_configuration_name,
            webhook_certificate_secret,
            webhook_cert_dir,
            webhook_inject_ca_from,
            webhook_client_ca,
        } = arguments;
        let secret =
            values::object_name(&webhook_certificate_secret).at("webhook-certificate-secret")?;
        let inject_from = given(webhook_inject_ca_from)
            .map(|text| values::certificate(&text))
            .transpose()
            .at("webhook-inject-ca-from")?;
        let certificates = match given(webhook_cert_dir) {
            Some(folder) => CertificateSource::Folder {
                folder: values::folder(&folder).at("webhook-cert-dir")?,
                inject_from,
            },
            None if inject_from.is_some() => {
                return Err(BadValue::NothingToInject).at("webhook-inject-ca-from");
            }
            None => CertificateSource::Own { secret },
        };
        Ok(Self {
            address: values::address(&webhook_bind_address).at("webhook-bind-address")?,
            url: given(webhook_url)
                .map(|text| values::webhook_url(&text))
                .transpose()
                .at("webhook-url")?,
            service_name: values::dns_label(&webhook_service_name).at("webhook-service-name")?,
            service_namespace: given(webhook_service_namespace)
                .map(|text| values::dns_label(&text))
                .transpose()
                .at("webhook-service-namespace")?,
            configuration_name: values::object_name(&webhook_configuration_name)
                .at("webhook-configuration-name")?,
            certificates,
            client_authority: given(webhook_client_ca)
                .map(|text| values::absolute_file(&text))
                .transpose()
                .at("webhook-client-ca")?,
        })
    }
}

impl TelemetrySettings {
    fn from_arguments(arguments: TelemetryArguments) -> Result<Self, SettingsError> {
        let TelemetryArguments {
            metrics_bind_address,
            health_probe_bind_address,
            log_format,
            log_level,
            otlp_endpoint,
        } = arguments;
        let metrics_address = values::address(&metrics_bind_address).at("metrics-bind-address")?;
        let probe_address =
            values::address(&health_probe_bind_address).at("health-probe-bind-address")?;
        // Port 0 lets the system choose two different ports.
        if let (Some(metrics), Some(probe)) = (metrics_address, probe_address)
            && metrics == probe
            && metrics.port() != 0
        {
            return Err(BadValue::SameAddress(probe)).at("health-probe-bind-address");
        }
        Ok(Self {
            metrics_address,
            probe_address,
            log_format: values::log_format(&log_format).at("log-format")?,
            log_filter: values::log_filter(&log_level).at("log-level")?,
            collector: given(otlp_endpoint)
                .map(|text| values::collector(&text))
                .transpose()
                .at("otlp-endpoint")?,
        })
    }
}

/// A flag that a template leaves empty is not given.
fn given(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn committer(arguments: CommitArguments) -> Result<Person, SettingsError> {
    let CommitArguments {
        committer_name,
        committer_email,
    } = arguments;
    // A good address beside the name shows whose fault it is.
    Person::new(&committer_name, "")
        .map_err(BadValue::Person)
        .at("committer-name")?;
    Person::new(&committer_name, &committer_email)
        .map_err(BadValue::Person)
        .at("committer-email")
}

#[cfg(test)]
mod tests;
