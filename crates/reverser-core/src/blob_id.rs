//! The id that Git gives to a file's content: the state of the mirror is a map of these.

use std::fmt;

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha1::{Digest, Sha1};

/// The id of a blob, as `git hash-object` would print it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct BlobId([u8; 20]);

impl BlobId {
    /// The id of this content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let mut hash = Sha1::new();
        hash.update(format!("blob {}\0", content.len()));
        hash.update(content);
        Self(hash.finalize().into())
    }

    /// The id that these bytes are.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 20]) -> Self {
        Self(bytes)
    }

    /// The bytes of the id.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Not forty hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a blob is forty hexadecimal digits")]
pub struct NotABlobId;

impl FromStr for BlobId {
    type Err = NotABlobId;

    fn from_str(text: &str) -> Result<Self, NotABlobId> {
        let digits: Vec<u8> = text
            .chars()
            .map(|digit| {
                digit
                    .to_digit(16)
                    .and_then(|digit| u8::try_from(digit).ok())
            })
            .collect::<Option<_>>()
            .ok_or(NotABlobId)?;
        let bytes: Vec<u8> = digits
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| (byte << 4) | digit))
            .collect();
        match <[u8; 20]>::try_from(bytes) {
            Ok(bytes) if digits.len() == 40 => Ok(Self(bytes)),
            _ => Err(NotABlobId),
        }
    }
}

impl TryFrom<String> for BlobId {
    type Error = NotABlobId;

    fn try_from(text: String) -> Result<Self, NotABlobId> {
        text.parse()
    }
}

impl From<BlobId> for String {
    fn from(id: BlobId) -> Self {
        id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        assert_eq!(
            BlobId::of(b"").to_string(),
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        );
        assert_eq!(
            BlobId::of(b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
    }

    #[test]
    fn an_id_is_read_as_it_is_printed_and_nothing_else_is() {
        let id = BlobId::of(b"hello\n");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in [
            "",
            "ce",
            "zz013625030ba8dba906f756967f9e9ca394464a",
            &"c".repeat(39),
            &"c".repeat(41),
        ] {
            assert_eq!(wrong.parse::<BlobId>(), Err(NotABlobId), "{wrong}");
        }
    }
}
