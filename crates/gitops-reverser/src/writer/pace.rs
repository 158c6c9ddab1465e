//! How often a repository is pushed to.

use std::time::{Duration, Instant};

/// The longest wait, whatever the reason.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// A token bucket: so many pushes a minute over time, a few of them at once.
#[derive(Debug)]
pub(super) struct Pace {
    per_minute: u32,
    tokens: f64,
    filled: Instant,
}

impl Pace {
    pub(super) fn new(per_minute: u32, now: Instant) -> Self {
        let mut pace = Self {
            per_minute,
            tokens: 0.0,
            filled: now,
        };
        pace.tokens = pace.burst();
        pace
    }

    /// A sixth of a minute's pushes at once, and never fewer than two: a person who applies
    /// something and corrects it at once should not have to wait.
    fn burst(&self) -> f64 {
        (f64::from(self.per_minute) / 6.0).max(2.0)
    }

    fn per_second(&self) -> f64 {
        f64::from(self.per_minute.max(1)) / 60.0
    }

    pub(super) fn set(&mut self, per_minute: u32, now: Instant) {
        if self.per_minute != per_minute {
            *self = Self::new(per_minute, now);
        }
    }

    fn refill(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + passed * self.per_second()).min(self.burst());
        self.filled = now;
    }

    /// When the next push may begin.
    pub(super) fn ready_at(&mut self, now: Instant) -> Instant {
        self.refill(now);
        let lacking = (1.0 - self.tokens).max(0.0);
        now + Duration::from_secs_f64(lacking / self.per_second())
    }

    /// A push is made. Others who reach the same repository at a pace of their own may make more than
    /// this one allows: what they spend is waited for afterwards, but no longer than a minute.
    pub(super) fn spend(&mut self, now: Instant) {
        self.refill(now);
        self.tokens = (self.tokens - 1.0).max(-f64::from(self.per_minute));
    }
}

/// How long to wait after so many failures in a row.
pub(crate) fn after_failures(failures: u32) -> Duration {
    let doubled = Duration::from_millis(500).saturating_mul(1 << failures.min(10));
    doubled.min(LONGEST_WAIT).mul_f64(jitter())
}

/// How long to wait after the branch has moved so many times under one batch: the first time nothing,
/// then longer and longer, because whoever else writes it is busy.
pub(super) fn after_moves(moves: u32) -> Duration {
    if moves <= 1 {
        return Duration::ZERO;
    }
    let doubled = Duration::from_millis(250).saturating_mul(1 << (moves - 2).min(10));
    doubled.min(LONGEST_WAIT).mul_f64(jitter())
}

fn jitter() -> f64 {
    0.8 + 0.4 * fastrand::f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let start = Instant::now();
        let mut pace = Pace::new(6, start);
        for _ in 0..2 {
            assert_eq!(pace.ready_at(start), start);
            pace.spend(start);
        }
        let next = pace.ready_at(start);
        assert!((next - start).abs_diff(Duration::from_secs(10)) < Duration::from_millis(1));
        assert_eq!(pace.ready_at(next), next);
    }

    #[test]
    fn as_many_pushes_as_a_refused_one_takes_keep_to_the_rate() {
        let start = Instant::now();
        let mut pace = Pace::new(6, start);
        let mut now = start;
        let pushes = (0..48).map(|_| {
            now = pace.ready_at(now);
            pace.spend(now);
            now - start
        });
        let pushes: Vec<Duration> = pushes.collect();
        for (at, first) in pushes.iter().enumerate() {
            let minute = *first..*first + Duration::from_mins(1);
            let within = pushes[at..].iter().filter(|push| minute.contains(*push));
            assert!(within.count() <= 6 + 2, "after {first:?}");
        }
    }

    #[test]
    fn what_others_spent_costs_no_more_than_a_minute() {
        let start = Instant::now();
        let mut pace = Pace::new(6, start);
        for _ in 0..1000 {
            pace.spend(start);
        }
        let wait = pace.ready_at(start) - start;
        assert!(wait <= Duration::from_secs(71), "{wait:?}");
    }

    #[test]
    fn waits_double_up_to_half_a_minute() {
        assert_eq!(after_moves(1), Duration::ZERO);
        assert!(after_moves(2) < after_moves(4));
        for waits in [after_moves(40), after_failures(40)] {
            assert!(waits <= LONGEST_WAIT.mul_f64(1.2), "{waits:?}");
        }
    }
}
