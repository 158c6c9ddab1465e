//! The rules that make a live object a manifest that a person could have written.
//!
//! A deny-list: what no rule names stays, so kinds and fields that nobody here has heard of
//! survive. The rules are one table, [`RULES`]; each says what it removes and why, and carries the
//! example that its test runs and that the reference in `docs/` shows.

mod account;
mod annotations;
mod field_owners;
mod metadata;
mod network;
mod reference;
mod registration;
mod storage;
mod workload;

use std::borrow::Cow;
use std::cell::OnceCell;

pub use reference::reference_markdown;

use self::field_owners::FieldOwners;
use crate::blob_id::BlobId;
use crate::manifest_yaml::{write_map, write_ordered_entry};
use crate::object::{ManagedFields, Object, replicas_in};
use crate::value::{Map, Value};
use crate::yaml_read;

/// One rule of the canonical form.
pub struct Rule {
    /// Short, in kebab case.
    pub name: &'static str,
    /// Which objects it looks at.
    pub applies_to: AppliesTo,
    /// What it takes out, in a few words.
    pub removes: &'static str,
    /// Why nobody will miss it.
    pub reason: &'static str,
    /// A live object, as YAML.
    pub before: &'static str,
    /// What this rule alone makes of it.
    pub after: &'static str,
    apply: fn(&mut Draft<'_>),
}

/// The objects that a rule looks at.
#[derive(Clone, Copy)]
pub enum AppliesTo {
    /// Every object.
    Every,
    /// Objects of these kinds, each with its API group.
    Kinds(&'static [(&'static str, &'static str)]),
}

/// Every rule, in the order in which they are applied: a rule that asks an annotation comes before
/// the rule that removes it.
pub const RULES: &[&Rule] = &[
    &network::CLUSTER_IP,
    &network::NODE_PORT,
    &network::HEALTH_CHECK_NODE_PORT,
    &network::IP_FAMILIES,
    &storage::BOUND_VOLUME,
    &storage::CLAIM_REFERENCE,
    &storage::CLAIM_TEMPLATE_STATUS,
    &workload::AUTOSCALED_REPLICAS,
    &workload::JOB_LABELS,
    &workload::JOB_SELECTOR,
    &workload::POD_NODE,
    &workload::POD_TOKEN_VOLUME,
    &workload::POD_EPHEMERAL_CONTAINERS,
    &workload::POD_CLASS_VALUES,
    &workload::SERVICE_ACCOUNT_ALIAS,
    &registration::INJECTED_CA_BUNDLE,
    &registration::AGGREGATED_RULES,
    &registration::NULL_RULES,
    &account::GENERATED_SECRETS,
    &account::TOKEN,
    &account::REQUESTER,
    &registration::NAMESPACE_FINALIZERS,
    &registration::NAMESPACE_NAME_LABEL,
    &registration::NODE_STATE_TAINTS,
    &annotations::LAST_APPLIED,
    &annotations::CONTROLLER_NOTES,
    &metadata::SERVER_FIELDS,
    &metadata::DELETION,
    &metadata::GENERATE_NAME,
    &metadata::OWNER_REFERENCES,
    &metadata::CONTROLLER_FINALIZERS,
    &metadata::TEMPLATE_TIMESTAMP,
    &metadata::STATUS,
];

/// An object in its canonical form: the only thing that is ever written to Git.
#[derive(Clone, PartialEq)]
pub struct Manifest<'a>(Map<'a>);

/// The object while the rules work on it.
struct Draft<'a> {
    root: Map<'a>,
    managed_fields: ManagedFields<'a>,
    owners: OnceCell<FieldOwners<'a>>,
}

/// The canonical form of an object.
#[must_use]
pub fn canonicalise(object: Object<'_>) -> Manifest<'_> {
    let mut draft = Draft::new(object);
    for rule in rules_for(&draft.root) {
        (rule.apply)(&mut draft);
    }
    Manifest(draft.root)
}

/// The rules that change an object, in the order in which they do.
#[must_use]
pub fn rules_that_change(object: Object<'_>) -> Vec<&'static Rule> {
    let mut draft = Draft::new(object);
    let mut changing = Vec::new();
    for rule in rules_for(&draft.root) {
        let before = draft.root.clone();
        (rule.apply)(&mut draft);
        if draft.root != before {
            changing.push(rule);
        }
    }
    changing
}

/// The rules that look at an object. What kind it is, no rule changes.
fn rules_for<'a>(root: &Map<'a>) -> impl Iterator<Item = &'static Rule> + use<'a> {
    let text = |key| match root.get(key) {
        Some(Value::String(text)) => text.clone(),
        _ => Cow::default(),
    };
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let rules = RULES.iter().copied();
    rules.filter(move |rule| {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        rule.applies_to.includes(group, &kind)
    })
}

impl AppliesTo {
    fn includes(self, group: &str, kind: &str) -> bool {
        match self {
            Self::Every => true,
            Self::Kinds(kinds) => kinds.contains(&(group, kind)),
        }
    }
}

impl<'a> Draft<'a> {
    fn new(
        Object {
            root,
            managed_fields,
        }: Object<'a>,
    ) -> Self {
        Self {
            root,
            managed_fields,
            owners: OnceCell::new(),
        }
    }

    /// Whether the server may have chosen this field: nobody is known to have set it, and the object
    /// comes from a server. A manifest without a uid never met one.
    fn server_chose(&self, path: &[&str]) -> bool {
        self.comes_from_server() && !self.owners().any_set(path)
    }

    fn comes_from_server(&self) -> bool {
        self.root.at(&["metadata", "uid"]).is_some()
    }

    /// Who set which field; read when the first rule asks.
    fn owners(&self) -> &FieldOwners<'a> {
        self.owners
            .get_or_init(|| FieldOwners::read(&self.managed_fields))
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.root.at(&["metadata", "annotations", key])?.as_str()
    }

    /// Removes entries of a map somewhere in the object, and the map itself if nothing is left.
    /// A map that was empty before stays: somebody may have meant it.
    fn prune(&mut self, path: &[&str], mut unwanted: impl FnMut(&str, &Value<'_>) -> bool) {
        let Some((last, parents)) = path.split_last() else {
            return;
        };
        let Some(parent) = self.root.map_at_mut(parents) else {
            return;
        };
        let Some(map) = parent.get_mut(last).and_then(Value::as_map_mut) else {
            return;
        };
        if map.retain(|key, value| !unwanted(key, value)) && map.is_empty() {
            parent.remove(last);
        }
    }

    /// Removes a field of the spec, unless somebody is known to have set it.
    fn remove_if_server_chose(&mut self, field: &str) {
        let path = ["spec", field];
        if self.root.at(&path).is_some() && self.server_chose(&path) {
            self.remove(&["spec"], field);
        }
    }

    /// Removes items of a list somewhere in the object, and the list itself if nothing is left.
    fn prune_list(&mut self, parents: &[&str], field: &str, unwanted: impl Fn(&Value<'_>) -> bool) {
        let Some(parent) = self.root.map_at_mut(parents) else {
            return;
        };
        let Some(list) = parent.get_mut(field).and_then(Value::as_list_mut) else {
            return;
        };
        let before = list.len();
        list.retain(|item| !unwanted(item));
        if list.is_empty() && before > 0 {
            parent.remove(field);
        }
    }

    /// Removes one field somewhere in the object.
    fn remove(&mut self, parents: &[&str], field: &str) {
        if let Some(parent) = self.root.map_at_mut(parents) {
            parent.remove(field);
        }
    }
}

impl<'a> Manifest<'a> {
    /// What a file says, with nothing taken away.
    pub(crate) fn as_it_stands(root: Map<'a>) -> Self {
        Self(root)
    }

    pub(crate) fn root_mut(&mut self) -> &mut Map<'a> {
        &mut self.0
    }
}

impl Manifest<'_> {
    /// Whether it is a Secret, whose values not everybody should see.
    #[must_use]
    pub fn is_secret(&self) -> bool {
        self.0.text("kind") == Some("Secret") && self.0.text("apiVersion") == Some("v1")
    }

    /// The file's content.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        let mut out = String::with_capacity(2048);
        self.write_yaml(&mut out);
        out
    }

    /// Appends the file's content, so that one buffer can serve many objects.
    pub fn write_yaml(&self, out: &mut String) {
        const FIRST: &[&str] = &["apiVersion", "kind", "metadata", "spec", "data"];
        const FIRST_OF_METADATA: &[&str] = &["name", "namespace", "labels", "annotations"];
        for (key, value) in in_order(&self.0, FIRST) {
            match value {
                Value::Map(metadata) if key == "metadata" && !metadata.is_empty() => {
                    write_ordered_entry(out, key, in_order(metadata, FIRST_OF_METADATA));
                }
                value => write_map(out, std::iter::once((key, value)), 0),
            }
        }
    }

    /// How many replicas it asks for, if it has any such number.
    #[must_use]
    pub fn replicas(&self) -> Option<i64> {
        replicas_in(&self.0)
    }

    /// The id of the same manifest with another number of replicas, or without one.
    #[must_use]
    pub fn blob_id_with_replicas(&self, replicas: Option<i64>) -> BlobId {
        let mut other = self.clone();
        if let Some(spec) = other.0.map_at_mut(&["spec"]) {
            match replicas {
                Some(replicas) => spec.insert("replicas", Value::Number(replicas.into())),
                None => {
                    spec.remove("replicas");
                }
            }
        }
        other.blob_id()
    }

    /// The id that Git gives to the file's content: equal for equal content, and for nothing else.
    #[must_use]
    pub fn blob_id(&self) -> BlobId {
        BlobId::of(self.to_yaml().as_bytes())
    }
}

/// Whether two files say the same, in whatever form: with comments, in another order, with other
/// quotes. A file that cannot be read says nothing.
#[must_use]
pub fn say_the_same(one: &str, other: &str) -> bool {
    match (yaml_read::read(one), yaml_read::read(other)) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

/// The entries of a map: the named keys first, then the others in the order of their names.
fn in_order<'m, 'a>(
    map: &'m Map<'a>,
    first: &'static [&'static str],
) -> impl Iterator<Item = (&'m str, &'m Value<'a>)> {
    let named = first
        .iter()
        .filter_map(|key| map.get(key).map(|value| (*key, value)));
    named.chain(map.iter().filter(|(key, _)| !first.contains(key)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest_yaml::to_yaml;

    /// What one rule alone makes of an object.
    fn apply_alone(rule: &Rule, yaml: &'static str) -> String {
        let value = yaml_read::read(yaml).unwrap_or_else(|error| panic!("{}: {error}", rule.name));
        let mut draft = Draft::new(Object::from_value(value, None).unwrap());
        let mut applying = rules_for(&draft.root);
        let applies = applying.any(|other| other.name == rule.name);
        assert!(applies, "{} does not apply", rule.name);
        (rule.apply)(&mut draft);
        to_yaml(&Value::Map(draft.root))
    }

    #[test]
    fn every_rule_does_what_its_example_shows() {
        for rule in RULES {
            let after = to_yaml(&yaml_read::read(rule.after).unwrap());
            assert_eq!(apply_alone(rule, rule.before), after, "rule {}", rule.name);
        }
    }

    #[test]
    fn what_is_canonical_stays_as_it_is() {
        for rule in RULES {
            let canonical = |yaml: &str| {
                let object = Object::from_value(yaml_read::read(yaml).unwrap(), None).unwrap();
                canonicalise(object).to_yaml()
            };
            let once = canonical(rule.before);
            assert_eq!(canonical(&once), once, "rule {}", rule.name);
        }
    }

    #[test]
    fn the_order_is_fixed_and_unknown_fields_survive() {
        let json = r#"{"zeta":{"b":1,"a":{}},"data":{"k":"v"},"spec":{"podSelector":{}},
            "metadata":{"finalizers":["x"],"annotations":{"b":"1"},"labels":{"a":"1"},"namespace":"ns",
            "name":"x","uid":"u"},"kind":"Thing","apiVersion":"example.com/v1","alpha":[null]}"#;
        let manifest = canonicalise(Object::from_json(json, None).unwrap());
        assert_eq!(
            manifest.to_yaml(),
            "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: x\n  namespace: ns\n  \
             labels:\n    a: \"1\"\n  annotations:\n    b: \"1\"\n  finalizers:\n  - x\nspec:\n  \
             podSelector: {}\ndata:\n  k: v\nalpha:\n- null\nzeta:\n  a: {}\n  b: 1\n"
        );
    }

    #[test]
    fn a_file_that_differs_only_in_form_says_the_same() {
        let json =
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"on":"1"}}"#;
        let manifest = canonicalise(Object::from_json(json, None).unwrap());
        let yaml = manifest.to_yaml();
        assert!(say_the_same(&yaml, &yaml));
        let other_form = "# by hand\nkind: 'ConfigMap'\ndata: {\"on\": '1'}\nmetadata: {name: a}\napiVersion: v1\n";
        assert!(say_the_same(&yaml, other_form));
        for different in [
            other_form.replace("'1'", "'2'"),
            other_form.replace("'1'", "1"),
            other_form.replace("\"on\"", "on"),
            format!("{other_form}---\na: b\n"),
            format!("{other_form}status: {{}}\n"),
            "][".to_owned(),
        ] {
            assert!(!say_the_same(&yaml, &different), "{different}");
        }
    }
}
