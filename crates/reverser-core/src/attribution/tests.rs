//! Sequences of admission and watch events, and the name that follows from them.

use std::time::Duration;

use super::*;
use crate::admission_record::FormId;
use crate::blob_id::BlobId;
use crate::object::Object;
use crate::object_key::TypeKey;

pub(super) fn blob(form: &str) -> BlobId {
    BlobId::of(form.as_bytes())
}

/// A form that was written by somebody with a tool at a time.
pub(super) fn form(form: &str, written: &str) -> FormId {
    let json = format!(
        r#"{{"apiVersion":"v1","kind":"A","metadata":{{"name":"a","managedFields":[{{"manager":"{written}"}}]}}}}"#
    );
    FormId {
        blob: blob(form),
        managers: Object::from_json(&json, None)
            .unwrap()
            .managers()
            .map(|managers| managers.id()),
    }
}

pub(super) fn record(user: &str, uid: &str, change: AdmittedChange) -> AdmissionRecord {
    AdmissionRecord {
        type_key: TypeKey::new("", "v1", "configmaps").unwrap(),
        namespace: Some("shop".into()),
        name: "web".into(),
        uid: uid.into(),
        change,
        user: Requester::new(user),
    }
}

fn create(user: &str, new: &str) -> AdmissionRecord {
    let new = form(new, user);
    record(user, "u", AdmittedChange::Create { new })
}

fn update(user: &str, replaced: &str, old: &str, new: &str) -> AdmissionRecord {
    let change = AdmittedChange::Update {
        replaced: replaced.into(),
        old: blob(old),
        new: form(new, user),
    };
    record(user, "u", change)
}

/// Two users with one tool in one second leave the same mark.
fn twin(user: &str, like: &AdmissionRecord) -> AdmissionRecord {
    AdmissionRecord {
        user: Requester::new(user),
        ..like.clone()
    }
}

fn scale(user: &str, replaced: &str, replicas: i64) -> AdmissionRecord {
    let replaced = replaced.into();
    record(user, "u", AdmittedChange::Scale { replaced, replicas })
}

fn delete(user: &str, version: &str) -> AdmissionRecord {
    let version = version.into();
    record(user, "u", AdmittedChange::Delete { version })
}

fn created(new: &str, written: &str) -> Transition {
    Transition::Created {
        new: form(new, written),
    }
}

fn updated(replaced: &str, new: &str, written: &str) -> Transition {
    Transition::Updated {
        replaced: replaced.into(),
        new: form(new, written),
        scaled_to: None,
    }
}

fn scaled(replaced: &str, to: Option<i64>) -> Transition {
    Transition::Updated {
        replaced: replaced.into(),
        new: form("scaled", "hpa"),
        scaled_to: to,
    }
}

fn deleting(version: &str) -> Transition {
    Transition::Deleting {
        version: version.into(),
        owners: Box::default(),
        namespace: Some("shop".into()),
    }
}

fn listed(old: &str, version: &str, new: &str, written: &str) -> Transition {
    Transition::Listed {
        before: Before::Form {
            blob: blob(old),
            version: version.into(),
        },
        new: form(new, written),
    }
}

fn appeared(new: &str, written: &str) -> Transition {
    Transition::Listed {
        before: Before::Absent,
        new: form(new, written),
    }
}

fn found(new: &str, written: &str) -> Transition {
    Transition::Listed {
        before: Before::Unknown,
        new: form(new, written),
    }
}

fn read(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Named(user, How::Exact) => user.name().to_owned(),
        Verdict::Named(user, How::Coalesced) => format!("{} (coalesced)", user.name()),
        Verdict::Ambiguous => "several".to_owned(),
        Verdict::Unseen => "nobody".to_owned(),
    }
}

/// The verdict, with the records before the event, and with the event before the records in turn.
fn verdicts(records: &[AdmissionRecord], transition: &Transition) -> Vec<String> {
    let start = Instant::now();
    let orders = (0..=records.len()).map(|early| {
        let mut attributor = Attributor::new(StoreLimits::default());
        attributor.listen(true);
        for record in &records[..early] {
            attributor.record(record.clone(), start);
        }
        let origin = attributor.attribute("u", transition.clone(), None, start);
        for record in &records[early..] {
            attributor.record(record.clone(), start);
        }
        read(&origin.verdict(None).0)
    });
    orders.collect()
}

#[test]
fn a_record_names_the_very_change_and_nothing_else() {
    let a_b = update("alice", "5", "A", "B");
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<AdmissionRecord>, Transition, &str)> = vec![
        ("a creation", vec![create("alice", "A")], created("A", "alice"), "alice"),
        ("a creation of other content", vec![create("bob", "X")], created("A", "alice"), "nobody"),
        ("the same creation with another tool", vec![create("bob", "A")], created("A", "alice"), "nobody"),
        ("an update", vec![a_b.clone()], updated("5", "B", "alice"), "alice"),
        ("an update of an older version, refused as a conflict", vec![update("bob", "4", "A", "B")], updated("5", "B", "bob"), "nobody"),
        ("the only record is of a refused attempt", vec![update("bob", "5", "A", "X")], updated("5", "B", "alice"), "nobody"),
        ("a refused attempt beside the accepted one", vec![update("bob", "5", "A", "X"), a_b.clone()], updated("5", "B", "alice"), "alice"),
        ("a refused attempt at the same content, with another tool", vec![update("bob", "5", "A", "B")], updated("5", "B", "alice"), "nobody"),
        ("two attempts at the same in one second", vec![a_b.clone(), twin("bob", &a_b)], updated("5", "B", "alice"), "several"),
        ("one user twice", vec![a_b.clone(), a_b.clone()], updated("5", "B", "alice"), "alice"),
        ("a write that changed nothing, then a report of status", vec![update("alice", "5", "A", "A")], updated("5", "A", "kubelet"), "nobody"),
        ("a creation does not name an update", vec![create("alice", "B")], updated("5", "B", "alice"), "nobody"),
        ("an update does not name a creation", vec![a_b.clone()], created("B", "alice"), "nobody"),
        ("scaling", vec![scale("alice", "5", 3)], scaled("5", Some(3)), "alice"),
        ("scaling to zero", vec![scale("alice", "5", 0)], scaled("5", Some(0)), "alice"),
        ("scaling to another number", vec![scale("bob", "5", 4)], scaled("5", Some(3)), "nobody"),
        ("scaling of another version", vec![scale("bob", "4", 3)], scaled("5", Some(3)), "nobody"),
        ("more than the replicas changed", vec![scale("bob", "5", 3)], scaled("5", None), "nobody"),
        ("two scale it alike", vec![scale("bob", "5", 3), scale("alice", "5", 3)], scaled("5", Some(3)), "several"),
        ("a deletion", vec![delete("alice", "5")], deleting("5"), "alice"),
        ("a deletion of an older version", vec![delete("bob", "4")], deleting("5"), "nobody"),
        ("two deletions, one of them accepted", vec![delete("alice", "5"), delete("bob", "5")], deleting("5"), "several"),
        ("a deletion that was tried again", vec![delete("alice", "4"), delete("alice", "5")], deleting("5"), "alice"),
        ("an update does not name a deletion", vec![a_b], deleting("5"), "nobody"),
    ];
    for (what, records, transition, expected) in table {
        for verdict in verdicts(&records, &transition) {
            assert_eq!(verdict, expected, "{what}");
        }
    }
}

#[test]
fn after_a_list_an_unbroken_chain_of_one_user_names_it() {
    let step = update;
    #[rustfmt::skip]
    let table: Vec<(&str, Vec<AdmissionRecord>, Transition, &str)> = vec![
        ("one step", vec![step("alice", "5", "A", "B")], listed("A", "5", "B", "alice"), "alice (coalesced)"),
        ("two steps of one user", vec![step("alice", "5", "A", "B"), step("alice", "6", "B", "C")], listed("A", "5", "C", "alice"), "alice (coalesced)"),
        ("two steps of two users", vec![step("alice", "5", "A", "B"), step("bob", "6", "B", "C")], listed("A", "5", "C", "bob"), "several"),
        ("a missing step", vec![step("alice", "6", "B", "C")], listed("A", "5", "C", "alice"), "nobody"),
        ("a refused attempt aside", vec![step("alice", "5", "A", "B"), step("bob", "5", "A", "X")], listed("A", "5", "B", "alice"), "alice (coalesced)"),
        ("the last step was refused", vec![step("bob", "5", "A", "B")], listed("A", "5", "B", "alice"), "nobody"),
        ("a step of before", vec![step("bob", "3", "A", "B")], listed("A", "5", "B", "bob"), "nobody"),
        ("there and back and there", vec![step("alice", "5", "A", "B"), step("bob", "6", "B", "A"), step("alice", "7", "A", "C")], listed("A", "5", "C", "alice"), "several"),
        ("made while nobody looked", vec![create("alice", "A"), step("alice", "5", "A", "B")], appeared("B", "alice"), "alice (coalesced)"),
        ("made by one and changed by another", vec![create("alice", "A"), step("bob", "5", "A", "B")], appeared("B", "bob"), "several"),
        ("scaled in between", vec![scale("alice", "5", 3)], listed("A", "5", "B", "alice"), "nobody"),
    ];
    for (what, records, transition, expected) in table {
        for verdict in verdicts(&records, &transition) {
            assert_eq!(verdict, expected, "{what}");
        }
    }
}

#[test]
fn after_a_hand_over_the_chain_begins_with_what_the_branch_holds() {
    let start = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    for record in [create("alice", "A"), update("alice", "5", "A", "B")] {
        attributor.record(record, start);
    }
    let origin = attributor.attribute("u", found("B", "alice"), None, start);
    for (there, expected) in [
        (Some(blob("A")), "alice (coalesced)"),
        (None, "alice (coalesced)"),
        (Some(blob("edited by hand")), "nobody"),
        (Some(blob("B")), "nobody"),
    ] {
        assert_eq!(read(&origin.verdict(there).0), expected);
    }
    assert!(origin.is_settled(), "there is nothing to wait for");
}

#[test]
fn what_was_ambiguous_once_stays_so() {
    let start = Instant::now();
    let limits = StoreLimits {
        entries: 2,
        ..StoreLimits::default()
    };
    let mut attributor = Attributor::new(limits);
    attributor.record(delete("bob", "5"), start);
    let origin = attributor.attribute("u", deleting("5"), None, start);
    assert_eq!(read(&origin.verdict(None).0), "bob");
    attributor.record(delete("alice", "5"), start);
    assert_eq!(read(&origin.verdict(None).0), "several");
    // Bob's record has to go; Alice was not the only one for that.
    attributor.record(delete("alice", "4"), start);
    attributor.record(delete("alice", "5"), start);
    assert_eq!(read(&origin.verdict(None).0), "several");
}

#[test]
fn records_and_waiting_changes_are_few_and_short_lived() {
    let start = Instant::now();
    let limits = StoreLimits {
        ttl: Duration::from_mins(1),
        entries: 100,
        bytes: 1 << 20,
    };
    let mut attributor = Attributor::new(limits);
    let mut evicted = 0;
    for index in 0..1000 {
        let of_other = AdmissionRecord {
            uid: format!("uid-{index}"),
            ..delete("alice", "5")
        };
        evicted += attributor.record(of_other.clone(), start);
        evicted += attributor.record(of_other, start);
        let _ = attributor.attribute(&format!("uid-{index}"), deleting("9"), None, start);
    }
    assert_eq!((attributor.len(), evicted), (100, 900));
    assert!(attributor.order.len() <= 101 && attributor.open.len() <= 101);
    assert!(attributor.knows("uid-999") && !attributor.knows("uid-1"));
    let later = start + Duration::from_secs(61);
    attributor.record(delete("alice", "5"), later);
    assert_eq!(attributor.len(), 1);
    assert!(attributor.open.is_empty() && attributor.order.is_empty());
    let mut narrow = Attributor::new(StoreLimits {
        bytes: 2000,
        ..limits
    });
    for index in 0..100 {
        narrow.record(delete("alice", &index.to_string()), start);
    }
    assert!(narrow.len() < 10, "{}", narrow.len());
}

#[test]
fn what_has_no_content_is_named_only_soon_after_it_was_asked_for() {
    let start = Instant::now();
    let after = |seconds: u64, record: AdmissionRecord, transition: Transition| {
        let mut attributor = Attributor::new(StoreLimits::default());
        attributor.record(record, start);
        let now = start + Duration::from_secs(seconds);
        let origin = attributor.attribute("u", transition, None, now);
        read(&origin.verdict(None).0)
    };
    // Somebody else's, perhaps, who was never heard: Bob's was refused at once.
    assert_eq!(after(11, delete("bob", "5"), deleting("5")), "nobody");
    assert_eq!(
        after(11, scale("bob", "5", 3), scaled("5", Some(3))),
        "nobody"
    );
    assert_eq!(after(9, delete("bob", "5"), deleting("5")), "bob");
    assert_eq!(after(9, scale("bob", "5", 3), scaled("5", Some(3))), "bob");
    let late = updated("5", "B", "bob");
    assert_eq!(after(59, update("bob", "5", "A", "B"), late), "bob");
}

#[test]
fn a_record_does_not_outlive_another_of_the_same_version() {
    let start = Instant::now();
    let limits = StoreLimits {
        entries: 2,
        ..StoreLimits::default()
    };
    let of_other = AdmissionRecord {
        uid: "other".into(),
        ..delete("carol", "1")
    };
    // For want of room: which of the two came true, nobody knows any more.
    let mut attributor = Attributor::new(limits);
    attributor.record(delete("alice", "5"), start);
    attributor.record(delete("bob", "5"), start);
    assert_eq!(attributor.record(of_other, start), 2);
    assert_eq!(attributor.len(), 1);
    let origin = attributor.attribute("u", deleting("5"), None, start);
    assert_eq!(read(&origin.verdict(None).0), "nobody");
    // By age, the same; what is about another version stays.
    let mut attributor = Attributor::new(StoreLimits::default());
    let a_b = update("alice", "5", "A", "B");
    attributor.record(a_b.clone(), start);
    attributor.record(twin("bob", &a_b), start + Duration::from_secs(1));
    attributor.record(update("bob", "6", "B", "C"), start + Duration::from_secs(1));
    let now = start + Duration::from_millis(60_500);
    let origin = attributor.attribute("u", updated("5", "B", "alice"), None, now);
    assert_eq!(read(&origin.verdict(None).0), "nobody");
    let origin = attributor.attribute("u", updated("6", "C", "bob"), None, now);
    assert_eq!(read(&origin.verdict(None).0), "bob");
}

/// Bob asks for what Alice asks for, from the same version, and is refused; her record is lost.
#[test]
fn of_twins_only_those_with_one_tool_in_one_second_cannot_be_told_apart() {
    let asked_by_bob = |mark: &str| {
        let change = AdmittedChange::Update {
            replaced: "5".into(),
            old: blob("A"),
            new: form("B", mark),
        };
        record("bob", "u", change)
    };
    let stored = updated("5", "B", "kubectl-patch at 10:00:00");
    for (mark, expected) in [
        ("kubectl-patch at 10:00:01", "nobody"),
        ("kubectl-edit at 10:00:00", "nobody"),
        // The one case in which content names the wrong user.
        ("kubectl-patch at 10:00:00", "bob"),
    ] {
        for verdict in verdicts(&[asked_by_bob(mark)], &stored) {
            assert_eq!(verdict, expected, "{mark}");
        }
    }
    // While Alice is heard too, nobody is named, whoever comes first.
    let bob = asked_by_bob("kubectl-patch at 10:00:00");
    for records in [
        [bob.clone(), twin("alice", &bob)],
        [twin("alice", &bob), bob],
    ] {
        for verdict in verdicts(&records, &stored) {
            assert_eq!(verdict, "several");
        }
    }
}

#[test]
fn a_record_that_came_again_lives_on() {
    let start = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    attributor.record(update("alice", "5", "A", "B"), start);
    attributor.record(
        update("alice", "5", "A", "B"),
        start + Duration::from_secs(40),
    );
    attributor.record(delete("bob", "1"), start + Duration::from_secs(70));
    let now = start + Duration::from_secs(80);
    let origin = attributor.attribute("u", updated("5", "B", "alice"), None, now);
    assert_eq!(read(&origin.verdict(None).0), "alice");
}

#[test]
fn a_cascade_names_the_collector_and_on_whose_behalf_it_worked() {
    const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
    let start = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    let of = |user: &str, uid: &str| AdmissionRecord {
        uid: uid.into(),
        ..delete(user, "5")
    };
    attributor.record(of("alice", "deployment"), start);
    let mut behalf = |uid: &str, owner: &str, user: &str| {
        attributor.record(of(user, uid), start);
        let transition = Transition::Deleting {
            version: "5".into(),
            owners: [owner.into()].into(),
            namespace: None,
        };
        let origin = attributor.attribute(uid, transition, None, start);
        let (verdict, behalf) = origin.verdict(None);
        assert_eq!(read(&verdict), user);
        behalf.map(|user| user.name().to_owned())
    };
    assert_eq!(
        behalf("set", "deployment", COLLECTOR).as_deref(),
        Some("alice")
    );
    assert_eq!(behalf("pod", "set", COLLECTOR).as_deref(), Some("alice"));
    assert_eq!(behalf("other", "unknown", COLLECTOR), None);
    assert_eq!(
        behalf("of other", "other", COLLECTOR),
        None,
        "a controller is nobody's reason"
    );
    assert_eq!(
        behalf("third", "deployment", "bob"),
        None,
        "a person acts for themselves"
    );
}

#[test]
fn a_cascade_goes_by_who_deleted_the_owner_and_not_by_who_tried_to() {
    const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
    let start = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    let of = |user: &str, uid: &str, version: &str| AdmissionRecord {
        uid: uid.into(),
        ..delete(user, version)
    };
    // Bob was refused at an older version; at the one that went, Alice and Carol both tried.
    let mut gone = |owner: &str, who: &[(&str, &str)]| {
        for (user, version) in who {
            attributor.record(of(user, owner, version), start);
        }
        let _ = attributor.attribute(owner, deleting("5"), None, start);
        let child = format!("child of {owner}");
        attributor.record(of(COLLECTOR, &child, "5"), start);
        let transition = Transition::Deleting {
            version: "5".into(),
            owners: [owner.into()].into(),
            namespace: None,
        };
        let origin = attributor.attribute(&child, transition, None, start);
        let behalf = origin.verdict(None).1;
        behalf.map(|user| user.name().to_owned())
    };
    let by_alice = gone("a", &[("bob", "4"), ("alice", "5")]);
    assert_eq!(by_alice.as_deref(), Some("alice"));
    assert_eq!(gone("b", &[("carol", "5"), ("alice", "5")]), None);
}

#[test]
fn the_end_of_a_namespace_names_its_controller_and_who_deleted_it() {
    const CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
    let start = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    attributor.record(
        AdmissionRecord {
            type_key: TypeKey::new("", "v1", "namespaces").unwrap(),
            namespace: None,
            name: "shop".into(),
            uid: "ns".into(),
            ..delete("alice", "3")
        },
        start,
    );
    attributor.record(delete(CONTROLLER, "5"), start);
    let origin = attributor.attribute("u", deleting("5"), None, start);
    let (verdict, behalf) = origin.verdict(None);
    assert_eq!(read(&verdict), CONTROLLER);
    assert_eq!(behalf.unwrap().name(), "alice");
}

#[test]
fn without_the_others_what_has_no_content_is_forgotten_and_what_has_is_not() {
    let now = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    attributor.record(delete("alice", "5"), now);
    attributor.record(update("alice", "5", "A", "B"), now);
    attributor.forget_without_content();
    assert_eq!(attributor.len(), 1);
    let origin = attributor.attribute("u", deleting("5"), None, now);
    assert_eq!(read(&origin.verdict(None).0), "nobody");
    let origin = attributor.attribute("u", updated("5", "B", "alice"), None, now);
    assert_eq!(read(&origin.verdict(None).0), "alice");
}
