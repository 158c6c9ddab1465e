//! What to do after a failure.

use std::time::Duration;

use super::{LossReason, WatchSettings};
use crate::api_read::Failure;

/// How a watch ended.
#[derive(Debug)]
pub(super) enum WatchEnd {
    /// In order.
    Closed {
        /// It told something, or lived long enough.
        proven: bool,
    },
    /// Without a byte for too long.
    Silent,
    /// With an error.
    Failed(Failure),
}

/// What is done next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Watch from the same version.
    Watch { after: Duration },
    /// List.
    List {
        after: Duration,
        /// What is known cannot be trusted any more.
        lost: Option<Failure>,
    },
}

/// The failures so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// In a row, of any kind: how long to wait.
    failures: u32,
    /// In a row, of watches from the same version.
    from_here: u32,
}

impl Course {
    /// A watch told something: the server is well.
    pub(super) fn progressed(&mut self) {
        *self = Self::default();
    }

    /// There is a version to watch from. A server that lists but does not let watch is not well, so
    /// the wait stays long.
    pub(super) fn listed(&mut self) {
        self.from_here = 0;
    }

    /// How long to wait before the next list, and whether what is known is lost meanwhile.
    ///
    /// `random` is in `0.0..1.0`; so that a thousand scopes do not come back at once.
    pub(super) fn list_failed(
        &mut self,
        failure: &Failure,
        settings: &WatchSettings,
        random: f64,
    ) -> (Duration, bool) {
        let after = self.failed(Some(failure), settings, random);
        let lost = !may_pass(failure.reason) || self.failures >= settings.list_tries;
        (after, lost)
    }

    /// Where to go on after a watch.
    pub(super) fn watch_ended(
        &mut self,
        end: WatchEnd,
        settings: &WatchSettings,
        random: f64,
    ) -> Turn {
        let failure = match end {
            WatchEnd::Closed { proven: true } => {
                self.progressed();
                return Turn::Watch {
                    after: Duration::ZERO,
                };
            }
            WatchEnd::Silent => {
                // The silence was wait enough, and a server that sends no bookmarks is quiet
                // without fault: to be on the safe side it is listed now and then.
                self.from_here += 1;
                let after = Duration::ZERO;
                return if self.from_here < settings.watch_failures {
                    Turn::Watch { after }
                } else {
                    Turn::List { after, lost: None }
                };
            }
            WatchEnd::Closed { proven: false } => None,
            WatchEnd::Failed(failure) => Some(failure),
        };
        let again = match failure.as_ref().map(|failure| failure.reason) {
            Some(
                LossReason::Expired
                | LossReason::Unauthorized
                | LossReason::Forbidden
                | LossReason::NotFound,
            ) => false,
            _ => self.from_here + 1 < settings.watch_failures,
        };
        self.from_here += 1;
        let after = self.failed(failure.as_ref(), settings, random);
        if again {
            Turn::Watch { after }
        } else {
            Turn::List {
                after,
                lost: failure,
            }
        }
    }

    fn failed(
        &mut self,
        failure: Option<&Failure>,
        settings: &WatchSettings,
        random: f64,
    ) -> Duration {
        let wait = self.wait(
            failure.and_then(|failure| failure.retry_after),
            settings,
            random,
        );
        self.failures += 1;
        // Time passed, no more; nothing is wrong with the server.
        let expired = failure.is_some_and(|failure| failure.reason == LossReason::Expired);
        if expired && self.failures == 1 {
            return Duration::ZERO;
        }
        wait
    }

    fn wait(&self, asked: Option<Duration>, settings: &WatchSettings, random: f64) -> Duration {
        let doubled = settings
            .backoff_first
            .saturating_mul(1_u32.checked_shl(self.failures.min(16)).unwrap_or(u32::MAX));
        let jittered = doubled
            .min(settings.backoff_longest)
            .mul_f64(0.75 + random / 2.0);
        jittered
            .max(asked.unwrap_or_default())
            .min(settings.backoff_longest)
    }
}

/// Whether the next try may well succeed.
fn may_pass(reason: LossReason) -> bool {
    matches!(
        reason,
        LossReason::ServerError(_)
            | LossReason::TooManyRequests
            | LossReason::Unreachable
            | LossReason::Timeout
            | LossReason::Truncated
            | LossReason::Expired
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIDDLE: f64 = 0.5;

    fn failure(reason: LossReason) -> Failure {
        Failure::new(reason, "why")
    }

    fn failed(reason: LossReason) -> WatchEnd {
        WatchEnd::Failed(failure(reason))
    }

    fn seconds(after: Duration) -> f64 {
        after.as_secs_f64()
    }

    #[test]
    fn waits_double_up_to_the_longest_and_are_never_longer() {
        let settings = WatchSettings::default();
        let mut course = Course::default();
        let mut waits = Vec::new();
        for _ in 0..9 {
            let reason = failure(LossReason::Forbidden);
            waits.push(seconds(course.list_failed(&reason, &settings, MIDDLE).0));
        }
        assert_eq!(waits, [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]);
        for _ in 0..100 {
            let reason = failure(LossReason::Forbidden);
            let wait = seconds(course.list_failed(&reason, &settings, 0.999).0);
            assert!((22.0..=30.0).contains(&wait), "{wait}");
        }
    }

    #[test]
    fn what_the_server_asks_for_is_heeded_up_to_the_longest_wait() {
        let settings = WatchSettings::default();
        for (asked, waited) in [(7, 7.0), (3_600, 30.0)] {
            let mut busy = failure(LossReason::TooManyRequests);
            busy.retry_after = Some(Duration::from_secs(asked));
            let (wait, _) = Course::default().list_failed(&busy, &settings, MIDDLE);
            assert!((seconds(wait) - waited).abs() < 0.001);
        }
    }

    #[test]
    fn a_list_that_fails_in_passing_is_lost_after_as_many_tries_as_it_has() {
        let patient = WatchSettings {
            list_tries: 3,
            ..WatchSettings::default()
        };
        let lost = |settings: &WatchSettings, reason: LossReason| {
            let mut course = Course::default();
            let mut fail = || course.list_failed(&failure(reason), settings, MIDDLE).1;
            [fail(), fail(), fail()]
        };
        let busy = LossReason::ServerError(503);
        assert_eq!(lost(&patient, busy), [false, false, true]);
        assert_eq!(
            lost(&patient, LossReason::Unreachable),
            [false, false, true]
        );
        assert_eq!(lost(&patient, LossReason::Forbidden), [true; 3]);
        assert_eq!(lost(&WatchSettings::default(), busy), [true; 3]);
    }

    #[test]
    fn a_watch_that_ends_in_order_goes_on_at_once() {
        let settings = WatchSettings::default();
        let mut course = Course::default();
        for _ in 0..10 {
            let turn = course.watch_ended(WatchEnd::Closed { proven: true }, &settings, MIDDLE);
            let after = Duration::ZERO;
            assert_eq!(turn, Turn::Watch { after });
        }
    }

    #[test]
    fn the_third_failure_from_one_version_lists_again() {
        let settings = WatchSettings::default();
        let mut course = Course::default();
        let end = || failed(LossReason::ServerError(500));
        for wait in [500, 1_000] {
            let after = Duration::from_millis(wait);
            let turn = course.watch_ended(end(), &settings, MIDDLE);
            assert_eq!(turn, Turn::Watch { after });
        }
        let Turn::List { after, lost } = course.watch_ended(end(), &settings, MIDDLE) else {
            panic!("it lists");
        };
        assert_eq!(after, Duration::from_secs(2));
        assert_eq!(lost, Some(failure(LossReason::ServerError(500))));
        // The list went well, the watch does not: three tries again, and longer waits.
        course.listed();
        let turn = course.watch_ended(end(), &settings, MIDDLE);
        let after = Duration::from_secs(4);
        assert_eq!(turn, Turn::Watch { after });
        course.progressed();
        let turn = course.watch_ended(end(), &settings, MIDDLE);
        let after = Duration::from_millis(500);
        assert_eq!(turn, Turn::Watch { after });
    }

    #[test]
    fn what_is_gone_or_not_allowed_is_lost_at_once() {
        let settings = WatchSettings::default();
        for (reason, wait) in [
            (LossReason::Expired, 0),
            (LossReason::Forbidden, 500),
            (LossReason::Unauthorized, 500),
            (LossReason::NotFound, 500),
        ] {
            let turn = Course::default().watch_ended(failed(reason), &settings, MIDDLE);
            let after = Duration::from_millis(wait);
            let lost = Some(failure(reason));
            assert_eq!(turn, Turn::List { after, lost });
        }
    }

    #[test]
    fn a_server_whose_past_is_always_gone_is_not_asked_without_pause() {
        let settings = WatchSettings::default();
        let mut course = Course::default();
        let mut waits = Vec::new();
        for _ in 0..4 {
            match course.watch_ended(failed(LossReason::Expired), &settings, MIDDLE) {
                Turn::List { after, .. } => waits.push(seconds(after)),
                Turn::Watch { .. } => panic!("the past is gone"),
            }
            course.listed();
        }
        assert_eq!(waits, [0.0, 1.0, 2.0, 4.0]);
    }

    #[test]
    fn silence_and_empty_watches_are_listed_in_the_end_without_doubt_about_what_is_known() {
        let settings = WatchSettings::default();
        for (end, waits) in [
            (|| WatchEnd::Silent, [0, 0, 0]),
            (|| WatchEnd::Closed { proven: false }, [500, 1_000, 2_000]),
        ] as [(fn() -> WatchEnd, [u64; 3]); 2]
        {
            let mut course = Course::default();
            let [first, second, third] = waits.map(Duration::from_millis);
            for after in [first, second] {
                let turn = course.watch_ended(end(), &settings, MIDDLE);
                assert_eq!(turn, Turn::Watch { after });
            }
            let turn = course.watch_ended(end(), &settings, MIDDLE);
            let (after, lost) = (third, None);
            assert_eq!(turn, Turn::List { after, lost });
        }
    }
}
