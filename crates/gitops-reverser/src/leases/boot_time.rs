//! A clock that runs while the machine sleeps, and that nobody sets.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The time since the machine was started, sleep included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BootTime(Duration);

impl BootTime {
    /// What the clock says.
    #[must_use]
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::Boottime);
        // Neither is negative: the clock begins at zero.
        let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(time.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanoseconds))
    }

    /// So long after the machine was started.
    #[must_use]
    pub const fn after_start(time: Duration) -> Self {
        Self(time)
    }

    /// How long ago that was; nothing if it is to come.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, time: Duration) -> Self {
        Self(self.0.saturating_add(time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_forward() {
        let first = BootTime::now();
        let second = BootTime::now();
        assert!(second >= first && first.since(second + Duration::from_secs(1)) == Duration::ZERO);
    }
}
