//! Several destinations and several branches: what they share, and what they do not.

use std::time::{Duration, Instant};

use gitops_reverser::dispatch::ToWriter;
use reverser_testkit::git_server::{Fault, FileChange, Request};

use super::bench::{Bench, soon};

#[test]
fn destinations_of_one_branch_share_a_push_and_have_a_commit_each() {
    let bench = Bench::patient();
    let writer = bench.run();
    writer.add("stage", "clusters/stage");
    writer.await_failure("prod", "");
    writer.await_failure("stage", "");
    writer.put("web", "one");
    writer.put_in("stage", "web", "two");
    writer.await_objects("clusters/stage", &[("web", "two")]);
    writer.await_objects("clusters/prod", &[("web", "one")]);
    assert_eq!((bench.commits(), bench.pushes()), (2, 1));
    writer.await_failure("stage", "");
    writer.await_failure("prod", "");
    let commit = |name: &str| writer.report(name).unwrap().last_commit.unwrap();
    assert_ne!(commit("prod"), commit("stage"));
}

#[test]
fn a_destination_that_cannot_be_written_delays_nobody_else() {
    let bench = Bench::new();
    bench.repository.commit(
        "main",
        "by hand",
        &[FileChange::Write("clusters/stage", "a file\n")],
    );
    let writer = bench.run();
    writer.add("stage", "clusters/stage");
    writer.put_in("stage", "web", "one");
    let message = writer.await_failure("stage", "PushRefused");
    assert!(message.contains("not a folder"), "{message}");
    for round in 0..3 {
        writer.put("web", &round.to_string());
        writer.await_objects("clusters/prod", &[("web", &round.to_string())]);
    }
    writer.await_failure("prod", "");
    bench
        .repository
        .commit("main", "by hand", &[FileChange::Delete("clusters/stage")]);
    writer.await_objects("clusters/stage", &[("web", "one")]);
}

/// The most pushes that ran at once, by the times at which they were let through.
fn most_at_once(bench: &Bench, branches: usize, limit: usize) {
    let delay = Duration::from_secs(2);
    bench.front.fault(Request::Push, Fault::Delay(delay), 100);
    let names: Vec<String> = (0..branches).map(|number| format!("b{number}")).collect();
    let writers: Vec<_> = names.iter().map(|name| bench.run_branch(name)).collect();
    let start = Instant::now();
    for (writer, name) in writers.iter().zip(&names) {
        writer.add(name, "clusters/prod");
        writer.put_in(name, "web", "one");
    }
    let mut busiest = 0;
    soon("all branches", || {
        busiest = busiest.max(bench.common.active_workers());
        let there = names
            .iter()
            .filter(|name| bench.repository.tip(name).is_some());
        let there = there.count();
        (there == branches).then_some(()).ok_or(there.to_string())
    });
    assert_eq!(busiest, limit);
    let rounds = u32::try_from(branches.div_ceil(limit)).unwrap();
    assert!(start.elapsed() >= delay * rounds, "{:?}", start.elapsed());
}

#[test]
fn no_more_branches_of_a_repository_are_written_at_once_than_allowed() {
    most_at_once(&Bench::with_workers(24, 2), 5, 2);
}

#[test]
fn no_more_branches_are_written_at_once_than_allowed() {
    most_at_once(&Bench::with_workers(1, 5), 3, 1);
}

#[test]
fn what_waits_for_a_server_that_is_down_is_not_kept_in_memory() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.await_failure("prod", "");
    bench.front.fault(Request::Any, Fault::Status(503), 100_000);
    // Forty mebibytes, most of them superseded.
    let large = "x".repeat(1 << 20);
    for round in 0..4 {
        for name in 0..10 {
            writer.put(&format!("web-{name}"), &format!("{large}{round}"));
        }
    }
    writer.put("last", "one");
    writer.await_failure("prod", "Unreachable");
    let staged = soon("contents on the disk", || {
        let bytes = bytes_below(&bench.work_dir());
        (bytes > 0).then_some(bytes).ok_or("none".into())
    });
    assert!(
        staged < 1 << 20,
        "{staged} bytes, although they compress well"
    );
    bench.front.heal();
    writer.await_failure("prod", "");
    let objects = bench.objects("clusters/prod");
    assert_eq!(objects.len(), 11);
    assert!(objects["web-3"].ends_with('3'));
    assert_eq!(writer.content_missing(), 0, "nothing had to be asked for");
}

#[test]
fn what_the_disk_does_not_take_is_asked_for_again_once_it_does() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.await_failure("prod", "");
    bench.front.fault(Request::Any, Fault::Status(503), 100_000);
    let clone = std::fs::read_dir(bench.work_dir()).unwrap().next();
    let staged = clone.unwrap().unwrap().path().join("staged");
    std::fs::remove_dir_all(&staged).unwrap();
    std::fs::write(&staged, "in the way").unwrap();
    let large = "x".repeat(1 << 20);
    let put_all = || {
        for name in 0..12 {
            writer.put(&format!("web-{name}"), &format!("{large}{name}"));
        }
    };
    put_all();
    writer.put("small", "one");
    // Whatever keeps it from writing now, it says so.
    soon("a failure", || {
        let report = writer.report("prod").ok_or("no report")?;
        let fails = report.failure.is_some() && report.objects == 13;
        fails.then_some(()).ok_or(format!("{report:?}"))
    });
    std::fs::remove_file(&staged).unwrap();
    std::fs::create_dir(&staged).unwrap();
    bench.front.heal();
    soon("the question", || {
        let asked = writer.content_missing() > 0;
        asked.then_some(()).ok_or("nothing is missing".into())
    });
    put_all();
    writer.put("small", "one");
    soon("all of them", || {
        let objects = bench.objects("clusters/prod").len();
        (objects == 13).then_some(()).ok_or(objects.to_string())
    });
}

fn bytes_below(folder: &std::path::Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => bytes_below(&entry.path()),
            Ok(meta) => meta.len(),
            Err(_) => 0,
        })
        .sum()
}

#[test]
fn a_small_run_moves_the_metrics_of_writing() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.await_failure("prod", "");
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    writer.remove("web");
    writer.await_objects("clusters/prod", &[]);
    bench
        .repository
        .commit("main", "by hand", &[FileChange::Write("mine", "x\n")]);
    writer.put("web", "two");
    writer.await_objects("clusters/prod", &[("web", "two")]);
    bench.front.fault(Request::PushRefs, Fault::Status(503), 1);
    writer.put("web", "three");
    writer.await_objects("clusters/prod", &[("web", "three")]);
    writer.await_failure("prod", "");

    let text = bench.scrape();
    for line in [
        "gitopsreverser_objects_written_total{gvk=\"v1/ConfigMap\",scope=\"Namespaced\"} 3",
        "gitopsreverser_files_deleted_total{destination=\"shop/prod\"} 1",
        "gitopsreverser_commits_total 4",
        "gitopsreverser_commit_batches_total 4",
        "gitopsreverser_rebase_retries_total 1",
        "gitopsreverser_event_to_push_seconds_count 4",
        "gitopsreverser_push_duration_seconds_count 4",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
    assert!(
        text.contains("gitopsreverser_push_retries_total{"),
        "{text}"
    );
    let bytes = text
        .lines()
        .find(|line| line.starts_with("gitopsreverser_commit_bytes_total"));
    assert!(bytes.is_some_and(|line| !line.ends_with(" 0")), "{bytes:?}");
    let branches = bench.common.branches();
    assert_eq!((branches.len(), branches[0].queue_depth), (1, 0));
    assert!(branches[0].last_push.is_some());
}

#[test]
fn what_is_not_written_any_more_has_no_metrics() {
    let bench = Bench::new();
    let mut writer = bench.run();
    writer.await_failure("prod", "");
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    writer.remove("web");
    writer.await_objects("clusters/prod", &[]);
    bench.front.fault(Request::PushRefs, Fault::Status(503), 1);
    writer.put("web", "two");
    writer.await_objects("clusters/prod", &[("web", "two")]);
    let series = [
        "gitopsreverser_files_deleted_total{destination=\"shop/prod\"}",
        "gitopsreverser_push_retries_total{",
    ];
    let shown = || {
        let text = bench.scrape();
        let [destination, branch] = series.map(|series| text.contains(series));
        [destination, branch, !bench.common.branches().is_empty()]
    };
    soon("all of them", || {
        let shown = shown();
        (shown == [true; 3])
            .then_some(())
            .ok_or(format!("{shown:?}"))
    });
    writer.tell("prod", ToWriter::Forget);
    soon("none of the destination", || {
        let shown = shown();
        (!shown[0]).then_some(()).ok_or(format!("{shown:?}"))
    });
    writer.stop();
    assert_eq!(shown(), [false; 3]);
}

#[test]
fn two_ways_to_one_branch_are_used_in_turn_and_neither_is_rejected() {
    let bench = Bench::new();
    let folder = bench.work_dir();
    let folder = folder.parent().unwrap().display();
    bench.repository.hook(
        "pre-receive",
        &format!(
            "mkdir {folder}/busy || echo two >> {folder}/overlaps; sleep 0.2; rmdir {folder}/busy"
        ),
    );
    let one = bench.run();
    let other = bench.run_beside("twin", "main");
    other.add("stage", "clusters/stage");
    for round in 0..4 {
        let value = round.to_string();
        one.put("web", &value);
        other.put_in("stage", "web", &value);
        one.await_objects("clusters/prod", &[("web", &value)]);
        one.await_objects("clusters/stage", &[("web", &value)]);
    }
    one.await_failure("prod", "");
    other.await_failure("stage", "");
    assert!(!bench.work_dir().with_file_name("overlaps").exists());
    let text = bench.scrape();
    assert!(
        text.contains("gitopsreverser_rebase_retries_total 0\n"),
        "{text}"
    );
    bench.repository.assert_sound("main");
}
