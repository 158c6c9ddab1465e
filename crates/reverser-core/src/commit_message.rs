//! What commits say.

use std::fmt::Write as _;

use crate::author::escaped;
use crate::plan::{Delete, Put};
use crate::repo_path::{PathName, RepoPath};

/// So many files are named in a message; a first mirror may have tens of thousands.
const LISTED_FILES: usize = 100;

/// Which installation writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The uid of the namespace `kube-system`, which stands for the cluster.
    pub cluster_uid: String,
    /// The namespace of the operator.
    pub controller_namespace: String,
    /// The name of the operator.
    pub controller_name: String,
    /// The same for all replicas of an installation.
    pub instance_id: String,
}

/// How it is known who made a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribution {
    /// A record of admission is of this very change.
    Exact,
    /// Several changes were seen as one, and all of them are by the same user.
    Coalesced,
    /// It is known, but the server does not take that author.
    Fallback,
    /// Nobody in particular: the branch was brought in line with the cluster.
    Reconcile,
    /// It is not known.
    Unknown,
}

impl Attribution {
    fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Coalesced => "coalesced",
            Self::Fallback => "fallback",
            Self::Reconcile => "reconcile",
            Self::Unknown => "unknown",
        }
    }
}

/// What the last lines of a message say about who made its changes. The names are raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributed<'a> {
    /// How it is known.
    pub how: Attribution,
    /// Who it is, if it is known.
    pub user: Option<&'a str>,
    /// On whose behalf a controller deleted something.
    pub behalf: Option<&'a str>,
    /// The name that the client gave itself, where nothing better is known.
    pub manager: Option<&'a str>,
}

impl Attributed<'_> {
    /// Nobody is known.
    #[must_use]
    pub fn nobody(how: Attribution) -> Self {
        Self {
            how,
            user: None,
            behalf: None,
            manager: None,
        }
    }
}

/// What stands for a user who is not known.
const UNKNOWN: &str = "unknown";

/// The message of a commit.
#[must_use]
pub fn message(
    prefix: Option<&str>,
    puts: &[Put],
    deletes: &[Delete],
    first_mirror: bool,
    attributed: &Attributed<'_>,
    installation: &Installation,
) -> String {
    let mut message = String::new();
    if let Some(prefix) = prefix {
        let _infallible = write!(message, "{prefix} ");
    }
    message.push_str(&subject(puts, deletes, first_mirror));
    message.push_str("\n\n");
    list_files(&mut message, puts, deletes);
    message.push('\n');
    let Installation {
        cluster_uid,
        controller_namespace,
        controller_name,
        instance_id,
    } = installation;
    let Attributed {
        how,
        user,
        behalf,
        manager,
    } = *attributed;
    let user = user.map_or_else(|| UNKNOWN.to_owned(), escaped_user);
    let trailers = [
        ("ClusterUID", Some(cluster_uid.clone())),
        ("ControllerNS", Some(controller_namespace.clone())),
        ("ControllerName", Some(controller_name.clone())),
        ("InstanceID", Some(instance_id.clone())),
        ("User", Some(user)),
        ("Attribution", Some(how.as_str().to_owned())),
        ("OnBehalfOf", behalf.map(escaped_user)),
        ("FieldManager", manager.map(escaped)),
    ];
    for (name, value) in trailers {
        if let Some(value) = value {
            let _infallible = writeln!(message, "X-ConfigButler-{name}: {value}");
        }
    }
    message
}

/// Somebody may be called like the word for nobody.
fn escaped_user(raw: &str) -> String {
    match raw {
        UNKNOWN => "%75nknown".to_owned(),
        raw => escaped(raw),
    }
}

fn subject(puts: &[Put], deletes: &[Delete], first_mirror: bool) -> String {
    if first_mirror && deletes.is_empty() && puts.len() > 1 {
        return format!("Mirror {} objects", puts.len());
    }
    let created = puts.iter().filter(|put| put.replaces.is_none()).count();
    let counts = [
        ("create", created),
        ("update", puts.len() - created),
        ("delete", deletes.len()),
    ];
    let paths = || {
        puts.iter()
            .map(|put| &put.path)
            .chain(deletes.iter().map(Delete::path))
    };
    let mut done = counts.iter().filter(|(_, count)| *count > 0);
    match (done.next(), done.next()) {
        (Some((verb, 1)), None) => {
            let what = paths().next().map(describe).unwrap_or_default();
            format!("{} {what}", capitalised(verb))
        }
        (Some((verb, count)), None) => {
            format!(
                "{} {count} objects{}",
                capitalised(verb),
                in_namespace(paths())
            )
        }
        _ => {
            let parts: Vec<String> = counts
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(verb, count)| format!("{verb} {count}"))
                .collect();
            format!(
                "{} objects{}",
                capitalised(&parts.join(", ")),
                in_namespace(paths())
            )
        }
    }
}

/// What a person calls the object of a file: `shop/web (deployments.apps)`.
#[must_use]
pub fn describe(path: &RepoPath) -> String {
    let Ok(identity) = RepoPath::parse(path.as_str()) else {
        return path.to_string();
    };
    let mut text = String::new();
    if let Some(namespace) = &identity.namespace {
        let _infallible = write!(text, "{namespace}/");
    }
    match &identity.name {
        PathName::Whole(name) => text.push_str(&escaped(name)),
        PathName::Cut { prefix, .. } => {
            let beginning: String = prefix.chars().take(60).collect();
            text.push_str(&escaped(&beginning));
            text.push('…');
        }
    }
    let (group, resource) = (identity.type_key.group(), identity.type_key.resource());
    let dot = if group.is_empty() { "" } else { "." };
    let _infallible = write!(text, " ({resource}{dot}{group})");
    text
}

/// ` in shop`, if all objects are in that one namespace.
fn in_namespace<'p>(paths: impl Iterator<Item = &'p RepoPath>) -> String {
    let mut namespaces = paths.map(|path| {
        RepoPath::parse(path.as_str())
            .ok()
            .and_then(|identity| identity.namespace)
    });
    match namespaces.next() {
        Some(Some(first)) if namespaces.all(|other| other.as_ref() == Some(&first)) => {
            format!(" in {first}")
        }
        _ => String::new(),
    }
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(chars).collect()
    })
}

fn list_files(message: &mut String, puts: &[Put], deletes: &[Delete]) {
    let written = puts.iter().map(|put| {
        (
            if put.replaces.is_none() {
                "create"
            } else {
                "update"
            },
            &put.path,
        )
    });
    let removed = deletes.iter().map(|delete| ("delete", delete.path()));
    for (verb, path) in written.chain(removed).take(LISTED_FILES) {
        let _infallible = writeln!(message, "{verb} {path}");
    }
    let more = (puts.len() + deletes.len()).saturating_sub(LISTED_FILES);
    if more > 0 {
        let _infallible = writeln!(message, "… and {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blob_id::BlobId;
    use crate::object_key::{ObjectKey, TypeKey};

    fn put(name: &str, namespace: Option<&str>, replaces: bool) -> Put {
        let type_key = TypeKey::new("apps", "v1", "deployments").unwrap();
        let key = ObjectKey::new(type_key, namespace.map(Into::into), name).unwrap();
        let blob = BlobId::of(b"");
        Put {
            path: RepoPath::of(&key),
            blob,
            replaces: replaces.then_some(blob),
        }
    }

    fn subject_of(puts: &[Put], first_mirror: bool) -> String {
        subject(puts, &[], first_mirror)
    }

    #[test]
    fn the_subject_says_what_changed() {
        let web = put("web", Some("shop"), true);
        let api = put("api", Some("shop"), true);
        let new = put("new", Some("shop"), false);
        let role = put("a\nb", None, false);
        assert_eq!(
            subject_of(std::slice::from_ref(&web), false),
            "Update shop/web (deployments.apps)"
        );
        assert_eq!(
            subject_of(std::slice::from_ref(&role), false),
            "Create a%0Ab (deployments.apps)"
        );
        assert_eq!(
            subject_of(&[web.clone(), api.clone()], false),
            "Update 2 objects in shop"
        );
        assert_eq!(
            subject_of(&[web.clone(), new.clone()], false),
            "Create 1, update 1 objects in shop"
        );
        assert_eq!(
            subject_of(&[web, role], false),
            "Create 1, update 1 objects"
        );
        assert_eq!(subject_of(&[new.clone(), api], true), "Mirror 2 objects");
    }

    #[test]
    fn the_message_lists_files_and_ends_in_trailers() {
        let installation = Installation {
            cluster_uid: "c".into(),
            controller_namespace: "n".into(),
            controller_name: "r".into(),
            instance_id: "i".into(),
        };
        let puts: Vec<Put> = (0..120)
            .map(|index| put(&format!("w{index}"), Some("shop"), false))
            .collect();
        let message = message(
            Some("[prod]"),
            &puts,
            &[],
            false,
            &Attributed::nobody(Attribution::Reconcile),
            &installation,
        );
        assert!(
            message.starts_with("[prod] Create 120 objects in shop\n\ncreate apps/v1/"),
            "{message}"
        );
        assert!(
            message.contains("\n… and 20 more\n\nX-ConfigButler-ClusterUID: c\n"),
            "{message}"
        );
        assert!(
            message.ends_with("X-ConfigButler-Attribution: reconcile\n"),
            "{message}"
        );
    }

    #[test]
    fn the_last_lines_name_people_and_no_name_adds_a_line() {
        let installation = Installation {
            cluster_uid: "c".into(),
            controller_namespace: "n".into(),
            controller_name: "r".into(),
            instance_id: "i".into(),
        };
        let lines = |attributed: Attributed<'_>| {
            let web = put("[skip ci]", None, true);
            let message = message(None, &[web], &[], false, &attributed, &installation);
            assert!(!message.contains("[skip ci]"), "{message}");
            let lines = message
                .lines()
                .skip_while(|line| !line.contains("InstanceID"));
            lines.skip(1).collect::<Vec<_>>().join("|")
        };
        let evil = "x\nCo-authored-by: ceo <ceo@corp.com> [skip ci]";
        let escaped = "x%0ACo-authored-by: ceo %3Cceo@corp.com%3E %5Bskip ci%5D";
        let exact = Attributed {
            how: Attribution::Exact,
            user: Some(evil),
            behalf: Some("alice"),
            manager: None,
        };
        assert_eq!(
            lines(exact),
            format!(
                "X-ConfigButler-User: {escaped}|X-ConfigButler-Attribution: exact|\
                 X-ConfigButler-OnBehalfOf: alice"
            )
        );
        let unknown = Attributed {
            manager: Some(evil),
            ..Attributed::nobody(Attribution::Unknown)
        };
        assert_eq!(
            lines(unknown),
            format!(
                "X-ConfigButler-User: unknown|X-ConfigButler-Attribution: unknown|\
                 X-ConfigButler-FieldManager: {escaped}"
            )
        );
        let named_so = Attributed {
            user: Some("unknown"),
            ..exact
        };
        assert!(lines(named_so).starts_with("X-ConfigButler-User: %75nknown|"));
    }
}
