//! Types that no rule selects unless it names them.

/// A type as `--discovery-exclude` names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExcludedType {
    resource: String,
    group: Option<String>,
}

impl ExcludedType {
    /// Reads `resource` or `resource.group`. Nothing if it is neither.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (resource, group) = match text.split_once('.') {
            Some((resource, group)) => (resource, Some(group)),
            None => (text, None),
        };
        let is_name = |part: &str| {
            !part.is_empty()
                && part.len() <= 63
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let group_fits = group.is_none_or(|group| group.split('.').all(is_name));
        (is_name(resource) && group_fits).then(|| Self {
            resource: resource.to_owned(),
            group: group.map(str::to_owned),
        })
    }
}

impl std::fmt::Display for ExcludedType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.resource)?;
        self.group
            .as_ref()
            .map_or(Ok(()), |group| write!(f, ".{group}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_with_or_without_its_group_is_a_type() {
        let parts =
            |text| ExcludedType::parse(text).map(|excluded| (excluded.resource, excluded.group));
        assert_eq!(parts("pods"), Some(("pods".into(), None)));
        assert_eq!(
            parts("events.events.k8s.io"),
            Some(("events".into(), Some("events.k8s.io".into())))
        );
        for bad in [
            "",
            "*",
            "Pods",
            "pods/*",
            "pods/log",
            "pods.",
            ".apps",
            "pods..apps",
            "apps/v1",
            "-a",
            "a b",
            "a-",
            "pöds",
        ] {
            assert_eq!(parts(bad), None, "{bad}");
        }
    }
}
