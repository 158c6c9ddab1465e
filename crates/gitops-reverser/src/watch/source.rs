//! Requests and event streams of one scope.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::scope::encode;
use super::wire::{self, Event, Lines};
use super::{LossReason, Scope, WatchSettings};
use crate::api_read::{self, Failure, Incoming};

const JSON: &str = "application/json";

/// Where a scope is asked for.
#[derive(Debug, Clone)]
pub(super) struct Source {
    client: SourceClient,
    path: String,
    settings: Arc<WatchSettings>,
}

/// [`kube::Client`] does not say what it is.
#[derive(Clone)]
struct SourceClient(kube::Client);

impl std::fmt::Debug for SourceClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl Source {
    pub(super) fn new(client: kube::Client, scope: &Scope, settings: Arc<WatchSettings>) -> Self {
        Self {
            client: SourceClient(client),
            path: scope.path(),
            settings,
        }
    }

    /// One page of a list. Without a version: the newest state, which is the only one that proves
    /// that something is not there.
    pub(super) async fn page(&self, limit: u32, token: Option<&str>) -> Result<Vec<u8>, Failure> {
        let mut url = format!("{}?limit={limit}", self.path);
        if let Some(token) = token {
            url = format!("{url}&continue={}", encode(token));
        }
        let deadline = Instant::now() + self.settings.page_deadline;
        let incoming = api_read::get(&self.client.0, &url, JSON, deadline).await?;
        incoming.whole(deadline, self.settings.max_bytes).await
    }

    /// All that is there as events, then a bookmark that says so, then what happens.
    pub(super) async fn watch_from_nothing(&self) -> Result<Events, Failure> {
        self.open("sendInitialEvents=true&resourceVersionMatch=NotOlderThan")
            .await
    }

    /// What happens after a version.
    pub(super) async fn watch_from(&self, version: &str) -> Result<Events, Failure> {
        self.open(&format!("resourceVersion={}", encode(version)))
            .await
    }

    /// Whether the scope may be listed and watched now. Nothing of the answers is read but their
    /// beginnings.
    pub(super) async fn is_allowed(&self) -> bool {
        let Ok(page) = self.page(1, None).await else {
            return false;
        };
        match wire::version_of(&page) {
            Some(version) => self.watch_from(&version).await.is_ok(),
            None => false,
        }
    }

    async fn open(&self, query: &str) -> Result<Events, Failure> {
        let settings = &self.settings;
        // Within 5 percent: a thousand watches that began together do not end together.
        let timeout = settings
            .watch_timeout
            .mul_f64(0.95 + fastrand::f64() / 10.0);
        let url = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={}&{query}",
            self.path,
            timeout.as_secs().max(1),
        );
        let opened = Instant::now();
        let response = opened + settings.response_deadline;
        let incoming = api_read::get(&self.client.0, &url, JSON, response).await?;
        Ok(Events {
            incoming,
            lines: Lines::default(),
            max_bytes: settings.max_bytes,
            opened,
            deadline: opened + timeout + settings.watch_grace,
        })
    }
}

/// The events of a watch that the server accepted.
#[derive(Debug)]
pub(super) struct Events {
    incoming: Incoming,
    lines: Lines,
    max_bytes: usize,
    opened: Instant,
    deadline: Instant,
}

/// What comes next in a watch.
#[derive(Debug)]
pub(super) enum Next {
    Event(Event),
    /// The server ended it in order, or should have done so long ago.
    End,
    /// Nothing, not a byte, for so long.
    Silence,
}

impl Events {
    /// How long it has been open.
    pub(super) fn age(&self) -> Duration {
        self.opened.elapsed()
    }

    /// The next event, if any byte comes within the time given.
    pub(super) async fn next(&mut self, silence: Duration) -> Result<Next, Failure> {
        loop {
            if let Some(line) = self.lines.next() {
                return wire::read_event(&line).map(Next::Event);
            }
            if self.lines.unfinished() > self.max_bytes {
                let message = format!("an event is larger than {} bytes", self.max_bytes);
                return Err(Failure::new(LossReason::TooLarge, message));
            }
            let now = Instant::now();
            if now >= self.deadline {
                return Ok(Next::End);
            }
            match self
                .incoming
                .chunk((now + silence).min(self.deadline))
                .await
            {
                Ok(Some(bytes)) => self.lines.push(&bytes),
                Ok(None) if self.lines.unfinished() > 0 => {
                    let message = "the watch ended in the middle of an event";
                    return Err(Failure::new(LossReason::Truncated, message));
                }
                Ok(None) => return Ok(Next::End),
                Err(failure) if failure.reason != LossReason::Timeout => return Err(failure),
                Err(_) if Instant::now() >= self.deadline => return Ok(Next::End),
                Err(_) => return Ok(Next::Silence),
            }
        }
    }
}
