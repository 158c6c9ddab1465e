//! Why a flag cannot be used, and what to write instead.

use std::net::SocketAddr;
use std::time::Duration;

use reverser_core::noise::UnknownNoiseRule;
use reverser_git::BadPerson;

use super::BadUrlGlob;
use super::duration::display;
use crate::attribution::shared_records::BadStore;

/// A flag that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("--{flag} (or {}): {problem}", environment_variable(flag))]
pub struct SettingsError {
    /// The flag, without its dashes.
    pub flag: &'static str,
    /// What is wrong with its value.
    #[source]
    pub problem: BadValue,
}

/// The environment variable that says the same as a flag.
#[must_use]
pub fn environment_variable(flag: &str) -> String {
    format!(
        "GITOPS_REVERSER_{}",
        flag.to_ascii_uppercase().replace('-', "_")
    )
}

/// What is wrong with a value, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadValue {
    /// Neither yes nor no.
    #[error("{0:?} is neither true nor false; write one of them")]
    Boolean(String),
    /// Not a number, or too small, or too large.
    #[error("{value:?} is not a whole number from {from} to {to}; write one, such as {example}")]
    Count {
        /// What was written.
        value: String,
        /// The smallest that would do.
        from: usize,
        /// The largest that would do.
        to: usize,
        /// A good one.
        example: &'static str,
    },
    /// Not a place to remember things.
    #[error(transparent)]
    Store(BadStore),
    /// Not a length of time.
    #[error("{0:?} is not a duration; write whole numbers with h, m, s or ms, such as 5m or 1h30m")]
    Duration(String),
    /// A length of time that makes no sense here.
    #[error(
        "{value:?} is shorter than {} or longer than {}; write a duration between them, such as 5m",
        display(*.shortest), display(*.longest)
    )]
    DurationRange {
        /// What was written.
        value: String,
        /// The shortest that would do.
        shortest: Duration,
        /// The longest that would do.
        longest: Duration,
    },
    /// Every batch would be cut by the longest wait.
    #[error(
        "{} of quiet are longer than the longest wait of {}, so that nothing would ever wait for \
         quiet; write at most {}, or raise --git-batch-max-wait-sec",
        display(*.quiet), display(*.max_wait), .max_wait.as_millis()
    )]
    QuietLongerThanWait {
        /// The time of quiet.
        quiet: Duration,
        /// The longest wait.
        max_wait: Duration,
    },
    /// A lease that would run out between two renewals.
    #[error(
        "a Lease of {} that is renewed every {} would be lost with one renewal that fails; write at \
         least {}, or lower --leases-renew-sec",
        display(*.length), display(*.renew), .renew.as_secs() * 2
    )]
    LeaseTooShort {
        /// The time between renewals.
        renew: Duration,
        /// The length of a lease.
        length: Duration,
    },
    /// Not a namespace.
    #[error(
        "{0:?} is not the name of a namespace: at most 63 lower-case letters, digits and '-', the \
         first and last a letter or digit; write one, such as gitops-reverser-system"
    )]
    Namespace(String),
    /// Not where a ConfigMap is.
    #[error("{0:?} is not where a ConfigMap is; write its namespace and name, such as ops/authors")]
    ConfigMap(String),
    /// No cap, and not the word for none.
    #[error(
        "{0:?} is neither a whole number nor none; write none to remove all that has to go, 0 to \
         remove nothing, or a number such as 100"
    )]
    DeletesCap(String),
    /// Not an address.
    #[error(
        "{0:?} is not an address to listen on; write :8080 for every interface, 127.0.0.1:8080 or \
         [::1]:8080 for one, or 0 to serve nothing"
    )]
    Address(String),
    /// Two servers on one address.
    #[error("{0} is the address of --metrics-bind-address too; write another port")]
    SameAddress(SocketAddr),
    /// Not a type.
    #[error(
        "{0:?} is not a type; write its plural in lower case, such as widgets, with its group if \
         only that is meant, such as widgets.example.com"
    )]
    ExcludedType(String),
    /// Not a rule.
    #[error(transparent)]
    NoiseRule(UnknownNoiseRule),
    /// Not a scheme that the operator can be made to use.
    #[error(
        "{0:?} is not a kind of repository URL; write some of https, ssh, http and file with commas \
         between them"
    )]
    Scheme(String),
    /// No repository could be reached.
    #[error("no kind of repository URL is left; write at least one of https, ssh, http and file")]
    NoScheme,
    /// Not a pattern of URLs.
    #[error(transparent)]
    UrlGlob(BadUrlGlob),
    /// Not a way to write Secrets.
    #[error("{0:?} is not a way to write Secrets; write AsIs, Redact or Skip")]
    SecretsMode(String),
    /// Not a committer.
    #[error("{0}; write a name such as GitOps Reverser, and an address such as gitops@example.com")]
    Person(BadPerson),
    /// Not a folder of our own.
    #[error(
        "{0:?} is not the absolute path of a folder of its own; write one, such as \
         /var/cache/gitops-reverser"
    )]
    Folder(String),
    /// Not a file.
    #[error("the path is empty; write that of a kubeconfig file, or leave the flag out")]
    NoFile,
    /// Not a name.
    #[error(
        "{0:?} is not a name of at most 63 letters, digits, '-', '_' and '.' that begins and ends \
         with a letter or digit; write one, such as prod-eu"
    )]
    InstanceId(String),
    /// Not the name of an object.
    #[error(
        "{0:?} is not the name of an object in Kubernetes; write lower-case letters, digits and '-', \
         such as gitops-reverser"
    )]
    ObjectName(String),
    /// Not the name of a role.
    #[error("{0:?} is not the name of a ClusterRole; write one, such as gitops-reverser")]
    RoleName(String),
    /// Not a Certificate.
    #[error(
        "{0:?} is not the namespace and name of a Certificate; write one, such as gitops/webhook"
    )]
    Certificate(String),
    /// Nobody would have a certificate to go with it.
    #[error(
        "cert-manager can write the authority only of a certificate that it keeps; mount its Secret \
         and name the folder in --webhook-cert-dir too"
    )]
    NothingToInject,
    /// Not a URL that the API server takes.
    #[error(
        "{0:?} is not a URL that an API server can call; write https, a host and a path, such as \
         https://127.0.0.1:9443/process-validating-webhook"
    )]
    WebhookUrl(String),
    /// Not a file.
    #[error(
        "{0:?} is not the absolute path of a file; write one, such as /etc/webhook/client-ca.crt"
    )]
    AbsoluteFile(String),
    /// Not a collector.
    #[error(
        "{0:?} is not the address of a collector that is reached over plain HTTP; write one, such as \
         http://collector.observability:4318"
    )]
    Collector(String),
    /// Not a form of log lines.
    #[error("{0:?} is not a form of log lines; write json or text")]
    LogFormat(String),
    /// Not a level.
    #[error(
        "{0:?} says not what to log; write error, warn, info, debug or trace, and more or less for \
         parts of it, such as info,kube_runtime=warn"
    )]
    LogLevel(String),
}

/// Says which flag a value belongs to.
pub(super) trait At<T> {
    fn at(self, flag: &'static str) -> Result<T, SettingsError>;
}

impl<T> At<T> for Result<T, BadValue> {
    fn at(self, flag: &'static str) -> Result<T, SettingsError> {
        self.map_err(|problem| SettingsError { flag, problem })
    }
}
