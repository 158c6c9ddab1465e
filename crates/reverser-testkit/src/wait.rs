//! Conditions that are awaited, instead of sleeps.
//!
//! ```no_run
//! # async fn example() -> Result<(), reverser_testkit::wait::TimedOut> {
//! use reverser_testkit::wait;
//! use std::time::Duration;
//!
//! let text = wait::until("the file to appear", Duration::from_secs(5), async || {
//!     std::fs::read_to_string("some/file")
//! })
//! .await?;
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// The first pause between two looks; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Short enough that a test does not feel it, long enough to leave the processor to others.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// One look at a condition: it holds and gives a value, or this is what was seen instead.
///
/// `bool` tells only whether, `Option` tells what, and `Result` also tells what was seen instead,
/// which is what a reader of a failed test wants to know.
pub trait Look {
    /// What a condition that holds gives.
    type Reached;

    /// The value, or what was seen instead.
    fn look(self) -> Result<Self::Reached, String>;
}

impl Look for bool {
    type Reached = ();

    fn look(self) -> Result<(), String> {
        if self {
            Ok(())
        } else {
            Err("false".to_owned())
        }
    }
}

impl<T> Look for Option<T> {
    type Reached = T;

    fn look(self) -> Result<T, String> {
        self.ok_or_else(|| "nothing".to_owned())
    }
}

impl<T, E: fmt::Display> Look for Result<T, E> {
    type Reached = T;

    fn look(self) -> Result<T, String> {
        self.map_err(|seen| seen.to_string())
    }
}

/// A condition that did not hold in time.
#[derive(Debug, thiserror::Error)]
#[error("waited {waited:.1?} for {what}; last seen: {last_seen}")]
pub struct TimedOut {
    /// What was awaited.
    pub what: String,
    /// For how long.
    pub waited: Duration,
    /// What the last look saw instead.
    pub last_seen: String,
}

/// Looks until the condition holds.
///
/// A look that does not answer until the deadline is given up, so a hanging server does not hang
/// the test.
pub async fn until<L: Look>(
    what: impl Into<String>,
    limit: Duration,
    mut condition: impl AsyncFnMut() -> L,
) -> Result<L::Reached, TimedOut> {
    let mut watch = Watch::new(limit);
    loop {
        let Ok(seen) = tokio::time::timeout(watch.left(), condition()).await else {
            let before = watch.last_seen.take();
            return Err(watch.timed_out(
                what,
                match before {
                    Some(before) => format!("{before}; then no answer"),
                    None => "no answer".to_owned(),
                },
            ));
        };
        match seen.look() {
            Ok(reached) => return Ok(reached),
            Err(seen) => match watch.next_pause() {
                Some(pause) => {
                    watch.last_seen = Some(seen);
                    tokio::time::sleep(pause).await;
                }
                None => return Err(watch.timed_out(what, seen)),
            },
        }
    }
}

/// Looks until the condition holds, for tests without a runtime.
pub fn until_blocking<L: Look>(
    what: impl Into<String>,
    limit: Duration,
    mut condition: impl FnMut() -> L,
) -> Result<L::Reached, TimedOut> {
    let mut watch = Watch::new(limit);
    loop {
        match condition().look() {
            Ok(reached) => return Ok(reached),
            Err(seen) => match watch.next_pause() {
                Some(pause) => thread::sleep(pause),
                None => return Err(watch.timed_out(what, seen)),
            },
        }
    }
}

/// How long it has been, and how long the next pause is.
struct Watch {
    start: Instant,
    limit: Duration,
    pause: Duration,
    last_seen: Option<String>,
}

impl Watch {
    fn new(limit: Duration) -> Self {
        Self {
            start: Instant::now(),
            limit,
            pause: FIRST_PAUSE,
            last_seen: None,
        }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.start.elapsed())
    }

    /// None when the time is over. The last pause ends at the deadline, for one more look.
    fn next_pause(&mut self) -> Option<Duration> {
        let left = self.left();
        if left.is_zero() {
            return None;
        }
        let pause = self.pause.min(left);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Some(pause)
    }

    fn timed_out(&self, what: impl Into<String>, last_seen: String) -> TimedOut {
        TimedOut {
            what: what.into(),
            waited: self.start.elapsed(),
            last_seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(30);

    #[test]
    fn a_condition_that_holds_gives_its_value() {
        let mut looks = 0;
        let reached = until_blocking("three looks", Duration::from_secs(5), || {
            looks += 1;
            (looks == 3).then_some("there")
        });
        assert_eq!(reached.unwrap(), "there");
    }

    #[test]
    fn a_timeout_says_what_was_awaited_and_what_was_seen() {
        let error = until_blocking("five pods", SOON, || Err::<(), _>("2 pods")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("for five pods; last seen: 2 pods"), "{text}");
    }

    #[tokio::test]
    async fn an_awaited_condition_gives_its_value() {
        let mut looks = 0;
        let reached = until("two looks", Duration::from_secs(5), async || {
            looks += 1;
            if looks == 2 { Ok(looks) } else { Err("one") }
        })
        .await;
        assert_eq!(reached.unwrap(), 2);
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up() {
        let mut looks = 0;
        let error = until("an answer", Duration::from_secs(1), async || {
            looks += 1;
            if looks == 2 {
                std::future::pending::<()>().await;
            }
            Err::<(), _>("not yet")
        })
        .await
        .unwrap_err();
        assert_eq!(error.last_seen, "not yet; then no answer");
    }
}
