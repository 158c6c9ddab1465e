//! What a destination leaves out of its files: values that controllers keep changing.

use crate::canon::Manifest;
use crate::value::{Map, Value};

/// What is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ignored {
    /// Keys of annotations, or `prefix/*`.
    pub annotations: Vec<String>,
    /// Keys of labels, or `prefix/*`.
    pub labels: Vec<String>,
    /// Other fields.
    pub fields: Vec<IgnoredField>,
}

/// A field that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// The keys that lead to it.
    pub path: Vec<String>,
    /// The kind and group whose field it is; nothing for every kind.
    pub kind: Option<(String, String)>,
}

impl IgnoredField {
    /// From a JSON pointer, and a kind such as `Deployment.apps`.
    #[must_use]
    pub fn new(pointer: &str, kind: Option<&str>) -> Self {
        let parts = pointer.split('/').skip(1);
        let path = parts
            .map(|part| part.replace("~1", "/").replace("~0", "~"))
            .collect();
        let kind = kind.map(|kind| match kind.split_once('.') {
            Some((kind, group)) => (kind.to_owned(), group.to_owned()),
            None => (kind.to_owned(), String::new()),
        });
        Self { path, kind }
    }
}

impl Ignored {
    /// Whether nothing is left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty() && self.fields.is_empty()
    }

    /// Takes it out of a manifest.
    pub fn remove_from(&self, manifest: &mut Manifest<'_>) {
        let root = manifest.root_mut();
        for (map, patterns) in [("annotations", &self.annotations), ("labels", &self.labels)] {
            if patterns.is_empty() {
                continue;
            }
            let Some(metadata) = root.map_at_mut(&["metadata"]) else {
                continue;
            };
            let Some(entries) = metadata.get_mut(map).and_then(Value::as_map_mut) else {
                continue;
            };
            let ignored = |key: &str| patterns.iter().any(|pattern| matches(pattern, key));
            if entries.retain(|key, _| !ignored(key)) && entries.is_empty() {
                metadata.remove(map);
            }
        }
        // From the back, so that a place in a list still means what it meant.
        let mut fields: Vec<&IgnoredField> = self.fields.iter().collect();
        fields.sort_by(|one, other| natural(&other.path).cmp(&natural(&one.path)));
        for field in fields {
            if field.kind.as_ref().is_none_or(|kind| is_kind(root, kind)) {
                remove(root, &field.path);
            }
        }
    }
}

/// Places in lists by number, so that the tenth comes after the ninth.
fn natural(path: &[String]) -> Vec<(usize, &str)> {
    path.iter()
        .map(|part| (part.parse().unwrap_or(0), part.as_str()))
        .collect()
}

fn matches(pattern: &str, key: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => key.starts_with(prefix),
        None => key == pattern,
    }
}

fn is_kind(root: &Map<'_>, (kind, group): &(String, String)) -> bool {
    let api_version = root.text("apiVersion").unwrap_or_default();
    let actual = api_version.split_once('/').map_or("", |(group, _)| group);
    root.text("kind") == Some(kind) && actual == group
}

/// Removes what a path of keys, or of places in lists, leads to.
fn remove(map: &mut Map<'_>, path: &[String]) {
    let Some((first, rest)) = path.split_first() else {
        return;
    };
    if rest.is_empty() {
        map.remove(first);
        return;
    }
    if let Some(value) = map.get_mut(first) {
        remove_below(value, rest);
    }
}

fn remove_below(value: &mut Value<'_>, path: &[String]) {
    match value {
        Value::Map(map) => remove(map, path),
        Value::List(list) => {
            let Some((first, rest)) = path.split_first() else {
                return;
            };
            let Some(index) = first
                .parse::<usize>()
                .ok()
                .filter(|index| *index < list.len())
            else {
                return;
            };
            if rest.is_empty() {
                list.remove(index);
            } else {
                remove_below(&mut list[index], rest);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::canonicalise;
    use crate::object::Object;
    use crate::yaml_read;

    const LIVE: &str = "
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  annotations: {example.com/a: '1', example.com/b: '2', other: '3'}
  labels: {app: web}
spec:
  replicas: 3
  template: {spec: {containers: [{image: a}, {image: b}]}}
";

    fn without(ignored: &Ignored) -> String {
        let object = Object::from_value(yaml_read::read(LIVE).unwrap(), None).unwrap();
        let mut manifest = canonicalise(object);
        ignored.remove_from(&mut manifest);
        manifest.to_yaml()
    }

    #[test]
    fn annotations_labels_and_fields_are_left_out() {
        let yaml = without(&Ignored {
            annotations: vec!["example.com/*".into()],
            labels: vec!["app".into()],
            fields: vec![
                IgnoredField::new("/spec/replicas", Some("Deployment.apps")),
                IgnoredField::new("/spec/template/spec/containers/1/image", None),
            ],
        });
        assert_eq!(
            yaml,
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  annotations:\n    \
             other: \"3\"\nspec:\n  template:\n    spec:\n      containers:\n      - image: a\n      - {}\n"
        );
    }

    #[test]
    fn several_places_of_one_list_are_those_of_the_whole_list() {
        let places = ["0", "1"].map(|place| {
            IgnoredField::new(&format!("/spec/template/spec/containers/{place}"), None)
        });
        let ignored = Ignored {
            fields: places.into(),
            ..Ignored::default()
        };
        assert!(
            without(&ignored).ends_with("containers: []\n"),
            "{}",
            without(&ignored)
        );
    }

    #[test]
    fn what_does_not_fit_is_left_alone() {
        let fields = [
            IgnoredField::new("/spec/replicas", Some("StatefulSet.apps")),
            IgnoredField::new("/spec/replicas", Some("Deployment")),
            IgnoredField::new("/spec/nothing/below", None),
            IgnoredField::new("/spec/template/spec/containers/9", None),
            IgnoredField::new("", None),
        ];
        let ignored = Ignored {
            fields: fields.into(),
            ..Ignored::default()
        };
        assert_eq!(without(&ignored), without(&Ignored::default()));
    }
}
