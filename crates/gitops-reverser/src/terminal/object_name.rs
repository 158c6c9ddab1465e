//! Which file of a repository a person means by `deployment/web`.

use reverser_core::object_key::{ObjectKey, TypeKey, guess_resource};
use reverser_core::repo_path::RepoPath;
use reverser_git::History;

use super::exit::{Complaint, Exit};
use super::repository::Repository;

/// The short names that people type; a repository has no server to ask.
const SHORT: &[(&str, &str)] = &[
    ("cj", "cronjobs"),
    ("cm", "configmaps"),
    ("crd", "customresourcedefinitions"),
    ("deploy", "deployments"),
    ("ds", "daemonsets"),
    ("ep", "endpoints"),
    ("hpa", "horizontalpodautoscalers"),
    ("ing", "ingresses"),
    ("limits", "limitranges"),
    ("netpol", "networkpolicies"),
    ("ns", "namespaces"),
    ("pc", "priorityclasses"),
    ("pdb", "poddisruptionbudgets"),
    ("po", "pods"),
    ("pv", "persistentvolumes"),
    ("pvc", "persistentvolumeclaims"),
    ("quota", "resourcequotas"),
    ("rs", "replicasets"),
    ("sa", "serviceaccounts"),
    ("sc", "storageclasses"),
    ("sts", "statefulsets"),
    ("svc", "services"),
];

/// An object as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// What its type may be called in paths.
    resources: Vec<String>,
    group: Option<String>,
    name: String,
}

impl ObjectName {
    /// Reads `deployment/web`, `cm/settings` or `widgets.example.com/one`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        if kind.is_empty() || name.is_empty() || name.contains('/') {
            return None;
        }
        let (kind, group) = match kind.split_once('.') {
            Some((kind, group)) => (kind, Some(group.to_owned())),
            None => (kind, None),
        };
        let kind = kind.to_ascii_lowercase();
        let short = SHORT.iter().find(|(short, _)| *short == kind);
        let resources = match short {
            Some((_, resource)) => vec![(*resource).to_owned()],
            None => vec![kind.clone(), guess_resource(&kind)],
        };
        Some(Self {
            resources,
            group,
            name: name.to_owned(),
        })
    }

    /// The one path of the branch's past that this means.
    pub fn find(
        &self,
        history: &History,
        repository: &Repository,
        namespace: Option<&str>,
    ) -> Result<String, Complaint> {
        let patterns = self.patterns(repository.folder.as_str(), namespace);
        let mut paths = history
            .paths(&patterns)
            .map_err(|error| Complaint::new(Exit::RepositoryUnusable, error.to_string()))?;
        let below = |path: &str| -> Option<String> {
            let folder = repository.folder.as_str();
            let rest = path.strip_prefix(folder)?;
            Some(rest.strip_prefix('/').unwrap_or(rest).to_owned())
        };
        paths.retain(|path| {
            let identity = below(path).and_then(|path| RepoPath::parse(&path).ok());
            identity.is_some_and(|identity| {
                let group = self.group.as_deref();
                group.is_none_or(|group| identity.type_key.group() == group)
            })
        });
        match &paths[..] {
            [one] => Ok(one.clone()),
            [] => Err(Complaint::new(
                Exit::NoSuchObject,
                format!(
                    "{} never held {}/{}: check kind, name and -n, and --folder",
                    repository.name(),
                    self.resources[0],
                    self.name
                ),
            )),
            several => Err(Complaint::new(
                Exit::NoSuchObject,
                format!(
                    "{} objects are called so; say which with -n, or with the group as in \
                     deployments.apps/web:\n  {}",
                    several.len(),
                    several.join("\n  ")
                ),
            )),
        }
    }

    /// What Git is asked for, in every version and group.
    fn patterns(&self, folder: &str, namespace: Option<&str>) -> Vec<String> {
        let folder = if folder.is_empty() {
            String::new()
        } else {
            format!("{}/", escaped(folder))
        };
        let mut patterns = Vec::new();
        for resource in &self.resources {
            let file = |namespace: Option<&str>| {
                let key = TypeKey::new("", "v1", resource.as_str()).ok()?;
                let key = ObjectKey::new(key, namespace.map(str::to_owned), &*self.name).ok()?;
                let path = RepoPath::of(&key);
                Some(escaped(path.as_str().strip_prefix("core/v1/")?))
            };
            let ends = match namespace {
                Some(namespace) => vec![file(Some(namespace))],
                // Whatever the namespace: its place is taken by a star.
                None => vec![
                    file(None),
                    file(Some("x")).map(|path| path.replacen("/x/", "/*/", 1)),
                ],
            };
            let ends = ends.into_iter().flatten();
            patterns.extend(ends.map(|end| format!(":(glob){folder}*/*/{end}")));
        }
        patterns
    }
}

/// What Git takes for a pattern, taken for itself.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if "*?[]\\".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_plurals_and_short_names_lead_to_the_same_files() {
        let patterns = |text: &str| {
            let name = ObjectName::parse(text).unwrap();
            name.patterns("prod", Some("shop"))
        };
        let expected = ":(glob)prod/*/*/deployments/shop/web.yaml".to_owned();
        for text in [
            "deployment/web",
            "deployments/web",
            "deploy/web",
            "Deployment/web",
        ] {
            assert!(patterns(text).contains(&expected), "{text}");
        }
        let everywhere = ObjectName::parse("cm/a").unwrap().patterns("", None);
        assert_eq!(
            everywhere,
            [
                ":(glob)*/*/configmaps/a.yaml",
                ":(glob)*/*/configmaps/*/a.yaml"
            ]
        );
        for bad in ["web", "/web", "deployment/", "a/b/c"] {
            assert_eq!(ObjectName::parse(bad), None, "{bad}");
        }
    }
}
