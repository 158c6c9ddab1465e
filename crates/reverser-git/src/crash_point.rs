//! Places where a test can end the process as the power does.

/// Kills this process, if a debug build was told to by `GITOPS_REVERSER_CRASH_AT`. In release
/// builds there is nothing to tell.
pub(crate) fn crash_point(name: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os("GITOPS_REVERSER_CRASH_AT").is_some_and(|at| at == name) {
        let own = rustix::process::getpid();
        let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
    }
    #[cfg(not(debug_assertions))]
    let _ = name;
}
