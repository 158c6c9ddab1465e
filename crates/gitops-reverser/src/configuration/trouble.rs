//! Says why our own objects cannot be read, and what to do, where people look: in the log and at
//! `/readyz`.

use kube::runtime::watcher;
use tokio::sync::watch;

use crate::http::Readiness;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::ConfigurationUnreadable;

/// Where trouble is told.
#[derive(Clone)]
pub struct Trouble {
    telemetry: Telemetry,
    readiness: watch::Sender<Readiness>,
}

impl Trouble {
    /// Tells it in the log, and at `/readyz` as long as the operator is not ready.
    #[must_use]
    pub fn new(telemetry: Telemetry, readiness: watch::Sender<Readiness>) -> Self {
        Self {
            telemetry,
            readiness,
        }
    }

    pub(super) fn of_watch(&self, what: &str, error: &watcher::Error) {
        let code = match error {
            watcher::Error::InitialListFailed(kube::Error::Api(status))
            | watcher::Error::WatchStartFailed(kube::Error::Api(status))
            | watcher::Error::WatchError(status) => status.code,
            _ => 0,
        };
        // The causes say it, and not the error itself.
        let cause = std::error::Error::source(error);
        let reason = cause.map_or_else(|| error.to_string(), ToString::to_string);
        self.tell(what, &reason, code);
    }

    pub(super) fn of_request(&self, what: &str, error: &kube::Error) {
        let code = match error {
            kube::Error::Api(status) => status.code,
            _ => 0,
        };
        self.tell(what, &error.to_string(), code);
    }

    fn tell(&self, what: &str, reason: &str, code: u16) {
        let cure = cure(code);
        self.telemetry
            .emit(ConfigurationUnreadable { what, reason, cure });
        self.readiness.send_if_modified(|said| {
            let news = Readiness::NotReady(format!("{what} cannot be read: {reason}{cure}"));
            let is_news = *said != Readiness::Ready && *said != news;
            if is_news {
                *said = news;
            }
            is_news
        });
    }
}

/// What helps where the operator lacks a right.
pub(crate) const MISSING_RIGHT: &str = "; bind the operator's ServiceAccount to the roles of the chart (rbac.create) or of config/rbac";

/// What a person can do about it.
fn cure(code: u16) -> &'static str {
    match code {
        403 => MISSING_RIGHT,
        404 => "; install the definitions: gitops-reverser crds | kubectl apply --server-side -f -",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;
    use crate::telemetry::metrics;

    fn refused(code: u16) -> kube::Error {
        kube::Error::Api(Status::failure("no", "No").with_code(code).boxed())
    }

    #[test]
    fn what_to_do_is_said_until_the_operator_is_ready() {
        let telemetry = Telemetry::register(&mut metrics::registry());
        let (say, said) = watch::channel(Readiness::NotReady("starting".to_owned()));
        let trouble = Trouble::new(telemetry, say.clone());
        trouble.of_request("gitdestinations", &refused(403));
        let Readiness::NotReady(words) = said.borrow().clone() else {
            panic!("it is not ready");
        };
        assert!(
            words.starts_with("gitdestinations cannot be read: "),
            "{words}"
        );
        assert!(words.ends_with("or of config/rbac"), "{words}");
        trouble.of_watch(
            "watchrules",
            &watcher::Error::InitialListFailed(refused(404)),
        );
        let Readiness::NotReady(words) = said.borrow().clone() else {
            panic!("it is not ready");
        };
        assert!(words.contains("install the definitions"), "{words}");
        say.send_replace(Readiness::Ready);
        trouble.of_request("gitdestinations", &refused(500));
        assert_eq!(*said.borrow(), Readiness::Ready);
    }
}
