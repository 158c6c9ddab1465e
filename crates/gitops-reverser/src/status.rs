//! What status says: computed once, from how things stand, and written when it is news.

mod events;
mod remembered;
mod sentences;
mod tally;
mod write;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use reverser_api::conditions::{
    condition, destination_reason, destination_warning, reason, remote_reason, repo_reason,
    rule_reason, rule_warning, scope_reason,
};
use reverser_api::git_destination::{
    GitDestination, GitDestinationStatus, MassDeleteGuard, SecretsMode, SetAside,
};
use reverser_api::git_repo_config::{GitRepoConfig, GitRepoConfigStatus};
use reverser_api::watch_rule::WatchRuleStatus;

use self::sentences::counted;
pub use self::write::{StatusWriter, Statuses};
use crate::dispatch::RuleScopes;
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
        let passing = [reason::PROGRESSING, remote_reason::UNREACHABLE];
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
            "the repository has not been asked yet".to_owned(),
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

fn standing_of_destination(
    destination: Result<&Destination, &Refusal>,
    selected: Selected,
    report: Option<&Report>,
    forbidden: bool,
) -> Standing {
    if let Err(refusal) = destination {
        return Standing::refused(refusal);
    }
    let underway = |message: &str| Standing::Underway(reason::PROGRESSING, message.to_owned());
    let Some(report) = report else {
        return underway("objects are being listed, and the repository is asked what it holds");
    };
    if let Some(stopped) = &report.stopped {
        let message = format!(
            "{} files would be deleted, which leaves none or is not the work of this cluster: if that is \
             right, set the annotation configbutler.ai/acknowledge-mass-delete: {}",
            stopped.deletions, stopped.id
        );
        return Standing::Stalled(destination_reason::MASS_DELETE_GUARD, message);
    }
    match &report.failure {
        Some(Refusal { reason, message }) if *reason == scope_reason::SCOPE_UNKNOWN => {
            return unknown_scope(forbidden, message.clone());
        }
        Some(Refusal { reason, message }) if report.searching => {
            return Standing::Underway(reason, message.clone());
        }
        Some(refusal) => return Standing::refused(refusal),
        None => {}
    }
    if report.set_aside_objects > 0 {
        let message = sentences::set_aside(report);
        return Standing::Stalled(destination_reason::OBJECTS_SET_ASIDE, message);
    }
    match selected {
        // There is nothing to do, and nothing in the way of doing it.
        Selected::Nothing if report.has_reached() => Standing::Ready(
            destination_reason::NO_RULES,
            "the repository was reached, and no WatchRule or ClusterWatchRule in effect refers to the \
             destination yet: nothing is written"
                .to_owned(),
        ),
        Selected::Nothing => underway("the repository has not been reached yet"),
        Selected::AsReported if report.in_sync => {
            Standing::Ready(destination_reason::IN_SYNC, sentences::in_sync(report))
        }
        Selected::AsReported | Selected::MoreToList => underway("objects are being listed"),
    }
}

/// The status of a destination. `forbidden` tells whether the operator lacks a right to read what
/// its rules select.
#[must_use]
pub fn of_destination(
    object: &GitDestination,
    destination: Result<&Destination, &Refusal>,
    selected: Selected,
    report: Option<&Report>,
    forbidden: bool,
    store_trouble: Option<&str>,
    now: &Time,
) -> GitDestinationStatus {
    let in_sync = report.is_some_and(|report| report.in_sync) && selected == Selected::AsReported;
    let standing = standing_of_destination(destination, selected, report, forbidden);
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
        held_back_deletions: report
            .map(|report| report.held_back.files())
            .filter(|files| *files > 0)
            .and_then(|files| i64::try_from(files).ok()),
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
    let held_back = report.zip(destination);
    let held_back = held_back.and_then(|(report, to)| sentences::held_back(report.held_back, to));
    if let Some(message) = held_back {
        warnings.push((destination_warning::DELETIONS_HELD_BACK, message));
    }
    if let Some(message) = report.and_then(sentences::unselected) {
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

/// How a rule stands of whose types so much is not known.
fn standing_of_rule(rule: &Rule, scopes: &RuleScopes) -> Standing {
    let RuleScopes { pending, unknown } = scopes;
    if !unknown.is_empty() {
        return unknown_scope(scopes.is_forbidden(), sentences::not_followed(unknown));
    }
    if !pending.is_empty() {
        return Standing::Underway(reason::PROGRESSING, sentences::are_listed(pending));
    }
    if rule.watched_types == 0 && !rule.over_limit.is_empty() {
        let message = "nothing is followed, and files stay: all of its types are over \
                       --discovery-max-types. Raise it, or let rules select less";
        return Standing::Stalled(rule_reason::ALL_TYPES_OVER_LIMIT, message.to_owned());
    }
    if rule.means_no_type() {
        let message = "nothing is followed: the cluster serves no type that the rule means. Types that \
                       are left out by default have to be named one by one";
        return Standing::Ready(rule_reason::NO_TYPES, message.to_owned());
    }
    let types = counted(rule.watched_types, "type");
    Standing::Ready(
        rule_reason::WATCHING,
        format!("objects of {types} are followed"),
    )
}

/// A right that is missing has to be given by somebody; anything else is tried again.
fn unknown_scope(forbidden: bool, message: String) -> Standing {
    if forbidden {
        Standing::Stalled(scope_reason::SCOPE_UNKNOWN, message)
    } else {
        Standing::Underway(scope_reason::SCOPE_UNKNOWN, message)
    }
}

/// The status of a rule of either kind.
#[must_use]
pub fn of_rule(
    old: Option<&WatchRuleStatus>,
    generation: Option<i64>,
    rule: Result<(&Rule, &RuleScopes), &Refusal>,
    now: &Time,
) -> WatchRuleStatus {
    let old = old.map(|status| &status.conditions[..]).unwrap_or_default();
    let standing = match rule {
        Err(refusal) => Standing::refused(refusal),
        Ok((rule, scopes)) => standing_of_rule(rule, scopes),
    };
    let rule = rule.map(|(rule, _)| rule);
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
    use std::collections::{BTreeMap, BTreeSet};

    use reverser_core::object_key::TypeKey;
    use reverser_core::scope::ScopeKey;

    use super::*;
    use crate::dispatch::Loss;

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

    #[test]
    fn a_rule_is_ready_when_all_of_its_types_are_listed() {
        let pods = TypeKey::new("", "v1", "pods").unwrap();
        let scope = ScopeKey {
            type_key: pods.clone(),
            namespace: None,
        };
        let loss = |forbidden| Loss {
            why: "no".to_owned(),
            forbidden,
        };
        let pending = BTreeSet::from([pods]);
        let unknown = |forbidden| BTreeMap::from([(scope.clone(), loss(forbidden))]);
        let with = |pending, unknown| {
            let scopes = RuleScopes { pending, unknown };
            let rule = Rule::sample();
            of_rule(None, Some(1), Ok((&rule, &scopes)), &now(1)).conditions
        };
        let status = with(BTreeSet::new(), BTreeMap::new());
        assert_eq!(ready(&status), ("True", "Watching"));
        assert_eq!(status[0].message, "objects of 1 type are followed");
        let status = with(pending.clone(), BTreeMap::new());
        assert_eq!(ready(&status), ("False", "Progressing"));
        assert_eq!(status[1].type_, "Reconciling");
        let status = with(pending, unknown(false));
        assert_eq!(ready(&status), ("False", "ScopeUnknown"));
        assert_eq!(status[1].type_, "Reconciling");
        let status = with(BTreeSet::new(), unknown(true));
        assert_eq!(ready(&status), ("False", "ScopeUnknown"));
        assert_eq!(status[1].type_, "Stalled", "somebody has to give a right");
    }

    #[test]
    fn a_refused_push_is_stalled_unless_it_is_being_found_out_what_is_refused() {
        let target = crate::routing::Target {
            url: reverser_git::RemoteUrl::parse(
                "https://git.example.com/r",
                reverser_git::Scheme::DEFAULT_ALLOWED,
            )
            .unwrap(),
            branch: reverser_git::BranchName::parse("main").unwrap(),
            repo: crate::identity::Id::new("shop", "repo"),
        };
        let destination = Destination::sample(target);
        for (searching, what) in [(true, "Reconciling"), (false, "Stalled")] {
            let report = Report {
                failure: Some(refusal(destination_reason::PUSH_REFUSED)),
                searching,
                ..Report::default()
            };
            let standing = standing_of_destination(
                Ok(&destination),
                Selected::AsReported,
                Some(&report),
                false,
            );
            let status = standing.conditions(&[], Some(1), &now(1));
            assert_eq!(ready(&status), ("False", "PushRefused"));
            assert_eq!(status[1].type_, what);
        }
    }

    #[test]
    fn a_rule_for_which_nothing_is_watched_says_so() {
        let secrets = TypeKey::new("", "v1", "secrets").unwrap();
        let none = Rule {
            watched_types: 0,
            ..Rule::sample()
        };
        let status = |rule: &Rule| {
            let scopes = RuleScopes::default();
            of_rule(None, Some(1), Ok((rule, &scopes)), &now(1)).conditions
        };
        assert_eq!(ready(&status(&none)), ("True", "NoTypes"));
        let over_limit = Rule {
            over_limit: vec![secrets.clone()],
            ..none.clone()
        };
        let told = status(&over_limit);
        assert_eq!(ready(&told), ("False", "AllTypesOverLimit"));
        assert_eq!(told[1].type_, "Stalled");
        let some_over_limit = Rule {
            over_limit: vec![secrets],
            ..Rule::sample()
        };
        assert_eq!(ready(&status(&some_over_limit)), ("True", "Watching"));
        let not_served = Rule {
            unserved: vec!["orders".to_owned()],
            ..none
        };
        let told = status(&not_served);
        assert_eq!(ready(&told), ("True", "Watching"), "it starts by itself");
        assert_eq!(told[1].type_, "TypesNotServed");
    }
}
