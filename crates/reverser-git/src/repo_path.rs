//! Paths inside a repository. Git itself accepts names that harm whoever checks them out, so every
//! component is checked here.

use std::fmt;

/// Why a text is not a path that may be written to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {path:?} {problem}; {allowed}")]
pub struct BadPath {
    what: &'static str,
    path: String,
    problem: &'static str,
    allowed: &'static str,
}

/// A folder of the repository that a destination owns: relative, normalised, harmless.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FolderPath(String);

impl FolderPath {
    /// Checks `path`; see [`RepoPath::parse`] for the rules of a component. A folder that a forge
    /// runs code from (`.github`, `.gitlab`, `.gitea`, `.forgejo`) is refused as well.
    pub fn parse(path: &str) -> Result<Self, BadPath> {
        match problem(path).or_else(|| forge_problem(path)) {
            None => Ok(Self(path.to_owned())),
            Some(problem) => Err(BadPath {
                what: "folder",
                path: path.to_owned(),
                problem,
                allowed: "write a relative path such as `clusters/prod`",
            }),
        }
    }

    /// The same, with nothing for the root of the repository.
    pub fn or_root(path: &str) -> Result<Self, BadPath> {
        if path.is_empty() {
            return Ok(Self(String::new()));
        }
        Self::parse(path)
    }

    /// The path, without a leading or trailing `/`; empty for the root.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `path` lies in this folder or below it.
    #[must_use]
    pub fn contains(&self, path: &RepoPath) -> bool {
        if self.0.is_empty() {
            return true;
        }
        path.0
            .strip_prefix(self.0.as_str())
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

impl fmt::Display for FolderPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of one file, from the root of the repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(String);

impl RepoPath {
    /// Checks `path`: relative, `/` between components, no component that is empty, `.` or `..`,
    /// longer than 255 bytes, ends in a dot or a space, holds a control character, a backslash or a
    /// character that file systems ignore, or looks like `.git` to any of them.
    pub fn parse(path: &str) -> Result<Self, BadPath> {
        match problem(path) {
            None => Ok(Self(path.to_owned())),
            Some(problem) => Err(BadPath {
                what: "path",
                path: path.to_owned(),
                problem,
                allowed: "a path is relative, with `/` between plain file names",
            }),
        }
    }

    /// The path, from the root of the repository.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Longer paths cannot be checked out on Linux.
const MAX_LEN: usize = 4095;

fn problem(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.len() > MAX_LEN {
        return Some("is longer than 4095 bytes");
    }
    if path.starts_with('/') {
        return Some("is absolute");
    }
    path.split('/').find_map(component_problem)
}

fn component_problem(component: &str) -> Option<&'static str> {
    if component.is_empty() {
        return Some("has an empty component (`//` or a trailing `/`)");
    }
    if component == "." || component == ".." {
        return Some("has a component `.` or `..`");
    }
    if component.len() > 255 {
        return Some("has a component longer than 255 bytes");
    }
    if component.contains('\\') {
        return Some("contains a backslash");
    }
    if component.contains(|c: char| c.is_control() || is_ignorable(c)) {
        return Some("contains a control character or one that file systems ignore");
    }
    if component.ends_with(['.', ' ']) {
        return Some("has a component that ends with a dot or a space");
    }
    let lower = component.to_ascii_lowercase();
    // `git~1` is what `.git` is called in the short names of Windows.
    if lower.starts_with(".git") || lower.starts_with("git~") {
        return Some("has a component that means something to Git (`.git…`, `git~…`)");
    }
    None
}

/// The code points that HFS+ leaves out when it compares names: `.g\u{200c}it` is `.git` there.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

fn forge_problem(path: &str) -> Option<&'static str> {
    // The other forges' folders start with `.git` and are refused already.
    path.split('/')
        .any(|component| component.eq_ignore_ascii_case(".forgejo"))
        .then_some("is a folder that the Git server runs code from")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_paths_are_accepted() {
        for good in [
            "clusters/prod/apps/v1/deployments/shop/web.yaml",
            "a/rbac.authorization.k8s.io/v1/clusterroles/a%3Ab.yaml",
            "a/.configbutler/owner.yaml",
            "üñ/x.yaml",
        ] {
            assert_eq!(
                RepoPath::parse(good).map(|p| p.to_string()),
                Ok(good.to_owned())
            );
        }
    }

    #[test]
    fn folders_that_harm_are_refused_with_a_sentence() {
        let bad = [
            "",
            "..",
            "a/../b",
            ".",
            "/etc",
            "/",
            "a/",
            "a//b",
            ".git",
            ".git/hooks",
            ".GIT",
            "a/.Git/x",
            "git~1",
            "GIT~1/x",
            ".gitmodules",
            "a\\b",
            "..\\x",
            ".github/workflows",
            ".gitlab",
            ".gitea",
            ".forgejo/workflows",
            "x/.Forgejo",
            "a\nb",
            "a\0b",
            ".g\u{200c}it",
            "a./b",
            "a /b",
        ];
        for path in bad {
            let error = FolderPath::parse(path).expect_err(path).to_string();
            assert!(error.contains("write a relative path"), "{error}");
        }
        assert!(FolderPath::parse(&"a".repeat(256)).is_err());
        assert!(FolderPath::parse(&"a/".repeat(2100)).is_err());
    }

    #[test]
    fn a_folder_contains_only_what_is_below_it() {
        let folder = FolderPath::parse("clusters/prod").unwrap();
        let inside = |path| folder.contains(&RepoPath::parse(path).unwrap());
        assert!(inside("clusters/prod/a.yaml"));
        assert!(!inside("clusters/prod"));
        assert!(!inside("clusters/production/a.yaml"));
        assert!(!inside("clusters/a.yaml"));
        let root = FolderPath::or_root("").unwrap();
        assert!(root.contains(&RepoPath::parse("a.yaml").unwrap()));
        assert!(FolderPath::or_root("..").is_err());
    }
}
