//! Who did it: the webhook that the API server asks before it stores a change, what it is asked with,
//! and how the API server learns of it.
//!
//! Two parts that are started separately. [`serve`] answers, and runs in every replica from the
//! start. [`register`] keeps certificates and the ValidatingWebhookConfiguration, and runs in one
//! replica. They meet only in the cluster: a Secret and the configuration.

/// The authority and the serving certificate, and when they are replaced.
mod certificates;
/// Certificates in a Secret.
mod certificate_secret;
/// Certificates in files.
mod certificate_files;
/// What the server shows.
mod keys;
/// How connections are encrypted.
mod tls;
/// One question and its answer.
mod handler;
/// What the operator does itself.
mod own_writes;
/// Connections.
mod server;
/// The configuration as it should be.
mod configuration;
/// The configuration as it is.
mod registration;

use std::io;
use std::path::PathBuf;

use kube::Client;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::certificate_secret::CertificateSecret;
pub use self::certificates::Lifetimes;
pub use self::configuration::{Endpoint, Watched};
use self::handler::Handler;
pub use self::handler::{PATH, Records};
use self::keys::Source;
pub use self::own_writes::FIELD_MANAGER;
use self::own_writes::OwnWrites;
pub use self::registration::register;
use crate::settings::WebhookSettings;
use crate::telemetry::Telemetry;

/// What the webhook is told once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdmissionSettings {
    /// The name of the ValidatingWebhookConfiguration.
    pub name: String,
    /// Where the API server finds us.
    pub endpoint: Endpoint,
    /// Where the operator runs.
    pub namespace: String,
    /// Where certificates come from.
    pub certificates: CertificateSource,
    /// How long those live that are made here.
    pub lifetimes: Lifetimes,
    /// The authority by which the API server's own certificate is verified.
    pub client_authority: Option<PathBuf>,
    /// The ClusterRole that takes the configuration along when it is deleted.
    pub owner_cluster_role: Option<String>,
}

/// Where certificates come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CertificateSource {
    /// Made here, and kept in this Secret.
    Own {
        /// Its name.
        secret: String,
    },
    /// Files that somebody else keeps.
    Folder {
        /// With `tls.crt`, `tls.key` and perhaps `ca.crt`.
        folder: PathBuf,
        /// The Certificate of cert-manager (`namespace/name`) whose authority cert-manager writes
        /// into the configuration.
        inject_from: Option<String>,
    },
}

impl AdmissionSettings {
    /// What the flags say, for an operator that runs in this namespace.
    #[must_use]
    pub fn new(
        settings: &WebhookSettings,
        namespace: &str,
        owner_cluster_role: Option<String>,
    ) -> Self {
        let WebhookSettings {
            address: _,
            url,
            service_name,
            service_namespace,
            configuration_name,
            certificates,
            client_authority,
        } = settings.clone();
        let endpoint = match url {
            Some(url) => Endpoint::Url(url),
            None => Endpoint::Service {
                namespace: service_namespace.unwrap_or_else(|| namespace.to_owned()),
                name: service_name,
            },
        };
        Self {
            name: configuration_name,
            endpoint,
            namespace: namespace.to_owned(),
            certificates,
            lifetimes: Lifetimes::default(),
            client_authority,
            owner_cluster_role,
        }
    }

    fn certificate_secret(&self, client: Client, name: &str) -> CertificateSecret {
        let names = self.server_names();
        CertificateSecret::new(client, &self.namespace, name, names, self.lifetimes)
    }

    /// The names by which the API server reaches us.
    fn server_names(&self) -> Vec<String> {
        match &self.endpoint {
            Endpoint::Service { namespace, name } => vec![
                format!("{name}.{namespace}.svc"),
                format!("{name}.{namespace}.svc.cluster.local"),
            ],
            Endpoint::Url(url) => {
                let host = url.parse::<http::Uri>().ok();
                let host = host.and_then(|url| url.host().map(str::to_owned));
                let host = host.unwrap_or_default();
                // An address of IPv6 stands in brackets.
                vec![host.trim_matches(['[', ']']).to_owned()]
            }
        }
    }
}

/// Answers until it is told to end. What is learnt goes to `records`.
pub async fn serve(
    listener: TcpListener,
    client: Client,
    settings: AdmissionSettings,
    records: Records,
    telemetry: Telemetry,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let source = match &settings.certificates {
        CertificateSource::Own { secret } => {
            let secret = settings.certificate_secret(client.clone(), secret);
            Source::Secret(Box::new(secret))
        }
        CertificateSource::Folder { folder, .. } => Source::Folder(folder.clone()),
    };
    let (config, tls) = watch::channel(None);
    let following = keys::follow(
        source,
        settings.client_authority.clone(),
        telemetry.clone(),
        config,
    );
    let serving = async {
        let own = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            own = OwnWrites::ask(&client) => own,
        };
        let handler = Handler::new(records, own, telemetry.clone());
        server::serve(listener, tls, handler, telemetry, shutdown.clone()).await
    };
    tokio::select! {
        result = serving => result,
        () = following => Err(io::Error::other("whoever follows the certificates has ended")),
    }
}
