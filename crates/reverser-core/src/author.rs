//! How a user of the cluster is called in Git.
//!
//! Whatever a user's name holds, what comes out can stand in a commit: it can neither end a line nor
//! look like somebody else's address, and nothing in it means anything to those who read commits by
//! machine.

use std::collections::HashMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use crate::admission_record::Requester;

/// The domain of addresses that are made up, where none is given. Nobody has it.
pub const DEFAULT_DOMAIN: &str = "cluster.local";
/// The longest name in a commit, in characters.
const LONGEST_NAME: usize = 100;
/// The longest made-up part before the `@`.
const LONGEST_LOCAL: usize = 54;

/// A name and an address that can stand in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Author {
    /// Never empty.
    pub name: String,
    /// Always an address.
    pub email: String,
}

/// Real names and addresses of users, as an administrator has written them down.
///
/// One line for each user: `user = Real Name <address>`. The name may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthorMap(HashMap<String, Mapped>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    name: Option<String>,
    email: String,
}

/// A line that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: write `user = Real Name <address>`")]
pub struct BadLine {
    /// Counted from 1.
    pub line: usize,
}

impl AuthorMap {
    /// Adds the lines of a text; empty lines and those that begin with `#` say nothing. Gives the
    /// lines that could not be read.
    pub fn add(&mut self, text: &str) -> Vec<BadLine> {
        let mut bad = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match read_line(line) {
                Some((user, mapped)) => {
                    self.0.insert(user.to_owned(), mapped);
                }
                None => bad.push(BadLine { line: index + 1 }),
            }
        }
        bad
    }

    /// How many users it knows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it knows nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn read_line(line: &str) -> Option<(&str, Mapped)> {
    // The user's name may hold `=`, the address may not.
    let (user, person) = line.rsplit_once('=')?;
    let (name, email) = person.trim().strip_suffix('>')?.split_once('<')?;
    let (user, name) = (user.trim(), name.trim());
    (!user.is_empty() && is_address(email)).then(|| {
        let name = (!name.is_empty()).then(|| plain_name(name));
        let email = email.to_owned();
        (user, Mapped { name, email })
    })
}

impl Author {
    /// How a user is called: as the administrator says, or else the identity provider, or else as the
    /// name allows.
    #[must_use]
    pub fn of(user: &Requester, domain: Option<&str>, map: &AuthorMap) -> Self {
        let domain = domain.unwrap_or(DEFAULT_DOMAIN);
        let mapped = map.0.get(user.name());
        let name = mapped
            .and_then(|mapped| mapped.name.clone())
            .or_else(|| user.display_name.as_deref().map(plain_name))
            .unwrap_or_else(|| match user.service_account() {
                Some((namespace, name)) => {
                    plain_name(&format!("{namespace}/{name} (service account)"))
                }
                None => plain_name(user.name()),
            });
        let own = user.email.as_deref().unwrap_or(user.name());
        let email = match mapped {
            Some(mapped) => mapped.email.clone(),
            None if is_address(own) => own.to_owned(),
            None if is_address(user.name()) => user.name().to_owned(),
            None => format!("{}@{domain}", local_part(user)),
        };
        Self { name, email }
    }
}

/// A raw text for the end of a line of a message: letters, digits and a few signs stay, everything
/// else is percent-encoded, so that it can be told back. Nothing that a CI system or a forge looks for
/// (`[skip ci]`, `#12`, `***NO_CI***`) survives as such.
#[must_use]
pub fn escaped(raw: &str) -> String {
    let stays = |at: usize, sign: char| match sign {
        ' ' => at > 0 && at + 1 < raw.len(),
        sign => sign.is_alphanumeric() || "-_.:@/+=,()'".contains(sign),
    };
    let mut text = String::with_capacity(raw.len());
    let mut bytes = [0; 4];
    for (at, sign) in raw.char_indices() {
        if stays(at, sign) {
            text.push(sign);
        } else {
            for byte in sign.encode_utf8(&mut bytes).bytes() {
                let _infallible = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// What a person would read, without what would break the commit or the eye: control characters,
/// angle brackets, marks that turn the direction of text or cannot be seen.
fn plain_name(raw: &str) -> String {
    let blank = |sign: char| {
        sign.is_control()
            || sign.is_whitespace()
            || matches!(sign, '<' | '>' | '[' | ']')
            || is_invisible(sign)
    };
    let words: String = raw
        .chars()
        .map(|sign| if blank(sign) { ' ' } else { sign })
        .collect();
    let mut name = String::new();
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let room = LONGEST_NAME.saturating_sub(name.chars().count() + 1);
        if room == 0 {
            break;
        }
        if !name.is_empty() {
            name.push(' ');
        }
        name.extend(word.chars().take(room));
    }
    // Git takes these away at both ends, and then nothing may be left.
    let crud = |sign: char| matches!(sign, '.' | ',' | ':' | ';' | '"' | '\'' | '\\' | ' ');
    let name = name.trim_matches(crud);
    if name.is_empty() {
        "user without a name".to_owned()
    } else {
        name.to_owned()
    }
}

fn is_invisible(sign: char) -> bool {
    matches!(sign,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a text is a plain address: nothing quoted, nothing exotic.
fn is_address(text: &str) -> bool {
    let Some((local, domain)) = text.split_once('@') else {
        return false;
    };
    let is_local =
        |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+/=?^_`{|}~.-".contains(&byte);
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.len() <= 63 && label.bytes().all(allowed)
    };
    text.len() <= 254
        && !local.is_empty()
        && local.len() <= 64
        && local.bytes().all(is_local)
        && !local.starts_with('.')
        && !local.ends_with('.')
        && domain.split('.').all(is_label)
}

/// The part of a made-up address before the `@`. What cannot stand there is left out, and a hash of
/// the whole name then keeps two users apart.
fn local_part(user: &Requester) -> String {
    if let Some((namespace, name)) = user.service_account()
        && namespace.len() + name.len() <= LONGEST_LOCAL - 16
    {
        return format!("{name}.{namespace}.serviceaccount");
    }
    let raw = user.name();
    let allowed =
        |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-' | '+');
    let mut local = String::new();
    for sign in raw.chars() {
        if allowed(sign) {
            local.push(sign);
        } else if !local.ends_with('-') {
            local.push('-');
        }
        if local.len() == LONGEST_LOCAL {
            break;
        }
    }
    let local = local.trim_matches(['-', '.']).to_owned();
    // `system:node:a` and the like lose nothing that anybody would confuse.
    let readable = raw.replace(':', "-");
    if local == readable && !local.contains("..") {
        return local;
    }
    let hash = Sha256::digest(raw.as_bytes());
    let mut local: String = local.replace("..", ".");
    if !local.is_empty() {
        local.push('-');
    }
    for byte in hash.iter().take(4) {
        let _infallible = write!(local, "{byte:02x}");
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    fn author(name: &str) -> (String, String) {
        let Author { name, email } = Author::of(
            &Requester::new(name),
            Some("example.com"),
            &AuthorMap::default(),
        );
        (name, email)
    }

    #[test]
    fn people_and_accounts_are_called_as_one_would_expect() {
        for (raw, name, email) in [
            ("alice", "alice", "alice@example.com"),
            ("alice@corp.com", "alice@corp.com", "alice@corp.com"),
            (
                "system:serviceaccount:shop:deployer",
                "shop/deployer (service account)",
                "deployer.shop.serviceaccount@example.com",
            ),
            ("system:admin", "system:admin", "system-admin@example.com"),
            (
                "system:node:a.b",
                "system:node:a.b",
                "system-node-a.b@example.com",
            ),
        ] {
            assert_eq!(author(raw), (name.to_owned(), email.to_owned()));
        }
    }

    #[test]
    fn no_name_breaks_out_of_its_place_or_takes_another_address() {
        let long = "y".repeat(64 << 10);
        for evil in [
            "x <ceo@corp.com>",
            "x\nauthor ceo <ceo@corp.com> 1 +0000",
            "x\r\nCo-authored-by: ceo <ceo@corp.com>",
            "\0",
            "x\u{202e}moc.proc@oec",
            "<>",
            "...",
            " ",
            "a@b@c",
            "ceo@corp.com>",
            "ceo @corp.com",
            "\"ceo\"@corp.com",
            "ceo@corp..com",
            "[skip ci]",
            "名前",
            &long,
        ] {
            let (name, email) = author(evil);
            assert!(
                !name.is_empty() && name.chars().count() <= LONGEST_NAME,
                "{name:?}"
            );
            let bad = |sign: char| sign.is_control() || "<>[]".contains(sign) || is_invisible(sign);
            assert!(!name.contains(bad), "{name:?}");
            assert_eq!(name.trim(), name);
            assert!(
                is_address(&email) && email.ends_with("@example.com"),
                "{email:?}"
            );
        }
        assert_ne!(
            author("a b").1,
            author("a-b").1,
            "two users have two addresses"
        );
        assert_ne!(author("a b").1, author("a\tb").1);
    }

    #[test]
    fn raw_names_can_be_told_back_and_mean_nothing_to_machines() {
        for (raw, expected) in [
            ("alice@corp.com", "alice@corp.com"),
            ("system:serviceaccount:a:b", "system:serviceaccount:a:b"),
            ("Zoë (admin)", "Zoë (admin)"),
            ("x\nCo-authored-by: y", "x%0ACo-authored-by: y"),
            ("[skip ci]", "%5Bskip ci%5D"),
            ("***NO_CI***", "%2A%2A%2ANO_CI%2A%2A%2A"),
            ("fixes #1", "fixes %231"),
            ("a\u{202e}b\0", "a%E2%80%AEb%00"),
            (" a ", "%20a%20"),
            ("100%", "100%25"),
        ] {
            assert_eq!(escaped(raw), expected);
        }
    }

    #[test]
    fn administrators_and_identity_providers_know_better() {
        let mut map = AuthorMap::default();
        let text = "# people\n\nalice = Alice Liddell <alice@wonder.land>\n\
                    CN=bob,O=x = <bob@wonder.land>\nbroken\ncarol = Carol <no address>\n= x <a@b.c>\n";
        let bad: Vec<usize> = map.add(text).iter().map(|bad| bad.line).collect();
        assert_eq!(bad, [5, 6, 7]);
        assert_eq!(map.len(), 2);
        let of = |user: &Requester| {
            let Author { name, email } = Author::of(user, None, &map);
            format!("{name} <{email}>")
        };
        assert_eq!(
            of(&Requester::new("alice")),
            "Alice Liddell <alice@wonder.land>"
        );
        assert_eq!(
            of(&Requester::new("CN=bob,O=x")),
            "CN=bob,O=x <bob@wonder.land>"
        );
        assert_eq!(of(&Requester::new("dave")), "dave <dave@cluster.local>");
        let mut eve = Requester::new("oidc:eve");
        eve.email = Some("eve@corp.com".into());
        eve.display_name = Some("Eve\n<x>".into());
        assert_eq!(of(&eve), "Eve x <eve@corp.com>");
        eve.email = Some("not an address".into());
        assert_eq!(of(&eve), "Eve x <oidc-eve@cluster.local>");
    }
}
