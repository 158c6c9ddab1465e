//! What a plan does to trees, checked with git itself.

use std::collections::BTreeMap;

use reverser_git::{BlobId, Change, CloneError, EntryKind, PathRefusal, PushOptions};
use reverser_testkit::git_server::FileChange;

use crate::support::{Server, Transport, folder, path, plan, push, pushed, stamp, write};

fn owned(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files
        .iter()
        .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
        .collect()
}

#[test]
fn commits_say_who_and_why_and_in_which_order() {
    let server = Server::start(Transport::Path);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let mut first = plan(&mirror, "live", &[("live/a.yaml", Some("1\n"))]);
    first.message = "Create a\n\nbody\n\nX-ConfigButler-User: alice".to_owned();
    let mut second = plan(&mirror, "live", &[("live/a.yaml", Some("2\n"))]);
    second.author = stamp("Bob");
    let committed = mirror.commit(&[first, second], None).unwrap();
    pushed(&push(&mut mirror, &committed));
    let log = server.repository.git(&[
        "log",
        "--format=%an <%ae> %at|%cn|%s|%(trailers:key=X-ConfigButler-User,valueonly)",
        "main",
    ]);
    assert_eq!(
        log.replace('\n', ""),
        "Bob <bob@example.com> 1700000000|Bot|Change 1 files|\
         Alice <alice@example.com> 1700000000|Bot|Create a|alice"
    );
    assert_eq!(server.repository.git(&["show", "main~1:live/a.yaml"]), "1");
    server.repository.assert_sound("main");
}

#[test]
fn no_empty_commits_are_made() {
    let server = Server::start(Transport::Path);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    // Nothing from nothing.
    let nothing = plan(&mirror, "live", &[("live/gone.yaml", None)]);
    let committed = mirror.commit(&[nothing], None).unwrap();
    assert_eq!((committed.prepared, committed.commits), (None, vec![None]));
    pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
    // The same again, and there and back within one commit's worth of changes.
    let same = plan(
        &mirror,
        "live",
        &[("live/a.yaml", Some("a\n")), ("live/b/gone.yaml", None)],
    );
    let change = plan(&mirror, "live", &[("live/b.yaml", Some("b\n"))]);
    let committed = mirror.commit(&[same.clone(), change, same], None).unwrap();
    assert_eq!(
        committed
            .commits
            .iter()
            .map(Option::is_some)
            .collect::<Vec<_>>(),
        [false, true, false]
    );
    pushed(&push(&mut mirror, &committed));
    assert_eq!(server.repository.history("main").len(), 2);
}

#[test]
fn folders_that_become_empty_vanish_and_files_may_take_their_place() {
    let server = Server::start(Transport::Path);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    pushed(&write(
        &mut mirror,
        &[
            ("live/a/b/c.yaml", Some("c\n")),
            ("live/d.yaml", Some("d\n")),
        ],
    ));
    pushed(&write(
        &mut mirror,
        &[("live/a/b/c.yaml", None), ("live/a", Some("now a file\n"))],
    ));
    assert_eq!(
        server.repository.files("main"),
        owned(&[("live/a", "now a file\n"), ("live/d.yaml", "d\n")])
    );
    pushed(&write(
        &mut mirror,
        &[("live/a", None), ("live/a/x.yaml", Some("x\n"))],
    ));
    pushed(&write(
        &mut mirror,
        &[("live/a/x.yaml", None), ("live/d.yaml", None)],
    ));
    assert_eq!(server.repository.files("main"), BTreeMap::new());
    let names = server
        .repository
        .git(&["ls-tree", "-r", "-t", "--name-only", "main"]);
    assert_eq!(names, "", "no empty folder is left");
    // And the empty tree is built upon.
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/e.yaml", Some("e\n"))]));
    server.repository.assert_sound("main");
}

#[test]
fn nothing_is_written_through_links_submodules_or_files() {
    let server = Server::start(Transport::Path);
    let foreign = [
        FileChange::Link("live/link", "/etc"),
        FileChange::Submodule("live/module"),
        FileChange::Write("live/file", "file\n"),
        FileChange::Link("live/link.yaml", "/etc/passwd"),
        FileChange::Write("live/folder/theirs", "theirs\n"),
        FileChange::Submodule("live/module.yaml"),
    ];
    server.repository.commit("main", "seeded", &foreign);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let wanted = [
        ("live/link/a.yaml", Some("a\n")),
        ("live/module/deep/a.yaml", Some("a\n")),
        ("live/file/a.yaml", Some("a\n")),
        ("live/folder", Some("a\n")),
        ("live/folder", None),
        ("live/module.yaml", Some("a\n")),
        ("live/module.yaml", None),
        ("live/link/a.yaml", None),
        ("live/ok.yaml", Some("ok\n")),
        ("live/link.yaml", Some("a plain file now\n")),
    ];
    let mut plan = plan(&mirror, "live", &wanted);
    let outside = mirror.staged().write(b"outside\n").unwrap();
    plan.changes.push(Change::Put {
        path: path("livelier/a.yaml"),
        blob: outside,
    });
    let committed = mirror.commit(&[plan], None).unwrap();
    let through = |parent: &str, kind| PathRefusal::Through {
        parent: parent.to_owned(),
        kind,
    };
    let refused: Vec<_> = committed
        .refused
        .iter()
        .map(|r| (r.path.as_str(), r.why.clone()))
        .collect();
    assert_eq!(
        refused,
        [
            ("live/folder", PathRefusal::IsFolder),
            ("live/module.yaml", PathRefusal::IsSubmodule),
            ("live/link/a.yaml", through("live/link", EntryKind::Symlink)),
            (
                "live/module/deep/a.yaml",
                through("live/module", EntryKind::Submodule)
            ),
            ("live/file/a.yaml", through("live/file", EntryKind::File)),
            ("live/folder", PathRefusal::IsFolder),
            ("live/module.yaml", PathRefusal::IsSubmodule),
            (
                "livelier/a.yaml",
                PathRefusal::OutsideFolder {
                    folder: "live".to_owned()
                }
            ),
        ]
    );
    // What could be done is done.
    pushed(
        &mirror
            .push(&committed.prepared.unwrap(), &PushOptions::default())
            .unwrap(),
    );
    let expected = [
        ("live/link", "-> /etc"),
        ("live/module", "module"),
        ("live/file", "file\n"),
        ("live/folder/theirs", "theirs\n"),
        ("live/module.yaml", "module"),
        ("live/ok.yaml", "ok\n"),
        ("live/link.yaml", "a plain file now\n"),
    ];
    assert_eq!(server.repository.files("main"), owned(&expected));
    // A destination whose folder is a link has nothing to read either.
    let error = mirror.snapshot(&folder("live/link/below")).unwrap_err();
    assert!(
        matches!(error, CloneError::NotAFolder { ref path, kind: EntryKind::Symlink } if path == "live/link"),
        "{error}"
    );
}

#[test]
fn attributes_filters_and_hooks_of_the_repository_do_nothing() {
    let server = Server::start(Transport::Path);
    let trap = server.root.path().join("trap");
    let run = format!("touch {}", trap.display());
    let seeded = [
        FileChange::Write(".gitattributes", "* filter=evil text eol=crlf ident\n"),
        FileChange::Write(
            ".gitconfig",
            "[filter \"evil\"]\n\tclean = touch trap\n\tsmudge = touch trap\n",
        ),
        FileChange::Write("hooks/pre-push", &run),
        FileChange::Write(".githooks/pre-push", &run),
        FileChange::Write(
            ".gitmodules",
            "[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c touch% trap\n",
        ),
        FileChange::Write("live/a.yaml", "$Id$\r\n"),
    ];
    server.repository.commit("main", "seeded", &seeded);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let content = "unix\nwindows\r\n$Id$\n";
    pushed(&write(&mut mirror, &[("live/b.yaml", Some(content))]));
    assert_eq!(server.repository.files("main")["live/b.yaml"], content);
    assert_eq!(server.repository.files("main")["live/a.yaml"], "$Id$\r\n");
    assert!(!trap.exists() && !mirror.folder.path().join("trap").exists());
}

#[test]
fn content_that_is_nowhere_is_asked_for_again_and_known_content_is_not() {
    let server = Server::start(Transport::Path);
    server.repository.commit(
        "main",
        "first",
        &[FileChange::Write("elsewhere/known", "known\n")],
    );
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let (unknown, known) = (BlobId::of(b"nowhere\n"), BlobId::of(b"known\n"));
    let mut plan = plan(&mirror, "live", &[]);
    plan.changes.push(Change::Put {
        path: path("live/unknown.yaml"),
        blob: unknown,
    });
    plan.changes.push(Change::Put {
        path: path("live/known.yaml"),
        blob: known,
    });
    let committed = mirror.commit(&[plan], None).unwrap();
    let refused: Vec<_> = committed.refused.iter().map(|r| r.why.clone()).collect();
    assert_eq!(refused, [PathRefusal::ContentMissing { blob: unknown }]);
    // The known one is not here either, and the push does not need it.
    pushed(
        &mirror
            .push(&committed.prepared.unwrap(), &PushOptions::default())
            .unwrap(),
    );
    assert_eq!(
        server.repository.files("main")["live/known.yaml"],
        "known\n"
    );
    server.repository.assert_sound("main");
}

#[test]
fn a_large_batch_and_a_copied_folder_arrive_whole() {
    let server = Server::start(Transport::Http);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let files: BTreeMap<String, String> = (0..1500)
        .map(|i| {
            (
                format!("live/apps/v1/{}/{i}.yaml", i % 7),
                format!("content of {i}\n"),
            )
        })
        .collect();
    let mut batch = mirror.staged().batch();
    let mut plan = plan(&mirror, "live", &[]);
    for (file, content) in &files {
        plan.changes.push(Change::Put {
            path: path(file),
            blob: batch.write(content.as_bytes()).unwrap(),
        });
    }
    batch.finish().unwrap();
    let committed = mirror.commit(&[plan], None).unwrap();
    pushed(&push(&mut mirror, &committed));
    let mut expected = files.clone();
    expected.insert("README.md".to_owned(), "1\n".to_owned());
    assert_eq!(server.repository.files("main"), expected);
    // The same trees at a second path, from a mirror that has no contents.
    let mut other = server.mirror("main");
    other.fetch().unwrap();
    let mut copied = crate::support::plan(&other, "live", &[]);
    for (file, content) in &files {
        let to = path(&file.replace("/apps/", "/copied/"));
        copied.changes.push(Change::Put {
            path: to,
            blob: BlobId::of(content.as_bytes()),
        });
    }
    let committed = other.commit(&[copied], None).unwrap();
    pushed(&push(&mut other, &committed));
    let found = server.repository.files("main");
    assert_eq!(found.len(), expected.len() + files.len());
    assert_eq!(found["live/copied/v1/0/0.yaml"], "content of 0\n");
    server.repository.assert_sound("main");
}

#[test]
fn snapshots_show_kinds_and_strange_names_and_only_the_folder() {
    let server = Server::start(Transport::Path);
    let seeded = [
        FileChange::Write("other/x", "x\n"),
        FileChange::Write("live/a", "a\n"),
        FileChange::Write("live/a.b", "a.b\n"),
        FileChange::Write("live/a/b", "a/b\n"),
        FileChange::Write("live/grün", "ü\n"),
        FileChange::Link("live/link", "a"),
        FileChange::Submodule("live/module"),
    ];
    // A file and a folder cannot share a name: the last one stays.
    server.repository.commit("main", "seeded", &seeded);
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let snapshot = mirror.snapshot(&folder("live")).unwrap();
    let rows: Vec<_> = snapshot
        .iter()
        .map(|e| {
            (
                String::from_utf8_lossy(e.path).into_owned(),
                e.kind,
                e.blob.is_some(),
            )
        })
        .collect();
    let row = |path: &str, kind, blob| (path.to_owned(), kind, blob);
    assert_eq!(
        rows,
        [
            row("live/a.b", EntryKind::File, true),
            row("live/a/b", EntryKind::File, true),
            row("live/grün", EntryKind::File, true),
            row("live/link", EntryKind::Symlink, true),
            row("live/module", EntryKind::Submodule, false),
        ]
    );
    assert_eq!(
        snapshot.get(&path("live/a/b")).unwrap().blob,
        Some(BlobId::of(b"a/b\n"))
    );
    assert!(snapshot.get(&path("live/none")).is_none());
    // Asked for by path it is the same, and what nobody asked for is left out.
    let asked = [
        "live/a.b",
        "live/a/b",
        "live/link",
        "live/none",
        "live/a",
        "other/x/y",
    ];
    let files = mirror.files_at(&asked.map(path)).unwrap();
    assert_eq!(files.len(), 3);
    for asked in asked {
        assert_eq!(
            files.get(&path(asked)),
            snapshot.get(&path(asked)),
            "{asked}"
        );
    }
    assert!(mirror.snapshot(&folder("nothing/here")).unwrap().is_empty());
    let nothing_yet = server.mirror("main").snapshot(&folder("live")).unwrap_err();
    assert!(matches!(nothing_yet, CloneError::NotFetched));
}

#[test]
fn two_mirrors_of_one_repository_work_side_by_side() {
    let server = Server::start(Transport::Http);
    server
        .repository
        .commit("main", "first", &[FileChange::Write("README.md", "1\n")]);
    std::thread::scope(|scope| {
        for branch in ["one", "two", "three"] {
            let server = &server;
            scope.spawn(move || {
                let mut mirror = server.mirror(branch);
                mirror.fetch().unwrap();
                for round in 0..4 {
                    let content = format!("{branch} {round}\n");
                    pushed(&write(&mut mirror, &[("live/a.yaml", Some(&content))]));
                }
            });
        }
    });
    for branch in ["one", "two", "three"] {
        assert_eq!(
            server.repository.files(branch)["live/a.yaml"],
            format!("{branch} 3\n")
        );
        assert_eq!(server.repository.history(branch).len(), 5);
        server.repository.assert_sound(branch);
    }
}

#[test]
fn staged_contents_are_dropped_when_nobody_wants_them() {
    for transport in [Transport::Http, Transport::OldSsh] {
        let server = Server::start(transport);
        server
            .repository
            .commit("main", "first", &[FileChange::Write("live/0.yaml", "0\n")]);
        let mut mirror = server.mirror("main");
        mirror.fetch().unwrap();
        // Makes the second server one that sends all contents.
        mirror.blobs(&[BlobId::of(b"0\n")]).map(drop).unwrap();
        mirror.fetch().unwrap();
        let mut batch = mirror.staged().batch();
        for i in 0..200 {
            batch.write(format!("packed {i}\n").as_bytes()).unwrap();
        }
        batch.finish().unwrap();
        let waiting = mirror.staged().write(b"waiting\n").unwrap();
        pushed(&write(&mut mirror, &[("live/a.yaml", Some("a\n"))]));
        mirror.retain_staged(|id| id == waiting).unwrap();
        let left = crate::support::files_below(&mirror.folder.path().join("staged"));
        assert_eq!(left.len(), 1, "{left:?}");
        // What waits can be committed, and a foreign edit of what was dropped is understood.
        let foreign = FileChange::Write("live/a.yaml", "a, edited by hand\n");
        server.repository.commit("main", "by hand", &[foreign]);
        mirror.fetch().unwrap();
        let mut plan = plan(&mirror, "live", &[]);
        plan.changes.push(Change::Put {
            path: path("live/w.yaml"),
            blob: waiting,
        });
        let committed = mirror.commit(&[plan], None).unwrap();
        pushed(&push(&mut mirror, &committed));
        server.repository.assert_sound("main");
    }
}
