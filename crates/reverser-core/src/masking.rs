//! Secrets as people may be shown them: two forms side by side, with values that only tell whether
//! they are the same.

use std::borrow::Cow;

use crate::canon::Manifest;
use crate::value::Value;
use crate::yaml_read;

/// What stands for a value that both forms have.
const SAME: &str = "***";
/// What stands for one that the other form does not have.
const BEFORE: &str = "*** (before)";
/// The same in the second form.
const AFTER: &str = "*** (after)";
/// What stands for a text that cannot be read, and so cannot be masked.
const UNREADABLE: &str = "# A Secret that cannot be read is not shown.\n";

/// Two forms of one Secret without their values.
#[must_use]
pub fn masked(before: &str, after: &str) -> (String, String) {
    let (old, new) = (yaml_read::read(before).ok(), yaml_read::read(after).ok());
    (
        shown(old.clone(), new.as_ref(), BEFORE),
        shown(new, old.as_ref(), AFTER),
    )
}

fn shown(text: Option<Value<'_>>, other: Option<&Value<'_>>, word: &'static str) -> String {
    let Some(Value::Map(mut root)) = text else {
        return UNREADABLE.to_owned();
    };
    for field in ["data", "stringData"] {
        let Some(values) = root.get_mut(field) else {
            continue;
        };
        let there = other.and_then(|other| other.as_map()?.get(field));
        let mark = |value: &mut Value<'_>, there: Option<&Value<'_>>| {
            let mark = if there == Some(&*value) { SAME } else { word };
            *value = Value::String(Cow::Borrowed(mark));
        };
        match values.as_map_mut() {
            Some(values) => {
                for (key, value) in values.values_mut() {
                    mark(value, there.and_then(|there| there.as_map()?.get(key)));
                }
            }
            None => mark(values, there),
        }
    }
    Manifest::as_it_stands(root).to_yaml()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: \
                       aHVudGVyMg==\n  user: Ym90\n";
    const NEW: &str =
        "kind: Secret\ndata:\n  password: b3RoZXI=\n  token: bmV3\n  user: Ym90\napiVersion: v1\n";

    #[test]
    fn values_are_never_shown_and_it_is_seen_which_of_them_differ() {
        let (old, new) = masked(OLD, NEW);
        assert_eq!(
            old,
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\ndata:\n  password: \
             \"*** (before)\"\n  user: \"***\"\n"
        );
        assert_eq!(
            new,
            "apiVersion: v1\nkind: Secret\ndata:\n  password: \"*** (after)\"\n  token: \
             \"*** (after)\"\n  user: \"***\"\n"
        );
    }

    #[test]
    fn what_is_not_understood_is_not_shown_either() {
        for odd in [
            "data: aHVudGVyMg==\n",
            "data:\n- aHVudGVyMg==\n",
            "data:\n  password:\n    below: aHVudGVyMg==\n",
            "aHVudGVyMg==\n",
            "{ aHVudGVyMg==",
        ] {
            let (old, new) = masked(odd, OLD);
            assert!(!old.contains("aHVudGVyMg"), "{old}");
            assert!(!new.contains("aHVudGVyMg"), "{new}");
        }
    }
}
