//! When a batch ends, and what becomes of changes that come meanwhile.

use std::time::{Duration, Instant};

use reverser_git::PushOptions;
use reverser_testkit::git_server::{Fault, Request};

use super::bench::{Bench, soon};

/// Longer than any test: only the limit that is tested can end a batch.
const NEVER: Duration = Duration::from_mins(10);

fn await_count(bench: &Bench, count: usize) {
    soon(&format!("{count} objects"), || {
        match bench.objects("clusters/prod").len() {
            seen if seen == count => Ok(()),
            seen => Err(seen.to_string()),
        }
    });
}

#[test]
fn what_comes_together_is_one_commit_after_a_quiet_moment() {
    let mut bench = Bench::new();
    bench.settings.limits.quiet = Duration::from_secs(2);
    let writer = bench.run();
    writer.await_failure("prod", "");
    let start = Instant::now();
    for name in 0..40 {
        writer.put(&format!("web-{name}"), "one");
    }
    await_count(&bench, 40);
    assert_eq!(bench.commits(), 1);
    assert!(start.elapsed() >= bench.settings.limits.quiet);
    writer.remove("web-3");
    await_count(&bench, 39);
    assert_eq!(bench.commits(), 2);
    bench.repository.assert_sound("main");
}

#[test]
fn two_hundred_files_do_not_wait() {
    let mut bench = Bench::new();
    bench.settings.limits.quiet = NEVER;
    bench.settings.limits.max_wait = NEVER;
    let writer = bench.run();
    writer.await_failure("prod", "");
    for name in 0..200 {
        writer.put(&format!("web-{name}"), "one");
    }
    await_count(&bench, 200);
    assert_eq!(bench.commits(), 1);
}

#[test]
fn a_mebibyte_does_not_wait() {
    let mut bench = Bench::new();
    bench.settings.limits.quiet = NEVER;
    bench.settings.limits.max_wait = NEVER;
    let writer = bench.run();
    writer.await_failure("prod", "");
    writer.put("small", "one");
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(bench.commits(), 0);
    writer.put("large", &"x".repeat(1 << 20));
    await_count(&bench, 2);
    assert_eq!(bench.commits(), 1);
}

#[test]
fn constant_change_is_written_when_the_longest_wait_is_over() {
    let mut bench = Bench::new();
    bench.settings.limits.max_wait = Duration::from_secs(1);
    bench.settings.limits.quiet = Duration::from_millis(900);
    let writer = bench.run();
    writer.await_failure("prod", "");
    let start = Instant::now();
    let mut value = 0;
    while bench.commits() < 2 {
        writer.put("web", &value.to_string());
        value += 1;
        std::thread::sleep(Duration::from_millis(20));
        assert!(start.elapsed() < Duration::from_mins(2), "never written");
    }
    assert!(start.elapsed() >= Duration::from_secs(1));
    writer.await_objects("clusters/prod", &[("web", &(value - 1).to_string())]);
}

#[test]
fn the_next_batch_gathers_while_a_push_is_under_way() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.await_failure("prod", "");
    bench
        .front
        .fault(Request::Push, Fault::Delay(Duration::from_secs(2)), 1);
    writer.put("first", "one");
    soon("the push", || {
        (bench.pushes() > 0).then_some(()).ok_or("none".into())
    });
    for name in ["second", "third", "fourth"] {
        writer.put(name, "one");
    }
    await_count(&bench, 4);
    assert_eq!(
        bench.commits(),
        2,
        "what came during the push is one commit"
    );
}

#[test]
fn a_repository_may_set_its_own_limits_and_options() {
    let mut bench = Bench::new();
    bench.settings.limits.quiet = NEVER;
    bench.repository.hook(
        "pre-receive",
        "test \"$GIT_PUSH_OPTION_0\" = ci.skip || { echo 'which option?' >&2; exit 1; }",
    );
    let mut destination = bench.destination("main", "clusters/prod");
    destination.push.max_wait = Some(Duration::from_millis(300));
    destination.push.options = PushOptions::new(["ci.skip"]).unwrap();
    destination.commit.committer_name = Some("Somebody Else".into());
    destination.commit.subject_prefix = Some("[prod]".into());
    let writer = bench.run_branch("main");
    writer.add_with("prod", destination);
    writer.put("web", "one");
    await_count(&bench, 1);
    let commit = bench
        .repository
        .git(&["log", "-1", "--format=%cn <%ce> %s", "main"]);
    assert_eq!(
        commit,
        "Somebody Else <reverser@example.com> [prod] Create shop/web (configmaps)"
    );
}

#[test]
fn pushes_are_no_more_than_allowed_after_a_burst() {
    let bench = Bench::new();
    let mut destination = bench.destination("main", "clusters/prod");
    // A burst of a sixth, which is five, then one every two seconds.
    destination.push.per_minute = 30;
    destination.push.max_wait = Some(Duration::from_millis(50));
    let writer = bench.run_branch("main");
    writer.add_with("prod", destination);
    writer.await_failure("prod", "");
    let start = Instant::now();
    let mut value = 0;
    while start.elapsed() < Duration::from_secs(6) {
        writer.put("web", &value.to_string());
        value += 1;
        std::thread::sleep(Duration::from_millis(20));
    }
    let pushes = bench.pushes();
    let allowed = 6 + start.elapsed().as_secs() / 2;
    assert!(
        u64::try_from(pushes).unwrap() <= allowed,
        "{pushes} pushes, {allowed} allowed"
    );
    writer.await_objects("clusters/prod", &[("web", &(value - 1).to_string())]);
}

#[test]
fn a_change_of_a_file_of_our_own_asks_the_server_for_nothing_but_the_push() {
    let bench = Bench::new();
    let writer = bench.run();
    writer.put("web", "one");
    writer.put("api", "one");
    writer.await_objects("clusters/prod", &[("web", "one"), ("api", "one")]);
    let before = bench.front.seen().len();
    writer.put("web", "two");
    writer.await_objects("clusters/prod", &[("web", "two"), ("api", "one")]);
    writer.remove("api");
    writer.await_objects("clusters/prod", &[("web", "two")]);
    let seen = bench.front.seen().split_off(before);
    assert!(
        seen.iter().all(|line| line.contains("git-receive-pack")),
        "{seen:?}"
    );
}
