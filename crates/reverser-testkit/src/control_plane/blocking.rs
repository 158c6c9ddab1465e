use std::panic::resume_unwind;
use std::thread;

/// Awaits work from anywhere, also inside of another runtime, which a thread of its own makes
/// possible.
pub(super) fn run<T: Send>(work: impl AsyncFnOnce() -> T + Send) -> T {
    let outcome = thread::scope(|scope| {
        scope
            .spawn(|| {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .expect("a process that runs tests can open one more descriptor")
                    .block_on(work())
            })
            .join()
    });
    outcome.unwrap_or_else(|panic| resume_unwind(panic))
}
