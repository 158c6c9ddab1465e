//! The driver of one scope: lists, watches, and starts again as often as it takes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, sleep};
use tracing::Instrument as _;

use super::course::{Course, Turn, WatchEnd};
use super::source::{Events, Next, Source};
use super::wire::{self, Change, Event};
use super::{ListOutcome, LossReason, Observation, Observed, Scope, WatchSettings};
use crate::api_read::Failure;
use crate::telemetry::spans;

/// Where a driver is.
enum State {
    /// Nothing is known, or it may be old.
    List {
        /// Not before this.
        after: Duration,
    },
    /// Known up to a version; not connected.
    Watch {
        /// Everything up to here has been told.
        from: String,
        /// Not before this.
        after: Duration,
    },
    /// Known up to a version; connected.
    Follow {
        /// Everything up to here has been told.
        from: String,
        /// What happens after it.
        events: Events,
    },
}

/// How the next list is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListMode {
    Streaming,
    Paged,
}

/// A list that came to its end.
struct Listing {
    from: String,
    undecodable: usize,
    /// A streamed list goes on as a watch.
    events: Option<Events>,
}

/// Why a step did not come to its end.
enum Stop {
    /// Nobody listens any more.
    ConsumerGone,
    Failed(Failure),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Nobody listens any more.
struct ConsumerGone;

impl From<ConsumerGone> for Stop {
    fn from(ConsumerGone: ConsumerGone) -> Self {
        Self::ConsumerGone
    }
}

/// What a driver is given.
pub(super) struct Assignment {
    pub(super) client: kube::Client,
    pub(super) settings: Arc<WatchSettings>,
    /// One permit for each list that may run now.
    pub(super) lists: Arc<Semaphore>,
    pub(super) scope: Arc<Scope>,
    pub(super) epoch: u64,
    pub(super) tx: mpsc::Sender<Observed>,
}

/// Drives a scope until nobody listens any more.
pub(super) async fn drive(assignment: Assignment) {
    let Assignment {
        client,
        settings,
        lists,
        scope,
        epoch,
        tx,
    } = assignment;
    let mut driver = ListWatch {
        source: Source::new(client, &scope, settings.clone()),
        out: Outbox { scope, epoch, tx },
        mode: if settings.streaming_lists && !settings.pages_first {
            ListMode::Streaming
        } else {
            ListMode::Paged
        },
        course: Course::default(),
        settings,
        lists,
    };
    let mut state = State::List {
        after: Duration::ZERO,
    };
    while let Ok(next) = driver.step(state).await {
        state = next;
    }
}

/// Tells what was seen.
struct Outbox {
    scope: Arc<Scope>,
    epoch: u64,
    tx: mpsc::Sender<Observed>,
}

impl Outbox {
    async fn tell(&self, observation: Observation) -> Result<(), ConsumerGone> {
        let observed = Observed {
            scope: self.scope.clone(),
            epoch: self.epoch,
            at: std::time::Instant::now(),
            observation,
        };
        self.tx.send(observed).await.map_err(|_| ConsumerGone)
    }

    async fn lost(&self, failure: Failure) -> Result<(), ConsumerGone> {
        let Failure {
            reason, message, ..
        } = failure;
        self.tell(Observation::Lost { reason, message }).await
    }

    async fn changed(
        &self,
        change: Change,
        object: Box<str>,
        live: bool,
    ) -> Result<(), ConsumerGone> {
        self.tell(match change {
            Change::Deleted => Observation::Gone { object },
            Change::Added | Change::Modified => Observation::Seen {
                object,
                live,
                added: live && change == Change::Added,
            },
        })
        .await
    }
}

struct ListWatch {
    source: Source,
    settings: Arc<WatchSettings>,
    lists: Arc<Semaphore>,
    out: Outbox,
    mode: ListMode,
    course: Course,
}

impl ListWatch {
    async fn step(&mut self, state: State) -> Result<State, ConsumerGone> {
        match state {
            State::List { after } => {
                sleep(after).await;
                let span = spans::list(&self.out.scope);
                self.list().instrument(span).await
            }
            State::Watch { from, after } => {
                sleep(after).await;
                match self.source.watch_from(&from).await {
                    Ok(events) => Ok(State::Follow { from, events }),
                    Err(failure) => self.turn(from, WatchEnd::Failed(failure)).await,
                }
            }
            State::Follow { mut from, events } => {
                let end = self.follow(&mut from, events).await?;
                self.turn(from, end).await
            }
        }
    }

    /// `List` → `Follow` (streamed), `Watch` (paged), or `List` again.
    async fn list(&mut self) -> Result<State, ConsumerGone> {
        let permit = self.lists.clone().acquire_owned().await;
        self.out.tell(Observation::ListStarted).await?;
        let listed = match self.mode {
            ListMode::Streaming => self.list_streaming().await,
            ListMode::Paged => self.list_in_pages().await,
        };
        let listing = match listed {
            Ok(listing) => listing,
            Err(Stop::ConsumerGone) => return Err(ConsumerGone),
            Err(Stop::Failed(failure)) => {
                drop(permit);
                return self.list_failed(failure).await;
            }
        };
        let Listing {
            from,
            undecodable,
            events,
        } = listing;
        let outcome = match undecodable {
            0 => ListOutcome::Complete,
            undecodable => ListOutcome::Partial { undecodable },
        };
        self.out.tell(Observation::Listed(outcome)).await?;
        self.course.listed();
        Ok(match events {
            Some(events) => State::Follow { from, events },
            None => State::Watch {
                from,
                after: Duration::ZERO,
            },
        })
    }

    async fn list_failed(&mut self, failure: Failure) -> Result<State, ConsumerGone> {
        if self.mode == ListMode::Streaming && pages_may_help(failure.reason) {
            self.mode = ListMode::Paged;
            let after = Duration::ZERO;
            return Ok(State::List { after });
        }
        if failure.reason == LossReason::Expired && self.settings.streaming_lists {
            self.mode = ListMode::Streaming;
        }
        let random = fastrand::f64();
        let (after, lost) = self.course.list_failed(&failure, &self.settings, random);
        if lost {
            self.out.lost(failure).await?;
        }
        Ok(State::List { after })
    }

    async fn list_in_pages(&mut self) -> Result<Listing, Stop> {
        let mut limit = self.settings.page_limit;
        let mut token: Option<String> = None;
        let mut from = None;
        let mut undecodable = 0;
        loop {
            let body = match self.source.page(limit, token.as_deref()).await {
                Err(failure) if failure.reason == LossReason::TooLarge && limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                answer => answer?,
            };
            let page = wire::read_page(&body, &self.out.scope)?;
            if let Some(bytes) = self.settings.page_bytes
                && limit >= self.settings.page_limit
            {
                limit = limit_for(bytes, body.len(), page.items.len(), &self.settings);
            }
            for item in page.items {
                let observation = match item {
                    Ok(text) => Observation::Seen {
                        object: text.into(),
                        live: false,
                        added: false,
                    },
                    Err(reason) => {
                        undecodable += 1;
                        Observation::Undecodable { name: None, reason }
                    }
                };
                self.out.tell(observation).await?;
            }
            // What changed since the first page was read is told again by the watch.
            let from = from.get_or_insert(page.version);
            match page.next {
                None => {
                    return Ok(Listing {
                        from: std::mem::take(from),
                        undecodable,
                        events: None,
                    });
                }
                next if next == token => {
                    let message = "the list gives the same page again and again";
                    return Err(Failure::new(LossReason::Malformed, message).into());
                }
                next => token = next,
            }
        }
    }

    async fn list_streaming(&mut self) -> Result<Listing, Stop> {
        let mut events = self.source.watch_from_nothing().await?;
        let mut left = self.settings.streaming_deadline;
        let mut undecodable = 0;
        loop {
            let asked = Instant::now();
            let next = events
                .next(self.settings.streaming_silence.min(left))
                .await?;
            left = left.saturating_sub(asked.elapsed());
            match next {
                Next::Event(Event::Bookmark {
                    version,
                    initial_events_end: true,
                }) => {
                    return Ok(Listing {
                        from: version,
                        undecodable,
                        events: Some(events),
                    });
                }
                // Of a moment in the middle of the list.
                Next::Event(Event::Bookmark { .. }) => {}
                Next::Event(Event::Object { change, object, .. }) => {
                    // A list's objects are all added; what is modified was listed before.
                    let live = change == Change::Modified;
                    self.out.changed(change, object, live).await?;
                }
                Next::Event(Event::Undecodable { name, reason }) => {
                    undecodable += 1;
                    let observation = Observation::Undecodable { name, reason };
                    self.out.tell(observation).await?;
                }
                Next::Event(Event::Error(failure)) => return Err(failure.into()),
                Next::End => {
                    let message = "the streamed list ended before all was told";
                    return Err(Failure::new(LossReason::Truncated, message).into());
                }
                Next::Silence => {
                    let message = "the streamed list did not go on in time";
                    return Err(Failure::new(LossReason::Timeout, message).into());
                }
            }
            if left.is_zero() {
                let message = "the streamed list did not end in time";
                return Err(Failure::new(LossReason::Timeout, message).into());
            }
        }
    }

    /// Tells what happens until the watch ends; `from` follows.
    async fn follow(
        &mut self,
        from: &mut String,
        mut events: Events,
    ) -> Result<WatchEnd, ConsumerGone> {
        let mut told = false;
        loop {
            match events.next(self.settings.watch_silence).await {
                Ok(Next::Event(Event::Object {
                    change,
                    object,
                    version,
                })) => {
                    self.out.changed(change, object, true).await?;
                    // What comes out of order does not lead back.
                    if !wire::is_older(&version, from) {
                        *from = version;
                    }
                }
                Ok(Next::Event(Event::Bookmark { version, .. })) => {
                    if wire::is_older(&version, from) {
                        let message = format!(
                            "the server is at version {version}, before {from}: its past changed"
                        );
                        let failure = Failure::new(LossReason::Expired, message);
                        return Ok(WatchEnd::Failed(failure));
                    }
                    *from = version;
                }
                Ok(Next::Event(Event::Undecodable { name, reason })) => {
                    let observation = Observation::Undecodable { name, reason };
                    self.out.tell(observation).await?;
                }
                Ok(Next::Event(Event::Error(failure))) | Err(failure) => {
                    return Ok(WatchEnd::Failed(failure));
                }
                Ok(Next::End) => {
                    let proven = told || events.age() >= self.settings.watch_proven;
                    return Ok(WatchEnd::Closed { proven });
                }
                Ok(Next::Silence) => return Ok(WatchEnd::Silent),
            }
            told = true;
            self.course.progressed();
        }
    }

    /// `Follow` or `Watch` → `Watch` or `List`.
    async fn turn(&mut self, from: String, end: WatchEnd) -> Result<State, ConsumerGone> {
        let random = fastrand::f64();
        match self.course.watch_ended(end, &self.settings, random) {
            Turn::Watch { after } => Ok(State::Watch { from, after }),
            Turn::List { after, lost } => {
                if let Some(failure) = lost {
                    self.out.lost(failure).await?;
                }
                Ok(State::List { after })
            }
        }
    }
}

/// How many objects a page of so many bytes has, going by the last one.
fn limit_for(wanted: usize, bytes: usize, objects: usize, settings: &WatchSettings) -> u32 {
    let fit = wanted * objects / bytes.max(1);
    let most = settings.page_limit.saturating_mul(8);
    u32::try_from(fit)
        .unwrap_or(most)
        .clamp(settings.page_limit, most)
}

/// Whether a streamed list failed in a way in which a paged one may not.
///
/// Servers refuse streamed lists in many ways, or accept and never end them. Pages cost only
/// memory, so they are kept to until the driver starts anew.
fn pages_may_help(reason: LossReason) -> bool {
    !matches!(
        reason,
        LossReason::Unauthorized
            | LossReason::Forbidden
            | LossReason::NotFound
            | LossReason::TooManyRequests
            | LossReason::Unreachable
    )
}

#[cfg(test)]
mod tests;
