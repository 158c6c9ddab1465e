//! Where an object's file lives, in both directions.
//!
//! `{group or core}/{version}/{resource}/[{namespace}/]{name}.yaml`, below the folder that a
//! destination owns. Two objects never share a path, also where a file system folds case or
//! composes accents: every character that could be mistaken there is percent-encoded, and a name
//! too long for a file system is cut and completed by a hash.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::object_key::{ObjectKey, TypeKey};

const SUFFIX: &str = ".yaml";
/// What every file system takes as one component, in bytes.
const LONGEST_COMPONENT: usize = 255;
/// Stands between the beginning of a long name and its hash; percent-encoded everywhere else.
const CUT: char = '~';
const DIGEST_LENGTH: usize = 32;

/// The path of an object's file, relative to the folder that its destination owns. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepoPath(Arc<str>);

/// What a path tells about the object whose file it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathIdentity {
    /// The type.
    pub type_key: TypeKey,
    /// The namespace, unless the type has none.
    pub namespace: Option<String>,
    /// The name, as far as the path tells it.
    pub name: PathName,
}

/// The name of an object as its path tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathName {
    /// The name itself.
    Whole(String),
    /// A name that is too long for a path: how it begins. The path still belongs to one name only,
    /// which [`PathIdentity::is_of`] recognises.
    Cut {
        /// The first characters, decoded.
        prefix: String,
        /// The digest of the whole name.
        digest: String,
    },
}

/// A path that this layout never produces: somebody else's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the path of a mirrored object")]
pub struct ForeignPath;

impl RepoPath {
    /// Where this object's file lives.
    #[must_use]
    pub fn of(key: &ObjectKey) -> Self {
        let type_key = key.type_key();
        let mut path = String::with_capacity(96);
        // A group that calls itself `core` is not the core group.
        match type_key.group() {
            "" => path.push_str("core"),
            "core" => path.push_str("%63ore"),
            group => encode(&mut path, group),
        }
        for component in [type_key.version(), type_key.resource()]
            .into_iter()
            .chain(key.namespace())
        {
            path.push('/');
            encode(&mut path, component);
        }
        path.push('/');
        encode_name(&mut path, key.name());
        path.push_str(SUFFIX);
        Self(path.into())
    }

    /// Which object's file this is; refuses every path that [`RepoPath::of`] does not produce.
    pub fn parse(path: &str) -> Result<PathIdentity, ForeignPath> {
        let components: Vec<&str> = path.split('/').collect();
        let (type_parts, namespace, file) = match components[..] {
            [group, version, resource, file] => ([group, version, resource], None, file),
            [group, version, resource, namespace, file] => {
                ([group, version, resource], Some(namespace), file)
            }
            _ => return Err(ForeignPath),
        };
        let [group, version, resource] = type_parts;
        let group = match group {
            "core" => String::new(),
            "%63ore" => "core".to_owned(),
            group => decode(group)?,
        };
        let type_key = TypeKey::new(group, decode(version)?, decode(resource)?)
            .map_err(|_invalid| ForeignPath)?;
        let namespace = namespace.map(decode).transpose()?;
        let name = decode_name(file.strip_suffix(SUFFIX).ok_or(ForeignPath)?)?;
        // One last word: what was decoded must be valid, and encode to the very same path.
        let begins = match &name {
            PathName::Whole(name) | PathName::Cut { prefix: name, .. } => name.clone(),
        };
        let key = ObjectKey::new(type_key.clone(), namespace.clone(), begins)
            .map_err(|_invalid| ForeignPath)?;
        let again = Self::of(&key).0;
        let same = match &name {
            PathName::Whole(_) => *again == *path,
            PathName::Cut { .. } => {
                let stem = again.strip_suffix(SUFFIX).ok_or(ForeignPath)?;
                path.strip_prefix(stem)
                    .is_some_and(|rest| rest.starts_with(CUT))
            }
        };
        if same {
            Ok(PathIdentity {
                type_key,
                namespace,
                name,
            })
        } else {
            Err(ForeignPath)
        }
    }

    /// The path that was parsed to this identity.
    pub(crate) fn of_parsed(path: &str, _parsed: &PathIdentity) -> Self {
        Self(path.into())
    }

    /// The path as Git has it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// So that a map by paths can be asked for a text.
impl std::borrow::Borrow<str> for RepoPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RepoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PathIdentity {
    /// Whether the path is this object's.
    #[must_use]
    pub fn is_of(&self, key: &ObjectKey) -> bool {
        self.type_key == *key.type_key()
            && self.namespace.as_deref() == key.namespace()
            && match &self.name {
                PathName::Whole(name) => name == key.name(),
                PathName::Cut { prefix, digest } => {
                    key.name().starts_with(prefix.as_str()) && *digest == digest_of(key.name())
                }
            }
    }
}

fn encode_name(path: &mut String, name: &str) {
    let start = path.len();
    encode(path, name);
    if path.len() - start + SUFFIX.len() <= LONGEST_COMPONENT {
        return;
    }
    path.truncate(start);
    let room = LONGEST_COMPONENT - SUFFIX.len() - CUT.len_utf8() - DIGEST_LENGTH;
    let mut begins = name;
    // Whole characters only, so that the beginning can be decoded by itself.
    loop {
        path.truncate(start);
        encode(path, begins);
        if path.len() - start <= room {
            break;
        }
        let longest = begins.len().min(room + 4) - 1;
        begins = &begins[..begins.floor_char_boundary(longest)];
    }
    path.push(CUT);
    path.push_str(&digest_of(name));
}

fn decode_name(stem: &str) -> Result<PathName, ForeignPath> {
    let Some((prefix, digest)) = stem.split_once(CUT) else {
        return decode(stem).map(PathName::Whole);
    };
    let is_digest = digest.len() == DIGEST_LENGTH
        && digest
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    // A cut leaves no room for one more character, which takes 12 bytes at the most.
    let is_full = stem.len() + SUFFIX.len() + 12 > LONGEST_COMPONENT;
    if !is_digest || !is_full || stem.len() + SUFFIX.len() > LONGEST_COMPONENT {
        return Err(ForeignPath);
    }
    Ok(PathName::Cut {
        prefix: decode(prefix)?,
        digest: digest.to_owned(),
    })
}

fn digest_of(name: &str) -> String {
    let hash = Sha256::digest(name.as_bytes());
    let half = hash[..DIGEST_LENGTH / 2]
        .try_into()
        .expect("SHA-256 is longer than that");
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Lower-case letters, digits, `-`, `_` and inner dots stand for themselves. What Windows takes for a
/// device and kustomize for its own file loses its first letter.
fn encode(path: &mut String, text: &str) {
    let reserved = is_device_name(text) || text == "kustomization";
    for (index, byte) in text.bytes().enumerate() {
        let first = index == 0;
        let last = index + 1 == text.len();
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' if !(first && reserved) => {
                path.push(char::from(byte));
            }
            b'.' if !first && !last => path.push('.'),
            byte => {
                const HEX: [u8; 16] = *b"0123456789ABCDEF";
                path.push('%');
                path.push(char::from(HEX[usize::from(byte >> 4)]));
                path.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

fn decode(component: &str) -> Result<String, ForeignPath> {
    let mut bytes = Vec::with_capacity(component.len());
    let mut rest = component.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || match rest.next() {
            Some(digit @ b'0'..=b'9') => Ok(digit - b'0'),
            Some(digit @ b'A'..=b'F') => Ok(digit - b'A' + 10),
            _ => Err(ForeignPath),
        };
        bytes.push(digit()? << 4 | digit()?);
    }
    String::from_utf8(bytes).map_err(|_not_utf8| ForeignPath)
}

/// Names that Windows reserves for devices, whatever follows the first dot.
fn is_device_name(text: &str) -> bool {
    let stem = text.split('.').next().unwrap_or_default();
    match stem.as_bytes() {
        b"con" | b"prn" | b"aux" | b"nul" => true,
        [a, b, c, b'0'..=b'9'] => matches!([*a, *b, *c], [b'c', b'o', b'm'] | [b'l', b'p', b't']),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(group: &str, resource: &str, namespace: Option<&str>, name: &str) -> ObjectKey {
        let type_key = TypeKey::new(group, "v1", resource).unwrap();
        ObjectKey::new(type_key, namespace.map(Into::into), name).unwrap()
    }

    #[track_caller]
    fn path_of(key: &ObjectKey) -> String {
        let path = RepoPath::of(key);
        let identity = RepoPath::parse(path.as_str()).unwrap();
        assert!(identity.is_of(key), "{path} is not read as {key}");
        path.to_string()
    }

    #[test]
    fn objects_live_where_people_look_for_them() {
        let web = key("apps", "deployments", Some("shop"), "web");
        assert_eq!(path_of(&web), "apps/v1/deployments/shop/web.yaml");
        let viewer = key("rbac.authorization.k8s.io", "clusterroles", None, "viewer");
        assert_eq!(
            path_of(&viewer),
            "rbac.authorization.k8s.io/v1/clusterroles/viewer.yaml"
        );
        assert_eq!(
            path_of(&key("", "namespaces", None, "shop")),
            "core/v1/namespaces/shop.yaml"
        );
        assert_eq!(path_of(&key("core", "x", None, "y")), "%63ore/v1/x/y.yaml");
    }

    #[test]
    fn names_that_file_systems_confuse_are_encoded() {
        for (name, file) in [
            ("system:admin", "system%3Aadmin"),
            ("Foo", "%46oo"),
            (".git", "%2Egit"),
            ("a.", "a%2E"),
            ("..", "%2E%2E"),
            ("git~1", "git%7E1"),
            ("a/b", "a%2Fb"),
            ("a%2Fb", "a%252%46b"),
            ("aux", "%61ux"),
            ("com1.example", "%63om1.example"),
            ("console", "console"),
            ("kustomization", "%6Bustomization"),
            ("\u{e9}", "%C3%A9"),
            ("e\u{301}", "e%CC%81"),
            ("a\nb", "a%0Ab"),
        ] {
            assert_eq!(
                path_of(&key("", "x", None, name)),
                format!("core/v1/x/{file}.yaml")
            );
        }
        assert_eq!(
            path_of(&key("", "x", Some("con"), "a")),
            "core/v1/x/%63on/a.yaml"
        );
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let longest = "a".repeat(250);
        assert_eq!(
            path_of(&key("", "x", None, &longest)),
            format!("core/v1/x/{longest}.yaml")
        );
        for name in [
            "a".repeat(253),
            "A".repeat(253),
            "\u{1F600}".repeat(100),
            "é".repeat(5000),
        ] {
            let (one, other) = (name.clone() + "1", name + "2");
            let (one, other) = (key("", "x", None, &one), key("", "x", None, &other));
            let (first, second) = (path_of(&one), path_of(&other));
            assert_ne!(first, second);
            assert!(first.rsplit('/').next().unwrap().len() <= 255, "{first}");
            assert!(!RepoPath::parse(&first).unwrap().is_of(&other));
        }
    }

    #[test]
    fn paths_that_the_layout_never_makes_are_foreign() {
        let digest = "0123456789abcdef0123456789abcdef";
        for path in [
            "",
            "README.md",
            "kustomization.yaml",
            "core/v1/configmaps/shop/kustomization.yaml",
            "core/v1/pods/shop",
            "core/v1/pods/shop/web.yml",
            "core/v1/pods/shop/.yaml",
            "core/v1/pods/shop/web.YAML",
            "core/v1/pods/shop/extra/web.yaml",
            "core/v1/pods//web.yaml",
            "core/v1/pods/Shop/web.yaml",
            "core/v1/pods/shop/Web.yaml",
            "core/v1/pods/shop/%77eb.yaml",
            "core/v1/pods/shop/a%3ab.yaml",
            "core/v1/pods/shop/a%.yaml",
            "core/v1/pods/shop/%FF.yaml",
            "core/v1/pods/shop/aux.yaml",
            "core/v1/Pods/shop/web.yaml",
            "core/v1/x/../web.yaml",
            ".configbutler/owner.yaml",
            &format!("core/v1/x/short~{digest}.yaml"),
            &format!("core/v1/x/{}~{digest}.yaml", "a".repeat(218)),
        ] {
            assert_eq!(RepoPath::parse(path), Err(ForeignPath), "{path}");
        }
    }
}
