//! Records as the store sees them: sealed, so that whoever reads the store learns nothing, and whoever
//! writes to it names nobody.
//!
//! A record holds hashes of objects, Secrets among them, which somebody could try short values
//! against. Every process seals with a key of its own, made from the key of the installation and a
//! number that stands beside the record, so that no number that must be used once is used twice.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use reverser_core::admission_record::AdmissionRecord;
use reverser_core::redaction::RedactionKey;

/// What the key of the installation is used for here.
const PURPOSE: &str = "attribution store";

/// Seals for one process, and opens what all of the installation have sealed.
pub(super) struct Sealer {
    installation: RedactionKey,
    instance_id: String,
    process: String,
    own: RandomizedNonceKey,
}

impl Sealer {
    pub(super) fn new(installation: RedactionKey, instance_id: &str, process: &str) -> Self {
        let own = key_of(&installation, instance_id, process);
        Self {
            installation,
            instance_id: instance_id.to_owned(),
            process: process.to_owned(),
            own,
        }
    }

    /// Who seals here.
    pub(super) fn process(&self) -> &str {
        &self.process
    }

    /// Nothing if it cannot be sealed, which nobody has seen.
    pub(super) fn seal(&self, record: &AdmissionRecord) -> Option<Vec<u8>> {
        let mut bytes = serde_json::to_vec(record).ok()?;
        let sealed = self
            .own
            .seal_in_place_append_tag(Aad::empty(), &mut bytes)
            .ok()?;
        bytes.extend_from_slice(sealed.as_ref());
        Some(bytes)
    }

    /// Nothing for what nobody of this installation has sealed.
    pub(super) fn open(&self, process: &str, sealed: &[u8]) -> Option<AdmissionRecord> {
        let (bytes, nonce) = sealed.split_last_chunk::<NONCE_LEN>()?;
        let mut bytes = bytes.to_vec();
        let key = key_of(&self.installation, &self.instance_id, process);
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = key.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
        serde_json::from_slice(plain).ok()
    }
}

fn key_of(installation: &RedactionKey, instance_id: &str, process: &str) -> RandomizedNonceKey {
    let key = installation.derive(&[PURPOSE, instance_id, process]);
    RandomizedNonceKey::new(&AES_256_GCM, &key).expect("the key is as long as the cipher wants it")
}

#[cfg(test)]
mod tests {
    use reverser_core::admission_record::{AdmittedChange, Requester};
    use reverser_core::object_key::TypeKey;

    use super::*;

    fn sealer(key: u8, instance_id: &str, process: &str) -> Sealer {
        Sealer::new(RedactionKey::new([key; 32]), instance_id, process)
    }

    #[test]
    fn only_the_installation_can_seal_and_open() {
        let record = AdmissionRecord {
            type_key: TypeKey::new("", "v1", "secrets").unwrap(),
            namespace: Some("shop".to_owned()),
            name: "database".to_owned(),
            uid: "1".to_owned(),
            change: AdmittedChange::Delete {
                version: "1".to_owned(),
            },
            user: Requester::new("alice"),
        };
        let first = sealer(1, "main", "a");
        let sealed = first.seal(&record).unwrap();
        let shown = String::from_utf8_lossy(&sealed);
        assert!(!shown.contains("alice") && !shown.contains("database"));
        assert_ne!(sealed, first.seal(&record).unwrap());
        let second = sealer(1, "main", "b");
        assert_eq!(second.open("a", &sealed), Some(record));
        assert_eq!(second.open("b", &sealed), None, "of another process");
        assert_eq!(sealer(1, "other", "a").open("a", &sealed), None);
        assert_eq!(sealer(2, "main", "a").open("a", &sealed), None);
        let mut forged = sealed.clone();
        forged[3] ^= 1;
        assert_eq!(second.open("a", &forged), None);
        assert_eq!(second.open("a", &sealed[..5]), None);
    }
}
