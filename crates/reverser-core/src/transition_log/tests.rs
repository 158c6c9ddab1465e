use std::fmt::Write as _;

use super::*;
use crate::admission_record::{AdmissionRecord, AdmittedChange, FormId};
use crate::attribution::{Attributor, Before, StoreLimits, Transition};
use crate::object_key::{ObjectKey, TypeKey};
use crate::plan::{Operations, Proofs, PrunePolicy, TreeFile, Wanted, plan};

type Files = &'static [(&'static str, &'static str)];
/// What it shows, the log, the branch, what is wanted, the commits.
type Case = (
    &'static str,
    &'static [&'static str],
    Files,
    Files,
    &'static [&'static str],
);

fn blob(text: &str) -> BlobId {
    BlobId::of(text.as_bytes())
}

struct AllBut(&'static str);

impl Available for AllBut {
    fn has(&self, id: BlobId) -> bool {
        id != blob(self.0)
    }
}

fn path(name: &str) -> RepoPath {
    let type_key = TypeKey::new("", "v1", "configmaps").unwrap();
    RepoPath::of(&ObjectKey::new(type_key, Some("shop".into()), name).unwrap())
}

/// A change of a user, of somebody who is not known if the user is empty.
fn origin(user: &str) -> Arc<Origin> {
    if user.is_empty() {
        return Arc::new(Origin::unseen(Some("helm".into())));
    }
    let now = Instant::now();
    let mut attributor = Attributor::new(StoreLimits::default());
    let new = FormId {
        blob: blob("x"),
        managers: None,
    };
    attributor.record(
        AdmissionRecord {
            type_key: TypeKey::new("", "v1", "configmaps").unwrap(),
            namespace: None,
            name: "x".into(),
            uid: "u".into(),
            change: AdmittedChange::Create { new },
            user: Requester::new(user),
        },
        now,
    );
    attributor.attribute("u", Transition::Created { new }, None, now)
}

/// `name old new user`, with `-` for nothing.
fn change(text: &str) -> Change {
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let name = path(word());
    let mut form = || Some(word()).filter(|word| *word != "-").map(blob);
    let (old, new) = (form(), form());
    Change {
        path: name,
        old,
        new,
        origin: origin(word()),
        at: Instant::now(),
    }
}

fn difference(tree: &[(&str, &str)], wanted: &[(&str, &str)]) -> Plan {
    let all = Operations {
        create: true,
        update: true,
        delete: true,
    };
    let wanted: BTreeMap<RepoPath, Wanted> = wanted
        .iter()
        .map(|(name, text)| {
            let wanted = Wanted {
                blob: blob(text),
                operations: all,
            };
            (path(name), wanted)
        })
        .collect();
    let files: Vec<(String, BlobId)> = tree
        .iter()
        .map(|(name, text)| (path(name).to_string(), blob(text)))
        .collect();
    let mut proofs = Proofs::default();
    for (name, _) in tree {
        proofs.of_file.insert(path(name), DeleteProof::Deleted);
    }
    let policy = PrunePolicy::unlimited();
    let files = files
        .iter()
        .map(|(path, blob)| TreeFile { path, blob: *blob });
    plan(&wanted, files, &proofs, &policy)
}

fn name(path: &RepoPath) -> &str {
    let (_, file) = path.as_str().rsplit_once('/').unwrap();
    file.strip_suffix(".yaml").unwrap()
}

/// `user: +created ~updated -deleted`, with the contents by their names.
fn read(shares: &[Share]) -> Vec<String> {
    let contents = ["A", "B", "C", "D", "hand"];
    let content = |id: BlobId| contents.iter().find(|text| blob(text) == id).unwrap();
    let line = |share: &Share| {
        let mut line = match &share.credit {
            Credit::User { user, .. } => format!("{}:", user.name()),
            Credit::Unknown { manager } => {
                format!("unknown {}:", manager.as_deref().unwrap_or("-"))
            }
            Credit::Reconcile => "reconcile:".to_owned(),
        };
        for put in &share.puts {
            let sign = if put.replaces.is_some() { '~' } else { '+' };
            let (name, content) = (name(&put.path), content(put.blob));
            let _ = write!(line, " {sign}{name}={content}");
        }
        for delete in &share.deletes {
            let _ = write!(line, " -{}", name(delete.path()));
        }
        line
    };
    shares.iter().map(line).collect()
}

fn laid(log: &[&str], tree: &[(&str, &str)], wanted: &[(&str, &str)]) -> Vec<String> {
    let log: Vec<Change> = log.iter().map(|text| change(text)).collect();
    let equal_in_form = HashMap::from([(path("formed"), (blob("hand"), blob("A")))]);
    let ground = Ground {
        equal_in_form: &equal_in_form,
        available: &AllBut("lost"),
        deletes_between: true,
    };
    read(&lay(&log, &difference(tree, wanted), &ground))
}

#[test]
fn changes_become_commits_of_their_authors_in_order() {
    #[rustfmt::skip]
    let table: &[Case] = &[
        ("one user's changes are one commit",
            &["a - A alice", "b - B alice", "a A C alice"], &[], &[("a", "C"), ("b", "B")],
            &["alice: +a=C +b=B"]),
        ("two users' changes to two files are two commits",
            &["a - A alice", "b - B bob", "c - C alice"], &[], &[("a", "A"), ("b", "B"), ("c", "C")],
            &["alice: +a=A +c=C", "bob: +b=B"]),
        ("two users' changes to one file stay in order",
            &["a - A alice", "a A B bob", "a B C alice"], &[], &[("a", "C")],
            &["alice: +a=A", "bob: ~a=B", "alice: ~a=C"]),
        ("a later change joins only behind what it is built on",
            &["a A B alice", "a B C bob", "b - A alice"], &[("a", "A")], &[("a", "C"), ("b", "A")],
            &["alice: ~a=B +b=A", "bob: ~a=C"]),
        ("what is not known is told apart from what is the operator's",
            &["a A B "], &[("a", "A"), ("b", "A")], &[("a", "B"), ("b", "B")],
            &["unknown helm: ~a=B", "reconcile: ~b=B"]),
        ("a file that was edited by hand is the operator's to restore",
            &["a A B alice"], &[("a", "hand")], &[("a", "B")],
            &["reconcile: ~a=B"]),
        ("a file that says the same in another form is what it says",
            &["formed A B alice"], &[("formed", "hand")], &[("formed", "B")],
            &["alice: ~formed=B"]),
        ("a deletion is the deleter's, whatever the file said",
            &["a A - bob"], &[("a", "hand")], &[],
            &["bob: -a"]),
        ("deleted by one and made again by another",
            &["a A - bob", "a - B alice"], &[("a", "A")], &[("a", "B")],
            &["bob: -a", "alice: +a=B"]),
        ("deleted and made again by one",
            &["a A - bob", "a - B bob"], &[("a", "A")], &[("a", "B")],
            &["bob: ~a=B"]),
        ("what was pushed already is not told again",
            &["a - A alice", "a A B bob"], &[("a", "A")], &[("a", "B")],
            &["bob: ~a=B"]),
        ("what was undone leaves nothing",
            &["a A B alice", "a B A bob"], &[("a", "A")], &[("a", "A")],
            &[]),
        ("a state in between that is nowhere any more names nobody",
            &["a A lost alice", "a lost B bob"], &[("a", "A")], &[("a", "B")],
            &["reconcile: ~a=B"]),
        ("the beginning of the log was lost",
            &["a B C bob"], &[("a", "A")], &[("a", "C")],
            &["reconcile: ~a=C"]),
        ("the log ends before what is wanted",
            &["a A B bob"], &[("a", "A")], &[("a", "C")],
            &["bob: ~a=B", "reconcile: ~a=C"]),
        ("without a log all is the operator's",
            &[], &[("a", "A")], &[("b", "B")],
            &["reconcile: +b=B -a"]),
    ];
    for (what, log, tree, wanted, expected) in table {
        assert_eq!(laid(log, tree, wanted), *expected, "{what}");
    }
}

#[test]
fn after_a_hand_over_changes_begin_with_what_the_branch_holds() {
    let record = |user: &str, replaced: &str, old: &str, new: &str| AdmissionRecord {
        type_key: TypeKey::new("", "v1", "configmaps").unwrap(),
        namespace: None,
        name: "x".into(),
        uid: "u".into(),
        change: AdmittedChange::Update {
            replaced: replaced.into(),
            old: blob(old),
            new: FormId {
                blob: blob(new),
                managers: None,
            },
        },
        user: Requester::new(user),
    };
    let found = |records: &[AdmissionRecord], tree: &[&str]| {
        let now = Instant::now();
        let mut attributor = Attributor::new(StoreLimits::default());
        for record in records {
            attributor.record(record.clone(), now);
        }
        let new = FormId {
            blob: blob("C"),
            managers: None,
        };
        let before = Before::Unknown;
        let origin = attributor.attribute("u", Transition::Listed { before, new }, None, now);
        let change = Change {
            path: path("a"),
            old: None,
            new: Some(blob("C")),
            origin,
            at: now,
        };
        let ground = Ground {
            equal_in_form: &HashMap::new(),
            available: &AllBut(""),
            deletes_between: true,
        };
        let tree: Vec<_> = tree.iter().map(|text| ("a", *text)).collect();
        read(&lay(&[change], &difference(&tree, &[("a", "C")]), &ground))
    };
    let of_bob = [record("bob", "1", "A", "B"), record("bob", "2", "B", "C")];
    let of_two = [record("alice", "1", "A", "B"), record("bob", "2", "B", "C")];
    assert_eq!(found(&of_bob, &["A"]), ["bob: ~a=C"]);
    assert_eq!(found(&of_bob, &["B"]), ["bob: ~a=C"]);
    assert_eq!(found(&of_two, &["A"]), ["unknown -: ~a=C"]);
    assert_eq!(found(&of_two, &["B"]), ["bob: ~a=C"]);
    assert_eq!(found(&of_bob, &["by hand"]), ["unknown -: ~a=C"]);
    assert_eq!(found(&of_bob, &[]), ["unknown -: +a=C"]);
}

#[test]
fn without_steps_each_file_stands_in_one_commit() {
    let log = [
        "a - A alice",
        "a A B bob",
        "b - B alice",
        "c A - bob",
        "d A - bob",
        "d - C bob",
    ];
    let log: Vec<Change> = log.iter().map(|text| change(text)).collect();
    let wanted = [("a", "B"), ("b", "B"), ("d", "C")];
    let plan = difference(&[("c", "A"), ("d", "A")], &wanted);
    let ground = Ground {
        equal_in_form: &HashMap::new(),
        available: &AllBut(""),
        deletes_between: true,
    };
    let shares = without_steps(lay(&log, &plan, &ground));
    assert_eq!(
        read(&shares),
        ["unknown -: +a=B", "alice: +b=B", "bob: ~d=C -c"]
    );
}

#[test]
fn both_halves_of_a_move_stay_in_one_commit() {
    let at = |version: &str| {
        let type_key = TypeKey::new("x.io", version, "things").unwrap();
        RepoPath::of(&ObjectKey::new(type_key, None, "t").unwrap())
    };
    let mut proofs = Proofs::default();
    proofs.of_file.insert(at("v1"), DeleteProof::Deselected);
    proofs
        .needed
        .insert(TypeKey::new("x.io", "v2", "things").unwrap());
    let all = Operations {
        create: true,
        update: true,
        delete: true,
    };
    let wanted = Wanted {
        blob: blob("A"),
        operations: all,
    };
    let policy = PrunePolicy::unlimited();
    let old = at("v1");
    let tree = [TreeFile {
        path: old.as_str(),
        blob: blob("B"),
    }];
    let plan = plan(
        &BTreeMap::from([(at("v2"), wanted)]),
        tree,
        &proofs,
        &policy,
    );
    assert_eq!(plan.deletes[0].proof(), DeleteProof::Moved);
    let log = [Change {
        path: at("v2"),
        old: None,
        new: Some(blob("A")),
        origin: origin("alice"),
        at: Instant::now(),
    }];
    let ground = Ground {
        equal_in_form: &HashMap::new(),
        available: &AllBut(""),
        deletes_between: true,
    };
    let shares = lay(&log, &plan, &ground);
    assert_eq!(read(&shares), ["reconcile: +t=A -t"]);
}

#[test]
fn a_change_without_a_name_is_waited_for_and_only_for_the_grace() {
    let start = Instant::now();
    let grace = Duration::from_millis(250);
    let mut log = TransitionLog::default();
    let mut push = |text: &str, milliseconds: u64| {
        let at = start + Duration::from_millis(milliseconds);
        log.push(Change { at, ..change(text) });
        at
    };
    push("a - A alice", 0);
    let nameless = push("b - A ", 100);
    push("c - A alice", 200);
    let now = start + Duration::from_millis(200);
    assert_eq!(log.worth_waiting(now, grace), nameless + grace);
    let later = start + Duration::from_millis(500);
    assert_eq!(
        log.worth_waiting(later, grace),
        later,
        "inside the quiet time"
    );
    assert_eq!(log.worth_waiting(now, Duration::ZERO), now);
    let early = start + Duration::from_millis(50);
    assert_eq!(
        log.worth_waiting(early, grace),
        early,
        "what comes after the end of a batch is waited for by the next"
    );
}

#[test]
fn a_log_without_end_loses_its_beginning() {
    let mut log = TransitionLog::default();
    let one = change("a - A alice");
    for _ in 0..MOST_CHANGES + 10 {
        log.push(one.clone());
    }
    let taken = log.take();
    assert_eq!(taken.len(), MOST_CHANGES);
    log.push(one);
    log.put_back(taken);
    assert_eq!(log.take().len(), MOST_CHANGES);
}
