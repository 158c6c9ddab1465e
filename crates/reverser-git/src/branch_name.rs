//! The name of a branch, checked before any process sees it.

use std::fmt;

/// A branch name that Git accepts and that no command line can misread.
///
/// Git's own rules (`git check-ref-format --branch`) and a few more: no leading `-`, no `refs/`
/// prefix, and never `HEAD` or `@`, which mean something else to Git.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BranchName(String);

/// Why a text is not a branch name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("branch {name:?} {problem}; write a plain branch name such as `main` or `release/1.2`")]
pub struct BadBranchName {
    name: String,
    problem: &'static str,
}

/// Longer names do not fit into a lock file's name on common file systems.
const MAX_LEN: usize = 244;

impl BranchName {
    /// Checks `name` without starting a process.
    pub fn parse(name: &str) -> Result<Self, BadBranchName> {
        match problem(name) {
            None => Ok(Self(name.to_owned())),
            Some(problem) => Err(BadBranchName {
                name: name.to_owned(),
                problem,
            }),
        }
    }

    /// The short name, as the user wrote it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The full name of the ref on the remote.
    #[must_use]
    pub fn full_ref(&self) -> String {
        format!("refs/heads/{}", self.0)
    }
}

impl fmt::Display for BranchName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.len() > MAX_LEN {
        return Some("is longer than 244 bytes");
    }
    if name.starts_with('-') {
        return Some("starts with `-`");
    }
    // Git allows it, but in front of a refspec it means "force".
    if name.starts_with('+') {
        return Some("starts with `+`");
    }
    if name.starts_with("refs/") {
        return Some("starts with `refs/`");
    }
    if name == "HEAD" || name == "@" {
        return Some("is a name that Git reserves");
    }
    if name.contains("..") || name.contains("@{") {
        return Some("contains `..` or `@{`");
    }
    if name.ends_with('.') {
        return Some("ends with `.`");
    }
    if let Some(problem) = name.chars().find_map(character_problem) {
        return Some(problem);
    }
    name.split('/').find_map(component_problem)
}

fn character_problem(c: char) -> Option<&'static str> {
    match c {
        '\0'..=' ' | '\x7f'..='\u{9f}' => Some("contains a space or a control character"),
        '~' | '^' | ':' | '?' | '*' | '[' | '\\' => {
            Some("contains one of `~ ^ : ? * [ \\`, which Git forbids")
        }
        _ => None,
    }
}

fn component_problem(component: &str) -> Option<&'static str> {
    if component.is_empty() {
        Some("starts or ends with `/`, or contains `//`")
    } else if component.starts_with('.') {
        Some("has a component that starts with `.`")
    } else if component.to_ascii_lowercase().ends_with(".lock") {
        Some("has a component that ends with `.lock`")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_are_accepted() {
        for good in [
            "main",
            "release/1.2",
            "feature/JIRA-1_x",
            "ü",
            "a.b",
            "c++",
            "x@y",
            "1",
        ] {
            assert_eq!(
                BranchName::parse(good).map(|b| b.to_string()),
                Ok(good.to_owned())
            );
        }
    }

    #[test]
    fn names_that_mislead_git_are_refused_with_a_sentence() {
        let bad = [
            "",
            "-x",
            "HEAD",
            "@",
            "a..b",
            "a.lock",
            "a.LOCK",
            "a.lock/b",
            "+main",
            "main:prod",
            "a\nb",
            "a\0b",
            "a b",
            "refs/heads/main",
            "/main",
            "main/",
            "a//b",
            ".a",
            "a/.b",
            "a.",
            "a@{1}",
            "a~1",
            "a^",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "\u{7f}",
        ];
        for name in bad {
            let error = BranchName::parse(name).expect_err(name).to_string();
            assert!(error.contains("write a plain branch name"), "{error}");
        }
        assert!(BranchName::parse(&"a".repeat(245)).is_err());
    }
}
