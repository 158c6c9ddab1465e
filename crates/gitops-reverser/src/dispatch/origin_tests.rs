//! Sequences of admission and watch events, and whose changes destinations are told of.

use reverser_core::admission_record::read_review;
use serde_json::{Value, json};

use super::tests::World;
use super::*;

/// An object as somebody left it, with a mark of who that was and when.
fn object(version: u64, value: &str, written: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "uid-web",
            "resourceVersion": version.to_string(),
            "managedFields": [{"manager": written, "operation": "Update", "time": "2026-01-01T00:00:00Z"}],
        },
        "data": {"value": value},
    })
}

fn with(mut object: Value, field: &str, value: Value) -> Value {
    object["metadata"][field] = value;
    object
}

fn labelled(object: Value, tier: &str) -> Value {
    with(object, "labels", json!({"tier": tier}))
}

fn deleting(object: Value) -> Value {
    let object = with(object, "deletionTimestamp", json!("2026-01-01T00:00:00Z"));
    with(object, "finalizers", json!(["example.com/wait"]))
}

impl World {
    /// The API server asks before it stores something.
    fn tried(&self, user: &str, operation: &str, old: &Value, new: &Value) {
        let review = json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "uid": "1", "operation": operation, "object": new, "oldObject": old,
                "resource": {"group": "", "version": "v1", "resource": "configmaps"},
                "userInfo": {"username": user},
            },
        });
        let review = read_review(review.to_string().as_bytes()).unwrap();
        self.attribution.record(review.record.unwrap());
    }

    fn added(&mut self, object: &Value) {
        self.observe(Observation::Seen {
            object: object.to_string().into(),
            live: true,
            added: true,
        });
    }

    fn modified(&mut self, object: &Value) {
        self.see(object.to_string().into());
    }

    fn listed(&mut self, object: &Value) {
        self.list(vec![object.to_string().into()]);
    }

    fn gone(&mut self, object: &Value) {
        self.observe(Observation::Gone {
            object: object.to_string().into(),
        });
    }

    fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.authors)
    }
}

#[test]
fn creation_change_and_deletion_have_their_authors() {
    let mut world = World::new();
    world.list(Vec::new());
    let (first, second) = (object(1, "a", "alice"), object(2, "b", "bob"));
    world.tried("alice", "CREATE", &Value::Null, &first);
    world.added(&first);
    world.tried("bob", "UPDATE", &first, &object(1, "b", "bob"));
    world.modified(&second);
    world.tried("carol", "DELETE", &second, &Value::Null);
    world.gone(&object(3, "b", "bob"));
    assert_eq!(world.told(), ["alice", "bob", "carol"]);
}

#[test]
fn what_nobody_tried_is_unknown_and_names_the_tool() {
    let mut world = World::new();
    world.listed(&object(1, "a", "helm"));
    assert_eq!(world.told(), ["-"], "a first list shows no change");
    world.modified(&object(2, "b", "kubectl-edit"));
    world.gone(&object(3, "b", "kubectl-edit"));
    assert_eq!(world.told(), ["unknown kubectl-edit", "unknown "]);
}

#[test]
fn versions_count_also_where_nothing_is_written() {
    let mut world = World::new();
    world.listed(&object(1, "a", "helm"));
    world.told();
    // Status changes the version and nothing that is written.
    world.modified(&with(object(2, "a", "helm"), "generation", json!(7)));
    world.tried(
        "bob",
        "UPDATE",
        &object(1, "a", "helm"),
        &object(1, "b", "x"),
    );
    world.modified(&object(3, "b", "x"));
    assert_eq!(
        world.told(),
        ["unknown x"],
        "bob's attempt was of an older version"
    );
    world.tried(
        "alice",
        "UPDATE",
        &object(3, "b", "x"),
        &object(3, "c", "y"),
    );
    world.modified(&object(4, "c", "y"));
    assert_eq!(world.told(), ["alice"]);
}

#[test]
fn who_labels_an_object_brings_its_file_and_who_unlabels_it_removes_it() {
    let mut world = World::new();
    let selector = json!({"matchLabels": {"tier": "web"}});
    world.rule("rule", &json!({ "objectSelector": selector }));
    let plain = object(1, "a", "helm");
    world.listed(&plain);
    let web = labelled(object(2, "a", "alice"), "web");
    world.tried(
        "alice",
        "UPDATE",
        &plain,
        &labelled(object(1, "a", "alice"), "web"),
    );
    world.modified(&web);
    let db = labelled(object(3, "a", "bob"), "db");
    world.tried(
        "bob",
        "UPDATE",
        &web,
        &labelled(object(2, "a", "bob"), "db"),
    );
    world.modified(&db);
    assert_eq!(world.told(), ["alice", "bob"]);
}

#[test]
fn a_deletion_is_of_the_one_who_asked_whoever_removes_the_finalizer() {
    let mut world = World::new();
    let first = with(
        object(1, "a", "helm"),
        "finalizers",
        json!(["example.com/wait"]),
    );
    world.listed(&first);
    world.told();
    world.tried("alice", "DELETE", &first, &Value::Null);
    world.modified(&deleting(object(2, "a", "helm")));
    // Somebody asks once more, and a controller lets it go.
    world.tried(
        "bob",
        "DELETE",
        &deleting(object(2, "a", "helm")),
        &Value::Null,
    );
    world.gone(&deleting(object(3, "a", "controller")));
    assert_eq!(world.told(), ["alice"]);
}

#[test]
fn who_asks_again_for_a_deletion_that_was_not_seen_is_not_named() {
    let mut world = World::new();
    let dying = deleting(object(2, "a", "helm"));
    world.listed(&dying);
    world.told();
    world.tried("bob", "DELETE", &dying, &Value::Null);
    world.gone(&deleting(object(3, "a", "controller")));
    assert_eq!(world.told(), ["unknown "]);
}

#[test]
fn after_a_list_the_changes_of_one_user_are_named_together() {
    let mut world = World::new();
    let first = object(1, "a", "helm");
    world.listed(&first);
    world.told();
    let (second, third) = (object(5, "b", "alice"), object(9, "c", "alice2"));
    world.tried("alice", "UPDATE", &first, &second);
    world.tried("alice", "UPDATE", &second, &third);
    world.listed(&third);
    assert_eq!(world.told(), ["alice (coalesced)"]);
    world.tried("bob", "UPDATE", &third, &object(9, "d", "bob"));
    world.tried(
        "alice",
        "UPDATE",
        &object(10, "d", "bob"),
        &object(10, "e", "alice"),
    );
    world.listed(&object(11, "e", "alice"));
    assert_eq!(world.told(), ["several"]);
}

#[test]
fn an_object_that_appears_in_a_later_list_was_made_by_somebody() {
    let mut world = World::new();
    world.list(Vec::new());
    let first = object(1, "a", "alice");
    world.tried("alice", "CREATE", &Value::Null, &first);
    world.listed(&first);
    assert_eq!(world.told(), ["alice (coalesced)"]);
}
