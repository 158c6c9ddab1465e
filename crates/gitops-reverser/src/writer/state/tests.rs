//! What a destination keeps, and for how long.

use reverser_core::commit_message::Installation;
use reverser_core::object_key::ObjectKey;
use reverser_core::plan::{DeleteProof, Operations, Plan, Prunable, PruneMode, TreeFile, plan};
use reverser_core::scope::{Listed, Listing, ScopeKey};
use reverser_core::selection::Reach;
use reverser_git::{BranchName, CancelToken, Git, Person, RemoteUrl, Scheme};

use super::*;
use crate::dispatch::{Knowledge, ToWriter};
use crate::identity::Id;
use crate::routing::Target;
use crate::writer::WriterSettings;

fn settings() -> WriterSettings {
    WriterSettings {
        git: Git::find().unwrap(),
        cut_off: CancelToken::new(),
        work_dir: "unused".into(),
        limits: Limits {
            max_files: 10,
            max_bytes: 1000,
            max_wait: Duration::from_secs(1),
            quiet: Duration::ZERO,
        },
        poll: Duration::from_mins(1),
        deletes_cap: None,
        grace: Duration::ZERO,
        committer: Person::new("operator", "operator@example.com").unwrap(),
        installation: Installation {
            cluster_uid: "uid".into(),
            controller_namespace: "system".into(),
            controller_name: "operator".into(),
            instance_id: "one".into(),
        },
        marks_folders: true,
        on_push: None,
    }
}

fn destination() -> Destination {
    Destination::sample(Target {
        url: RemoteUrl::parse("https://git.example.com/r", Scheme::DEFAULT_ALLOWED).unwrap(),
        branch: BranchName::parse("main").unwrap(),
        repo: Id::new("shop", "repo"),
    })
}

fn config_maps() -> TypeKey {
    TypeKey::new("", "v1", "configmaps").unwrap()
}

fn path(name: &str) -> RepoPath {
    RepoPath::of(&ObjectKey::new(config_maps(), Some("shop".into()), name).unwrap())
}

fn put(name: &str) -> ToWriter {
    ToWriter::Put {
        path: path(name),
        wanted: Wanted {
            blob: BlobId::of(name.as_bytes()),
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
        },
        content: name.into(),
        origin: None,
    }
}

fn remove(name: &str, proof: DeleteProof) -> ToWriter {
    ToWriter::Remove {
        path: path(name),
        proof: Some(proof),
        origin: None,
    }
}

/// One that knows all ConfigMaps.
fn listed(destination: Destination, now: Instant) -> DestinationState {
    let mut knowledge = Knowledge::default();
    let listing = Listing::start(ScopeKey {
        type_key: config_maps(),
        namespace: None,
    });
    let Listed::Complete(proof) = listing.finish() else {
        panic!("nothing was skipped");
    };
    knowledge.complete.insert(proof);
    let mut prunable = Prunable::new(true);
    prunable.add(&Reach::Cluster, true);
    knowledge.deletable.insert(config_maps(), prunable);
    let mut state = DestinationState::new(destination, now);
    state.take(ToWriter::Knowledge(Box::new(knowledge)), now, None);
    state
}

/// How an attempt may end.
#[derive(Clone, Copy, Debug)]
enum Attempted {
    Nothing,
    Unreachable,
    Refused,
    Written,
    Unknown,
}

fn attempt(state: &mut DestinationState, end: Attempted, now: Instant) {
    // However long it has to wait after a failure.
    state.not_before = None;
    let job = state.begin(&Id::new("shop", "prod"), &settings(), now);
    let Some(mut job) = job else {
        assert!(matches!(end, Attempted::Nothing));
        return;
    };
    let refusal = Refusal {
        reason: "Refused",
        message: String::new(),
    };
    match end {
        Attempted::Nothing => panic!("an attempt has begun"),
        Attempted::Unreachable => state.put_back(job),
        Attempted::Refused => {
            job.done.failure = Some(refusal);
            state.finish(job, now);
        }
        Attempted::Written => {
            job.done.may_have_written = true;
            state.finish(job, now);
        }
        Attempted::Unknown => {
            job.done.may_have_written = true;
            state.put_back(job);
        }
    }
}

#[test]
fn names_that_come_and_go_while_nothing_can_be_written_are_not_kept() {
    let now = Instant::now();
    for end in [
        Attempted::Nothing,
        Attempted::Unreachable,
        Attempted::Refused,
    ] {
        let suspended = Destination {
            suspend: matches!(end, Attempted::Nothing),
            ..destination()
        };
        let mut state = listed(suspended, now);
        for number in 0..100_000 {
            let name = format!("name-{number}");
            state.take(put(&name), now, None);
            if number % 10_000 == 5_000 {
                attempt(&mut state, end, now);
            }
            state.take(remove(&name, DeleteProof::Deleted), now, None);
        }
        attempt(&mut state, end, now);
        assert_eq!(state.proofs.of_file.len(), 0, "{end:?}");
        assert!(state.wanted.is_empty(), "{end:?}");
        match &state.doubt {
            Doubt::Whole => {}
            Doubt::At(paths) => assert!(paths.len() <= 10_000, "{end:?}"),
        }
    }
}

#[test]
fn a_deletion_that_was_seen_is_kept_where_no_list_would_show_the_file() {
    let now = Instant::now();
    let on_event = Destination {
        prune: PruneMode::OnEvent,
        ..destination()
    };
    let mut state = listed(on_event, now);
    // Perhaps there is a file of an object of that name that went while nobody looked.
    state.take(put("web"), now, None);
    state.take(remove("web", DeleteProof::Deleted), now, None);
    assert_eq!(state.proofs.of_file.len(), 1);
}

#[test]
fn what_the_branch_may_hold_stays_known_to_be_gone_until_it_is_written() {
    let now = Instant::now();
    for end in [Attempted::Written, Attempted::Unknown] {
        let mut state = listed(destination(), now);
        state.take(put("web"), now, None);
        attempt(&mut state, end, now);
        for _ in 0..3 {
            state.take(remove("web", DeleteProof::Deleted), now, None);
            assert_eq!(state.proofs.of_file.len(), 1, "{end:?}");
            attempt(&mut state, Attempted::Unreachable, now);
            assert_eq!(state.proofs.of_file.len(), 1, "{end:?}");
            state.take(put("web"), now, None);
        }
    }
    // One that goes during an attempt, which then turns out to have written nothing.
    let mut state = listed(destination(), now);
    state.take(put("web"), now, None);
    let job = state.begin(&Id::new("shop", "prod"), &settings(), now);
    state.take(remove("web", DeleteProof::Deleted), now, None);
    assert_eq!(state.proofs.of_file.len(), 1);
    state.put_back(job.unwrap());
    assert_eq!(state.proofs.of_file.len(), 0);
    // Nor is a file new whose object was only listed after a loss.
    let mut state = DestinationState::new(destination(), now);
    state.take(ToWriter::Knowledge(Box::default()), now, None);
    state.take(put("web"), now, None);
    state.take(remove("web", DeleteProof::Deleted), now, None);
    assert_eq!(state.proofs.of_file.len(), 1);
}

#[test]
fn names_of_deleted_objects_are_not_kept_for_ever_where_their_files_stay() {
    let now = Instant::now();
    for mode in [PruneMode::Never, PruneMode::OnEvent, PruneMode::Always] {
        let destination = Destination {
            prune: mode,
            ..destination()
        };
        let mut state = DestinationState::new(destination, now);
        state.take(ToWriter::Knowledge(Box::default()), now, None);
        state.take(remove("gone", DeleteProof::Deselected), now, None);
        assert_eq!(state.proofs.of_file.len(), 1);
        let job = state.begin(&Id::new("shop", "prod"), &settings(), now);
        state.finish(job.unwrap(), now);
        assert_eq!(state.proofs.of_file.len(), 0, "{mode:?}");
    }
}

/// An attempt that is carried out on this tree, if there is one.
fn carry_out(
    state: &mut DestinationState,
    tree: &mut BTreeMap<String, BlobId>,
    now: Instant,
) -> Option<Plan> {
    let mut job = state.begin(&Id::new("shop", "prod"), &settings(), now)?;
    let files = tree.iter();
    let files = files.map(|(path, blob)| TreeFile { path, blob: *blob });
    let plan = plan(&job.wanted, files, &job.proofs, &job.policy);
    job.done.stopped.clone_from(&plan.stopped);
    job.done.gone.released = plan.released;
    job.done.awaiting_lists = plan.awaiting_lists;
    job.policy.shown.clone_from(&plan.shown);
    for put in &plan.puts {
        tree.insert(put.path.to_string(), put.blob);
    }
    for delete in &plan.deletes {
        tree.remove(delete.path().as_str());
        if delete.proof().is_inferred() {
            job.done.gone.files.push(delete.path().clone());
        }
        job.done.deletes.push(delete.path().clone());
    }
    state.finish(job, now);
    Some(plan)
}

/// A list that lacks these.
fn list_without(names: std::ops::Range<usize>) -> ToWriter {
    let removals = names.map(|number| {
        let name = format!("name-{number}");
        remove(&name, DeleteProof::AbsentFromList)
    });
    ToWriter::Together(removals.collect())
}

/// One that has written so many, and its tree.
fn mirrored(objects: usize, now: Instant) -> (DestinationState, BTreeMap<String, BlobId>) {
    let mut state = listed(destination(), now);
    let mut tree = BTreeMap::new();
    for number in 0..objects {
        state.take(put(&format!("name-{number}")), now, None);
    }
    carry_out(&mut state, &mut tree, now).unwrap();
    assert_eq!((tree.len(), state.is_in_sync()), (objects, true));
    (state, tree)
}

#[test]
fn lists_that_lack_everything_one_after_the_other_delete_nothing() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let (mut state, mut tree) = mirrored(30, start);
    for (seconds, names) in [(0, 0..10), (2, 10..20), (4, 20..30)] {
        state.take(list_without(names), after(seconds), None);
        carry_out(&mut state, &mut tree, after(seconds)).unwrap();
        assert_eq!(tree.len(), 30, "after {seconds} s");
    }
    assert_eq!(state.stopped.as_ref().map(|stop| stop.deletions), Some(30));
    // It stays at that when nothing is waited for any more.
    carry_out(&mut state, &mut tree, after(3600)).unwrap();
    assert_eq!((tree.len(), state.stopped.is_some()), (30, true));
    state.destination.acknowledged = state.stopped.as_ref().map(|stop| stop.id.clone());
    carry_out(&mut state, &mut tree, after(3601)).unwrap();
    assert_eq!((tree.len(), state.stopped.is_some()), (0, false));
    assert_eq!(
        state.absences.gone(after(3601), |_| false),
        0,
        "a person has seen it"
    );
}

#[test]
fn what_a_list_lacks_goes_when_no_other_has_come() {
    let start = Instant::now();
    let (mut state, mut tree) = mirrored(30, start);
    state.take(list_without(0..10), start, None);
    state.take(put("new"), start, None);
    carry_out(&mut state, &mut tree, start).unwrap();
    assert_eq!(tree.len(), 31, "what is new does not wait for it");
    assert_eq!(state.waiting_files(), 10);
    let due = state.due(&settings().limits, Duration::ZERO);
    let due = due.expect("it is not forgotten");
    carry_out(&mut state, &mut tree, due).unwrap();
    assert_eq!((tree.len(), state.waiting_files()), (21, 0));
    assert_eq!(state.due(&settings().limits, Duration::ZERO), None);
}

#[test]
fn everything_that_goes_in_parts_within_ten_minutes_meets_the_guard_with_the_last_one() {
    let start = Instant::now();
    for (pause, stops) in [(60, true), (900, false)] {
        let after = |seconds| start + Duration::from_secs(seconds);
        let (mut state, mut tree) = mirrored(14, start);
        state.take(list_without(0..9), start, None);
        carry_out(&mut state, &mut tree, after(30)).unwrap();
        assert_eq!(tree.len(), 5);
        state.take(list_without(9..14), after(pause), None);
        carry_out(&mut state, &mut tree, after(pause + 30)).unwrap();
        assert_eq!(state.stopped.is_some(), stops, "after {pause} s");
        assert_eq!(tree.len(), if stops { 5 } else { 0 });
    }
}

#[test]
fn a_destination_that_is_suspended_or_unguarded_waits_for_no_list() {
    let now = Instant::now();
    let (mut state, mut tree) = mirrored(30, now);
    state.destination.guard = false;
    state.take(list_without(0..30), now, None);
    carry_out(&mut state, &mut tree, now).unwrap();
    assert!(tree.is_empty());
    state.destination.suspend = true;
    state.absences.note(now);
    assert!(carry_out(&mut state, &mut tree, now).is_none());
    assert_eq!(state.due(&settings().limits, Duration::ZERO), None);
}

#[test]
fn whoever_changes_settings_while_an_attempt_runs_sees_whether_it_helped() {
    for change in [false, true] {
        let now = Instant::now();
        let (mut state, _) = mirrored(1, now);
        state.take(put("other"), now, None);
        let later = now + Duration::from_mins(1);
        let mut job = state
            .begin(&Id::new("shop", "prod"), &settings(), later)
            .unwrap();
        let path = job.wanted.keys().next().unwrap().clone();
        let set_aside = SetAside {
            blob: Some(job.wanted[&path].blob),
            message: "no".to_owned(),
            proven: true,
            by_branch: false,
        };
        job.done.set_aside.push((path, set_aside));
        if change {
            state.change_settings(destination(), later);
        }
        state.finish(job, later);
        assert_eq!(state.set_aside.is_empty(), change);
        let again = state.begin(&Id::new("shop", "prod"), &settings(), later);
        assert!(again.is_some_and(|job| job.doubt.is_whole()));
    }
}
