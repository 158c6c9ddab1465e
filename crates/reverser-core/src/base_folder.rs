//! The folder of a branch that a destination owns.

use std::fmt;

use crate::repo_path::RepoPath;

const LONGEST_FOLDER: usize = 1024;
const LONGEST_COMPONENT: usize = 255;

/// A folder below the root of a repository, or the root itself.
///
/// It holds no component that Git, a forge or a file system takes for something special.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BaseFolder(String);

/// Why a text is not a folder that can be owned.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{folder:?} cannot be used as a folder: {reason}")]
pub struct BaseFolderError {
    folder: String,
    reason: &'static str,
}

impl BaseFolder {
    /// Reads a folder such as `clusters/prod`; `.` is the root of the repository.
    pub fn parse(folder: &str) -> Result<Self, BaseFolderError> {
        if folder == "." {
            return Ok(Self(String::new()));
        }
        let check = || {
            if folder.len() > LONGEST_FOLDER {
                return Err("it is longer than 1024 bytes");
            }
            if folder.starts_with('/') {
                return Err(
                    "write it relative to the root of the repository, without a leading `/`",
                );
            }
            folder.split('/').try_for_each(check_component)
        };
        check()
            .map(|()| Self(folder.to_owned()))
            .map_err(|reason| BaseFolderError {
                folder: folder.to_owned(),
                reason,
            })
    }

    /// The folder as Git has it; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path from the root of the repository to an object's file in this folder.
    #[must_use]
    pub fn join(&self, path: &RepoPath) -> String {
        if self.0.is_empty() {
            path.to_string()
        } else {
            format!("{}/{path}", self.0)
        }
    }

    /// Whether two folders are equal or one lies in the other, also where case is folded.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (self.0.to_lowercase(), other.0.to_lowercase());
        let within = |inner: &str, outer: &str| {
            outer.is_empty()
                || inner
                    .strip_prefix(outer)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        within(&one, &other) || within(&other, &one)
    }
}

impl fmt::Display for BaseFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "." } else { &self.0 })
    }
}

fn check_component(component: &str) -> Result<(), &'static str> {
    let lower = component.to_ascii_lowercase();
    match component {
        "" => return Err("write it without empty parts: no `//` and no `/` at the end"),
        "." | ".." => return Err("write it without `.` and `..`"),
        _ => {}
    }
    if component.len() > LONGEST_COMPONENT {
        return Err("a part of it is longer than 255 bytes");
    }
    if !component.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err(
            "write it in printable ASCII: other characters look alike on some file systems",
        );
    }
    if component.contains(['\\', ':', '*', '?', '"', '<', '>', '|']) {
        return Err("write it without `\\ : * ? \" < > |`, which some file systems refuse");
    }
    if component.starts_with(' ') || component.ends_with(['.', ' ']) {
        return Err(
            "a part begins with a space, or ends with a dot or a space, which some file systems drop",
        );
    }
    if lower.starts_with(".git") || lower.starts_with("git~") {
        return Err(
            "a part begins with `.git` (or its short form), which Git and forges read as settings",
        );
    }
    if lower == ".forgejo" {
        return Err("a part is `.forgejo`, from which a forge runs workflows");
    }
    if lower == ".configbutler" {
        return Err("a part is `.configbutler`, where the mark of ownership lies");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(text: &str) -> BaseFolder {
        BaseFolder::parse(text).unwrap()
    }

    #[test]
    fn dangerous_folders_are_refused_with_what_to_write() {
        for bad in [
            "",
            "..",
            "a/..",
            "../a",
            "/etc",
            "a//b",
            "a/",
            "./a",
            ".git/hooks",
            ".GIT",
            "a/.git",
            "git~1",
            "GIT~2/x",
            ".gitmodules",
            ".github/workflows",
            ".gitlab",
            "a/.gitea",
            ".forgejo/x",
            "a\\b",
            "a\nb",
            "a\0b",
            ".g\u{200c}it",
            "a:b",
            ".git.",
            ".git ",
            "a./b",
            " a",
            ".configbutler",
            &"a".repeat(256),
            &"a/".repeat(600),
        ] {
            let error = BaseFolder::parse(bad).unwrap_err().to_string();
            assert!(error.contains("cannot be used as a folder: "), "{error}");
        }
    }

    #[test]
    fn usual_folders_are_taken_as_they_are() {
        for good in [
            "clusters/prod",
            "a",
            "a.b/c-d_e",
            "Production EU",
            ".hidden",
        ] {
            assert_eq!(folder(good).as_str(), good);
        }
        assert_eq!(folder(".").as_str(), "");
    }

    #[test]
    fn equal_and_nested_folders_overlap() {
        assert!(folder("a").overlaps(&folder("a")));
        assert!(folder("a").overlaps(&folder("a/b")));
        assert!(folder("A/b").overlaps(&folder("a")));
        assert!(folder(".").overlaps(&folder("a")));
        assert!(!folder("a").overlaps(&folder("ab")));
        assert!(!folder("a/b").overlaps(&folder("a/c")));
    }
}
