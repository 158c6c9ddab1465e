//! What was said of objects. An object that was deleted and made anew under the same name has heard
//! nothing yet: its uid tells the two apart.

use std::collections::BTreeMap;

pub(super) struct Remembered<K, V>(BTreeMap<K, (Option<String>, V)>);

impl<K: Ord, V> Remembered<K, V> {
    pub(super) const fn nothing() -> Self {
        Self(BTreeMap::new())
    }

    /// What was said of this very object.
    pub(super) fn of(&self, key: &K, uid: Option<&str>) -> Option<&V> {
        let (of, said) = self.0.get(key)?;
        (of.as_deref() == uid).then_some(said)
    }

    pub(super) fn insert(&mut self, key: K, uid: Option<&str>, said: V) {
        self.0.insert(key, (uid.map(str::to_owned), said));
    }

    /// Forgets those that are not there any more.
    pub(super) fn retain(&mut self, keep: impl Fn(&K) -> bool) {
        self.0.retain(|key, _| keep(key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_of_an_object_counts_for_no_other_of_its_name() {
        let mut remembered = Remembered::nothing();
        remembered.insert("rule", Some("one"), "Ready");
        assert_eq!(remembered.of(&"rule", Some("one")), Some(&"Ready"));
        assert_eq!(remembered.of(&"rule", Some("two")), None);
        assert_eq!(remembered.of(&"other", Some("one")), None);
        remembered.insert("rule", Some("two"), "AccessDenied");
        assert_eq!(remembered.of(&"rule", Some("one")), None);
        remembered.retain(|name| *name != "rule");
        assert_eq!(remembered.of(&"rule", Some("two")), None);
    }
}
