//! What stands at a path of this machine: a repository, its branches that are checked out, or
//! something else.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::branch_name::BranchName;
use crate::cancel::CancelToken;
use crate::process::{End, Finished, Git, Invocation, Limits};

const DEADLINE: Duration = Duration::from_secs(30);

/// What stands at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AtPath {
    /// Nothing, or an empty folder.
    Nothing,
    /// A repository, with or without a work tree.
    Repository(LocalRepository),
    /// Something that is no repository.
    SomethingElse,
}

/// A repository on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalRepository {
    /// Where its objects and branches are.
    pub git_dir: PathBuf,
    /// The full names of branches that are checked out, and where.
    pub checked_out: Vec<(String, PathBuf)>,
}

impl LocalRepository {
    /// Looks at a path.
    ///
    /// # Errors
    /// The path or the program cannot be used.
    pub fn look(git: &Git, path: &Path) -> io::Result<AtPath> {
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(AtPath::Nothing),
            Err(error) => return Err(error),
            Ok(metadata) if !metadata.is_dir() => return Ok(AtPath::SomethingElse),
            Ok(_) => {}
        }
        let path = path.canonicalize()?;
        // Not a repository further up: whoever names a folder means that folder.
        let inside = [path.join(".git"), path.clone()];
        for git_dir in inside {
            let ask = Invocation::new(&path, ["rev-parse", "--absolute-git-dir"]).git_dir(&git_dir);
            let finished = run(git, ask)?;
            if finished.end != End::Success {
                continue;
            }
            let answer = String::from_utf8_lossy(&finished.stdout);
            let git_dir = PathBuf::from(answer.trim_end_matches('\n'));
            let list = Invocation::new(&path, ["worktree", "list", "--porcelain"]);
            let listed = run(git, list.git_dir(&git_dir))?;
            return Ok(AtPath::Repository(Self {
                checked_out: parse_work_trees(&String::from_utf8_lossy(&listed.stdout)),
                git_dir,
            }));
        }
        let mut entries = std::fs::read_dir(&path)?;
        Ok(match entries.next() {
            None => AtPath::Nothing,
            Some(_) => AtPath::SomethingElse,
        })
    }

    /// Makes an empty repository without a work tree, whose first branch is to be this one.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(git: &Git, path: &Path, branch: &BranchName) -> io::Result<Self> {
        std::fs::create_dir_all(path)?;
        let path = path.canonicalize()?;
        let init = Invocation::new(&path, ["init", "--bare", "--quiet"])
            .arg(format!("--initial-branch={}", branch.as_str()));
        let finished = run(git, init.git_dir(&path))?;
        if finished.end != End::Success {
            return Err(io::Error::other(finished.stderr.trim().to_owned()));
        }
        Ok(Self {
            git_dir: path,
            checked_out: Vec::new(),
        })
    }

    /// Where a branch is checked out, if it is.
    #[must_use]
    pub fn where_checked_out(&self, branch: &BranchName) -> Option<&Path> {
        let full = branch.full_ref();
        let mut found = self.checked_out.iter();
        found
            .find(|(name, _)| *name == full)
            .map(|(_, path)| &**path)
    }
}

fn run(git: &Git, invocation: Invocation<'_>) -> io::Result<Finished> {
    let limits = Limits {
        deadline: DEADLINE,
        cancel: &CancelToken::new(),
    };
    git.run(invocation, &limits)
}

/// A bare repository is listed too, with no branch that anything is checked out of.
fn parse_work_trees(listed: &str) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for block in listed.split("\n\n") {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        let is_bare = block.lines().any(|line| line == "bare");
        if let (false, Some(path), Some(branch)) = (is_bare, field("worktree "), field("branch ")) {
            found.push((branch.to_owned(), PathBuf::from(path)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_branches_with_a_work_tree_are_checked_out() {
        let listed = "worktree /a\nbare\n\nworktree /b\nHEAD 12\nbranch refs/heads/main\n\n\
                      worktree /c\nHEAD 12\ndetached\n\n";
        let found = parse_work_trees(listed);
        assert_eq!(found, [("refs/heads/main".to_owned(), PathBuf::from("/b"))]);
    }

    #[test]
    fn a_folder_is_told_from_a_repository_and_from_a_work_tree() {
        let git = Git::find().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let look = |name: &str| LocalRepository::look(&git, &folder.path().join(name)).unwrap();
        assert_eq!(look("none"), AtPath::Nothing);
        std::fs::create_dir_all(folder.path().join("full/inner")).unwrap();
        assert_eq!(look("full"), AtPath::SomethingElse);
        assert_eq!(look("full/inner"), AtPath::Nothing);
        let main = BranchName::parse("main").unwrap();
        let bare = LocalRepository::create(&git, &folder.path().join("bare"), &main).unwrap();
        assert_eq!(look("bare"), AtPath::Repository(bare.clone()));
        assert_eq!(bare.where_checked_out(&main), None);
        let tree = folder.path().join("tree");
        let status = std::process::Command::new("git")
            .args(["init", "-q", "-b", "main"])
            .arg(&tree)
            .status();
        assert!(status.unwrap().success());
        let AtPath::Repository(found) = look("tree") else {
            panic!("no repository")
        };
        let tree = tree.canonicalize().unwrap();
        assert_eq!(found.git_dir, tree.join(".git"));
        assert_eq!(found.where_checked_out(&main), Some(&*tree));
        // A folder of a work tree is not the repository around it.
        std::fs::create_dir(tree.join("inner")).unwrap();
        assert_eq!(look("tree/inner"), AtPath::Nothing);
    }
}
