//! Types that may not be watched everywhere: asks again now and then whether they may.
//!
//! They are watched namespace by namespace meanwhile, and that goes on until the answer is yes: asking
//! costs nothing that is known.

use std::time::Duration;

use reverser_core::object_key::TypeKey;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

pub(super) struct Everywhere {
    interval: Interval,
    asking: JoinSet<Option<TypeKey>>,
}

/// What is to be done.
pub(super) enum Next {
    /// It is time to ask.
    Ask,
    /// This type may be watched everywhere.
    Allowed(TypeKey),
}

impl Everywhere {
    pub(super) fn new(every: Duration) -> Self {
        let mut interval = tokio::time::interval(every);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self {
            interval,
            asking: JoinSet::new(),
        }
    }

    /// May be dropped and called again at any time.
    pub(super) async fn next(&mut self) -> Next {
        loop {
            tokio::select! {
                Some(answer) = self.asking.join_next() => {
                    if let Ok(Some(type_key)) = answer {
                        return Next::Allowed(type_key);
                    }
                }
                _ = self.interval.tick() => {
                    // What has not been answered by now is asked again.
                    self.asking.abort_all();
                    return Next::Ask;
                }
            }
        }
    }

    pub(super) fn ask(
        &mut self,
        type_key: TypeKey,
        is_allowed: impl Future<Output = bool> + Send + 'static,
    ) {
        self.asking
            .spawn(async move { is_allowed.await.then_some(type_key) });
    }
}
