//! Selectors of labels, as Kubernetes defines them.

use std::collections::BTreeMap;

/// Which labels something must have. The default selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector(Vec<Requirement>);

/// One thing that a selector asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// The label has one of these values.
    In(String, Vec<String>),
    /// The label is missing, or has none of these values.
    NotIn(String, Vec<String>),
    /// The label is there.
    Exists(String),
    /// The label is missing.
    DoesNotExist(String),
}

/// A requirement that nobody can read: the selector selects nothing, rather than everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the operator {operator:?} of a label selector is unknown, or does not go with its values: write In, NotIn, Exists or DoesNotExist"
)]
pub struct BadRequirement {
    operator: String,
}

/// Labels, as a map of their own.
pub type Labels = BTreeMap<String, String>;

impl Requirement {
    /// Reads one of `matchExpressions`.
    pub fn parse(key: &str, operator: &str, values: &[String]) -> Result<Self, BadRequirement> {
        let key = key.to_owned();
        match (operator, values) {
            ("In", [_, ..]) => Ok(Self::In(key, values.to_vec())),
            ("NotIn", [_, ..]) => Ok(Self::NotIn(key, values.to_vec())),
            ("Exists", []) => Ok(Self::Exists(key)),
            ("DoesNotExist", []) => Ok(Self::DoesNotExist(key)),
            _ => Err(BadRequirement {
                operator: operator.to_owned(),
            }),
        }
    }

    fn is_met<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        match self {
            Self::In(key, values) => {
                label(key).is_some_and(|value| values.iter().any(|other| other == value))
            }
            Self::NotIn(key, values) => {
                label(key).is_none_or(|value| values.iter().all(|other| other != value))
            }
            Self::Exists(key) => label(key).is_some(),
            Self::DoesNotExist(key) => label(key).is_none(),
        }
    }
}

impl LabelSelector {
    /// A selector that asks all of these.
    #[must_use]
    pub fn all_of(requirements: Vec<Requirement>) -> Self {
        Self(requirements)
    }

    /// Whether something with these labels is selected.
    pub fn selects<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        self.0.iter().all(|requirement| requirement.is_met(&label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(operator: &str, values: &[&str], label: Option<&str>) -> bool {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let requirement = Requirement::parse("tier", operator, &values).unwrap();
        LabelSelector::all_of(vec![requirement])
            .selects(|key| if key == "tier" { label } else { None })
    }

    #[test]
    fn requirements_mean_what_kubernetes_means() {
        assert!(selects("In", &["web", "db"], Some("db")));
        assert!(!selects("In", &["web"], Some("db")));
        assert!(!selects("In", &["web"], None));
        assert!(selects("NotIn", &["web"], Some("db")));
        assert!(selects("NotIn", &["web"], None));
        assert!(!selects("NotIn", &["web"], Some("web")));
        assert!(selects("Exists", &[], Some("")));
        assert!(!selects("Exists", &[], None));
        assert!(selects("DoesNotExist", &[], None));
        assert!(LabelSelector::default().selects(|_| None));
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        assert!(Requirement::parse("a", "Like", &["b".into()]).is_err());
        assert!(Requirement::parse("a", "In", &[]).is_err());
        assert!(Requirement::parse("a", "Exists", &["b".into()]).is_err());
    }
}
