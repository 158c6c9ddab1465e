//! What status says: computed once, from how things stand, and written when it is news.

mod events;
mod write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use reverser_api::conditions::{
    condition, destination_reason, destination_warning, reason, remote_reason, repo_reason,
    rule_reason, rule_warning,
};
use reverser_api::git_destination::{
    GitDestination, GitDestinationStatus, MassDeleteGuard, SecretsMode, SetAside,
};
use reverser_api::git_repo_config::{GitRepoConfig, GitRepoConfigStatus};
use reverser_api::watch_rule::WatchRuleStatus;

pub use self::write::{StatusWriter, Statuses};
use crate::routing::{Destination, Refusal, Rule};
use crate::writer::Report;

/// How something stands, in one word and a sentence.
enum Standing {
    Ready(&'static str, String),
    /// It will get better by itself.
    Underway(&'static str, String),
    /// Somebody has to do something.
    Stalled(&'static str, String),
}

impl Standing {
    fn refused(refusal: &Refusal) -> Self {
        let Refusal { reason, message } = refusal.clone();
        let passing = [
            reason::PROGRESSING,
            remote_reason::UNREACHABLE,
            destination_reason::SCOPE_UNKNOWN,
        ];
        if passing.contains(&reason) {
            Self::Underway(reason, message)
        } else {
            Self::Stalled(reason, message)
        }
    }

    /// The conditions, with the time of their last change kept where nothing changed.
    fn conditions(&self, old: &[Condition], generation: Option<i64>, now: &Time) -> Vec<Condition> {
        let make = |type_: &str, status: &str, reason: &str, message: &str| {
            let same = old
                .iter()
                .find(|old| old.type_ == type_ && old.status == status);
            Condition {
                type_: type_.to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                message: message.to_owned(),
                observed_generation: generation,
                last_transition_time: same
                    .map_or_else(|| now.clone(), |same| same.last_transition_time.clone()),
            }
        };
        match self {
            Self::Ready(reason, message) => vec![make(condition::READY, "True", reason, message)],
            Self::Underway(reason, message) => vec![
                make(condition::READY, "False", reason, message),
                make(condition::RECONCILING, "True", reason, message),
            ],
            Self::Stalled(reason, message) => vec![
                make(condition::READY, "False", reason, message),
                make(condition::STALLED, "True", reason, message),
            ],
        }
    }
}

fn warning(
    type_: &'static str,
    message: String,
    old: &[Condition],
    generation: Option<i64>,
    now: &Time,
) -> Condition {
    let same = old.iter().find(|old| old.type_ == type_);
    Condition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: type_.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: same
            .map_or_else(|| now.clone(), |same| same.last_transition_time.clone()),
    }
}

/// The status of a repository, from its spec and from what its destinations met.
#[must_use]
pub fn of_repo(
    repo: &GitRepoConfig,
    refusal: Option<&Refusal>,
    reached: Option<&Result<(), Refusal>>,
    now: &Time,
) -> GitRepoConfigStatus {
    let standing = match (refusal, reached) {
        (Some(refusal), _) | (None, Some(Err(refusal))) => Standing::refused(refusal),
        (None, Some(Ok(()))) => Standing::Ready(
            repo_reason::REACHABLE,
            "the repository was reached".to_owned(),
        ),
        (None, None) => Standing::Underway(
            reason::PROGRESSING,
            "no destination has used the repository yet".to_owned(),
        ),
    };
    let old = repo
        .status
        .as_ref()
        .map(|status| &status.conditions[..])
        .unwrap_or_default();
    GitRepoConfigStatus {
        observed_generation: repo.metadata.generation,
        conditions: standing.conditions(old, repo.metadata.generation, now),
    }
}

/// What the rules in effect have brought to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selected {
    /// None refers to it.
    Nothing,
    /// There is more to list than the last report knew.
    MoreToList,
    /// What the last report speaks of.
    AsReported,
}

/// The status of a destination.
#[must_use]
pub fn of_destination(
    object: &GitDestination,
    destination: Result<&Destination, &Refusal>,
    selected: Selected,
    report: Option<&Report>,
    store_trouble: Option<&str>,
    now: &Time,
) -> GitDestinationStatus {
    let in_sync = report.is_some_and(|report| report.in_sync) && selected == Selected::AsReported;
    let standing = match (&destination, report) {
        (Err(refusal), _) => Standing::refused(refusal),
        (
            Ok(_),
            Some(Report {
                stopped: Some(stopped),
                ..
            }),
        ) => Standing::Stalled(
            destination_reason::MASS_DELETE_GUARD,
            format!(
                "{} files would be deleted, which leaves none or is not the work of this cluster: if \
                 that is right, set the annotation configbutler.ai/acknowledge-mass-delete: {}",
                stopped.deletions, stopped.id
            ),
        ),
        (
            Ok(_),
            Some(Report {
                failure: Some(refusal),
                ..
            }),
        ) => Standing::refused(refusal),
        (Ok(_), Some(report)) if report.set_aside_objects > 0 => Standing::Stalled(
            destination_reason::OBJECTS_SET_ASIDE,
            set_aside_sentence(report),
        ),
        (Ok(_), _) if selected == Selected::Nothing => Standing::Underway(
            destination_reason::NO_RULES,
            "no WatchRule or ClusterWatchRule in effect refers to it: nothing is written"
                .to_owned(),
        ),
        (Ok(_), Some(report)) if in_sync => Standing::Ready(
            destination_reason::IN_SYNC,
            format!("the branch holds {} objects", report.objects),
        ),
        (Ok(_), _) => {
            Standing::Underway(reason::PROGRESSING, "objects are being listed".to_owned())
        }
    };
    let old = object.status.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let mut conditions = standing.conditions(&old.conditions, generation, now);
    let warnings = warnings_of(destination.ok(), report, store_trouble).into_iter();
    conditions.extend(
        warnings.map(|(type_, message)| warning(type_, message, &old.conditions, generation, now)),
    );
    let report_of = |read: fn(&Report) -> usize| {
        report.map(|report| i64::try_from(read(report)).unwrap_or(i64::MAX))
    };
    let stopped = report.and_then(|report| report.stopped.as_ref());
    let known_stop = old.mass_delete_guard.as_ref();
    GitDestinationStatus {
        observed_generation: generation,
        conditions,
        last_pushed_commit: report
            .and_then(|report| report.last_commit)
            .map(|commit| commit.to_string())
            .or(old.last_pushed_commit),
        last_push_time: report
            .and_then(|report| report.last_push)
            .and_then(|second| jiff::Timestamp::from_second(second).ok())
            .map(Time)
            .or(old.last_push_time),
        objects: match selected {
            Selected::Nothing => None,
            // Not before the first ones are there: until then nobody knows how many they are.
            _ if old.objects.is_none() && !in_sync => None,
            _ => report_of(|report| report.objects),
        },
        waiting_files: report_of(|report| report.waiting),
        mass_delete_guard: stopped.map(|stopped| MassDeleteGuard {
            id: stopped.id.clone(),
            deletions: i64::try_from(stopped.deletions).ok(),
            since: known_stop
                .filter(|known| known.id == stopped.id)
                .and_then(|known| known.since.clone())
                .or_else(|| Some(now.clone())),
        }),
        set_aside: report.map(set_aside).unwrap_or_default(),
        set_aside_objects: report
            .filter(|report| report.set_aside_objects > 0)
            .and_then(|report| i64::try_from(report.set_aside_objects).ok()),
    }
}

/// What somebody should know although nothing is stopped.
fn warnings_of(
    destination: Option<&Destination>,
    report: Option<&Report>,
    store_trouble: Option<&str>,
) -> Vec<(&'static str, String)> {
    let mut warnings = Vec::new();
    if destination.is_some_and(|destination| destination.form.secrets == SecretsMode::AsIs) {
        let message =
            "Secrets are written in base64: everyone who may read the repository can read \
                       them. spec.secrets.mode Redact or Skip prevents that"
                .to_owned();
        warnings.push((destination_warning::SECRETS_READABLE, message));
    }
    if let Some(message) = report.and_then(unselected_sentence) {
        warnings.push((destination_warning::UNSELECTED_FILES, message));
    }
    if let Some(owner) = report.and_then(|report| report.foreign_owner.clone()) {
        warnings.push((destination_warning::FOREIGN_OWNER, owner));
    }
    if let Some(said) = report.and_then(|report| report.author_refused.as_ref()) {
        let message = format!(
            "the Git server refuses authors, so that the operator is the author of their changes and \
             names them in the message. It says: {said}. A change of the GitRepoConfig tries again"
        );
        warnings.push((destination_warning::AUTHOR_REFUSED, message));
    }
    if let Some(trouble) = store_trouble.filter(|_| destination.is_some()) {
        let message = format!(
            "the attribution store cannot be used, so that changes which another replica heard of have \
             no author. {trouble}"
        );
        warnings.push((destination_warning::ATTRIBUTION_STORE_UNAVAILABLE, message));
    }
    warnings
}

fn set_aside(report: &Report) -> Vec<SetAside> {
    let named = report.set_aside.iter();
    named
        .map(|(path, message)| SetAside {
            path: path.clone(),
            message: message.clone(),
        })
        .collect()
}

fn set_aside_sentence(report: &Report) -> String {
    let objects = report.set_aside_objects;
    let first = report.set_aside.first();
    let (path, message) = first.map_or(("", ""), |(path, message)| (path, message));
    format!("{objects} objects cannot be written and wait until they change; {path}: {message}")
}

/// What is said of files that no rule selects, if there are any.
fn unselected_sentence(report: &Report) -> Option<String> {
    let files: usize = report.unselected.values().sum();
    let types = report.unselected.iter();
    let types: Vec<String> = types
        .map(|(key, files)| format!("{key} ({files})"))
        .collect();
    (files > 0).then(|| {
        format!(
            "{files} files are of types that no rule in effect selects, and stay: {}. Delete those in \
             Git that nobody needs",
            types.join(", ")
        )
    })
}

/// The status of a rule of either kind.
#[must_use]
pub fn of_rule(
    old: Option<&WatchRuleStatus>,
    generation: Option<i64>,
    rule: Result<&Rule, &Refusal>,
    now: &Time,
) -> WatchRuleStatus {
    let old = old.map(|status| &status.conditions[..]).unwrap_or_default();
    let standing = match rule {
        Err(refusal) => Standing::refused(refusal),
        Ok(rule) => Standing::Ready(
            rule_reason::WATCHING,
            format!("objects of {} types are followed", rule.watched_types),
        ),
    };
    let mut conditions = standing.conditions(old, generation, now);
    if let Ok(rule) = rule {
        let mut warn = |type_, names: Vec<String>, what: &str| {
            if !names.is_empty() {
                let message = format!("{}: {what}", names.join(", "));
                conditions.push(warning(type_, message, old, generation, now));
            }
        };
        let unserved = rule
            .unserved
            .iter()
            .chain(&rule.out_of_reach)
            .cloned()
            .collect();
        warn(
            rule_warning::TYPES_NOT_SERVED,
            unserved,
            "the cluster serves no such type within the rule's reach",
        );
        warn(
            rule_warning::SUBRESOURCES_IGNORED,
            rule.subresources.clone(),
            "subresources cannot be watched",
        );
        let over = rule.over_limit.iter().map(ToString::to_string).collect();
        warn(
            rule_warning::TYPES_OVER_LIMIT,
            over,
            "over --discovery-max-types, their files stay",
        );
    }
    WatchRuleStatus {
        observed_generation: generation,
        conditions,
        watched_types: rule
            .ok()
            .and_then(|rule| i64::try_from(rule.watched_types).ok()),
    }
}

/// Whether two statuses say the same.
fn same<T: PartialEq>(old: Option<&T>, new: &T) -> bool {
    old == Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(second: i64) -> Time {
        Time(jiff::Timestamp::from_second(second).unwrap())
    }

    fn ready(status: &[Condition]) -> (&str, &str) {
        let ready = status
            .iter()
            .find(|condition| condition.type_ == "Ready")
            .unwrap();
        (&ready.status, &ready.reason)
    }

    fn refusal(reason: &'static str) -> Refusal {
        Refusal {
            reason,
            message: "because".into(),
        }
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let standing = Standing::Ready("A", String::new());
        let first = standing.conditions(&[], Some(1), &now(1));
        let second = standing.conditions(&first, Some(2), &now(2));
        assert_eq!(second[0].last_transition_time, now(1));
        let failed = Standing::Stalled("B", String::new()).conditions(&second, Some(2), &now(3));
        assert_eq!(failed[0].last_transition_time, now(3));
        assert_eq!(failed[1].type_, "Stalled");
    }

    #[test]
    fn a_refused_rule_is_stalled_and_one_in_effect_is_ready() {
        let denied = refusal("AccessDenied");
        let status = of_rule(None, Some(1), Err(&denied), &now(1));
        assert_eq!(ready(&status.conditions), ("False", "AccessDenied"));
        let progressing = refusal(reason::PROGRESSING);
        let status = of_rule(None, Some(1), Err(&progressing), &now(1));
        assert_eq!(status.conditions[1].type_, "Reconciling");
    }
}
