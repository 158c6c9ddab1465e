//! The repositories that may be written.

use reverser_api::git_repo_config::glob_matches;
use reverser_git::{RemoteUrl, Scheme};

/// The repositories that may be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedRepoUrls(Vec<UrlGlob>);

/// A pattern of URLs. It is compared part by part, so that a `*` in the host cannot reach into the
/// path and let `git@elsewhere:x.example.com:y` pass for a repository of `*.example.com`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UrlGlob {
    /// As it was written.
    text: String,
    parts: Parts<String>,
}

/// Why a text is not a pattern of URLs. The text may hold a password and is left out then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadUrlGlob {
    /// It cannot be taken apart.
    #[error(
        "{0:?} is not a pattern of repository URLs; write for instance \
         `https://git.example.com/platform/**` or `git@github.com:acme/*`"
    )]
    Form(String),
    /// Such URLs are refused already.
    #[error(
        "{glob:?} allows nothing, because `{scheme}` is not in --allow-url-schemes; add it there, or \
         write another pattern"
    )]
    Scheme {
        /// What was written.
        glob: String,
        /// Its scheme.
        scheme: &'static str,
    },
    /// A repository URL has none either.
    #[error(
        "a pattern holds a user or password; leave them out, as repository URLs hold none: write for \
         instance `https://git.example.com/platform/**`"
    )]
    Credentials,
}

/// The parts of a URL that decide where it leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Parts<T> {
    /// `user@host:path` leads to the home of the user, where `ssh://user@host/path` does not.
    form: Form,
    user: Option<T>,
    host: T,
    port: Option<T>,
    path: T,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Url(Scheme),
    UserAtHost,
}

impl AllowedRepoUrls {
    /// Reads the patterns. None at all allow everything.
    pub(crate) fn parse<'a>(
        globs: impl IntoIterator<Item = &'a str>,
        schemes: &[Scheme],
    ) -> Result<Self, BadUrlGlob> {
        let parse = |glob| UrlGlob::parse(glob, schemes);
        globs
            .into_iter()
            .map(parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether this repository may be written.
    #[must_use]
    pub fn allows(&self, url: &RemoteUrl) -> bool {
        self.0.is_empty() || self.0.iter().any(|glob| glob.matches(url.as_str()))
    }

    /// The patterns as they were written.
    pub fn patterns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|glob| &*glob.text)
    }
}

impl UrlGlob {
    fn parse(text: &str, schemes: &[Scheme]) -> Result<Self, BadUrlGlob> {
        let form = || BadUrlGlob::Form(text.to_owned());
        // Decided before anything quotes the text.
        let has_secret = match text.split_once("://") {
            Some((scheme, rest)) => {
                let authority = rest.split('/').next().unwrap_or_default();
                let user = authority.rsplit_once('@').map(|(user, _)| user);
                user.is_some_and(|user| scheme != "ssh" || user.contains(':'))
            }
            None => text
                .rsplit_once('@')
                .is_some_and(|(user, _)| user.contains(':')),
        };
        if has_secret {
            return Err(BadUrlGlob::Credentials);
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || leads_upwards(text) {
            return Err(form());
        }
        let parts = Parts::of(text).ok_or_else(form)?;
        let scheme = match parts.form {
            Form::Url(scheme) => scheme,
            Form::UserAtHost => Scheme::Ssh,
        };
        let is_file = scheme == Scheme::File;
        if parts.path.is_empty() || parts.host.is_empty() != is_file {
            return Err(form());
        }
        if !schemes.contains(&scheme) {
            return Err(BadUrlGlob::Scheme {
                glob: text.to_owned(),
                scheme: scheme.as_str(),
            });
        }
        let Parts {
            form,
            user,
            host,
            port,
            path,
        } = parts;
        Ok(Self {
            text: text.to_owned(),
            parts: Parts {
                form,
                user: user.map(str::to_owned),
                host: host.to_ascii_lowercase(),
                port: port.map(str::to_owned),
                path: path.to_owned(),
            },
        })
    }

    fn matches(&self, url: &str) -> bool {
        // `%2e%2e` is a way upwards too, and some server will take it.
        if leads_upwards(url) {
            return false;
        }
        let glob = &self.parts;
        let fits = |glob: &Option<String>, part: Option<&str>| match (glob, part) {
            (Some(glob), Some(part)) => glob_matches(glob, part),
            (None, None) => true,
            _ => false,
        };
        Parts::of(url).is_some_and(|url| {
            glob.form == url.form
                && fits(&glob.user, url.user)
                && glob_matches(&glob.host, &url.host.to_ascii_lowercase())
                && fits(&glob.port, url.port)
                && glob_matches(&glob.path, url.path)
        })
    }
}

impl<'a> Parts<&'a str> {
    fn of(text: &'a str) -> Option<Self> {
        let (form, authority, path) = if let Some((scheme, rest)) = text.split_once("://") {
            let (authority, path) = rest.split_once('/')?;
            (Form::Url(Scheme::named(scheme)?), authority, path)
        } else {
            let (user, rest) = text.split_once('@')?;
            let host_ends = if rest.starts_with('[') {
                rest.find("]:")? + 1
            } else {
                rest.find(':')?
            };
            let path = &rest[host_ends + 1..];
            (Form::UserAtHost, &text[..user.len() + 1 + host_ends], path)
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (host, port) = match host.rsplit_once(':') {
            // A colon inside of brackets belongs to an IPv6 address.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (host, None),
        };
        Some(Self {
            form,
            user,
            host,
            port,
            path,
        })
    }
}

/// Whether a component of the path is `.` or `..`, encoded or not.
fn leads_upwards(url: &str) -> bool {
    url.split(['/', ':', '\\']).any(|component| {
        let plain = component.replace("%2e", ".").replace("%2E", ".");
        plain == "." || plain == ".."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &[Scheme] = &[Scheme::Https, Scheme::Ssh, Scheme::Http, Scheme::File];

    #[track_caller]
    fn allows(glob: &str, url: &str) -> bool {
        let globs = AllowedRepoUrls::parse([glob], ALL).unwrap();
        globs.allows(&RemoteUrl::parse(url, ALL).unwrap())
    }

    #[test]
    fn a_pattern_allows_what_it_looks_like() {
        for (glob, url) in [
            (
                "https://github.com/acme/*",
                "https://github.com/acme/web.git",
            ),
            ("https://github.com/acme/*", "https://GitHub.com/acme/web"),
            (
                "https://git.example.com/**",
                "https://git.example.com/a/b/c",
            ),
            ("https://*.example.com/**", "https://git.example.com/a"),
            ("https://host:8443/**", "https://host:8443/a"),
            ("https://[::1]:8443/**", "https://[::1]:8443/a"),
            ("git@github.com:acme/*", "git@github.com:acme/web.git"),
            ("*@github.com:acme/*", "git@github.com:acme/web.git"),
            ("git@[::1]:acme/*", "git@[::1]:acme/web.git"),
            ("ssh://git@host:22/**", "ssh://git@host:22/a"),
            ("file:///srv/git/*", "file:///srv/git/a"),
        ] {
            assert!(allows(glob, url), "{glob} {url}");
        }
    }

    #[test]
    fn a_pattern_allows_nothing_else() {
        for (glob, url) in [
            ("https://github.com/acme/*", "https://github.com/evil/web"),
            ("https://github.com/acme/*", "https://github.com/acme/a/b"),
            ("https://github.com/acme/*", "http://github.com/acme/web"),
            (
                "https://github.com/acme/*",
                "https://github.com.evil.com/acme/web",
            ),
            ("https://github.com/**", "https://github.com:8443/acme/web"),
            (
                "https://github.com/acme/**",
                "https://github.com/acme/%2e%2E/evil/web",
            ),
            (
                "https://github.com/acme/**",
                "https://github.com/acme/./web",
            ),
            (
                "https://*.example.com/**",
                "https://evil.com/x.example.com/y",
            ),
            ("git@*.example.com:**", "git@evil:x.example.com:y"),
            ("git@host:**", "root@host:a"),
            ("git@host:**", "ssh://git@host/a"),
            ("ssh://git@host/**", "git@host:a"),
            ("ssh://host/**", "ssh://root@host/a"),
        ] {
            assert!(!allows(glob, url), "{glob} {url}");
        }
    }

    #[test]
    fn no_pattern_allows_everything() {
        let globs = AllowedRepoUrls::parse([], ALL).unwrap();
        assert!(globs.allows(&RemoteUrl::parse("https://anywhere/a", ALL).unwrap()));
    }

    #[test]
    fn what_is_no_pattern_is_refused_and_passwords_are_not_shown() {
        let refusal = |glob| AllowedRepoUrls::parse([glob], Scheme::DEFAULT_ALLOWED).unwrap_err();
        for bad in [
            "",
            "*",
            "**",
            "github.com/acme/*",
            "https://",
            "https://github.com",
            "https://github.com/",
            "https:///acme",
            "ftp://host/**",
            "https://host/a b",
            "https://host/../**",
            "git@host",
            "@",
            "https://höst/**",
            "git@[::1",
        ] {
            assert_eq!(refusal(bad), BadUrlGlob::Form(bad.to_owned()));
        }
        for bad in [
            "https://me:hunter2@host/**",
            "https://me@host/**",
            "ssh://me:hunter2@host/**",
            "me:hunter2@host/**",
        ] {
            assert_eq!(refusal(bad), BadUrlGlob::Credentials);
            assert!(!refusal(bad).to_string().contains("hunter2"));
        }
        let file = refusal("file:///srv/**").to_string();
        assert!(
            file.contains("`file` is not in --allow-url-schemes"),
            "{file}"
        );
    }
}
