//! How long nothing is committed, by the clock of the test: those of replicas may be wrong.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How exactly it is known.
const LOOK: Duration = Duration::from_millis(100);

/// Looks at the tip of a branch until it is told to stop.
pub(crate) struct Pulse {
    over: Arc<AtomicBool>,
    looking: JoinHandle<Duration>,
}

impl Pulse {
    /// Looks at `main`.
    pub(crate) fn start(repository: &Path) -> Self {
        let branch = repository.join("refs/heads/main");
        let over = Arc::new(AtomicBool::new(false));
        let end = over.clone();
        let looking = std::thread::spawn(move || {
            let (mut tip, mut since) = (String::new(), Instant::now());
            let mut longest = Duration::ZERO;
            while !end.load(Ordering::Relaxed) {
                // While it is being replaced it cannot be read.
                if let Ok(now) = std::fs::read_to_string(&branch)
                    && now != tip
                {
                    longest = longest.max(since.elapsed());
                    (tip, since) = (now, Instant::now());
                }
                std::thread::sleep(LOOK);
            }
            longest
        });
        Self { over, looking }
    }

    /// The longest time between two commits.
    pub(crate) fn stop(self) -> Duration {
        self.over.store(true, Ordering::Relaxed);
        self.looking.join().unwrap()
    }
}
