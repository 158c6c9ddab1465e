//! The flags of `controller`, as text: [`crate::settings`] turns them into types and says what is
//! wrong with them, which a person reads with more profit than a parser's complaint.

use std::fmt::Write as _;

use clap::Args;
use reverser_core::noise::NOISE_RULES;

/// The flags of `controller`, by what they are about.
#[derive(Debug, Clone, Args)]
// Whoever adds arguments behind those of a chart means the last one.
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  gitops-reverser controller
  gitops-reverser controller --kubeconfig ~/.kube/config --work-dir /tmp/reverser --log-format text
  GITOPS_REVERSER_DELETES_CAP_PER_CYCLE=0 gitops-reverser controller

Exit status: 0 after SIGTERM or SIGINT, 1 if it cannot go on, 2 if a flag cannot be used."
)]
pub struct ControllerArguments {
    /// Watch objects and write them to Git; with false the four kinds are checked and nothing else
    /// happens
    #[arg(
        long,
        env = "GITOPS_REVERSER_ENABLE_WATCH_INGESTION",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true"
    )]
    pub enable_watch_ingestion: String,

    /// The file that says how to reach the cluster; left out, KUBECONFIG names it, and without that
    /// it is the cluster that this runs in
    #[arg(long, env = "GITOPS_REVERSER_KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<String>,

    /// The name of this installation in commits and in the marker of each folder, the same for all
    /// of its replicas; two installations that write to one repository need two names
    #[arg(
        long,
        env = "GITOPS_REVERSER_INSTANCE_ID",
        value_name = "NAME",
        default_value = "gitops-reverser"
    )]
    pub instance_id: String,

    /// The ClusterRole of this installation: what the operator makes in the cluster (the configuration
    /// and the certificates of the webhook, Leases) is deleted with it, so that uninstalling leaves
    /// nothing behind; left out, whoever uninstalls deletes these
    #[arg(long, env = "GITOPS_REVERSER_OWNER_CLUSTER_ROLE", value_name = "NAME")]
    pub owner_cluster_role: Option<String>,

    /// What is watched.
    #[command(flatten)]
    pub discovery: DiscoveryArguments,
    /// Who writes, where several could.
    #[command(flatten)]
    pub leases: LeaseArguments,
    /// How much is done at once, and where.
    #[command(flatten)]
    pub work: WorkArguments,
    /// When changes are committed and pushed.
    #[command(flatten)]
    pub batch: GitBatchArguments,
    /// What may go where, and what may be removed.
    #[command(flatten)]
    pub destination: DestinationArguments,
    /// Who commits.
    #[command(flatten)]
    pub commit: CommitArguments,
    /// Who made changes.
    #[command(flatten)]
    pub attribution: AttributionArguments,
    /// How the API server asks who did it.
    #[command(flatten)]
    pub webhook: WebhookArguments,
    /// How it is observed.
    #[command(flatten)]
    pub telemetry: TelemetryArguments,
}

/// What is watched.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What is watched")]
pub struct DiscoveryArguments {
    /// How often the types that the cluster serves are asked for; changes of
    /// CustomResourceDefinitions and APIServices are seen at once, whatever this says
    #[arg(
        long,
        env = "GITOPS_REVERSER_DISCOVERY_REFRESH",
        value_name = "DURATION",
        default_value = "5m"
    )]
    pub discovery_refresh: String,

    /// Let rules that name no resources select every type instead of the desired-state preset
    #[arg(
        long,
        env = "GITOPS_REVERSER_WATCH_ALL",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false"
    )]
    pub watch_all: String,

    /// A type that no rule selects unless it names it, such as widgets or widgets.example.com, in
    /// addition to those that are left out by default (pods, events, leases and their like); can be
    /// given several times or with commas; left out, nothing is added
    #[arg(
        long,
        env = "GITOPS_REVERSER_DISCOVERY_EXCLUDE",
        value_name = "RESOURCE[.GROUP]"
    )]
    pub discovery_exclude: Vec<String>,

    /// Leave out only what --discovery-exclude names, and not pods, events, leases and their like
    #[arg(
        long,
        env = "GITOPS_REVERSER_DISCOVERY_NO_DEFAULT_EXCLUSIONS",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "false"
    )]
    pub discovery_no_default_exclusions: String,

    /// The most types that are watched at once, one connection to the API server each; rules say
    /// which of their types are over the limit, and the files of those stay
    #[arg(
        long,
        env = "GITOPS_REVERSER_DISCOVERY_MAX_TYPES",
        value_name = "N",
        default_value = "300"
    )]
    pub discovery_max_types: String,

    /// The most lists that run at once, to spare the API server at start
    #[arg(
        long,
        env = "GITOPS_REVERSER_WATCH_MAX_CONCURRENT_LISTS",
        value_name = "N",
        default_value = "50"
    )]
    pub watch_max_concurrent_lists: String,

    /// A rule by which objects that no person wrote are left out, to be turned off; can be given
    /// several times or with commas; left out, all of them apply
    #[arg(
        long,
        env = "GITOPS_REVERSER_DISABLE_NOISE_RULE",
        value_name = "NAME",
        long_help = noise_rules_help()
    )]
    pub disable_noise_rule: Vec<String>,
}

/// Who writes, where several could.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Replicas and installations")]
pub struct LeaseArguments {
    /// Let the replicas of an installation agree on a leader, by a Lease: it alone writes, and the
    /// others stand by; with false there must be only one replica
    #[arg(
        long,
        env = "GITOPS_REVERSER_LEADER_ELECT",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        default_value = "true"
    )]
    pub leader_elect: String,

    /// How often a Lease that is held is renewed, the leader's and that of each branch
    #[arg(
        long,
        env = "GITOPS_REVERSER_LEASES_RENEW_SEC",
        value_name = "SECONDS",
        default_value = "8"
    )]
    pub leases_renew_sec: String,

    /// How long a Lease lasts after its last renewal: as long as a leader that was killed is waited
    /// for; at least twice the time between renewals
    #[arg(
        long,
        env = "GITOPS_REVERSER_LEASES_LEASE_SEC",
        value_name = "SECONDS",
        default_value = "24"
    )]
    pub leases_lease_sec: String,

    /// The namespace of the Leases of branches, where several installations of a cluster take turns at
    /// one branch: the same for all of them; left out, it is the operator's own
    #[arg(
        long,
        env = "GITOPS_REVERSER_LEASES_NAMESPACE",
        value_name = "NAMESPACE"
    )]
    pub leases_namespace: Option<String>,

    /// After this time the folder of an installation of the same cluster that has not been seen any
    /// more is taken over, where both have their Leases in one namespace; never leaves that to people
    #[arg(
        long,
        env = "GITOPS_REVERSER_LEASES_TAKE_OVER_AFTER",
        value_name = "DURATION|never",
        default_value = "168h"
    )]
    pub leases_take_over_after: String,
}

/// How much is done at once, and where.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Work")]
pub struct WorkArguments {
    /// The most branches that are written at the same time
    #[arg(
        long,
        env = "GITOPS_REVERSER_WORKERS_MAX_GLOBAL",
        value_name = "N",
        default_value = "24"
    )]
    pub workers_max_global: String,

    /// The most branches of one repository that are written at the same time
    #[arg(
        long,
        env = "GITOPS_REVERSER_WORKERS_MAX_PER_REPO",
        value_name = "N",
        default_value = "5"
    )]
    pub workers_max_per_repo: String,

    /// Where the clones are kept; they are only a cache, and made again if they are lost
    #[arg(
        long,
        env = "GITOPS_REVERSER_WORK_DIR",
        value_name = "FOLDER",
        default_value = "/var/cache/gitops-reverser"
    )]
    pub work_dir: String,
}

/// When changes are committed and pushed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Batches")]
pub struct GitBatchArguments {
    /// Push as soon as this many files wait
    #[arg(
        long,
        env = "GITOPS_REVERSER_GIT_BATCH_MAX_FILES",
        value_name = "N",
        default_value = "200"
    )]
    pub git_batch_max_files: String,

    /// Push as soon as this many MiB of changed files wait
    #[arg(
        long,
        env = "GITOPS_REVERSER_GIT_BATCH_MAX_BYTES_MIB",
        value_name = "MIB",
        default_value = "1"
    )]
    pub git_batch_max_bytes_mib: String,

    /// Push when the oldest change has waited this many seconds, however busy the cluster is
    #[arg(
        long,
        env = "GITOPS_REVERSER_GIT_BATCH_MAX_WAIT_SEC",
        value_name = "SECONDS",
        default_value = "20"
    )]
    pub git_batch_max_wait_sec: String,

    /// Push when nothing has changed for this many milliseconds: long enough that `kubectl apply` of
    /// a folder is one commit, short enough that nobody waits
    #[arg(
        long,
        env = "GITOPS_REVERSER_GIT_BATCH_QUIET_MS",
        value_name = "MILLISECONDS",
        default_value = "300"
    )]
    pub git_batch_quiet_ms: String,

    /// How often each remote is asked for its branch, so that edits by hand and deleted branches are
    /// put right in a quiet cluster too
    #[arg(
        long,
        env = "GITOPS_REVERSER_GIT_POLL_SEC",
        value_name = "SECONDS",
        default_value = "60"
    )]
    pub git_poll_sec: String,
}

/// What may go where, and what may be removed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct DestinationArguments {
    /// The most files that one cycle removes from one destination, in the order of their paths: none
    /// is no limit, 0 removes nothing
    #[arg(
        long,
        env = "GITOPS_REVERSER_DELETES_CAP_PER_CYCLE",
        value_name = "N|none",
        default_value = "none"
    )]
    pub deletes_cap_per_cycle: String,

    /// The kinds of repository URLs that may be used, of https, ssh, http and file: the last two only
    /// where you name them, because one is not encrypted and the other reads and writes this machine
    #[arg(
        long,
        env = "GITOPS_REVERSER_ALLOW_URL_SCHEMES",
        value_name = "SCHEMES",
        default_value = "https,ssh"
    )]
    pub allow_url_schemes: String,

    /// Repositories that may be written, such as https://git.example.com/platform/**: whoever may
    /// create a rule and a repository can otherwise send what the rule selects anywhere; * stands for
    /// any characters but /, ** for any; can be given several times or with commas; left out, any
    /// repository may be written
    #[arg(long, env = "GITOPS_REVERSER_ALLOWED_REPO_URLS", value_name = "GLOB")]
    pub allowed_repo_urls: Vec<String>,

    /// How Secrets are written where a destination does not say: AsIs in base64, which everyone who
    /// reads the repository can decode; Redact with hashes in the place of values; Skip not at all
    #[arg(
        long,
        env = "GITOPS_REVERSER_SECRETS_MODE",
        value_name = "MODE",
        default_value = "AsIs"
    )]
    pub secrets_mode: String,
}

/// Who commits.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Commits")]
pub struct CommitArguments {
    /// The committer of every commit, and the author where nobody is known; a GitRepoConfig can name
    /// another
    #[arg(
        long,
        env = "GITOPS_REVERSER_COMMITTER_NAME",
        value_name = "NAME",
        default_value = "GitOps Reverser"
    )]
    pub committer_name: String,

    /// The e-mail address of the committer
    #[arg(
        long,
        env = "GITOPS_REVERSER_COMMITTER_EMAIL",
        value_name = "ADDRESS",
        default_value = "noreply@configbutler.ai"
    )]
    pub committer_email: String,
}

/// Who made changes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authors")]
pub struct AttributionArguments {
    /// How long a commit waits for the names of its changes, in milliseconds; what is written never
    /// waits longer, and nothing waits where no webhook is registered
    #[arg(
        long,
        env = "GITOPS_REVERSER_ATTRIBUTION_GRACE_MS",
        value_name = "MILLISECONDS",
        default_value = "250"
    )]
    pub attribution_grace_ms: String,

    /// How long it is remembered who tried to change what
    #[arg(
        long,
        env = "GITOPS_REVERSER_ATTRIBUTION_TTL_SEC",
        value_name = "SECONDS",
        default_value = "60"
    )]
    pub attribution_ttl_sec: String,

    /// How many attempts to change something are remembered
    #[arg(
        long,
        env = "GITOPS_REVERSER_ATTRIBUTION_MAX_ENTRIES",
        value_name = "N",
        default_value = "10000"
    )]
    pub attribution_max_entries: String,

    /// Where it is remembered who tried to change what: memory, or the URL of a Redis or Valkey that
    /// all replicas share (redis://host:6379, rediss:// with TLS), so that names survive a leader
    /// that is killed; then every replica may answer the webhook
    #[arg(
        long,
        env = "GITOPS_REVERSER_ATTRIBUTION_STORE",
        value_name = "memory|URL",
        default_value = "memory"
    )]
    pub attribution_store: String,

    /// The folder with the files username, password and ca.crt of that store, as a Secret is mounted;
    /// each of them may be missing; read for every connection, so that a new password is used; left
    /// out, the store asks for none and the authorities of the system are trusted
    #[arg(
        long,
        env = "GITOPS_REVERSER_ATTRIBUTION_STORE_CREDENTIALS_DIR",
        value_name = "FOLDER"
    )]
    pub attribution_store_credentials_dir: Option<String>,

    /// A ConfigMap, as namespace/name, with real names and addresses of users: lines such as
    /// `alice = Alice Liddell <alice@example.com>` in any of its entries; followed while running;
    /// left out, users have the names that the API server knows
    #[arg(
        long,
        env = "GITOPS_REVERSER_AUTHOR_MAP_CONFIGMAP",
        value_name = "NAMESPACE/NAME"
    )]
    pub author_map_configmap: Option<String>,
}

/// How the API server asks who did it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Authors")]
pub struct WebhookArguments {
    /// Where the webhook is served that learns who makes changes, such as :9443 or 127.0.0.1:9443; 0
    /// serves it nowhere: then no author is known
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":9443"
    )]
    pub webhook_bind_address: String,

    /// The URL by which the API server reaches the webhook where the operator runs outside of the
    /// cluster, such as https://127.0.0.1:9443/process-validating-webhook; left out, the Service of
    /// --webhook-service-name is used
    #[arg(long, env = "GITOPS_REVERSER_WEBHOOK_URL", value_name = "URL")]
    pub webhook_url: Option<String>,

    /// The Service by which the API server reaches the webhook, at its port 443
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_SERVICE_NAME",
        value_name = "NAME",
        default_value = "gitops-reverser-webhook"
    )]
    pub webhook_service_name: String,

    /// The namespace of that Service; left out, the one that the operator runs in
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_SERVICE_NAMESPACE",
        value_name = "NAMESPACE"
    )]
    pub webhook_service_namespace: Option<String>,

    /// The ValidatingWebhookConfiguration that the operator writes; two installations in one cluster
    /// need two names
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_CONFIGURATION_NAME",
        value_name = "NAME",
        default_value = "gitops-reverser"
    )]
    pub webhook_configuration_name: String,

    /// The Secret beside the operator in which it keeps the certificates that it makes for the
    /// webhook
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_CERTIFICATE_SECRET",
        value_name = "NAME",
        default_value = "gitops-reverser-webhook-certificate"
    )]
    pub webhook_certificate_secret: String,

    /// A folder with tls.crt and tls.key that somebody else keeps, such as the mounted Secret of
    /// cert-manager, instead of certificates of the operator's own; with ca.crt in it, the API server
    /// is told to trust that; left out, the operator makes its own
    #[arg(long, env = "GITOPS_REVERSER_WEBHOOK_CERT_DIR", value_name = "FOLDER")]
    pub webhook_cert_dir: Option<String>,

    /// The Certificate of cert-manager whose authority cert-manager itself writes into the
    /// configuration of the webhook, such as gitops/webhook; only with --webhook-cert-dir;
    /// left out, the operator writes it
    #[arg(
        long,
        env = "GITOPS_REVERSER_WEBHOOK_INJECT_CA_FROM",
        value_name = "NAMESPACE/NAME"
    )]
    pub webhook_inject_ca_from: Option<String>,

    /// A file with the authority of the API server's client certificate: callers without such a
    /// certificate are refused; left out, callers need none
    #[arg(long, env = "GITOPS_REVERSER_WEBHOOK_CLIENT_CA", value_name = "FILE")]
    pub webhook_client_ca: Option<String>,
}

/// How it is observed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Observing")]
pub struct TelemetryArguments {
    /// Where /metrics is served, such as :8080 or 127.0.0.1:8080; 0 serves it nowhere
    #[arg(
        long,
        env = "GITOPS_REVERSER_METRICS_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8080"
    )]
    pub metrics_bind_address: String,

    /// Where /healthz and /readyz are served, such as :8081 or 127.0.0.1:8081; 0 serves them nowhere
    #[arg(
        long,
        env = "GITOPS_REVERSER_HEALTH_PROBE_BIND_ADDRESS",
        value_name = "ADDRESS",
        default_value = ":8081"
    )]
    pub health_probe_bind_address: String,

    /// How log lines look: json for machines, text for people
    #[arg(
        long,
        env = "GITOPS_REVERSER_LOG_FORMAT",
        value_name = "json|text",
        default_value = "json"
    )]
    pub log_format: String,

    /// What is logged: error, warn, info, debug or trace, and more or less for parts of it, as in
    /// info,kube_runtime=warn; never the content of objects. While it runs, SIGUSR1 asks for one step
    /// more and SIGUSR2 for what this flag says
    #[arg(
        long,
        env = "GITOPS_REVERSER_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: String,

    /// The collector that spans are sent to, by OTLP over plain HTTP, such as
    /// http://collector.observability:4318; needs a build with the feature otlp; left out, nothing is
    /// sent
    #[arg(long, env = "GITOPS_REVERSER_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

/// The help of `--disable-noise-rule`, with every name that it takes.
fn noise_rules_help() -> String {
    let mut help = String::from(
        "A rule by which objects that no person wrote are left out, to be turned off; can be given \
         several times or with commas; left out, all of them apply:",
    );
    for rule in NOISE_RULES {
        let leaves_out = rule.leaves_out.replace('`', "");
        let _infallible = write!(help, "\n- {}: {leaves_out}", rule.name);
    }
    help
}
