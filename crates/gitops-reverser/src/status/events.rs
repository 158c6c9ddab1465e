//! Events: what is worth telling about the change from one status to the next.
//!
//! They follow from comparing two statuses, so that nothing is told twice while it lasts, and a
//! restart repeats nothing that status says already.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Client, Resource};
use reverser_api::conditions::{condition, destination_reason, destination_warning, reason};
use reverser_api::git_destination::GitDestinationStatus;

use super::remembered::Remembered;

/// The API server takes no longer notes than 1,024 bytes.
const LONGEST_NOTE: usize = 1000;

/// What an event says was done.
mod action {
    pub(super) const SYNC: &str = "Sync";
    pub(super) const RECOVER: &str = "Recover";
    pub(super) const WARN: &str = "Warn";
}

/// Publishes events.
pub(super) struct Events(Recorder);

impl Events {
    pub(super) fn new(client: Client, instance_id: &str) -> Self {
        let reporter = Reporter {
            controller: "gitops-reverser".to_owned(),
            instance: Some(instance_id.to_owned()),
        };
        Self(Recorder::new(client, reporter))
    }

    /// An event that cannot be published is lost: status says the same.
    pub(super) async fn publish<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        news: Vec<Event>,
    ) {
        for event in news {
            let _ = self.0.publish(&event, &object.object_ref(&())).await;
        }
    }
}

/// What was last told of each object: between trouble and its end it may be busy for a while, which
/// is not worth an event.
pub(super) struct Told<K>(Remembered<K, Vec<Condition>>);

impl<K: Ord + Clone> Told<K> {
    pub(super) fn nothing() -> Self {
        Self(Remembered::nothing())
    }

    /// What is news, where this is what status said before and says now.
    pub(super) fn news(
        &mut self,
        id: &K,
        uid: Option<&str>,
        old: &[Condition],
        new: &[Condition],
    ) -> Vec<Event> {
        let told = self.0.of(id, uid);
        let news = of_others(told.map_or(old, |told| &told[..]), new);
        if ready(new).is_some_and(|ready| ready.reason != reason::PROGRESSING) {
            self.0.insert(id.clone(), uid, new.to_vec());
        } else if told.is_none() {
            self.0.insert(id.clone(), uid, old.to_vec());
        }
        news
    }

    /// Forgets those that are not there any more.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.0.retain(keep);
    }
}

/// What is news about a destination.
pub(super) fn of_destination(old: &GitDestinationStatus, new: &GitDestinationStatus) -> Vec<Event> {
    let mut news = of_others(&old.conditions, &new.conditions);
    let in_sync = |status: &GitDestinationStatus| {
        let ready = ready(&status.conditions);
        ready.is_some_and(|ready| ready.reason == destination_reason::IN_SYNC)
    };
    // A destination that was in sync before is not so for the first time after a restart.
    let first = old.objects.is_none() && old.last_push_time.is_none();
    if in_sync(new) && !in_sync(old) && first && news.is_empty() {
        let note = ready(&new.conditions).map(|ready| ready.message.clone());
        news.push(event(
            EventType::Normal,
            destination_reason::IN_SYNC,
            action::SYNC,
            note.unwrap_or_default(),
        ));
    }
    for type_ in [
        destination_warning::SECRETS_READABLE,
        destination_warning::FOREIGN_OWNER,
    ] {
        let warning = |conditions: &[Condition]| {
            let mut conditions = conditions.iter();
            conditions
                .find(|one| one.type_ == type_)
                .map(|one| one.message.clone())
        };
        if let (None, Some(message)) = (warning(&old.conditions), warning(&new.conditions)) {
            news.push(event(EventType::Warning, type_, action::WARN, message));
        }
    }
    news
}

/// What is news about anything that is Ready or not: that it came to be refused, and that it is not
/// any more.
pub(super) fn of_others(old: &[Condition], new: &[Condition]) -> Vec<Event> {
    let Some(now) = ready(new) else {
        return Vec::new();
    };
    let failing = |ready: &Condition| ready.status == "False" && is_trouble(&ready.reason);
    let before = ready(old);
    if failing(now) {
        let known = before.is_some_and(|before| before.reason == now.reason);
        let type_ = if now.reason == destination_reason::SUSPENDED {
            EventType::Normal
        } else {
            EventType::Warning
        };
        let news = event(type_, &now.reason, action::WARN, now.message.clone());
        return if known { Vec::new() } else { vec![news] };
    }
    if now.status == "True" && before.is_some_and(failing) {
        let note = format!("{} again: {}", now.reason, now.message);
        return vec![event(EventType::Normal, &now.reason, action::RECOVER, note)];
    }
    Vec::new()
}

/// What will pass by itself is not worth an event.
fn is_trouble(word: &str) -> bool {
    let passing = [reason::PROGRESSING, reason::INGESTION_DISABLED];
    !passing.contains(&word)
}

fn ready(conditions: &[Condition]) -> Option<&Condition> {
    conditions.iter().find(|one| one.type_ == condition::READY)
}

fn event(type_: EventType, reason: &str, action: &str, note: String) -> Event {
    let mut note = note;
    if note.len() > LONGEST_NOTE {
        let end = (0..=LONGEST_NOTE)
            .rev()
            .find(|end| note.is_char_boundary(*end));
        note.truncate(end.unwrap_or_default());
        note.push('…');
    }
    Event {
        type_,
        reason: reason.to_owned(),
        note: Some(note),
        action: action.to_owned(),
        secondary: None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn status(ready: &str, reason: &str) -> GitDestinationStatus {
        let condition = Condition {
            type_: condition::READY.to_owned(),
            status: ready.to_owned(),
            reason: reason.to_owned(),
            message: "because".to_owned(),
            observed_generation: None,
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
        };
        GitDestinationStatus {
            conditions: vec![condition],
            ..GitDestinationStatus::default()
        }
    }

    fn reasons(old: &GitDestinationStatus, new: &GitDestinationStatus) -> Vec<(String, String)> {
        let news = of_destination(old, new).into_iter();
        news.map(|event| (event.reason, event.action)).collect()
    }

    fn pair(reason: &str, action: &str) -> Vec<(String, String)> {
        vec![(reason.to_owned(), action.to_owned())]
    }

    #[test]
    fn the_first_sync_is_told_and_a_restart_is_not() {
        let (none, begun) = (
            GitDestinationStatus::default(),
            status("False", "Progressing"),
        );
        assert_eq!(reasons(&none, &begun), []);
        let synced = status("True", "InSync");
        assert_eq!(reasons(&begun, &synced), pair("InSync", "Sync"));
        let restarted = GitDestinationStatus {
            objects: Some(3),
            ..status("False", "Progressing")
        };
        assert_eq!(reasons(&restarted, &synced), []);
    }

    #[test]
    fn trouble_is_told_once_and_so_is_its_end() {
        let (fine, refused) = (status("True", "InSync"), status("False", "PushRefused"));
        assert_eq!(reasons(&fine, &refused), pair("PushRefused", "Warn"));
        assert_eq!(reasons(&refused, &refused), []);
        let guard = status("False", "MassDeleteGuard");
        assert_eq!(reasons(&refused, &guard), pair("MassDeleteGuard", "Warn"));
        assert_eq!(reasons(&refused, &fine), pair("InSync", "Recover"));
    }

    #[test]
    fn the_end_of_trouble_is_told_after_a_while_of_work() {
        let mut told = Told::nothing();
        let mut news = |old: (&str, &str), new: (&str, &str)| {
            let conditions = |(ready, reason)| status(ready, reason).conditions;
            let news = told
                .news(&1, Some("uid"), &conditions(old), &conditions(new))
                .into_iter();
            news.map(|event| (event.reason, event.action))
                .collect::<Vec<_>>()
        };
        let (denied, busy, fine) = (
            ("False", "AccessDenied"),
            ("False", "Progressing"),
            ("True", "Watching"),
        );
        assert_eq!(news(denied, busy), []);
        assert_eq!(news(busy, fine), pair("Watching", "Recover"));
        assert_eq!(news(fine, busy), []);
        assert_eq!(news(busy, fine), []);
        assert_eq!(news(fine, denied), pair("AccessDenied", "Warn"));
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        let event = event(EventType::Normal, "A", "B", "ü".repeat(2000));
        assert!(event.note.is_some_and(|note| note.len() < 1024));
    }
}
