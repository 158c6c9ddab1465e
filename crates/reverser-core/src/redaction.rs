//! Secrets without their values: each is replaced by a keyed hash.
//!
//! The hash changes when the value does, so that a change is seen in Git, and an unchanged Secret
//! makes no commit. Without the key nobody can try values against it, not even short ones.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use sha2::{Digest, Sha256};

use crate::canon::Manifest;
use crate::value::{Map, Value};

/// Says that the values of a file are none.
pub const REDACTED: &str = "configbutler.ai/redacted";

/// What a redacted file says of itself: that its values are none, and to Argo CD and to kustomize, by
/// which Flux reads, that it is not to be applied. It would put hashes in the place of passwords.
const MARKS: &[(&str, &str)] = &[
    ("argocd.argoproj.io/hook", "Skip"),
    ("config.kubernetes.io/local-config", "true"),
    (REDACTED, "true"),
];

/// SHA-256 works on blocks of this many bytes.
const BLOCK: usize = 64;

/// The key of the hashes. It is never shown.
#[derive(Clone)]
pub struct RedactionKey([u8; 32]);

impl RedactionKey {
    /// From random bytes.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key for another purpose, which tells nothing about this one.
    #[must_use]
    pub fn derive(&self, purpose: &[&str]) -> [u8; 32] {
        // No Secret has such a namespace, so no hash in a file is such a key.
        let parts: Vec<&str> = std::iter::once("\0derived")
            .chain(purpose.iter().copied())
            .collect();
        self.mac(&parts)
    }

    fn hash(&self, parts: &[&str]) -> String {
        let mut text = String::with_capacity(64);
        for byte in self.mac(parts) {
            let _infallible = write!(text, "{byte:02x}");
        }
        text
    }

    /// HMAC-SHA-256 of parts, each with its length, so that no two lists of parts look the same.
    fn mac(&self, parts: &[&str]) -> [u8; 32] {
        let padded = |with: u8| {
            let mut block = [with; BLOCK];
            for (byte, key) in block.iter_mut().zip(self.0) {
                *byte ^= key;
            }
            block
        };
        let mut inner = Sha256::new();
        inner.update(padded(0x36));
        for part in parts {
            inner.update((part.len() as u64).to_be_bytes());
            inner.update(part);
        }
        let mut outer = Sha256::new();
        outer.update(padded(0x5c));
        outer.update(inner.finalize());
        outer.finalize().into()
    }

    /// Replaces the values of a Secret. What stands there afterwards is valid for the API server, so
    /// annotations say that it is nobody's password.
    pub fn redact(&self, manifest: &mut Manifest<'_>) {
        let root = manifest.root_mut();
        let text_at = |path: &[&str]| {
            let found = root.at(path).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let namespace = text_at(&["metadata", "namespace"]);
        let name = text_at(&["metadata", "name"]);
        for field in ["data", "stringData"] {
            let Some(values) = root.get_mut(field).and_then(Value::as_map_mut) else {
                continue;
            };
            for (key, value) in values.values_mut() {
                let hash = self.hash(&[&namespace, &name, key, value.as_str().unwrap_or_default()]);
                *value = Value::String(Cow::Owned(hash));
            }
        }
        let Some(metadata) = root.map_at_mut(&["metadata"]) else {
            return;
        };
        if metadata.get("annotations").is_none() {
            metadata.insert("annotations", Value::Map(Map::default()));
        }
        if let Some(annotations) = metadata.map_at_mut(&["annotations"]) {
            for (name, value) in MARKS {
                annotations.insert(*name, Value::String(Cow::Borrowed(value)));
            }
        }
    }
}

impl fmt::Debug for RedactionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedactionKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canon::canonicalise;
    use crate::object::Object;

    fn redacted(key: u8, value: &str) -> String {
        let json = format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"db","namespace":"shop","uid":"1","resourceVersion":"1"}},
                "data":{{"password":"{value}","user":"{value}"}},"type":"Opaque"}}"#
        );
        let object = Object::from_json(&json, None).unwrap();
        let mut manifest = canonicalise(object);
        RedactionKey::new([key; 32]).redact(&mut manifest);
        manifest.to_yaml()
    }

    #[test]
    fn keys_stay_and_values_go() {
        let text = redacted(1, "aHVudGVyMg==");
        assert!(!text.contains("aHVudGVyMg"), "{text}");
        assert!(text.contains("  password: ") && text.contains("  user: "));
        let marks = "  annotations:\n    argocd.argoproj.io/hook: Skip\n    \
                     config.kubernetes.io/local-config: \"true\"\n    \
                     configbutler.ai/redacted: \"true\"\n";
        assert!(text.contains(marks), "{text}");
    }

    #[test]
    fn the_same_value_gives_the_same_file_and_another_value_or_key_another() {
        assert_eq!(redacted(1, "YQ=="), redacted(1, "YQ=="));
        assert_ne!(redacted(1, "YQ=="), redacted(1, "Yg=="));
        assert_ne!(redacted(1, "YQ=="), redacted(2, "YQ=="));
    }

    #[test]
    fn equal_values_do_not_look_equal() {
        let text = redacted(1, "YQ==");
        let hash = |key: &str| {
            let line = text.lines().find(|line| line.trim().starts_with(key));
            line.and_then(|line| line.split_once(": "))
                .unwrap()
                .1
                .to_owned()
        };
        assert_ne!(hash("password"), hash("user"));
    }

    #[test]
    fn the_hash_is_the_standard_one() {
        // HMAC-SHA-256 of the eight bytes of the length 0, under a key of 32 times 0x0b.
        let standard = RedactionKey::new([0x0b; 32]).hash(&[""]);
        let expected = "fb972cd8050f585c3a5ca7472e20068d1b82bb387c5fcc300553386b6666720c";
        assert_eq!(standard, expected);
        assert!(!format!("{:?}", RedactionKey::new([1; 32])).contains('1'));
    }
}
