//! What the server shows: from wherever certificates are kept to the TLS configuration of the moment.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::sync::watch;

use super::certificate_secret::CertificateSecret;
use super::certificates::Certificates;
use super::{certificate_files, tls};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{CertificateLoaded, CertificateUnusable};

/// How often files are read again. A kubelet takes a minute to bring a new one.
pub(super) const LOOK: Duration = Duration::from_secs(10);

/// Where the certificates are.
pub(super) enum Source {
    Secret(Box<CertificateSecret>),
    Folder(PathBuf),
}

/// Everything that the server shows and asks for, as text.
#[derive(PartialEq)]
struct Loaded {
    serving: String,
    /// Its key is another whenever it is another, so it need not be compared.
    callers: Option<String>,
}

/// Keeps the TLS configuration up to date, for as long as it is asked to. What cannot be used is told
/// once, and what was in use stays.
pub(super) async fn follow(
    source: Source,
    client_authority: Option<PathBuf>,
    telemetry: Telemetry,
    config: watch::Sender<Option<Arc<ServerConfig>>>,
) {
    let (found, mut newest) = watch::channel(None);
    let mut keys = Keys {
        client_authority,
        telemetry,
        config,
        loaded: None,
        complaint: String::new(),
    };
    match source {
        Source::Folder(folder) => loop {
            match certificate_files::read(&folder) {
                Ok(certificates) => keys.load(&certificates),
                Err(error) => keys.complain(&error.to_string()),
            }
            tokio::time::sleep(LOOK).await;
        },
        Source::Secret(secret) => {
            let following = secret.follow(|certificates| {
                found.send_replace(Some(certificates));
            });
            let loading = async {
                loop {
                    let certificates: Option<Result<Certificates, String>> =
                        newest.borrow_and_update().clone();
                    match certificates {
                        Some(Ok(certificates)) => keys.load(&certificates),
                        Some(Err(why)) => keys.complain(&why),
                        None => {}
                    }
                    tokio::select! {
                        _ = newest.changed() => {}
                        // The authority of callers is a file in any case.
                        () = tokio::time::sleep(LOOK) => {}
                    }
                }
            };
            tokio::select! {
                () = following => {}
                () = loading => {}
            }
        }
    }
}

struct Keys {
    client_authority: Option<PathBuf>,
    telemetry: Telemetry,
    config: watch::Sender<Option<Arc<ServerConfig>>>,
    loaded: Option<Loaded>,
    complaint: String,
}

impl Keys {
    fn load(&mut self, certificates: &Certificates) {
        let callers = self
            .client_authority
            .as_deref()
            .map(certificate_files::text);
        let callers = match callers.transpose() {
            Ok(callers) => callers,
            Err(error) => return self.complain(&error.to_string()),
        };
        let loaded = Loaded {
            serving: certificates.serving.clone(),
            callers,
        };
        if self.loaded.as_ref() == Some(&loaded) {
            return;
        }
        let verifier = loaded.callers.as_deref().map(tls::client_verifier);
        let config = verifier
            .transpose()
            .and_then(|verifier| tls::server_config(certificates, verifier));
        match config {
            Ok(config) => {
                self.config.send_replace(Some(config));
                self.loaded = Some(loaded);
                self.complaint.clear();
                self.telemetry.emit(CertificateLoaded {
                    until: certificates.end(),
                });
            }
            Err(error) => self.complain(&error.to_string()),
        }
    }

    /// The same complaint is made once.
    fn complain(&mut self, reason: &str) {
        if self.complaint != reason {
            reason.clone_into(&mut self.complaint);
            self.telemetry.emit(CertificateUnusable { reason });
        }
    }
}
