//! Servers that refuse what they are sent.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use reverser_testkit::git_server::FileChange;

use super::bench::{Bench, content, file, soon};

/// A hook that refuses pushes which bring a file whose name contains `bad`.
const REFUSES_BAD: &str = "while read old new ref; do \
    if git log --format= --name-only --diff-filter=AM \"$new\" --not --all | grep -q bad; \
    then echo 'bad files are against our rules' >&2; exit 1; fi; done";

#[test]
fn one_refused_object_is_set_aside_and_everything_else_is_written() {
    let bench = Bench::new();
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let writer = bench.run();
    for name in 0..60 {
        writer.put(&format!("web-{name}"), "one");
    }
    writer.put("bad", "one");
    soon("the set-aside object", || {
        let report = writer.report("prod").ok_or("no report")?;
        let aside = report.set_aside.len() == 1 && report.set_aside_objects == 1;
        if aside && report.failure.is_none() {
            Ok(())
        } else {
            Err(format!("{report:?}"))
        }
    });
    let report = writer.report("prod").unwrap();
    let (path, sentence) = &report.set_aside[0];
    assert_eq!(path, "clusters/prod/core/v1/configmaps/shop/bad.yaml");
    assert!(sentence.contains("against our rules"), "{sentence}");
    assert_eq!(bench.objects("clusters/prod").len(), 60);
    assert!(bench.pushes() < 40, "{} pushes", bench.pushes());

    // It disturbs nothing, and is not pushed again as it is.
    let before = bench.pushes();
    writer.put("web-0", "two");
    soon("the change", || {
        let value = bench.objects("clusters/prod")["web-0"].clone();
        (value == "two").then_some(()).ok_or(value)
    });
    assert_eq!(bench.pushes(), before + 1);

    // Once it changes, it is tried again.
    bench.repository.remove_hook("pre-receive");
    writer.put("bad", "better");
    soon("the repaired object", || {
        let objects = bench.objects("clusters/prod");
        objects
            .get("bad")
            .cloned()
            .ok_or(format!("{}", objects.len()))
    });
    soon("a report without it", || {
        let report = writer.report("prod").ok_or("no report")?;
        (report.set_aside_objects == 0)
            .then_some(())
            .ok_or(format!("{report:?}"))
    });
}

#[test]
fn looking_for_what_is_refused_keeps_to_the_pace_of_the_repository_and_delays_nobody() {
    let bench = Bench::patient();
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let mut destination = bench.destination("main", "clusters/prod");
    // Two pushes, then one in a minute: it would take long to find what is refused among sixteen.
    destination.push.per_minute = 1;
    let mut writer = bench.run_branch("main");
    writer.add_with("prod", destination);
    writer.await_failure("prod", "");
    writer.put("bad", "one");
    for name in 0..15 {
        writer.put(&format!("web-{name}"), "one");
    }
    // Status tells it meanwhile.
    let message = writer.await_failure("prod", "PushRefused");
    assert!(message.contains("against our rules"), "{message}");
    assert!(message.contains("maxPerMinute"), "{message}");
    soon("files that wait", || {
        let report = writer.report("prod").ok_or("no report")?;
        let told = report.searching && report.waiting > 0;
        told.then_some(()).ok_or(format!("{report:?}"))
    });
    // Who reaches the same branch at another pace does not wait for it.
    let mut beside = bench.run_beside("twin", "main");
    beside.add("stage", "clusters/stage");
    for round in 0..3 {
        let value = round.to_string();
        beside.put_in("stage", "web", &value);
        beside.await_objects("clusters/stage", &[("web", &value)]);
    }
    beside.stop();
    // The process does not end without what can be written.
    writer.stop();
    soon("the set-aside object", || {
        let report = writer.report("prod").ok_or("no report")?;
        let found = report.set_aside_objects == 1 && report.failure.is_none();
        found.then_some(()).ok_or(format!("{report:?}"))
    });
    assert_eq!(bench.objects("clusters/prod").len(), 15);
    bench.repository.assert_sound("main");
}

#[test]
fn what_is_refused_is_found_at_the_pace_of_the_repository() {
    let bench = Bench::patient();
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let mut destination = bench.destination("main", "clusters/prod");
    // A burst of three, then one every three seconds.
    destination.push.per_minute = 20;
    let writer = bench.run_branch("main");
    writer.add_with("prod", destination);
    writer.await_failure("prod", "");
    let (start, before) = (Instant::now(), bench.pushes());
    writer.put("bad", "one");
    for name in 0..7 {
        writer.put(&format!("web-{name}"), "one");
    }
    soon("the set-aside object", || {
        let report = writer.report("prod").ok_or("no report")?;
        let found = report.set_aside_objects == 1 && report.failure.is_none();
        found.then_some(()).ok_or(format!("{report:?}"))
    });
    let (pushes, seconds) = (bench.pushes() - before, start.elapsed().as_secs());
    let allowed = usize::try_from(4 + (seconds + 1) / 3).unwrap();
    assert!(pushes <= allowed, "{pushes} pushes in {seconds} s");
    assert_eq!(bench.objects("clusters/prod").len(), 7);
}

#[test]
fn an_object_that_is_refused_alone_is_set_aside_where_others_have_passed() {
    let bench = Bench::new();
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    writer.put("bad", "one");
    soon("the set-aside object", || {
        let report = writer.report("prod").ok_or("no report")?;
        (report.set_aside_objects == 1)
            .then_some(())
            .ok_or(format!("{report:?}"))
    });
    writer.put("api", "one");
    writer.await_objects("clusters/prod", &[("api", "one"), ("web", "one")]);
}

#[test]
fn an_object_that_somebody_else_brings_to_its_place_is_not_set_aside_any_more() {
    let mut bench = Bench::new();
    bench.settings.poll = Duration::from_secs(1);
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    writer.put("bad", "one");
    let await_aside = |count: usize| {
        soon(&format!("{count} set-aside objects"), || {
            let report = writer.report("prod").ok_or("no report")?;
            let told = report.set_aside_objects == count && report.failure.is_none();
            told.then_some(()).ok_or(format!("{report:?}"))
        });
    };
    await_aside(1);
    let (path, text) = (file("clusters/prod", "bad"), content("bad", "one"));
    bench
        .repository
        .commit("main", "by hand", &[FileChange::Write(&path, &text)]);
    await_aside(0);
    writer.await_objects("clusters/prod", &[("bad", "one"), ("web", "one")]);
}

#[test]
fn a_server_that_refuses_everything_is_quoted_and_tried_again() {
    let bench = Bench::patient();
    bench
        .repository
        .hook("pre-receive", "echo 'the quota is used up' >&2; exit 1");
    let writer = bench.run();
    writer.await_failure("prod", "");
    for name in 0..30 {
        writer.put(&format!("web-{name}"), "one");
    }
    let message = writer.await_failure("prod", "PushRefused");
    assert!(message.contains("the quota is used up"), "{message}");
    let report = writer.report("prod").unwrap();
    assert_eq!((report.set_aside_objects, report.waiting), (0, 30));
    assert!(bench.pushes() < 30, "{} pushes", bench.pushes());
    bench.repository.remove_hook("pre-receive");
    writer.await_failure("prod", "");
    assert_eq!(bench.objects("clusters/prod").len(), 30);
    assert_eq!(bench.commits(), 1);
}

#[test]
fn objects_refused_one_after_the_other_turn_out_to_be_everything() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.await_objects("clusters/prod", &[("web", "one")]);
    bench
        .repository
        .hook("pre-receive", "echo 'closed for today' >&2; exit 1");
    writer.put("api", "one");
    soon("the first", || {
        let report = writer.report("prod").ok_or("no report")?;
        (report.set_aside_objects == 1)
            .then_some(())
            .ok_or(format!("{report:?}"))
    });
    writer.put("db", "one");
    writer.await_failure("prod", "PushRefused");
    bench.repository.remove_hook("pre-receive");
    let all = [("api", "one"), ("db", "one"), ("web", "one")];
    writer.await_objects("clusters/prod", &all);
    writer.await_failure("prod", "");
}

#[test]
fn several_refused_objects_of_two_destinations_are_all_found() {
    let bench = Bench::new();
    bench.repository.hook("pre-receive", REFUSES_BAD);
    let writer = bench.run();
    writer.add("stage", "clusters/stage");
    for name in 0..10 {
        writer.put(&format!("web-{name}"), "one");
        writer.put_in("stage", &format!("web-{name}"), "one");
    }
    let mut names = String::new();
    for name in ["bad-1", "bad-2"] {
        writer.put_in("stage", name, "one");
        let _ = write!(names, "{name} ");
    }
    soon(&names, || {
        let report = writer.report("stage").ok_or("no report")?;
        (report.set_aside_objects == 2)
            .then_some(())
            .ok_or(format!("{report:?}"))
    });
    writer.await_failure("stage", "");
    writer.await_failure("prod", "");
    assert_eq!(bench.objects("clusters/prod").len(), 10);
    assert_eq!(bench.objects("clusters/stage").len(), 10);
    bench.repository.assert_sound("main");
}
