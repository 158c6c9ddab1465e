//! Where log lines go and how they look.

use std::str::FromStr as _;

use tracing::level_filters::LevelFilter;
use tracing::subscriber::SetGlobalDefaultError;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterExt as _, Targets};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layered, SubscriberExt as _};
use tracing_subscriber::{Registry, reload};

use super::spans;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// What is logged: a level, and other levels for parts of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct LogFilter(Targets);

/// Changes what is logged, while the program runs.
#[derive(Debug, Clone)]
pub struct LogControl {
    filter: reload::Handle<Targets, Registry>,
    wanted: LogFilter,
}

impl LogControl {
    /// One step more, up to everything. Gives what is logged now.
    #[must_use]
    pub fn more(&self) -> String {
        self.change(|targets| {
            let more = match targets.default_level() {
                Some(LevelFilter::ERROR) => LevelFilter::WARN,
                Some(LevelFilter::WARN) => LevelFilter::INFO,
                Some(LevelFilter::INFO) => LevelFilter::DEBUG,
                _ => LevelFilter::TRACE,
            };
            *targets = targets.clone().with_default(more);
        })
    }

    /// What the flag says. Gives it.
    #[must_use]
    pub fn as_wanted(&self) -> String {
        self.change(|targets| *targets = self.wanted.0.clone())
    }

    fn change(&self, change: impl FnOnce(&mut Targets)) -> String {
        // It fails only when the subscriber is gone, and then nothing is logged.
        let _ = self.filter.modify(change);
        let now = self.filter.with_current(ToString::to_string);
        now.unwrap_or_default()
    }
}

/// These write the answers of the API server into the log when they cannot be read, and Secrets are
/// among them. What is worth knowing of it, our own errors say without.
const TALKATIVE: [&str; 1] = ["kube_client::client"];

/// The subscriber that writes log lines, to which others can be added.
pub type Lines = Layered<Box<dyn Layer<Registry> + Send + Sync>, Registry>;

impl LogFilter {
    /// Reads `info` or `info,part=level`. Nothing if it is not that.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut targets = Targets::new().with_default(LevelFilter::INFO);
        for directive in text.split(',') {
            targets = match directive.trim().split_once('=') {
                None => targets.with_default(level(directive.trim())?),
                Some((part, level_of_part)) => {
                    let names = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
                    if part.is_empty() || !part.chars().all(names) {
                        return None;
                    }
                    targets.with_target(part, level(level_of_part)?)
                }
            };
        }
        Some(Self(targets))
    }
}

/// The five names, and no numbers, which tracing reads too.
fn level(name: &str) -> Option<LevelFilter> {
    let named = ["error", "warn", "info", "debug", "trace"].contains(&name);
    named.then(|| LevelFilter::from_str(name).ok()).flatten()
}

/// Sends log lines to standard error, for the rest of the process, and spans to whoever takes them.
pub fn install(
    format: LogFormat,
    filter: LogFilter,
    spans: impl Layer<Lines> + Send + Sync,
) -> Result<LogControl, SetGlobalDefaultError> {
    let (subscriber, control) = subscriber(format, filter, std::io::stderr);
    tracing::subscriber::set_global_default(subscriber.with(spans))?;
    Ok(control)
}

fn subscriber<W>(format: LogFormat, wanted: LogFilter, writer: W) -> (Lines, LogControl)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let mut bearable = Targets::new().with_default(LevelFilter::TRACE);
    for target in TALKATIVE.into_iter().chain([spans::TARGET]) {
        bearable = bearable.with_target(target, LevelFilter::OFF);
    }
    let (changeable, handle) = reload::Layer::new(wanted.0.clone());
    let control = LogControl {
        filter: handle,
        wanted,
    };
    let filter = changeable.and(bearable);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    let lines = match format {
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
        LogFormat::Text => lines.with_ansi(false).with_filter(filter).boxed(),
    };
    (tracing_subscriber::registry().with(lines), control)
}

/// Lets panics be told in the log, by their place only: what a panic says may hold a secret value.
pub fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string);
        let place = place.unwrap_or_default();
        tracing::error!(
            place,
            "a part of the program panicked, which is a defect of it"
        );
    }));
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing::{debug, error, info, warn};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, filter: &str, say: impl FnOnce()) -> String {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter = LogFilter::parse(filter).unwrap();
        let (subscriber, _) = subscriber(format, filter, move || writer.clone());
        tracing::subscriber::with_default(subscriber, say);
        String::from_utf8(lines.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn json_lines_are_objects_with_flat_fields() {
        let line = logged(LogFormat::Json, "info", || info!(commit = "1a2b", "said"));
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["message"], "said");
        assert_eq!(line["commit"], "1a2b");
        assert_eq!(line["level"], "INFO");
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");
    }

    #[test]
    fn text_lines_are_plain() {
        let line = logged(LogFormat::Text, "info", || info!(commit = "1a2b", "said"));
        assert!(line.ends_with("said commit=\"1a2b\"\n"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }

    #[test]
    fn the_filter_says_what_is_logged() {
        let say = || {
            debug!("ours");
            debug!(target: "kube_runtime::watcher", "theirs");
            error!("bad");
        };
        let lines = |filter| logged(LogFormat::Text, filter, say).lines().count();
        assert_eq!(lines("info"), 1);
        assert_eq!(lines("debug"), 3);
        assert_eq!(lines("debug,kube_runtime=warn"), 2);
        assert_eq!(lines("kube_runtime=debug"), 2);
    }

    #[test]
    fn what_is_logged_can_be_changed_while_it_runs_and_answers_stay_unlogged() {
        let lines = Lines::default();
        let writer = lines.clone();
        let filter = LogFilter::parse("info,kube_runtime=warn").unwrap();
        let (subscriber, control) = subscriber(LogFormat::Text, filter, move || writer.clone());
        tracing::subscriber::with_default(subscriber, || {
            let say = || {
                debug!("ours");
                debug!(target: "kube_runtime::watcher", "theirs");
                warn!(target: "kube_client::client", "the whole of a Secret");
            };
            let count = || {
                String::from_utf8_lossy(&lines.0.lock().unwrap())
                    .lines()
                    .count()
            };
            say();
            assert_eq!(count(), 0);
            assert!(control.more().contains("debug"));
            say();
            assert_eq!(count(), 1);
            assert!(control.more().contains("trace"));
            assert!(control.as_wanted().contains("info"));
            say();
            assert_eq!(count(), 1);
        });
    }

    #[test]
    fn answers_of_the_api_server_are_never_logged() {
        let say = || warn!(target: "kube_client::client", "the whole of a Secret");
        for filter in [
            "trace",
            "kube_client=trace",
            "trace,kube_client::client=trace",
        ] {
            assert_eq!(logged(LogFormat::Json, filter, say), "");
        }
    }

    #[test]
    fn what_is_no_filter_is_refused() {
        for bad in [
            "",
            "verbose",
            "INFO",
            "3",
            "info,",
            "kube",
            "kube=",
            "=info",
            "kube=loud",
            "a b=info",
            "[span]=info",
            "off",
        ] {
            assert_eq!(LogFilter::parse(bad), None, "{bad}");
        }
    }
}
