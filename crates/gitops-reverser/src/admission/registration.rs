//! Keeps the ValidatingWebhookConfiguration and the certificates as they should be: when other types
//! are watched, when somebody changes or deletes it, and when a certificate grows old.
//!
//! Only one replica does this. Every replica may answer.

use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::PostParams;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::timeout;

use super::certificate_files::{self, FileError};
use super::certificate_secret::KeepError;
use super::configuration::{self, Frame, Trust, Watched};
use super::keys;
use super::own_writes::FIELD_MANAGER;
use super::{AdmissionSettings, CertificateSource};
use crate::api_read::ANSWER;
use crate::owner_role::OwnerRole;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{
    CertificatesChanged, NobodyAsked, WebhookNotRegistered, WebhookRegistered,
};

/// Changes come in groups: rules are applied, types are discovered.
const SETTLE: Duration = Duration::from_millis(300);
/// How often all of it is looked at, whatever happened.
const LOOK: Duration = Duration::from_mins(1);
/// The same where certificates are files, which nobody tells about: as often as the server looks at
/// them, so that an authority does not become known long after it is used.
const LOOK_AT_FILES: Duration = keys::LOOK;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Why the API server does not ask us.
#[derive(Debug, thiserror::Error)]
enum RegisterError {
    #[error(transparent)]
    Certificates(#[from] KeepError),
    #[error("the authority of the webhook's certificate cannot be read: {0}")]
    Files(#[from] FileError),
    #[error(
        "the operator may not read or write the ValidatingWebhookConfiguration {name}: {message}; \
         grant get, create and update of validatingwebhookconfigurations, or set \
         --webhook-bind-address=0"
    )]
    Forbidden { name: String, message: String },
    #[error("the ValidatingWebhookConfiguration {name} cannot be read or written: {source}")]
    Configuration { name: String, source: kube::Error },
    #[error("the API server did not answer in time; it is asked again")]
    Late,
}

/// Keeps the API server asking, for as long as it is asked to. `watched` says nothing before the
/// rules are known: until then an existing configuration stays as it is. `registered` says whether
/// authors can be expected.
pub async fn register(
    client: Client,
    settings: AdmissionSettings,
    mut watched: watch::Receiver<Option<Watched>>,
    registered: watch::Sender<bool>,
    telemetry: Telemetry,
) {
    let api: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> = Api::all(client.clone());
    let only = watcher::Config::default().fields(&format!("metadata.name={}", settings.name));
    // Without the right to watch, a look now and then has to do.
    let changes = watcher(api, only)
        .default_backoff()
        .filter(|event| std::future::ready(event.is_ok()));
    let mut changes = std::pin::pin!(changes);
    let mut registration = Registration::new(client, settings, telemetry);
    let mut failures = 0;
    loop {
        let wanted = watched.borrow_and_update().clone();
        // Whatever was written already is found at the next step.
        let step = timeout(ANSWER, registration.step(wanted.as_ref())).await;
        let next = match step.unwrap_or(Err(RegisterError::Late)) {
            Ok(Done { complete, again }) => {
                failures = 0;
                registration.tell(complete, wanted.as_ref());
                registered.send_if_modified(|known| std::mem::replace(known, complete) != complete);
                again
            }
            Err(error) => {
                // What fails for other reasons may well be registered still.
                if matches!(error, RegisterError::Forbidden { .. }) {
                    registered.send_replace(false);
                }
                registration.complain(&error.to_string());
                failures += 1;
                backoff(failures)
            }
        };
        tokio::select! {
            Ok(()) = watched.changed() => tokio::time::sleep(SETTLE).await,
            Some(_) = changes.next() => {
                tokio::time::sleep(registration.patience()).await;
                // One look answers for all that has changed by now.
                while changes.next().now_or_never().is_some() {}
            }
            () = tokio::time::sleep(next) => registration.restored = 0,
        }
    }
}

fn backoff(failures: u32) -> Duration {
    let wait = FIRST_WAIT.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1)));
    wait.min(LONGEST_WAIT).mul_f64(0.8 + 0.4 * fastrand::f64())
}

struct Registration {
    client: Client,
    api: Api<ValidatingWebhookConfiguration>,
    settings: AdmissionSettings,
    telemetry: Telemetry,
    role: Option<OwnerRole>,
    owner: Option<OwnerReference>,
    /// The authorities that the API server trusts, and since when.
    trusted: Option<(String, Timestamp)>,
    /// What was told last.
    told: Option<Watched>,
    /// What was written last, and how often it has been restored since all was quiet.
    written: Option<ValidatingWebhookConfiguration>,
    restored: u32,
    complaint: String,
}

/// What was reached.
struct Done {
    /// Whether the API server asks us, and trusts the answer.
    complete: bool,
    /// When to look again.
    again: Duration,
}

impl Registration {
    fn new(client: Client, settings: AdmissionSettings, telemetry: Telemetry) -> Self {
        let role = settings.owner_cluster_role.clone();
        Self {
            api: Api::all(client.clone()),
            role: role.map(|name| OwnerRole::new(client.clone(), name)),
            client,
            settings,
            telemetry,
            owner: None,
            trusted: None,
            told: None,
            written: None,
            restored: 0,
            complaint: String::new(),
        }
    }

    /// How long to wait after a change. Two who want different things of one configuration must not
    /// keep the API server busy with it.
    fn patience(&self) -> Duration {
        let wait = SETTLE.saturating_mul(2_u32.saturating_pow(self.restored));
        wait.min(LONGEST_WAIT)
    }

    /// One step of certificates, and the configuration that goes with it.
    async fn step(&mut self, watched: Option<&Watched>) -> Result<Done, RegisterError> {
        let now = Timestamp::now();
        self.find_owner().await;
        let (trust, until) = match &self.settings.certificates {
            CertificateSource::Own { secret } => {
                let secret = self
                    .settings
                    .certificate_secret(self.client.clone(), secret);
                let kept = secret
                    .keep(self.trusted.as_ref(), self.owner.as_ref(), now)
                    .await?;
                if let Some(change) = kept.change {
                    self.telemetry.emit(CertificatesChanged {
                        change: change.as_str(),
                        until: kept.certificates.end(),
                    });
                }
                (
                    Trust::Authorities(kept.certificates.authorities),
                    Some(kept.until),
                )
            }
            CertificateSource::Folder {
                inject_from: Some(certificate),
                ..
            } => (Trust::Injected(certificate.clone()), None),
            CertificateSource::Folder { folder, .. } => {
                let authorities = certificate_files::authorities(folder)?;
                (authorities.map_or(Trust::System, Trust::Authorities), None)
            }
        };
        let Some(watched) = watched else {
            return Ok(Done {
                complete: false,
                again: LOOK,
            });
        };
        let live = self.configure(watched, &trust).await?;
        let complete = configuration::is_complete(&live, &trust);
        let until = self.note_trust(trust, complete, now).or(until);
        let look = match self.settings.certificates {
            CertificateSource::Own { .. } => LOOK,
            CertificateSource::Folder { .. } => LOOK_AT_FILES,
        };
        let due = until.map_or(look, |until| {
            let left = until.duration_since(Timestamp::now());
            Duration::try_from(left).unwrap_or_default()
        });
        Ok(Done {
            complete,
            again: due.min(look),
        })
    }

    /// Notes whom the API server trusts from now on; a new authority asks for the next step at once.
    fn note_trust(&mut self, trust: Trust, complete: bool, now: Timestamp) -> Option<Timestamp> {
        let Trust::Authorities(authorities) = trust else {
            return None;
        };
        let known = self.trusted.as_ref().map(|(known, _)| known);
        if !complete || known == Some(&authorities) {
            return None;
        }
        self.trusted = Some((authorities, now));
        Some(now)
    }

    /// Makes the configuration what it should be, and gives it as it is then.
    async fn configure(
        &mut self,
        watched: &Watched,
        trust: &Trust,
    ) -> Result<ValidatingWebhookConfiguration, RegisterError> {
        let name = self.settings.name.clone();
        let frame = Frame {
            name: name.clone(),
            endpoint: self.settings.endpoint.clone(),
            own_namespace: self.settings.namespace.clone(),
            owner: self.owner.clone(),
        };
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let failed = |source| match source {
            kube::Error::Api(status) if status.code == 403 => RegisterError::Forbidden {
                name: name.clone(),
                message: status.message.clone(),
            },
            source => RegisterError::Configuration {
                name: name.clone(),
                source,
            },
        };
        loop {
            let live = self.api.get_opt(&name).await.map_err(failed)?;
            let wanted = configuration::wanted(&frame, watched, trust, live.as_ref());
            let written = match &live {
                Some(live) if *live == wanted => return Ok(wanted),
                Some(_) => self.api.replace(&name, &params, &wanted).await,
                None => self.api.create(&params, &wanted).await,
            };
            match written {
                Ok(written) => {
                    let before = self.written.replace(written.clone());
                    if before.is_some_and(|before| before.webhooks == written.webhooks) {
                        self.restored += 1;
                    }
                    return Ok(written);
                }
                // Somebody else wrote in between.
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// What was found before counts where the role cannot be read for a moment.
    async fn find_owner(&mut self) {
        if let Some(role) = &self.role
            && let Some(owner) = role.find().await
        {
            self.owner = Some(owner);
        }
    }

    fn tell(&mut self, complete: bool, watched: Option<&Watched>) {
        self.complaint.clear();
        let told = watched.filter(|_| complete);
        if self.told.as_ref() == told {
            return;
        }
        self.told = told.cloned();
        match told {
            Some(watched) => self.telemetry.emit(WebhookRegistered {
                name: &self.settings.name,
                types: watched.len(),
            }),
            None => self.telemetry.emit(NobodyAsked),
        }
    }

    /// The same complaint is made once.
    fn complain(&mut self, reason: &str) {
        if self.complaint != reason {
            reason.clone_into(&mut self.complaint);
            self.told = None;
            self.telemetry.emit(WebhookNotRegistered { reason });
        }
    }
}
