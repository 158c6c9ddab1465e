//! What can happen to the folder on our side.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use reverser_git::{CloneError, FetchError, GrowthLimits, Mirror, OpenError};
use reverser_testkit::git_server::FileChange;

use crate::support::{
    Server, Transport, files_below, folder, git, pushed, quick, remote, settle, try_settle, write,
};

fn seeded(transport: Transport) -> Server {
    let server = Server::start(transport);
    let files = [
        FileChange::Write("README.md", "1\n"),
        FileChange::Write("other/deep/x", "x\n"),
    ];
    server.repository.commit("main", "first", &files);
    server
}

fn desired(content: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("live/apps/a.yaml".to_owned(), content.to_owned()),
        ("live/b.yaml".to_owned(), "b\n".to_owned()),
    ])
}

fn assert_settled(server: &Server, content: &str) {
    let found = server.repository.files("main");
    let mut expected = desired(content);
    expected.insert("README.md".to_owned(), "1\n".to_owned());
    expected.insert("other/deep/x".to_owned(), "x\n".to_owned());
    assert_eq!(found, expected);
}

#[test]
fn any_damage_to_any_file_heals() {
    let server = seeded(Transport::Path);
    let place = tempfile::tempdir().unwrap();
    settle(&mut server.open(place.path(), "main"), &desired("0\n"));
    let clone = place.path().join("clone.git");
    let mut round = 0;
    let count = files_below(&clone).len();
    for kind in ["truncate", "flip", "delete", "empty", "garbage"] {
        for index in 0..count {
            // The files change as the clone heals; their number hardly does.
            let mut files = files_below(&clone);
            files.sort();
            let Some(victim) = files.get(index) else {
                continue;
            };
            damage(victim, kind);
            round += 1;
            let content = format!("{kind} {round}\n");
            eprintln!("{kind} {}", victim.display());
            // Half of the time there is something to fetch: an empty commit.
            if round % 2 == 0 {
                server.repository.commit("main", "foreign", &[]);
            }
            let mut mirror = server.open(place.path(), "main");
            // An attempt may stumble over the damage; the one after it must not.
            if try_settle(&mut mirror, &desired(&content)).is_err() {
                settle(&mut mirror, &desired(&content));
            }
            assert_settled(&server, &content);
        }
    }
    assert!(round > 20);
    server.repository.assert_sound("main");
}

fn damage(victim: &Path, kind: &str) {
    let mut bytes = fs::read(victim).unwrap();
    let middle = bytes.len() / 2;
    match kind {
        "truncate" => bytes.truncate(middle),
        "flip" => {
            if let Some(byte) = bytes.get_mut(middle) {
                *byte ^= 0x55;
            }
        }
        "empty" => bytes.clear(),
        "garbage" => bytes = b"ref: refs/heads/elsewhere\n[core]\n\thooksPath = /tmp\n".to_vec(),
        _ => return fs::remove_file(victim).unwrap(),
    }
    // Git makes packs read-only; replacing works in any case.
    let new = victim.with_extension("damaged");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, victim).unwrap();
}

#[test]
fn a_damaged_tree_is_noticed_and_never_committed_upon() {
    let server = seeded(Transport::Path);
    let place = tempfile::tempdir().unwrap();
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    // Another tree under the name of the folder's: whole in itself, and wrong.
    let wrong = server.repository.git(&["rev-parse", "main:other/deep"]);
    let right = server.repository.git(&["rev-parse", "main:live"]);
    let loose = |id: &str| format!("objects/{}/{}", &id[..2], &id[2..]);
    let objects = place.path().join("clone.git");
    let content = Command::new("git")
        .args(["cat-file", "tree", &wrong])
        .current_dir(server.repository.path())
        .output()
        .unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let mut init = Command::new("git");
    init.args(["init", "-q", "--bare", "."])
        .current_dir(scratch.path());
    reverser_testkit::command::run(&mut init);
    let mut hash = Command::new("git");
    hash.args(["hash-object", "-w", "-t", "tree", "--stdin"])
        .current_dir(scratch.path());
    reverser_testkit::command::run_with_input(&mut hash, &content.stdout);
    fs::remove_file(objects.join(loose(&right))).unwrap();
    fs::copy(
        scratch.path().join(loose(&wrong)),
        objects.join(loose(&right)),
    )
    .unwrap();
    drop(mirror);
    let mut mirror = server.open(place.path(), "main");
    mirror.fetch().unwrap();
    let error = mirror.snapshot(&folder("live")).unwrap_err();
    assert!(matches!(error, CloneError::Damaged(_)), "{error:?}");
    settle(&mut mirror, &desired("1\n"));
    assert_settled(&server, "1\n");
}

#[test]
fn locks_of_killed_commands_do_not_stop_anything() {
    let server = seeded(Transport::Http);
    let place = tempfile::tempdir().unwrap();
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    let clone = place.path().join("clone.git");
    let leave_locks = || {
        for lock in [
            "shallow.lock",
            "config.lock",
            "HEAD.lock",
            "packed-refs.lock",
            "refs/mirror/tip.lock",
        ] {
            fs::write(clone.join(lock), "").unwrap();
        }
        fs::write(clone.join("objects/pack/tmp_pack_x"), "").unwrap();
    };
    leave_locks();
    drop(mirror);
    let mut mirror = server.open(place.path(), "main");
    server.repository.commit(
        "main",
        "foreign",
        &[
            FileChange::Write("other/deep/x", "x\n"),
            FileChange::Write("new", "n\n"),
        ],
    );
    server
        .repository
        .commit("main", "foreign", &[FileChange::Delete("new")]);
    settle(&mut mirror, &desired("1\n"));
    // Also while the mirror is open: a command of ours was killed.
    leave_locks();
    settle(&mut mirror, &desired("2\n"));
    assert_settled(&server, "2\n");
    assert!(!clone.join("shallow.lock").exists());
}

#[test]
fn a_folder_has_one_owner_and_a_dead_one_does_not_count() {
    let server = seeded(Transport::Path);
    let mirror = server.mirror("main");
    let again = Mirror::open(
        git(),
        remote(&server.url),
        reverser_git::BranchName::parse("main").unwrap(),
        mirror.folder.path(),
        server.credentials(),
        quick(),
    );
    assert!(matches!(again, Err(OpenError::InUse { .. })), "{again:?}");
    let place = tempfile::tempdir().unwrap();
    // The file alone means nothing: its owner is gone.
    fs::write(place.path().join("lock"), "").unwrap();
    server.open(place.path(), "main");
    server.open(place.path(), "main");
}

#[test]
fn a_clone_of_something_else_is_made_anew() {
    let server = seeded(Transport::Path);
    let other = Server::start(Transport::Path);
    other.repository.commit(
        "main",
        "other",
        &[FileChange::Write("live/theirs.yaml", "t\n")],
    );
    let place = tempfile::tempdir().unwrap();
    other.open(place.path(), "main").fetch().unwrap();
    let mut mirror = server.open(place.path(), "main");
    mirror.fetch().unwrap();
    assert!(mirror.snapshot(&folder("live")).unwrap().is_empty());
    settle(&mut mirror, &desired("0\n"));
    drop(mirror);
    let mut branch = server.open(place.path(), "branch");
    branch.fetch().unwrap();
    settle(&mut branch, &BTreeMap::new());
    assert!(
        !server
            .repository
            .files("branch")
            .contains_key("live/b.yaml")
    );
    assert_settled(&server, "0\n");
}

#[test]
fn a_grown_clone_is_swapped_for_a_fresh_one() {
    for limits in [
        GrowthLimits {
            loose_objects: 12,
            ..GrowthLimits::default()
        },
        GrowthLimits {
            packs: 2,
            ..GrowthLimits::default()
        },
        GrowthLimits {
            bytes: 40_000,
            ..GrowthLimits::default()
        },
    ] {
        let server = seeded(Transport::Http);
        let place = tempfile::tempdir().unwrap();
        let mut options = quick();
        options.growth = limits;
        let mut mirror = server.open_with(place.path(), "main", options);
        let clone = place.path().join("clone.git");
        let mut most = 0;
        for round in 0..12 {
            server.repository.commit(
                "main",
                "foreign",
                &[FileChange::Write("README.md", &format!("{round}\n"))],
            );
            let staged = mirror.staged().write(b"staged before the swap\n").unwrap();
            settle(&mut mirror, &desired(&format!("{round}\n")));
            most = most.max(files_below(&clone.join("objects")).len());
            // What was staged survives the swap.
            assert!(mirror.blobs(&[staged]).unwrap().missing.is_empty());
        }
        assert!(most < 35, "{limits:?}: {most} files");
        assert!(!place.path().join("old.git").exists() && !place.path().join("fresh.git").exists());
        server.repository.assert_sound("main");
    }
}

#[test]
fn a_clone_that_is_large_when_it_is_fresh_is_not_made_anew_each_time() {
    let server = seeded(Transport::Http);
    let place = tempfile::tempdir().unwrap();
    let mut options = quick();
    options.growth.bytes = 1;
    let mut mirror = server.open_with(place.path(), "main", options);
    mirror.fetch().unwrap();
    let folder = || fs::metadata(place.path().join("clone.git")).unwrap().ino();
    let fresh = folder();
    mirror.fetch().unwrap();
    assert_eq!(folder(), fresh);
    server.repository.commit(
        "main",
        "foreign",
        &[FileChange::Write("README.md", "longer than one byte\n")],
    );
    mirror.fetch().unwrap();
    mirror.fetch().unwrap();
    assert_ne!(folder(), fresh, "it has grown by more than that");
}

#[test]
fn the_clone_has_neither_history_nor_contents() {
    let server = Server::start(Transport::Http);
    for round in 0..20 {
        let content = format!("{round} {}\n", "a secret of this repository ".repeat(50));
        server.repository.commit(
            "main",
            "change",
            &[FileChange::Write("live/a.yaml", &content)],
        );
    }
    let mut mirror = server.mirror("main");
    mirror.fetch().unwrap();
    let objects = mirror.folder.path().join("clone.git");
    let mut count = Command::new("git");
    count
        .args([
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objecttype)",
        ])
        .env("GIT_DIR", &objects);
    let kinds = reverser_testkit::command::run(&mut count).stdout;
    assert_eq!(
        kinds.lines().filter(|kind| *kind == "commit").count(),
        1,
        "{kinds}"
    );
    assert_eq!(
        kinds.lines().filter(|kind| *kind == "blob").count(),
        0,
        "{kinds}"
    );
}

#[test]
fn damaged_staged_contents_are_asked_for_again() {
    let server = seeded(Transport::Path);
    let place = tempfile::tempdir().unwrap();
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    let many = "staged as a pack\n";
    for (round, kind) in ["truncate", "empty", "delete"].into_iter().enumerate() {
        let content = format!("{kind}\n");
        let mut plan =
            crate::support::plan(&mirror, "live", &[("live/apps/a.yaml", Some(&content))]);
        let mut batch = mirror.staged().batch();
        for i in 0..150 {
            let blob = batch
                .write(format!("{many}{round} {i}\n").as_bytes())
                .unwrap();
            let file = crate::support::path(&format!("live/many/{i}.yaml"));
            plan.changes
                .push(reverser_git::Change::Put { path: file, blob });
        }
        batch.finish().unwrap();
        for file in files_below(&place.path().join("staged")) {
            if file.extension().is_none_or(|extension| extension != "idx") {
                damage(&file, kind);
            }
        }
        // Deleted contents are missing at once, damaged ones when they are to be sent.
        let committed = mirror.commit(&[plan], None).unwrap();
        if let Some(prepared) = committed.prepared.filter(|_| committed.refused.is_empty()) {
            let outcome = mirror
                .push(&prepared, &reverser_git::PushOptions::default())
                .unwrap();
            assert!(
                matches!(outcome, reverser_git::PushOutcome::Stale { .. }),
                "{kind}: {outcome:?}"
            );
        }
        settle(&mut mirror, &desired(&content));
        assert_settled(&server, &content);
    }
    server.repository.assert_sound("main");
}

/// A small file system of its own; none where the machine does not let us make one.
struct Disk(PathBuf);

impl Disk {
    fn mount(place: &Path, options: &str) -> Option<Self> {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "tmpfs"])
            .arg(place)
            .output()
            .ok()?;
        if mounted.status.success() {
            return Some(Self(place.to_owned()));
        }
        eprintln!(
            "skipped, a file system cannot be mounted here: {}",
            String::from_utf8_lossy(&mounted.stderr)
        );
        None
    }

    fn remount(&self, options: &str) {
        reverser_testkit::command::run(
            Command::new("mount")
                .args(["-o", &format!("remount,{options}")])
                .arg(&self.0),
        );
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_is_an_error_and_heals_when_there_is_room() {
    let server = seeded(Transport::Http);
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(place.path(), "size=1m") else {
        return;
    };
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    let before = server.repository.tip("main");
    fs::write(place.path().join("ballast"), vec![0; 1 << 20]).unwrap_err();
    // Staging, committing and fetching fail, and say why.
    let large = "0123456789abcdef".repeat(20_000);
    let error = mirror.staged().write(large.as_bytes()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    server.repository.commit(
        "main",
        "foreign",
        &[
            FileChange::Write("other/deep/x", "x\n"),
            FileChange::Write("other/y", &large),
        ],
    );
    let error = mirror.fetch().unwrap_err();
    let text = format!("{error:?}");
    assert!(
        matches!(error, FetchError::Io(_) | FetchError::Clone(_)),
        "{text}"
    );
    assert!(
        text.contains("No space left") || text.contains("StorageFull"),
        "{text}"
    );
    assert_ne!(server.repository.tip("main"), before);
    server.repository.assert_sound("main");
    fs::remove_file(place.path().join("ballast")).unwrap();
    server
        .repository
        .commit("main", "foreign", &[FileChange::Delete("other/y")]);
    settle(&mut mirror, &desired("1\n"));
    assert_settled(&server, "1\n");
    drop(mirror);
    drop(disk);
}

#[test]
fn a_read_only_disk_is_an_error_and_heals() {
    let server = seeded(Transport::Path);
    let place = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::mount(place.path(), "size=8m") else {
        return;
    };
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    drop(mirror);
    disk.remount("ro");
    let opened = Mirror::open(
        git(),
        remote(&server.url),
        reverser_git::BranchName::parse("main").unwrap(),
        place.path(),
        server.credentials(),
        quick(),
    );
    assert!(matches!(opened, Err(OpenError::Io { .. })), "{opened:?}");
    disk.remount("rw");
    let mut mirror = server.open(place.path(), "main");
    server
        .repository
        .commit("main", "foreign", &[FileChange::Write("README.md", "1\n")]);
    settle(&mut mirror, &desired("1\n"));
    assert_settled(&server, "1\n");
    drop(mirror);
    drop(disk);
}

#[test]
fn a_folder_that_vanishes_is_made_again() {
    let server = seeded(Transport::Path);
    let place = tempfile::tempdir().unwrap();
    let mut mirror = server.open(place.path(), "main");
    settle(&mut mirror, &desired("0\n"));
    fs::remove_dir_all(place.path().join("clone.git")).unwrap();
    assert!(mirror.fetch().is_err() || mirror.tip().is_some());
    pushed_after(&mut mirror);
    drop(mirror);
    fs::remove_dir_all(place.path().join("staged")).unwrap();
    let mut mirror = server.open(place.path(), "main");
    mirror.fetch().unwrap();
    pushed(&write(&mut mirror, &[("live/d.yaml", Some("d\n"))]));
}

fn pushed_after(mirror: &mut Mirror) {
    mirror.fetch().unwrap();
    pushed(&write(mirror, &[("live/c.yaml", Some("c\n"))]));
}
