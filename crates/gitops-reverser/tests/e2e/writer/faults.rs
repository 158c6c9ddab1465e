//! Other people, servers that are down, keys that are wrong, files that were edited.

use std::time::Duration;

use gitops_reverser::dispatch::ToWriter;
use gitops_reverser::routing::Refusal;
use gitops_reverser::writer::Access;
use reverser_core::blob_id::BlobId;
use reverser_core::plan::{Operations, Wanted};
use reverser_git::{Credentials, RemoteUrl, Scheme};
use reverser_testkit::git_server::{Fault, FileChange, Request};

use super::bench::{Bench, content, file, path, soon};

#[test]
fn a_commit_of_somebody_else_between_two_batches_stays() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    for round in 0..3 {
        let name = format!("notes/{round}.md");
        bench
            .repository
            .commit("main", "by hand", &[FileChange::Write(&name, "mine\n")]);
        writer.put("web", &round.to_string());
        writer.await_objects("clusters/prod", &[("web", &round.to_string())]);
    }
    let files = bench.repository.files("main");
    assert!((0..3).all(|round| files.contains_key(&format!("notes/{round}.md"))));
    assert_eq!(bench.commits(), 7);
    bench.repository.assert_sound("main");
    // The tip that moved is not a failure.
    assert_eq!(writer.report("prod").unwrap().failure, None);
}

/// A hook that puts a commit onto the branch while somebody pushes to it.
const MOVES_THE_BRANCH: &str = "\
    unset GIT_QUARANTINE_PATH GIT_OBJECT_DIRECTORY GIT_ALTERNATE_OBJECT_DIRECTORIES
    tip=$(git rev-parse refs/heads/main)
    new=$(git -c user.name=me -c user.email=me@example.com commit-tree -p $tip -m more $tip^{tree})
    git update-ref refs/heads/main $new $tip";

#[test]
fn a_branch_that_moves_under_every_push_is_told_and_caught_up_with_in_the_end() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    bench.repository.hook("pre-receive", MOVES_THE_BRANCH);
    writer.put("web", "two");
    writer.put("api", "one");
    let message = writer.await_failure("prod", "Progressing");
    assert!(message.contains("the branch moved"), "{message}");
    soon("both files wait", || {
        let report = writer.report("prod").ok_or("no report")?;
        let told = report.waiting == 2 && report.failure.is_some();
        told.then_some(()).ok_or(format!("{report:?}"))
    });
    bench.repository.remove_hook("pre-receive");
    writer.await_failure("prod", "");
    writer.await_objects("clusters/prod", &[("api", "one"), ("web", "two")]);
    assert_eq!(writer.report("prod").unwrap().waiting, 0);
    bench.repository.assert_sound("main");
}

/// A hook that answers for the server, in git's protocol, that a push is not complete.
const MISSES_SOMETHING: &str = "\
    line='ng refs/heads/main missing necessary objects'
    printf '000dversion=10000'
    printf '%04x%s0000' $((${#line} + 4)) \"$line\"
    cat > /dev/null";

#[test]
fn a_server_that_misses_something_in_every_push_is_quoted() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    let answers = "receive.procReceiveRefs";
    bench.repository.hook("proc-receive", MISSES_SOMETHING);
    bench.repository.config(answers, "refs/heads");
    writer.put("web", "two");
    let message = writer.await_failure("prod", "Unreachable");
    assert!(message.contains("missing necessary objects"), "{message}");
    soon("the file waits", || {
        let report = writer.report("prod").ok_or("no report")?;
        let waits = report.waiting == 1 && report.failure.is_some();
        waits.then_some(()).ok_or(format!("{report:?}"))
    });
    bench.repository.git(&["config", "--unset", answers]);
    writer.await_failure("prod", "");
    writer.await_objects("clusters/prod", &[("web", "two")]);
}

#[test]
fn a_server_that_is_down_costs_a_delay_and_one_catch_up() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    bench.front.fault(Request::Any, Fault::Status(503), 100_000);
    writer.put("web", "two");
    writer.await_failure("prod", "Unreachable");
    for value in 0..50 {
        writer.put(&format!("web-{value}"), "x");
    }
    writer.remove("web-0");
    writer.put("web", "three");
    std::thread::sleep(Duration::from_millis(600));
    bench.front.heal();
    writer.await_failure("prod", "");
    let objects = bench.objects("clusters/prod");
    assert_eq!(objects.len(), 50);
    assert_eq!(objects["web"], "three");
    assert_eq!(bench.commits(), 2, "all of it is one commit");
}

#[test]
fn wrong_credentials_are_told_and_right_ones_are_used_without_a_restart() {
    let bench = Bench::new();
    let credentials = |password: &str| {
        let data = [("username", "me"), ("password", password)]
            .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()));
        let url = RemoteUrl::parse(&bench.front.url("repo.git"), &[Scheme::Http]).unwrap();
        Ok(Access {
            credentials: Credentials::from_secret(&data.into(), &url).unwrap(),
            signer: None,
        })
    };
    // me:right
    bench.front.require(&["Basic bWU6cmlnaHQ="]);
    let writer = bench.run_branch("main");
    *writer.access.lock().unwrap() = credentials("wrong");
    writer.add("prod", "clusters/prod");
    writer.put("web", "one");
    let message = writer.await_failure("prod", "CredentialsRefused");
    assert!(!message.contains("wrong"), "{message}");
    *writer.access.lock().unwrap() = Err(Refusal {
        reason: "SecretNotFound",
        message: "create it".into(),
    });
    writer.await_failure("prod", "SecretNotFound");
    *writer.access.lock().unwrap() = credentials("right");
    writer.await_failure("prod", "");
    writer.await_objects("clusters/prod", &[("web", "one")]);
}

#[test]
fn a_clean_end_writes_what_is_waiting() {
    let mut bench = Bench::new();
    bench.settings.limits.quiet = Duration::from_mins(1);
    let mut writer = bench.run();
    writer.await_failure("prod", "");
    writer.put("web", "one");
    writer.put("api", "one");
    writer.stop();
    assert_eq!(bench.objects("clusters/prod").len(), 2);
    assert_eq!(bench.commits(), 1);
}

#[test]
fn edited_files_are_healed_and_those_that_say_the_same_stay() {
    let mut bench = Bench::patient();
    bench.settings.poll = Duration::from_secs(1);
    let writer = bench.run();
    writer.await_failure("prod", "");
    writer.put("web", "one");
    writer.put("form", "one");
    writer.await_objects("clusters/prod", &[("form", "one"), ("web", "one")]);
    let same = format!("# kept\n{}", content("form", "one"));
    bench.repository.commit(
        "main",
        "by hand",
        &[
            FileChange::Write(&file("clusters/prod", "web"), "nonsense\n"),
            FileChange::Write(&file("clusters/prod", "form"), &same),
            FileChange::Write("clusters/prod/README.md", "mine\n"),
        ],
    );
    writer.await_objects("clusters/prod", &[("form", "one"), ("web", "one")]);
    assert_eq!(bench.commits(), 3);
    let files = bench.repository.files("main");
    assert_eq!(files[&file("clusters/prod", "form")], same);
    assert!(files.contains_key("clusters/prod/README.md"));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(
        bench.commits(),
        3,
        "a look that finds nothing writes nothing"
    );
    // An object that changes is written, whatever form the file had.
    writer.put("form", "two");
    writer.await_objects("clusters/prod", &[("form", "two"), ("web", "one")]);
}

#[test]
fn content_that_is_nowhere_is_asked_for_and_keeps_nothing_else() {
    let bench = Bench::new();
    let writer = bench.run();
    let lost = ToWriter::Put {
        path: path("lost"),
        wanted: Wanted {
            blob: BlobId::of(b"what nobody has"),
            operations: Operations {
                create: true,
                update: true,
                delete: true,
            },
        },
        origin: None,
        content: "something else".into(),
    };
    writer.tell("prod", lost);
    writer.put("web", "one");
    // The content is stored by what it is, so that which is wanted is nowhere.
    writer.await_objects("clusters/prod", &[("web", "one")]);
    soon("the question", || {
        let report = writer.report("prod").ok_or("no report")?;
        (writer.content_missing() >= 1 && report.waiting == 1)
            .then_some(())
            .ok_or(format!("{report:?}"))
    });
    writer.put("lost", "found");
    writer.await_objects("clusters/prod", &[("lost", "found"), ("web", "one")]);
}

#[test]
fn an_object_is_written_once_nothing_stands_in_its_place_any_more() {
    let mut bench = Bench::new();
    bench.settings.poll = Duration::from_secs(1);
    let inside = format!("{}/mine", file("clusters/prod", "web"));
    bench
        .repository
        .commit("main", "by hand", &[FileChange::Write(&inside, "x\n")]);
    let writer = bench.run();
    writer.put("web", "one");
    writer.put("api", "one");
    soon("the object that has no place", || {
        let report = writer.report("prod").ok_or("no report")?;
        let told = report.set_aside_objects == 1 && report.failure.is_none();
        told.then_some(()).ok_or(format!("{report:?}"))
    });
    assert!(bench.repository.files("main").contains_key(&inside));
    bench
        .repository
        .commit("main", "by hand", &[FileChange::Delete(&inside)]);
    writer.await_objects("clusters/prod", &[("api", "one"), ("web", "one")]);
    soon("a report without it", || {
        let report = writer.report("prod").ok_or("no report")?;
        let told = report.set_aside_objects == 0;
        told.then_some(()).ok_or(format!("{report:?}"))
    });
}

#[test]
fn a_branch_that_is_deleted_comes_back_whole() {
    let mut bench = Bench::new();
    bench.settings.poll = Duration::from_secs(1);
    let writer = bench.run();
    writer.put("web", "one");
    writer.put("api", "one");
    writer.await_objects("clusters/prod", &[("api", "one"), ("web", "one")]);
    bench.repository.set_branch("main", None);
    // Contents that were cleared away are asked for; here they are still staged.
    writer.await_objects("clusters/prod", &[("api", "one"), ("web", "one")]);
}
