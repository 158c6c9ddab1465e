//! What is wanted, what is there, what is known, and what follows.

use std::sync::Arc;

use super::*;
use crate::definitions::GoneTypes;
use crate::object_key::ObjectKey;
use crate::scope::{Listed, Listing, ScopeKey};
use crate::selection::{Names, Reach, ResourceName, RulePart};

const ALL: Operations = Operations {
    create: true,
    update: true,
    delete: true,
};

fn config_maps() -> TypeKey {
    TypeKey::new("", "v1", "configmaps").unwrap()
}

fn path(name: &str) -> RepoPath {
    RepoPath::of(&ObjectKey::new(config_maps(), Some("shop".into()), name).unwrap())
}

fn blob(text: &str) -> BlobId {
    BlobId::of(text.as_bytes())
}

fn wanted(objects: &[(&str, &str)], operations: Operations) -> BTreeMap<RepoPath, Wanted> {
    let wanted = |text| Wanted {
        blob: blob(text),
        operations,
    };
    objects
        .iter()
        .map(|(name, text)| (path(name), wanted(text)))
        .collect()
}

fn complete() -> Proofs {
    let mut proofs = Proofs::default();
    let scope = ScopeKey {
        type_key: config_maps(),
        namespace: None,
    };
    if let Listed::Complete(proof) = Listing::start(scope).finish() {
        proofs.complete.insert(proof);
    }
    proofs.deletable.insert(config_maps(), Prunable::new(true));
    proofs
}

fn policy() -> PrunePolicy {
    PrunePolicy {
        guard: true,
        ..PrunePolicy::unlimited()
    }
}

fn plan_for(
    wanted: &BTreeMap<RepoPath, Wanted>,
    tree: &[(String, &str)],
    proofs: &Proofs,
    policy: &PrunePolicy,
) -> Plan {
    let files = tree.iter().map(|(path, text)| TreeFile {
        path,
        blob: blob(text),
    });
    plan(wanted, files, proofs, policy)
}

fn tree(objects: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
    objects
        .iter()
        .map(|(name, text)| (path(name).to_string(), *text))
        .collect()
}

fn names(deletes: &[Delete]) -> Vec<&str> {
    deletes
        .iter()
        .map(|delete| delete.path().as_str())
        .collect()
}

#[test]
fn what_is_equal_needs_nothing() {
    let wanted = wanted(&[("a", "1"), ("b", "2")], ALL);
    let plan = plan_for(
        &wanted,
        &tree(&[("a", "1"), ("b", "2")]),
        &complete(),
        &policy(),
    );
    assert_eq!(plan, Plan::default());
}

#[test]
fn new_and_changed_objects_are_written() {
    let wanted = wanted(&[("a", "1"), ("b", "2"), ("c", "3")], ALL);
    let plan = plan_for(
        &wanted,
        &tree(&[("a", "1"), ("b", "old")]),
        &complete(),
        &policy(),
    );
    let puts: Vec<_> = plan
        .puts
        .iter()
        .map(|put| (put.path.clone(), put.replaces))
        .collect();
    assert_eq!(puts, [(path("b"), Some(blob("old"))), (path("c"), None)]);
}

#[test]
fn a_file_goes_only_with_a_proof() {
    let there = tree(&[("a", "1")]);
    let nothing = BTreeMap::new();
    let unknown = plan_for(&nothing, &there, &Proofs::default(), &policy());
    assert_eq!((unknown.deletes.len(), unknown.unproven), (0, 1));
    let listed = plan_for(&nothing, &there, &complete(), &policy());
    assert_eq!(listed.deletes[0].proof(), DeleteProof::AbsentFromList);
    let mut seen = Proofs::default();
    seen.of_file.insert(path("a"), DeleteProof::Deleted);
    assert_eq!(
        plan_for(&nothing, &there, &seen, &policy()).deletes.len(),
        1
    );
    let gone = Proofs {
        gone_types: GoneTypes::new(Some(Arc::default()), vec![every_type()]),
        ..Proofs::default()
    };
    let there = [(orders("v1", "a"), "1")];
    let plan = plan_for(&nothing, &there, &gone, &policy());
    assert_eq!(plan.deletes[0].proof(), DeleteProof::TypeGone);
}

#[test]
fn foreign_files_are_never_touched() {
    let foreign = [
        "README.md",
        "kustomization.yaml",
        "core/v1/configmaps/shop/Web.yaml",
        "x/y",
    ];
    let there: Vec<_> = foreign.map(|path| (path.to_owned(), "x")).into();
    let plan = plan_for(&BTreeMap::new(), &there, &complete(), &policy());
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_path_that_no_object_of_the_type_can_have_is_foreign() {
    let there = vec![("core/v1/configmaps/values.yaml".to_owned(), "x")];
    let plan = plan_for(&BTreeMap::new(), &there, &complete(), &policy());
    assert_eq!(plan, Plan::default());
}

#[test]
fn a_rule_without_delete_keeps_its_files_whatever_its_neighbours_say() {
    let keeps = |reach: &[(Reach, bool)]| {
        let mut prunable = Prunable::new(true);
        for (reach, deletes) in reach {
            prunable.add(reach, *deletes);
        }
        let mut proofs = complete();
        proofs.deletable.insert(config_maps(), prunable);
        plan_for(&BTreeMap::new(), &tree(&[("a", "1")]), &proofs, &policy())
            .deletes
            .is_empty()
    };
    let here = || Reach::Namespace("shop".into());
    let elsewhere = || Reach::Namespace("blog".into());
    let selected = || Reach::Namespaces(crate::labels::LabelSelector::default());
    assert!(!keeps(&[(here(), true)]));
    assert!(keeps(&[(here(), false), (elsewhere(), true)]));
    assert!(keeps(&[(here(), false), (here(), true)]));
    assert!(keeps(&[(selected(), false), (here(), true)]));
    assert!(!keeps(&[(elsewhere(), false), (here(), true)]));
}

#[test]
fn operations_filter_differences() {
    let there = tree(&[("a", "old"), ("gone", "1")]);
    let only = |create, update, delete| {
        let operations = Operations {
            create,
            update,
            delete,
        };
        let mut proofs = complete();
        if !delete {
            proofs.deletable.clear();
        }
        let wanted = wanted(&[("a", "new"), ("b", "1")], operations);
        let plan = plan_for(&wanted, &there, &proofs, &policy());
        let puts: Vec<_> = plan.puts.iter().map(|put| put.path.to_string()).collect();
        (puts, plan.deletes.len())
    };
    assert_eq!(only(true, false, false), (vec![path("b").to_string()], 0));
    assert_eq!(only(false, true, false), (vec![path("a").to_string()], 0));
    assert_eq!(only(false, false, true), (vec![], 1));
}

#[test]
fn prune_modes_ask_for_more_proof() {
    let mut proofs = complete();
    proofs.of_file.insert(path("seen"), DeleteProof::Deleted);
    let there = tree(&[("absent", "1"), ("seen", "1")]);
    let deletes = |mode| {
        let policy = PrunePolicy { mode, ..policy() };
        plan_for(&BTreeMap::new(), &there, &proofs, &policy)
            .deletes
            .len()
    };
    assert_eq!(deletes(PruneMode::Always), 2);
    assert_eq!(deletes(PruneMode::OnEvent), 1);
    assert_eq!(deletes(PruneMode::Never), 0);
}

fn many(count: usize) -> Vec<(String, &'static str)> {
    (0..count)
        .map(|index| (path(&format!("n{index:03}")).to_string(), "1"))
        .collect()
}

#[test]
fn the_cap_lets_a_cycle_delete_so_many_in_the_order_of_paths() {
    let wanted = wanted(&[("keep", "1")], ALL);
    let mut there = many(20);
    there.push((path("keep").to_string(), "1"));
    let capped = |cap| {
        plan_for(
            &wanted,
            &there,
            &complete(),
            &PrunePolicy {
                cap: Some(cap),
                ..policy()
            },
        )
    };
    let plan = capped(3);
    let first = [path("n000"), path("n001"), path("n002")];
    assert_eq!(names(&plan.deletes), first.each_ref().map(RepoPath::as_str));
    assert_eq!(plan.capped, 17);
    assert_eq!(capped(0).deletes, []);
}

#[test]
fn a_deletion_that_the_server_refuses_takes_nobodys_place_in_a_capped_cycle() {
    let wanted = wanted(&[("keep", "1")], ALL);
    let mut there = many(20);
    there.push((path("keep").to_string(), "1"));
    let policy = PrunePolicy {
        cap: Some(1),
        refused: HashSet::from([path("n000")]),
        ..policy()
    };
    let plan = plan_for(&wanted, &there, &complete(), &policy);
    assert_eq!(names(&plan.deletes), [path("n001").as_str()]);
    assert_eq!((plan.capped, plan.unproven), (18, 1));
    assert_eq!(plan.refused, [path("n000")]);
}

#[test]
fn the_guard_stops_the_disappearance_of_everything_until_it_is_released() {
    let nothing = BTreeMap::new();
    let all = many(11);
    let stopped = plan_for(&nothing, &all, &complete(), &policy());
    assert_eq!(stopped.deletes, []);
    let stop = stopped.stopped.unwrap();
    assert_eq!(stop.deletions, 11);
    let release = |id: &str| PrunePolicy {
        acknowledged: Some(id.into()),
        ..policy()
    };
    assert_eq!(
        plan_for(&nothing, &all, &complete(), &release(&stop.id))
            .deletes
            .len(),
        11
    );
    assert_eq!(
        plan_for(&nothing, &all, &complete(), &release("other"))
            .deletes
            .len(),
        0
    );
    let disabled = PrunePolicy {
        guard: false,
        ..policy()
    };
    assert_eq!(
        plan_for(&nothing, &all, &complete(), &disabled)
            .deletes
            .len(),
        11
    );
}

/// The files that are left when cycle after cycle was carried out, and whether one was stopped.
fn cycles(mut tree: Vec<(String, &'static str)>, kept: &[&str], cap: usize) -> (usize, bool) {
    let kept: Vec<(&str, &str)> = kept.iter().map(|name| (*name, "1")).collect();
    let wanted = wanted(&kept, ALL);
    let mut policy = PrunePolicy {
        cap: Some(cap),
        ..policy()
    };
    loop {
        let plan = plan_for(&wanted, &tree, &complete(), &policy);
        if plan.stopped.is_some() || plan.deletes.is_empty() {
            return (tree.len(), plan.stopped.is_some());
        }
        policy.gone += plan.deletes.len();
        let gone: HashSet<String> = plan.deletes.iter().map(|d| d.path().to_string()).collect();
        tree.retain(|(path, _)| !gone.contains(path));
    }
}

#[test]
fn capped_cycles_are_one_decision_and_meet_the_guard_as_one_cycle_would() {
    let mut with_one = many(60);
    with_one.push((path("keep").to_string(), "1"));
    for cap in [1, 9, 59, 60, 100] {
        assert_eq!(
            cycles(with_one.clone(), &["keep"], cap),
            (1, false),
            "{cap}"
        );
        assert_eq!(cycles(many(60), &[], cap), (60, true), "{cap}");
        assert_eq!(cycles(many(10), &[], cap), (0, false), "{cap}");
    }
}

#[test]
fn what_went_lately_counts_so_that_everything_does_not_go_in_small_parts() {
    let nothing = BTreeMap::new();
    let lately = |gone| PrunePolicy { gone, ..policy() };
    // Twenty others went before, list by list, and left these.
    let plan = plan_for(&nothing, &many(5), &complete(), &lately(20));
    assert_eq!(plan.deletes, []);
    let stop = plan.stopped.expect("nothing would be left of 25");
    assert_eq!(stop.deletions, 5);
    let released = PrunePolicy {
        acknowledged: Some(stop.id),
        ..lately(20)
    };
    let plan = plan_for(&nothing, &many(5), &complete(), &released);
    assert_eq!((plan.deletes.len(), plan.released), (5, true));
    // Six in all are everyday work, and so is what leaves something.
    let plan = plan_for(&nothing, &many(5), &complete(), &lately(1));
    assert_eq!((plan.deletes.len(), plan.stopped), (5, None));
    let mut there = many(5);
    there.push((path("keep").to_string(), "1"));
    let keep = wanted(&[("keep", "1")], ALL);
    let plan = plan_for(&keep, &there, &complete(), &lately(1000));
    assert_eq!((plan.deletes.len(), plan.stopped), (5, None));
    // Nor is what was seen to go stopped by what was not.
    let mut seen = Proofs::default();
    for (name, _) in many(5) {
        let name = RepoPath::of_parsed(&name, &RepoPath::parse(&name).unwrap());
        seen.of_file.insert(name, DeleteProof::Deleted);
    }
    let plan = plan_for(&nothing, &many(5), &seen, &lately(1000));
    assert_eq!((plan.deletes.len(), plan.stopped), (5, None));
}

#[test]
fn what_lists_lack_waits_for_other_lists_and_is_judged_with_them() {
    let mut proofs = complete();
    proofs.of_file.insert(path("n000"), DeleteProof::Deleted);
    let mut there = many(20);
    there.push((path("keep").to_string(), "1"));
    let holds = PrunePolicy {
        holds_absent: true,
        ..policy()
    };
    let keep = wanted(&[("keep", "1")], ALL);
    let plan = plan_for(&keep, &there, &proofs, &holds);
    assert_eq!(names(&plan.deletes), [path("n000").as_str()]);
    assert_eq!((plan.awaiting_lists, plan.capped), (19, 0));
    let plan = plan_for(&BTreeMap::new(), &there, &proofs, &holds);
    assert!(plan.stopped.is_some(), "nothing would be left");
}

#[test]
fn a_released_mass_deletion_goes_in_capped_cycles_and_covers_no_other() {
    let nothing = BTreeMap::new();
    let mut tree = many(40);
    let stopped = plan_for(&nothing, &tree, &complete(), &policy());
    let stop = stopped.stopped.expect("everything would go");
    let mut policy = PrunePolicy {
        cap: Some(12),
        acknowledged: Some(stop.id.clone()),
        shown: stopped.shown,
        ..policy()
    };
    for left in [28, 16, 4, 0] {
        let plan = plan_for(&nothing, &tree, &complete(), &policy);
        assert_eq!((&plan.stopped, plan.capped), (&None, left));
        let gone: HashSet<String> = plan.deletes.iter().map(|d| d.path().to_string()).collect();
        tree.retain(|(path, _)| !gone.contains(path));
        policy.shown = plan.shown;
    }
    assert!(tree.is_empty());
    assert_eq!(policy.shown, None, "what was released has come to its end");

    // Others than those that were shown are stopped, also beside them.
    let shown = plan_for(&nothing, &many(20), &complete(), &policy).shown;
    let more = PrunePolicy {
        acknowledged: shown.as_ref().map(|shown| shown.id.clone()),
        shown,
        ..policy
    };
    let plan = plan_for(&nothing, &many(21), &complete(), &more);
    assert_eq!(plan.deletes, []);
    assert_eq!(plan.stopped.map(|stop| stop.deletions), Some(21));
}

#[test]
fn a_stop_keeps_its_id_while_its_files_become_fewer() {
    let nothing = BTreeMap::new();
    let stopped = plan_for(&nothing, &many(30), &complete(), &policy());
    let stop = stopped.stopped.expect("everything would go");
    let again = PrunePolicy {
        shown: stopped.shown,
        ..policy()
    };
    let fewer = plan_for(&nothing, &many(20), &complete(), &again);
    let fewer = fewer.stopped.expect("everything would still go");
    assert_eq!((fewer.id, fewer.deletions), (stop.id, 20));
}

#[test]
fn files_that_nobody_can_prove_to_be_gone_do_not_switch_the_guard_off() {
    let mut all = many(11);
    all.push(("example.com/v1/things/shop/a.yaml".to_owned(), "1"));
    let plan = plan_for(&BTreeMap::new(), &all, &complete(), &policy());
    assert_eq!((plan.deletes.len(), plan.unproven), (0, 1));
    assert!(plan.stopped.is_some());
}

#[test]
fn the_guard_lets_work_pass() {
    let nothing = BTreeMap::new();
    assert_eq!(
        plan_for(&nothing, &many(10), &complete(), &policy())
            .deletes
            .len(),
        10
    );
    let keep = wanted(&[("keep", "1")], ALL);
    let mut there = many(500);
    there.push((path("keep").to_string(), "1"));
    assert_eq!(
        plan_for(&keep, &there, &complete(), &policy())
            .deletes
            .len(),
        500
    );
    for proof in [
        DeleteProof::Deleted,
        DeleteProof::RuleDeleted,
        DeleteProof::TypeGone,
    ] {
        let mut proofs = Proofs::default();
        for index in 0..30 {
            proofs.of_file.insert(path(&format!("n{index:03}")), proof);
        }
        assert_eq!(
            plan_for(&nothing, &many(30), &proofs, &policy())
                .deletes
                .len(),
            30
        );
    }
}

fn every_type() -> RulePart {
    RulePart {
        operations: ALL,
        groups: Names::All,
        versions: Names::All,
        resources: vec![ResourceName::Every],
        include_owned: false,
        reach: Reach::Cluster,
    }
}

fn orders(version: &str, name: &str) -> String {
    format!("shop.example.com/{version}/orders/shop/{name}.yaml")
}

fn complete_orders(version: &str) -> Proofs {
    let type_key = TypeKey::new("shop.example.com", version, "orders").unwrap();
    let mut proofs = Proofs::default();
    let scope = ScopeKey {
        type_key: type_key.clone(),
        namespace: None,
    };
    if let Listed::Complete(proof) = Listing::start(scope).finish() {
        proofs.complete.insert(proof);
    }
    proofs.needed.insert(type_key.clone());
    proofs.deletable.insert(type_key, Prunable::new(true));
    proofs
}

#[test]
fn an_object_that_is_followed_in_another_version_moves_past_guard_and_cap() {
    let names: Vec<String> = (10..30).map(|number| format!("o{number}")).collect();
    let tree: Vec<_> = names.iter().map(|name| (orders("v1", name), "1")).collect();
    let key = TypeKey::new("shop.example.com", "v2", "orders").unwrap();
    let place = |name: &String| {
        RepoPath::of(&ObjectKey::new(key.clone(), Some("shop".into()), name).unwrap())
    };
    let content = Wanted {
        blob: blob("2"),
        operations: ALL,
    };
    let wanted: BTreeMap<_, _> = names.iter().map(|name| (place(name), content)).collect();
    let policy = PrunePolicy {
        cap: Some(1),
        ..policy()
    };
    let plan = plan_for(&wanted, &tree, &complete_orders("v2"), &policy);
    assert_eq!((plan.puts.len(), plan.deletes.len()), (20, 20));
    assert!(
        plan.deletes
            .iter()
            .all(|delete| delete.proof() == DeleteProof::Moved)
    );
}

#[test]
fn the_list_of_another_version_proves_absence_unless_the_own_one_is_needed_and_unknown() {
    let tree = [(orders("v1", "gone"), "1")];
    let mut proofs = complete_orders("v2");
    let plan = plan_for(&BTreeMap::new(), &tree, &proofs, &policy());
    assert_eq!(plan.deletes[0].proof(), DeleteProof::AbsentFromList);
    proofs
        .needed
        .insert(TypeKey::new("shop.example.com", "v1", "orders").unwrap());
    let plan = plan_for(&BTreeMap::new(), &tree, &proofs, &policy());
    assert_eq!((plan.deletes.len(), plan.unproven), (0, 1));
}

#[test]
fn in_the_folder_of_another_cluster_only_what_was_seen_to_go_goes() {
    let nothing = BTreeMap::new();
    let there = many(2);
    let elsewhere = |acknowledged: Option<&str>| PrunePolicy {
        other_cluster: Some("0123".into()),
        acknowledged: acknowledged.map(str::to_owned),
        ..policy()
    };
    let stopped = plan_for(&nothing, &there, &complete(), &elsewhere(None));
    assert_eq!(stopped.deletes, []);
    let stop = stopped.stopped.unwrap();
    assert_eq!(stop.deletions, 2);
    let released = plan_for(&nothing, &there, &complete(), &elsewhere(Some(&stop.id)));
    assert_eq!((released.deletes.len(), released.released), (2, true));
    let here = plan_for(&nothing, &there, &complete(), &policy());
    assert_eq!(here.deletes.len(), 2, "so few are everyday work at home");
    let mut seen = Proofs::default();
    for (path, _) in &there {
        let path = RepoPath::of_parsed(path, &RepoPath::parse(path).unwrap());
        seen.of_file.insert(path, DeleteProof::Deleted);
    }
    let gone = plan_for(&nothing, &there, &seen, &elsewhere(None));
    assert_eq!((gone.deletes.len(), gone.stopped), (2, None));
}

#[test]
fn an_object_whose_new_file_may_not_be_written_keeps_the_old_one() {
    let key = TypeKey::new("shop.example.com", "v2", "orders").unwrap();
    let place = RepoPath::of(&ObjectKey::new(key, Some("shop".into()), "a").unwrap());
    let tree = [(orders("v1", "a"), "1")];
    let content = |operations| Wanted {
        blob: blob("2"),
        operations,
    };
    let proofs = complete_orders("v2");
    let mut no_create = ALL;
    no_create.create = false;
    let wanted = BTreeMap::from([(place.clone(), content(no_create))]);
    let plan = plan_for(&wanted, &tree, &proofs, &policy());
    assert!(plan.is_empty(), "{plan:?}");

    let wanted = BTreeMap::from([(place, content(ALL))]);
    let mut plan = plan_for(&wanted, &tree, &proofs, &policy());
    assert_eq!((plan.puts.len(), plan.deletes.len()), (1, 1));
    plan.retain_puts(|_| false);
    assert!(plan.is_empty(), "refused by the server: {plan:?}");
}

#[test]
fn a_rule_without_delete_keeps_its_files_when_their_type_goes() {
    let mut keeps = every_type();
    keeps.operations.delete = false;
    keeps.reach = Reach::Namespace("shop".into());
    let gone = Proofs {
        gone_types: GoneTypes::new(Some(Arc::default()), vec![every_type(), keeps]),
        ..Proofs::default()
    };
    let elsewhere = orders("v1", "b").replace("/shop/", "/other/");
    let tree = [(orders("v1", "a"), "1"), (elsewhere.clone(), "1")];
    let plan = plan_for(&BTreeMap::new(), &tree, &gone, &policy());
    assert_eq!(names(&plan.deletes), [elsewhere]);
}

#[test]
fn files_of_a_withdrawn_type_go_where_its_rules_reached_and_let_them_go() {
    let there = tree(&[("a", "1"), ("b", "2")]);
    let mut proofs = Proofs::default();
    let withdrawn = |reached: &[(&Reach, bool)]| {
        let mut prunable = Prunable::new(true);
        for (reach, deletes) in reached {
            prunable.add(reach, *deletes);
        }
        Withdrawn {
            reached: prunable,
            proof: DeleteProof::RuleDeleted,
        }
    };
    let gone = |proofs: &Proofs| {
        let plan = plan_for(&BTreeMap::new(), &there, proofs, &policy());
        plan.deletes.len()
    };
    let (shop, other) = (
        Reach::Namespace("shop".into()),
        Reach::Namespace("other".into()),
    );
    let everywhere = Reach::Namespaces(crate::labels::LabelSelector::default());
    for (reached, expected) in [
        (&[(&shop, true)][..], 2),
        (&[(&everywhere, true)], 2),
        (&[(&other, true)], 0),
        (&[(&shop, true), (&everywhere, false)], 0),
        (&[(&Reach::Cluster, false)], 0),
    ] {
        proofs.withdrawn.insert(config_maps(), withdrawn(reached));
        assert_eq!(gone(&proofs), expected, "{reached:?}");
    }
    proofs
        .withdrawn
        .insert(config_maps(), withdrawn(&[(&shop, true)]));
    proofs.needed.insert(config_maps());
    assert_eq!(gone(&proofs), 0, "a rule selects it again");
}
