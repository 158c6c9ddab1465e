//! A bare repository on the server's side.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command;

/// `git` that knows nothing of this machine's configuration, home or language.
#[must_use]
pub fn sealed_git(folder: &Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(folder)
        .env_clear()
        .envs(sealed_environment(folder));
    git
}

/// The environment of [`sealed_git`], for programs that start `git` themselves.
pub(crate) fn sealed_environment(home: &Path) -> Vec<(&'static str, String)> {
    vec![
        ("PATH", std::env::var("PATH").unwrap_or_default()),
        ("HOME", home.display().to_string()),
        ("LC_MESSAGES", "C".to_owned()),
        ("GIT_CONFIG_NOSYSTEM", "1".to_owned()),
        ("GIT_CONFIG_GLOBAL", "/dev/null".to_owned()),
        ("GIT_AUTHOR_NAME", "A Person".to_owned()),
        ("GIT_AUTHOR_EMAIL", "person@example.com".to_owned()),
        ("GIT_COMMITTER_NAME", "A Person".to_owned()),
        ("GIT_COMMITTER_EMAIL", "person@example.com".to_owned()),
    ]
}

/// What somebody else does to a file.
#[derive(Debug, Clone)]
pub enum FileChange<'a> {
    /// A plain file.
    Write(&'a str, &'a str),
    /// A symbolic link, to this target.
    Link(&'a str, &'a str),
    /// A submodule.
    Submodule(&'a str),
    /// No file.
    Delete(&'a str),
}

/// A bare repository that checks what it is sent.
#[derive(Debug)]
pub struct BareRepository {
    path: PathBuf,
}

impl BareRepository {
    /// An empty one, at `root`/`name`. Its default branch is `main`.
    #[must_use]
    pub fn create(root: &Path, name: &str) -> Self {
        let path = root.join(name);
        let mut init = sealed_git(root);
        command::run(
            init.args([
                "init",
                "--quiet",
                "--bare",
                "--initial-branch=main",
                "--template=",
                "--",
            ])
            .arg(&path),
        );
        let repository = Self { path };
        for (key, value) in [
            ("receive.fsckObjects", "true"),
            ("receive.advertisePushOptions", "true"),
            ("uploadpack.allowFilter", "true"),
            ("http.receivepack", "true"),
            ("gc.auto", "0"),
            ("maintenance.auto", "false"),
        ] {
            repository.config(key, value);
        }
        repository
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs git in it; a failure fails the test.
    #[expect(clippy::must_use_candidate, reason = "often called for what it does")]
    pub fn git(&self, args: &[&str]) -> String {
        command::run(sealed_git(&self.path).args(args))
            .stdout
            .trim_end()
            .to_owned()
    }

    /// Sets a key of its configuration.
    pub fn config(&self, key: &str, value: &str) {
        self.git(&["config", key, value]);
    }

    /// Installs a hook: a shell script without its first line.
    pub fn hook(&self, name: &str, script: &str) {
        let folder = self.path.join("hooks");
        fs::create_dir_all(&folder).expect("the repository is writable");
        // Moved into place, so that it is never executed while it is open for writing.
        let new = folder.join(format!("{name}.new"));
        fs::write(&new, format!("#!/bin/sh\n{script}\n")).expect("the repository is writable");
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755)).expect("the hook is ours");
        fs::rename(&new, folder.join(name)).expect("the repository is writable");
    }

    /// Removes a hook.
    pub fn remove_hook(&self, name: &str) {
        fs::remove_file(self.path.join("hooks").join(name)).expect("the hook is there");
    }

    /// Where a branch stands.
    #[must_use]
    pub fn tip(&self, branch: &str) -> Option<String> {
        let name = format!("refs/heads/{branch}");
        let found = self.git(&["for-each-ref", "--format=%(objectname)", &name]);
        (!found.is_empty()).then_some(found)
    }

    /// Commits on top of a branch as somebody else, and says the commit. The branch is made if it
    /// does not exist.
    #[expect(clippy::must_use_candidate, reason = "often called for what it does")]
    pub fn commit(&self, branch: &str, message: &str, changes: &[FileChange<'_>]) -> String {
        let mut stream = format!(
            "commit refs/heads/{branch}\ncommitter A Person <person@example.com> 1700000000 +0000\n"
        );
        let _ = writeln!(stream, "data {}\n{message}", message.len());
        if let Some(tip) = self.tip(branch) {
            let _ = writeln!(stream, "from {tip}");
        }
        for change in changes {
            let _ = match change {
                FileChange::Write(path, content) => {
                    writeln!(
                        stream,
                        "M 100644 inline {path}\ndata {}\n{content}",
                        content.len()
                    )
                }
                FileChange::Link(path, target) => {
                    writeln!(
                        stream,
                        "M 120000 inline {path}\ndata {}\n{target}",
                        target.len()
                    )
                }
                FileChange::Submodule(path) => {
                    writeln!(stream, "M 160000 {} {path}", "1".repeat(40))
                }
                FileChange::Delete(path) => writeln!(stream, "D {path}"),
            };
        }
        let mut import = sealed_git(&self.path);
        command::run_with_input(
            import.args(["fast-import", "--quiet", "--force"]),
            stream.as_bytes(),
        );
        self.tip(branch).expect("it has just been committed to")
    }

    /// Moves a branch by force, or deletes it.
    pub fn set_branch(&self, branch: &str, to: Option<&str>) {
        let name = format!("refs/heads/{branch}");
        match to {
            Some(to) => self.git(&["update-ref", &name, to]),
            None => self.git(&["update-ref", "-d", &name]),
        };
    }

    /// Every file of a branch: path → content. Links appear as `-> target`, submodules as `module`.
    #[must_use]
    pub fn files(&self, branch: &str) -> BTreeMap<String, String> {
        let listing = self.git(&[
            "ls-tree",
            "-r",
            "-z",
            "--full-tree",
            &format!("refs/heads/{branch}"),
        ]);
        let rows: Vec<(&str, &str, &str)> = listing
            .split('\0')
            .filter_map(|row| {
                let (meta, path) = row.split_once('\t')?;
                let mut fields = meta.split(' ');
                Some((fields.next()?, fields.nth(1)?, path))
            })
            .collect();
        let wanted: Vec<_> = rows.iter().map(|(_, id, _)| *id).collect();
        let wanted = wanted.join("\n") + "\n";
        let mut cat = sealed_git(&self.path);
        let output =
            command::run_with_input(cat.args(["cat-file", "--batch"]), wanted.as_bytes()).stdout;
        let mut rest = output.as_str();
        let mut files = BTreeMap::new();
        for (mode, _, path) in rows {
            let (head, after) = rest.split_once('\n').expect("one answer for each object");
            let size = head
                .rsplit(' ')
                .next()
                .and_then(|size| size.parse::<usize>().ok());
            let content = match size {
                None => {
                    rest = after;
                    "module".to_owned()
                }
                Some(size) => {
                    rest = &after[size + 1..];
                    after[..size].to_owned()
                }
            };
            let content = if mode == "120000" {
                format!("-> {content}")
            } else {
                content
            };
            files.insert(path.to_owned(), content);
        }
        files
    }

    /// The commits of a branch, newest first.
    #[must_use]
    pub fn history(&self, branch: &str) -> Vec<String> {
        let listed = self.git(&["rev-list", &format!("refs/heads/{branch}")]);
        listed.lines().map(str::to_owned).collect()
    }

    /// Fails the test unless the repository is sound, the branch's history is linear, and a fresh
    /// clone of it works.
    pub fn assert_sound(&self, branch: &str) {
        self.git(&["fsck", "--strict", "--no-dangling", "--no-progress"]);
        let merges = self.git(&["rev-list", "--merges", &format!("refs/heads/{branch}")]);
        assert!(
            merges.is_empty(),
            "the history of {branch} is not linear: {merges}"
        );
        let folder = tempfile::tempdir().expect("a folder can be made");
        let url = format!("file://{}", self.path.display());
        let mut clone = sealed_git(folder.path());
        command::run(clone.args([
            "clone",
            "--quiet",
            "--bare",
            "--branch",
            branch,
            "--",
            &url,
            "clone.git",
        ]));
    }
}
