//! Names of Git objects that cannot be mixed up: a commit is not a blob.

use std::fmt;
use std::str::FromStr;

use sha1::{Digest, Sha1};

/// The hexadecimal name of an object could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object name is 40 hexadecimal digits, not {0:?}")]
pub struct BadObjectId(pub String);

macro_rules! object_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name([u8; 20]);

        impl $name {
            /// Wraps the 20 bytes of a SHA-1 name.
            #[must_use]
            pub const fn from_bytes(bytes: [u8; 20]) -> Self {
                Self(bytes)
            }

            /// The 20 bytes of the name.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 20] {
                &self.0
            }

            #[allow(dead_code)]
            pub(crate) fn to_gix(self) -> gix_hash::ObjectId {
                gix_hash::ObjectId::from_bytes_or_panic(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadObjectId;

            fn from_str(text: &str) -> Result<Self, BadObjectId> {
                parse_hex(text).map(Self).ok_or_else(|| BadObjectId(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

object_id! {
    /// The name of a commit.
    CommitId
}
object_id! {
    /// The name of a file's content.
    BlobId
}
object_id! {
    /// The name of a folder's listing.
    TreeId
}

impl BlobId {
    /// The name that Git gives to `content`, without storing it.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        Self(hash_object(ObjectKind::Blob, content))
    }
}

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Commit,
    Tree,
    Blob,
}

impl ObjectKind {
    /// The header that Git hashes and stores in front of the content.
    pub(crate) fn header(self, len: usize) -> String {
        let kind = match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        };
        format!("{kind} {len}\0")
    }

    /// The number of this kind in the header of a packed object.
    pub(crate) fn in_pack(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
        }
    }
}

/// The SHA-1 name of an object.
pub(crate) fn hash_object(kind: ObjectKind, content: &[u8]) -> [u8; 20] {
    let mut hasher = Sha1::new();
    hasher.update(kind.header(content.len()));
    hasher.update(content);
    hasher.finalize().into()
}

fn parse_hex(text: &str) -> Option<[u8; 20]> {
    let digits = text.as_bytes();
    if digits.len() != 40 {
        return None;
    }
    let mut bytes = [0; 20];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_digit(pair[0])? << 4 | hex_digit(pair[1])?;
    }
    Some(bytes)
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_has_the_name_that_git_gives_it() {
        // `printf 'hello\n' | git hash-object --stdin`
        assert_eq!(
            BlobId::of(b"hello\n").to_string(),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
        assert_eq!(
            BlobId::of(b"").to_string(),
            "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
        );
    }

    #[test]
    fn names_are_read_back_and_nothing_else_is_taken_for_one() {
        let id = BlobId::of(b"x");
        assert_eq!(id.to_string().parse(), Ok(id));
        let upper = id.to_string().to_uppercase();
        for bad in [
            "",
            "abc",
            upper.as_str(),
            &format!("{id}0"),
            &"g".repeat(40),
        ] {
            assert!(bad.parse::<BlobId>().is_err(), "{bad}");
        }
    }
}
