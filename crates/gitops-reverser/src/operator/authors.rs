//! How authors are learnt: the operator says what is watched, and hears whether the API server asks.

use kube::Client;
use tokio::sync::watch;

use super::parts::Parts;
use crate::admission::{self, AdmissionSettings, Watched};
use crate::telemetry::Telemetry;

pub(super) struct Authors {
    watched: watch::Sender<Option<Watched>>,
    /// Whether the API server asks, so that an author can be expected.
    #[expect(dead_code, reason = "changes that have no author yet will wait for it")]
    pub(super) registered: watch::Receiver<bool>,
}

impl Authors {
    /// Nobody asks.
    pub(super) fn unknown() -> Self {
        Self {
            watched: watch::channel(None).0,
            registered: watch::channel(false).1,
        }
    }

    /// Lets the API server ask.
    pub(super) fn register(
        client: Client,
        settings: &AdmissionSettings,
        telemetry: &Telemetry,
        parts: &mut Parts,
    ) -> Self {
        let (watched, watched_rx) = watch::channel(None);
        let (registered_tx, registered) = watch::channel(false);
        let (settings, telemetry) = (settings.clone(), telemetry.clone());
        parts.spawn(
            "the registration of the webhook",
            admission::register(client, settings, watched_rx, registered_tx, telemetry),
        );
        Self {
            watched,
            registered,
        }
    }

    /// What the API server should ask about from now on.
    pub(super) fn watch(&self, watched: Watched) {
        self.watched.send_if_modified(|known| {
            let watched = Some(watched);
            let news = *known != watched;
            *known = watched;
            news
        });
    }
}
