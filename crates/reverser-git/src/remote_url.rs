//! The address of a repository, checked before any process sees it.

use std::fmt;

/// How a repository is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `https://…`
    Https,
    /// `ssh://…` or `user@host:path`
    Ssh,
    /// `http://…`: unencrypted, only where it is allowed by name.
    Http,
    /// `file://…`: a repository on this machine, only where it is allowed by name.
    File,
    /// `git://…`: unencrypted and without authentication, only where it is allowed by name.
    Git,
}

impl Scheme {
    /// What is allowed unless somebody says otherwise.
    pub const DEFAULT_ALLOWED: &'static [Self] = &[Self::Https, Self::Ssh];

    /// The name as it stands in a URL, and the name that Git's protocol list uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Ssh => "ssh",
            Self::Http => "http",
            Self::File => "file",
            Self::Git => "git",
        }
    }

    const fn default_port(self) -> Option<u16> {
        match self {
            Self::Https => Some(443),
            Self::Ssh => Some(22),
            Self::Http => Some(80),
            Self::Git => Some(9418),
            Self::File => None,
        }
    }

    /// The scheme of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Https, Self::Ssh, Self::Http, Self::File, Self::Git]
            .into_iter()
            .find(|scheme| scheme.as_str() == name)
    }
}

/// The address of a repository: no options in disguise, no helper programs, no credentials.
///
/// It may be shown and logged as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteUrl {
    text: String,
    scheme: Scheme,
    host: String,
}

/// Which repository an address means, however it is spelled.
///
/// Two addresses of one repository must never pass for two repositories: whoever then writes both
/// deletes in one what belongs to the other. So whatever servers do not tell apart is left out: the
/// scheme, the user, a default port, the case of letters, a final `.git` or slash. Only local paths
/// keep their case. Two repositories that pass for one merely cannot share a folder's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RepositoryIdentity(String);

impl RepositoryIdentity {
    /// A text that is the same for all addresses of the repository; no address itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not an address of a repository. The text itself is left out where it may hold a
/// password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRemoteUrl {
    /// Not one of the forms that are understood.
    #[error(
        "repository URL {0:?} is not understood; write `https://host/path`, `ssh://user@host/path` or `user@host:path`"
    )]
    Form(String),
    /// A scheme that exists but is not allowed here.
    #[error("repository URLs with `{0}://` are not allowed here; write one with {1}")]
    Scheme(&'static str, String),
    /// The host is missing or could be taken for an option.
    #[error(
        "the host of repository URL {0:?} is not a host name; write a name or an address, optionally with a port"
    )]
    Host(String),
    /// The user part of an SSH address.
    #[error(
        "the user of repository URL {0:?} is not a plain user name; write for instance `git@host:path`"
    )]
    User(String),
    /// The path is missing or could be taken for an option.
    #[error(
        "the path of repository URL {0:?} {1}; write for instance `https://host/group/repository.git`"
    )]
    Path(String, &'static str),
    /// Credentials in the URL would end up in logs and status.
    #[error(
        "the repository URL holds a user or password; put them into the Secret and write the URL without them"
    )]
    Credentials,
    /// Whitespace and control characters.
    #[error(
        "the repository URL contains a space, a control character or a character outside ASCII; write those percent-encoded"
    )]
    Characters,
}

impl RemoteUrl {
    /// Checks `text` without starting a process. `allowed` lists the schemes that may be used.
    pub fn parse(text: &str, allowed: &[Scheme]) -> Result<Self, BadRemoteUrl> {
        // A password could stand anywhere in a text that is not understood, so an `@` after a `:`
        // in the authority decides before anything quotes the text.
        if text
            .split_once("://")
            .is_some_and(|(_, rest)| userinfo(rest).is_some_and(|u| u.contains(':')))
        {
            return Err(BadRemoteUrl::Credentials);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadRemoteUrl::Characters);
        }
        if text.starts_with('-') {
            return Err(BadRemoteUrl::Form(text.to_owned()));
        }
        let (scheme, host) = match text.split_once("://") {
            Some((scheme, rest)) => parse_with_scheme(text, scheme, rest, allowed)?,
            None => (Scheme::Ssh, parse_scp_form(text)?),
        };
        if !allowed.contains(&scheme) {
            let allowed: Vec<_> = allowed
                .iter()
                .map(|s| format!("`{}://`", s.as_str()))
                .collect();
            return Err(BadRemoteUrl::Scheme(scheme.as_str(), allowed.join(" or ")));
        }
        Ok(Self {
            text: text.to_owned(),
            scheme,
            host,
        })
    }

    /// The address as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// How the repository is reached.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host in lower case and without port; empty for `file://`.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Which repository it is.
    #[must_use]
    pub fn identity(&self) -> RepositoryIdentity {
        let (authority, path) = if let Some((_, rest)) = self.text.split_once("://") {
            rest.split_once('/').unwrap_or((rest, ""))
        } else {
            // `user@host:path`, where colons in brackets belong to an address.
            let bracket = self.text.find("]:").map(|at| at + 1);
            let colon = bracket.or_else(|| self.text.find(':'));
            colon.map_or((&*self.text, ""), |at| {
                (&self.text[..at], &self.text[at + 1..])
            })
        };
        let host = authority
            .rsplit_once('@')
            .map_or(authority, |(_, host)| host);
        let port = split_port(host).1.and_then(|port| port.parse().ok());
        let port = port.filter(|port| Some(*port) != self.scheme.default_port());
        let mut path = repository_path(&percent_decoded(path));
        if self.scheme != Scheme::File {
            path.make_ascii_lowercase();
        }
        let name = self.host.trim_end_matches('.');
        RepositoryIdentity(match port {
            Some(port) => format!("{name}:{port}/{path}"),
            None => format!("{name}/{path}"),
        })
    }
}

/// The path of a repository without what its last component may or may not have.
fn repository_path(path: &str) -> String {
    let components = path
        .split('/')
        .filter(|component| !matches!(*component, "" | "."));
    let mut path = components.collect::<Vec<_>>().join("/");
    while let Some(shorter) = path
        .strip_suffix(".git")
        .filter(|shorter| !shorter.is_empty())
    {
        path = shorter.trim_end_matches('/').to_owned();
    }
    path
}

/// Writes out `%7E` and the like; what is not understood stays as it is.
fn percent_decoded(path: &str) -> String {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..2).filter(|_| first == b'%');
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            decoded.push(byte);
            rest = &others[2..];
        } else {
            decoded.push(first);
            rest = others;
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn userinfo(rest: &str) -> Option<&str> {
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit_once('@').map(|(user, _)| user)
}

fn parse_with_scheme(
    text: &str,
    scheme: &str,
    rest: &str,
    allowed: &[Scheme],
) -> Result<(Scheme, String), BadRemoteUrl> {
    let Some(scheme) = Scheme::named(scheme) else {
        return Err(BadRemoteUrl::Form(text.to_owned()));
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = match (scheme, authority.rsplit_once('@')) {
        (Scheme::Ssh, Some((user, host))) => {
            check_user(text, user)?;
            host
        }
        (_, Some(_)) => return Err(BadRemoteUrl::Credentials),
        (_, None) => authority,
    };
    if scheme == Scheme::File {
        if !host.is_empty() {
            return Err(BadRemoteUrl::Host(text.to_owned()));
        }
    } else {
        check_host(text, host)?;
    }
    // Where a scheme is not allowed at all, a complaint about the path would only mislead.
    if allowed.contains(&scheme) {
        check_path(text, path)?;
    }
    Ok((scheme, host_name(host)))
}

fn parse_scp_form(text: &str) -> Result<String, BadRemoteUrl> {
    let form = || BadRemoteUrl::Form(text.to_owned());
    let (user, rest) = text.split_once('@').ok_or_else(form)?;
    let (host, path) = match rest.strip_prefix('[').and_then(|r| r.split_once("]:")) {
        Some((address, path)) => (format!("[{address}]"), path),
        None => rest
            .split_once(':')
            .map(|(h, p)| (h.to_owned(), p))
            .ok_or_else(form)?,
    };
    // `user@host::x` and `ext::…` name a helper program.
    if path.starts_with(':') || user.contains(':') {
        return Err(form());
    }
    check_user(text, user)?;
    check_host(text, &host)?;
    check_path(text, path)?;
    Ok(host_name(&host))
}

fn check_user(text: &str, user: &str) -> Result<(), BadRemoteUrl> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
    if user.is_empty() || user.starts_with('-') || !user.bytes().all(plain) {
        return Err(BadRemoteUrl::User(text.to_owned()));
    }
    Ok(())
}

fn check_host(text: &str, host: &str) -> Result<(), BadRemoteUrl> {
    let bad = || BadRemoteUrl::Host(text.to_owned());
    let (name, port) = split_port(host);
    let name_ok = match name.strip_prefix('[').and_then(|n| n.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !name.is_empty()
                && !name.starts_with('-')
                && name
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        }
    };
    if !name_ok || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(bad());
    }
    Ok(())
}

fn check_path(text: &str, path: &str) -> Result<(), BadRemoteUrl> {
    let problem = if path.is_empty() || path.bytes().all(|b| b == b'/') {
        "is missing"
    } else if path.starts_with('-') {
        "starts with `-`"
    } else if path.split('/').any(|component| component == "..") {
        "contains `..`"
    } else if path.contains(['?', '#']) {
        "contains `?` or `#`"
    } else {
        return Ok(());
    };
    Err(BadRemoteUrl::Path(text.to_owned(), problem))
}

fn split_port(host: &str) -> (&str, Option<&str>) {
    match host.rfind(':') {
        // A colon inside brackets belongs to an IPv6 address.
        Some(at) if !host[at..].contains(']') => (&host[..at], Some(&host[at + 1..])),
        _ => (host, None),
    }
}

fn host_name(host: &str) -> String {
    split_port(host).0.to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Scheme] = &[
        Scheme::Https,
        Scheme::Ssh,
        Scheme::Http,
        Scheme::File,
        Scheme::Git,
    ];

    #[test]
    fn the_usual_forms_are_understood() {
        let cases = [
            ("https://GitHub.com/a/b.git", Scheme::Https, "github.com"),
            ("https://host:8443/a/b", Scheme::Https, "host"),
            ("ssh://git@host:2222/a/b.git", Scheme::Ssh, "host"),
            ("ssh://host/a", Scheme::Ssh, "host"),
            ("git@github.com:a/b.git", Scheme::Ssh, "github.com"),
            (
                "APKA1.x@git-codecommit.eu.amazonaws.com:v1/a",
                Scheme::Ssh,
                "git-codecommit.eu.amazonaws.com",
            ),
            ("git@[::1]:a/b.git", Scheme::Ssh, "[::1]"),
            (
                "https://[2001:db8::1]:8443/a",
                Scheme::Https,
                "[2001:db8::1]",
            ),
            (
                "https://dev.azure.com/org/my%20project/_git/repo",
                Scheme::Https,
                "dev.azure.com",
            ),
            ("file:///srv/git/a.git", Scheme::File, ""),
            ("http://host/~user/a", Scheme::Http, "host"),
        ];
        for (text, scheme, host) in cases {
            let url = RemoteUrl::parse(text, ALL).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(
                (url.scheme(), url.host(), url.as_str()),
                (scheme, host, text)
            );
        }
    }

    #[test]
    fn addresses_that_run_programs_or_mislead_are_refused() {
        for text in [
            "",
            "-x",
            "--upload-pack=x",
            "ssh://-oProxyCommand=x/y",
            "ssh://git@-oProxyCommand=x/y",
            "-oProxyCommand=x@host:y",
            "git@-oProxyCommand=x:y",
            "ext::sh -c x",
            "ext::sh",
            "fd::7",
            "git@host::x",
            "/etc",
            "./x",
            "host:path",
            "ssh://host/",
            "https://host",
            "https:///x",
            "https://",
            "https://host/../x",
            "git@host:-x",
            "git@host:../x",
            "ftp://host/x",
            "HTTPS://host/x",
            "https://host:99999/x",
            "https://ho st/x",
            "https://host/x\n",
            "https://host/x?y",
            "git@host:",
            "file://host/etc",
            "ssh://a b@host/x",
            "ssh://$(x)@host/x",
            "ssh://host;x/y",
            "git@host;x:y",
        ] {
            assert!(RemoteUrl::parse(text, ALL).is_err(), "{text}");
        }
    }

    #[test]
    fn schemes_are_refused_unless_named() {
        for text in ["file:///etc", "http://host/x", "git://host/x"] {
            let error = RemoteUrl::parse(text, Scheme::DEFAULT_ALLOWED)
                .expect_err(text)
                .to_string();
            assert!(
                error.contains("write one with `https://` or `ssh://`"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_password_in_the_url_is_refused_and_not_repeated() {
        for text in [
            "https://user:hunter2@host/x",
            "https://hunter2@host/x",
            "ssh://git:hunter2@host/x",
            "http://user:hunter2 @host/x",
            "foo://user:hunter2@host/x",
        ] {
            let error = RemoteUrl::parse(text, ALL).expect_err(text).to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("Secret"), "{error}");
        }
    }

    fn identity(text: &str) -> RepositoryIdentity {
        let url = RemoteUrl::parse(text, ALL).unwrap_or_else(|e| panic!("{text}: {e}"));
        url.identity()
    }

    #[test]
    fn all_spellings_of_an_address_mean_one_repository() {
        let one = identity("https://github.com/org/repo");
        for text in [
            "https://github.com/org/repo.git",
            "https://github.com/org/repo/",
            "https://github.com/org/repo.git/",
            "https://github.com//org/repo",
            "https://GitHub.com/Org/Repo",
            "https://github.com.:443/org/repo",
            "https://github.com/org/%72epo",
            "http://github.com:80/org/repo.git",
            "ssh://git@github.com/org/repo.git",
            "ssh://github.com:22/org/repo",
            "git@github.com:org/repo.git",
            "somebody@github.com:/org/repo",
            "git://github.com:9418/org/repo",
        ] {
            assert_eq!(identity(text), one, "{text}");
        }
        assert_eq!(
            identity("git@[::1]:a/b.git"),
            identity("ssh://git@[::1]:22/a/b")
        );
        assert_eq!(
            identity("file:///srv/git/a/.git"),
            identity("file:///srv/git/a")
        );
    }

    #[test]
    fn other_hosts_ports_and_paths_are_other_repositories() {
        let all = [
            "https://github.com/org/repo",
            "https://github.com:8443/org/repo",
            "https://github.com/org/repo2",
            "https://github.com/org/repo.github",
            "https://github.com/org",
            "https://gitlab.com/org/repo",
            "https://github.com/org/re%zzpo",
            "ssh://git@github.com:443/org/repo",
            "ssh://git@github.com:2222/org/repo",
            "file:///github.com/org/repo",
            "file:///srv/a",
            "file:///srv/A",
            "https://host/.git",
        ];
        let identities: std::collections::HashSet<_> = all.map(identity).into_iter().collect();
        assert_eq!(identities.len(), all.len(), "{identities:?}");
    }
}
