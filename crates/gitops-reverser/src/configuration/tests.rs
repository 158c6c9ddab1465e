//! What is told of what users wrote, and when.

use serde_json::json;

use super::*;

#[test]
fn a_status_of_our_own_is_no_news_and_anything_else_is() {
    let seen = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut object = json!({
            "apiVersion": "configbutler.ai/v1alpha1",
            "kind": "GitDestination",
            "metadata": {"name": "prod", "namespace": "shop", "uid": "1", "generation": 1},
            "spec": {"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "prod"},
        });
        change(&mut object);
        let read = serde_json::from_value(object).unwrap();
        Change::Destination(Step::Applied(Id::new("shop", "prod"), Ok(Arc::new(read))))
    };
    let status = |commit: &'static str| {
        move |object: &mut serde_json::Value| {
            object["status"] = json!({"lastPushedCommit": commit});
        }
    };
    let mut gathered = Gathered::default();
    assert!(gathered.take(seen(&|_| {})), "it is new");
    assert!(gathered.take(seen(&status("c0ffee"))), "it has written");
    assert!(!gathered.take(seen(&status("decade"))));
    let destination = &gathered.configuration.destinations[&Id::new("shop", "prod")];
    let status_kept = destination.status.as_ref().unwrap();
    assert_eq!(status_kept.last_pushed_commit.as_deref(), Some("decade"));
    for (field, value) in [
        ("generation", json!(2)),
        ("annotations", json!({"a": "b"})),
        ("labels", json!({"a": "b"})),
        ("deletionTimestamp", json!("2026-01-01T00:00:00Z")),
        ("uid", json!("2")),
    ] {
        let changed = seen(&|object| {
            status("decade")(object);
            object["metadata"][field] = value.clone();
        });
        assert!(gathered.take(changed), "{field}");
        gathered.take(seen(&status("decade")));
    }
    let id = Id::new("shop", "prod");
    assert!(gathered.take(Change::Destination(Step::Deleted(id))));
}

#[test]
fn definitions_that_were_replaced_unseen_are_another_installation() {
    let uids = |uids: &[&str]| Some(uids.iter().map(ToString::to_string).collect());
    let mut known = KnownDefinitions::default();
    assert_eq!(known.meet(uids(&["a", "b"])), Met::TheSame);
    assert_eq!(known.meet(uids(&["a", "b"])), Met::TheSame);
    // `kubectl replace --force`, while the watch of rules was disconnected.
    assert_eq!(known.meet(uids(&["a", "c"])), Met::Others);
    assert_eq!(known.meet(uids(&["a", "c"])), Met::TheSame);
    assert_eq!(known.meet(None), Met::None);
    assert_eq!(known.meet(None), Met::None);
    assert_eq!(known.meet(uids(&["a", "c"])), Met::Others);
    assert_eq!(known.meet(uids(&["a", "c"])), Met::TheSame);
}

/// Everything that users write, one of each kind, as it is listed at the start.
fn listed() -> Gathered {
    fn one<K: serde::de::DeserializeOwned>(id: &Id, spec: &serde_json::Value) -> Step<K> {
        let object = json!({
            "apiVersion": "configbutler.ai/v1alpha1", "kind": "X",
            "metadata": {"name": id.name, "uid": "1", "generation": 1}, "spec": spec,
        });
        let object = serde_json::from_value(object).unwrap();
        Step::Restarted(BTreeMap::from([(id.clone(), Ok(Arc::new(object)))]))
    }
    let mut gathered = Gathered::default();
    let destination = json!({"name": "prod", "namespace": "shop"});
    let rules = json!({"destinationRef": destination, "rules": [{"scope": "Cluster"}]});
    let repo = json!({"repoUrl": "https://git.example.com/r.git", "allowedBranches": ["main"]});
    let prod = json!({"repoRef": {"name": "repo"}, "branch": "main", "baseFolder": "prod"});
    for change in [
        Change::Repo(one(&Id::new("shop", "repo"), &repo)),
        Change::Destination(one(&Id::new("shop", "prod"), &prod)),
        Change::WatchRule(one(&Id::new("shop", "rule"), &rules)),
        Change::ClusterRule(one(&Id::new("", "rule"), &rules)),
        Change::Namespace(Step::Restarted(BTreeMap::new())),
    ] {
        gathered.take(change);
    }
    assert!(gathered.is_complete());
    gathered
}

/// The four kinds in every order.
fn orders() -> Vec<[usize; 4]> {
    let all = (0..256).map(|code| [code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6]);
    let differ = |order: &[usize; 4]| (0..4).all(|kind| order.contains(&kind));
    all.filter(differ).collect()
}

#[test]
fn definitions_that_go_in_any_order_take_no_rule_along() {
    assert_eq!(orders().len(), 24);
    for order in orders() {
        let mut gathered = listed();
        let mut known = KnownDefinitions::default();
        let uids =
            |installation: &str| Some((0..4).map(|at| format!("{installation}-{at}")).collect());
        let met = known.meet(uids("first"));
        let before = gathered.under(met).unwrap();
        assert_eq!(
            (before.watch_rules.len(), before.cluster_rules.len()),
            (1, 1)
        );
        for kind in order {
            // The objects of a definition go while it is being deleted, and are seen to go.
            assert!(gathered.under(known.meet(None)).is_none(), "{order:?}");
            gathered.take(match kind {
                0 => Change::Repo(Step::Deleted(Id::new("shop", "repo"))),
                1 => Change::Destination(Step::Deleted(Id::new("shop", "prod"))),
                2 => Change::WatchRule(Step::Deleted(Id::new("shop", "rule"))),
                _ => Change::ClusterRule(Step::Deleted(Id::new("", "rule"))),
            });
            assert!(gathered.under(known.meet(None)).is_none(), "{order:?}");
        }
        // What is told next is of another installation, which nobody compares with this one.
        let after = gathered.under(known.meet(uids("second"))).unwrap();
        assert_eq!(after.installation, before.installation + 1, "{order:?}");
    }
}

#[test]
fn only_a_rule_that_was_seen_to_be_deleted_counts_as_deleted_on_purpose() {
    let mut gathered = listed();
    let rule = RuleId::Watch(Id::new("shop", "rule"));
    gathered.take(Change::WatchRule(Step::Restarted(BTreeMap::new())));
    assert!(gathered.configuration.watch_rules.is_empty());
    assert!(!gathered.configuration.deleted_rules.contains(&rule));
    gathered.take(Change::WatchRule(Step::Deleted(Id::new("shop", "rule"))));
    gathered.take(Change::ClusterRule(Step::Deleted(Id::new("", "rule"))));
    let deleted = BTreeSet::from([rule, RuleId::Cluster("rule".into())]);
    assert_eq!(gathered.configuration.deleted_rules, deleted);
    // Names come and go without end.
    for number in 0..10 * DELETED_RULES {
        let id = Id::new("shop", number.to_string());
        gathered.take(Change::WatchRule(Step::Deleted(id.clone())));
        let deleted = &gathered.configuration.deleted_rules;
        assert!(deleted.len() <= DELETED_RULES && deleted.contains(&RuleId::Watch(id)));
    }
}
