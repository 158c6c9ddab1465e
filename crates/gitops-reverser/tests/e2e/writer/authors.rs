//! Whose commits they are.

use reverser_api::git_repo_config::AuthorMode;

use super::bench::{Bench, Running, soon};

/// A hook that takes commits of the operator and of Alice only, and says why as GitLab does.
const KNOWS_ALICE: &str = "while read old new ref; do \
    if git log --format=%ae \"$new\" --not --all | grep -qv 'alice@\\|reverser@'; \
    then echo \"GitLab: Author's email does not follow the pattern\" >&2; exit 1; fi; done";
/// The same in words that nobody knows.
const KNOWS_ALICE_SILENTLY: &str = "while read old new ref; do \
    if git log --format=%ae \"$new\" --not --all | grep -qv 'alice@\\|reverser@'; \
    then echo 'computer says no' >&2; exit 1; fi; done";

/// Author, how that is known, subject; the oldest first.
fn history(bench: &Bench) -> Vec<String> {
    let format = "--format=%an <%ae> | %(trailers:key=X-ConfigButler-Attribution,valueonly,separator=%x2C) \
                  | %(trailers:key=X-ConfigButler-User,valueonly,separator=%x2C) | %s";
    let log = bench.repository.git(&["log", "--reverse", format, "main"]);
    log.lines().map(str::to_owned).collect()
}

fn await_value(bench: &Bench, name: &str, value: &str) {
    soon(&format!("{name} = {value}"), || {
        let objects = bench.objects("clusters/prod");
        match objects.get(name) {
            Some(seen) if seen == value => Ok(()),
            seen => Err(format!("{seen:?}")),
        }
    });
}

fn started(bench: &Bench) -> Running<'_> {
    let writer = bench.run();
    writer.await_failure("prod", "");
    writer
}

#[test]
fn changes_of_a_batch_are_commits_of_their_authors_in_order() {
    let bench = Bench::patient();
    let writer = started(&bench);
    writer.put_by("alice", "web", "one");
    writer.put_by("alice", "api", "one");
    writer.put_by("bob@example.org", "web", "two");
    writer.put_by("system:serviceaccount:shop:deployer", "web", "three");
    writer.put_by("", "db", "one");
    writer.put("old", "one");
    await_value(&bench, "old", "one");
    assert_eq!(bench.pushes(), 1);
    let expected = [
        "alice <alice@cluster.local> | exact | alice | Create 2 objects in shop",
        "bob@example.org <bob@example.org> | exact | bob@example.org | Update shop/web (configmaps)",
        "shop/deployer (service account) <deployer.shop.serviceaccount@cluster.local> | exact | \
         system:serviceaccount:shop:deployer | Update shop/web (configmaps)",
        "GitOps Reverser <reverser@example.com> | unknown | unknown | Create shop/db (configmaps)",
        "GitOps Reverser <reverser@example.com> | reconcile | unknown | Create shop/old (configmaps)",
    ];
    assert_eq!(history(&bench), expected);
    let manager = "--format=%(trailers:key=X-ConfigButler-FieldManager,valueonly)";
    let manager = bench.repository.git(&["log", manager, "-1", "main~1"]);
    assert_eq!(manager.trim(), "helm");
    let committers = bench.repository.git(&["log", "--format=%cn", "main"]);
    assert!(committers.lines().all(|name| name == "GitOps Reverser"));
    bench.repository.assert_sound("main");
}

#[test]
fn deleted_by_one_and_made_again_by_another_are_two_commits() {
    let bench = Bench::new();
    let writer = started(&bench);
    writer.put_by("alice", "web", "one");
    await_value(&bench, "web", "one");
    writer.remove_by("bob", "web");
    writer.put_by("carol", "web", "two");
    await_value(&bench, "web", "two");
    let history = history(&bench);
    let authors: Vec<&str> = history
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(authors, ["alice", "bob", "carol"]);
    assert!(history[1].ends_with("Delete shop/web (configmaps)"));
    assert!(history[2].ends_with("Create shop/web (configmaps)"));
}

#[test]
fn names_stay_with_their_changes_when_somebody_else_moves_the_branch() {
    let bench = Bench::new();
    let writer = started(&bench);
    writer.put_by("alice", "web", "one");
    await_value(&bench, "web", "one");
    let readme = reverser_testkit::git_server::FileChange::Write("README", "by hand");
    bench.repository.commit("main", "by hand", &[readme]);
    writer.put_by("bob", "web", "two");
    writer.put_by("alice", "web", "three");
    await_value(&bench, "web", "three");
    let history = history(&bench);
    let authors: Vec<&str> = history
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(authors[0], "alice");
    assert_eq!(authors[2..], ["bob", "alice"]);
}

#[test]
fn an_author_that_the_server_refuses_stands_in_the_message_and_others_as_before() {
    for hook in [KNOWS_ALICE, KNOWS_ALICE_SILENTLY] {
        let bench = Bench::patient();
        bench.repository.hook("pre-receive", hook);
        let writer = started(&bench);
        writer.put_by("alice", "web", "one");
        writer.put_by("bob", "api", "one");
        writer.put_by("alice", "db", "one");
        await_value(&bench, "api", "one");
        await_value(&bench, "db", "one");
        let expected = [
            "alice <alice@cluster.local> | exact | alice | Create 2 objects in shop",
            "GitOps Reverser <reverser@example.com> | fallback | bob | Create shop/api (configmaps)",
        ];
        let mut commits = history(&bench);
        commits.sort_by_key(|line| line.contains("fallback"));
        assert_eq!(commits, expected, "{hook}");
        soon("the report", || {
            let report = writer.report("prod").ok_or("no report")?;
            let told = report.author_refused.is_some() && report.failure.is_none();
            let ok = told && report.set_aside_objects == 0;
            ok.then_some(()).ok_or(format!("{report:?}"))
        });
        // What is known is not tried again.
        let before = bench.pushes();
        writer.put_by("bob", "api", "two");
        await_value(&bench, "api", "two");
        assert_eq!(bench.pushes(), before + 1);
        // Also a change that comes alone is written.
        writer.put_by("carol", "cart", "one");
        await_value(&bench, "cart", "one");
    }
}

#[test]
fn a_refused_object_is_set_aside_whoever_changed_it_and_the_others_keep_their_authors() {
    let bench = Bench::patient();
    bench.repository.hook(
        "pre-receive",
        "while read old new ref; do \
         if git log --format= --name-only --diff-filter=AM \"$new\" --not --all | grep -q bad; \
         then echo 'bad files are against our rules' >&2; exit 1; fi; done",
    );
    let writer = started(&bench);
    writer.put_by("alice", "web", "one");
    writer.put_by("bob", "web", "two");
    writer.put_by("alice", "api", "one");
    writer.put_by("bob", "bad", "one");
    writer.put_by("bob", "db", "one");
    soon("the set-aside object", || {
        let report = writer.report("prod").ok_or("no report")?;
        let ok = report.set_aside_objects == 1 && report.failure.is_none();
        ok.then_some(()).ok_or(format!("{report:?}"))
    });
    let objects = bench.objects("clusters/prod");
    assert_eq!(objects.len(), 3, "{objects:?}");
    assert_eq!(objects["web"], "two");
    for line in history(&bench) {
        let of = |name: &str| line.contains(&format!("shop/{name} "));
        let author = line.split(' ').next().unwrap();
        // Two users' changes became one: that is nobody's.
        let expected = match author {
            "alice" => of("api"),
            "bob" => of("db"),
            _ => of("web") && line.contains("| unknown | unknown |"),
        };
        assert!(expected, "{line}");
    }
    assert_eq!(writer.report("prod").unwrap().author_refused, None);
}

#[test]
fn people_can_be_named_only_in_messages_or_nowhere() {
    for (mode, expected) in [
        (
            AuthorMode::Trailer,
            "GitOps Reverser <reverser@example.com> | exact | alice | Create shop/web (configmaps)",
        ),
        (
            AuthorMode::None,
            "GitOps Reverser <reverser@example.com> | unknown | unknown | Create shop/web (configmaps)",
        ),
    ] {
        let bench = Bench::new();
        let writer = bench.run_branch("main");
        let mut destination = bench.destination("main", "clusters/prod");
        destination.commit.author_mode = mode;
        writer.add_with("prod", destination);
        writer.put_by("alice", "web", "one");
        await_value(&bench, "web", "one");
        assert_eq!(history(&bench), [expected]);
        let whole = bench.repository.git(&["log", "--format=fuller", "main"]);
        assert_eq!(
            whole.contains("alice"),
            mode == AuthorMode::Trailer,
            "{whole}"
        );
    }
}

#[test]
fn no_name_adds_anything_to_a_commit() {
    let long = "z".repeat(64 << 10);
    let evil = [
        "x <ceo@corp.com>",
        "x\nCo-authored-by: ceo <ceo@corp.com>",
        "x\n\nX-ConfigButler-User: ceo",
        "x\0y",
        "x\u{202e}y",
        "[skip ci]",
        &long,
    ];
    let bench = Bench::new();
    let writer = started(&bench);
    for (index, name) in evil.iter().enumerate() {
        writer.put_by(name, &format!("web-{index}"), "one");
    }
    soon("all of them", || {
        let seen = bench.objects("clusters/prod").len();
        (seen == evil.len()).then_some(()).ok_or(seen.to_string())
    });
    let git = |args: &[&str]| bench.repository.git(args);
    assert_eq!(
        git(&["rev-list", "--count", "main"]).trim(),
        evil.len().to_string()
    );
    let users = git(&[
        "log",
        "--format=%(trailers:key=X-ConfigButler-User,valueonly)",
        "main",
    ]);
    assert_eq!(
        users.lines().filter(|line| !line.is_empty()).count(),
        evil.len()
    );
    let emails = git(&["log", "--format=%ae", "main"]);
    assert!(
        emails
            .lines()
            .all(|email| email.ends_with("@cluster.local")),
        "{emails}"
    );
    let raw = git(&["log", "--format=raw", "main"]);
    for injected in ["[skip ci]", "\nauthor ceo", "\u{202e}", "\0"] {
        assert!(!raw.contains(injected), "{injected:?}");
    }
    for line in raw.lines() {
        assert!(!line.trim_start().starts_with("Co-authored-by"), "{line}");
        assert!(line.len() < 4096, "{line}");
    }
    bench.repository.assert_sound("main");
}
