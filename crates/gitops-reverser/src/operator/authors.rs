//! How authors are learnt: the operator says what is watched, and hears whether the API server asks.

use kube::Client;
use tokio::sync::watch;

use super::parts::Parts;
use crate::admission::{self, AdmissionSettings, Watched};
use crate::attribution::Attribution;
use crate::telemetry::Telemetry;

pub(super) struct Authors {
    watched: watch::Sender<Option<Watched>>,
}

impl Authors {
    /// Nobody asks.
    pub(super) fn unknown() -> Self {
        Self {
            watched: watch::channel(None).0,
        }
    }

    /// Lets the API server ask.
    pub(super) fn register(
        client: Client,
        settings: &AdmissionSettings,
        attribution: &Attribution,
        telemetry: &Telemetry,
        parts: &mut Parts,
    ) -> Self {
        let (watched, watched_rx) = watch::channel(None);
        let (registered_tx, mut registered) = watch::channel(false);
        let (settings, telemetry) = (settings.clone(), telemetry.clone());
        parts.spawn(
            "the registration of the webhook",
            admission::register(client, settings, watched_rx, registered_tx, telemetry),
        );
        let attribution = attribution.clone();
        parts.spawn("the wait for authors", async move {
            // Whoever tells whether the webhook is registered ends the process if it ends.
            while registered.changed().await.is_ok() {
                attribution.listen(*registered.borrow_and_update());
            }
        });
        Self { watched }
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
