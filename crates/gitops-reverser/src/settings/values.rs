//! From the text of a flag to its type.

use std::net::{Ipv6Addr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use reverser_api::git_destination::SecretsMode;
use reverser_git::Scheme;

use super::{BadValue, DeletesCap, ExcludedType, duration};
use crate::attribution::AuthorMapName;
use crate::telemetry::logging::{LogFilter, LogFormat};

pub(super) fn boolean(text: &str) -> Result<bool, BadValue> {
    text.parse().map_err(|_| BadValue::Boolean(text.to_owned()))
}

/// What a number may be.
#[derive(Clone, Copy)]
pub(super) struct Count {
    from: usize,
    to: usize,
    example: &'static str,
}

impl Count {
    pub(super) const fn from(from: usize) -> Self {
        Self {
            from,
            to: usize::MAX,
            example: "",
        }
    }

    pub(super) const fn to(self, to: usize) -> Self {
        Self { to, ..self }
    }

    pub(super) const fn such_as(self, example: &'static str) -> Self {
        Self { example, ..self }
    }

    pub(super) fn read(self, text: &str) -> Result<usize, BadValue> {
        let Self { from, to, example } = self;
        digits(text)
            .filter(|number| (from..=to).contains(number))
            .ok_or_else(|| BadValue::Count {
                value: text.to_owned(),
                from,
                to,
                example,
            })
    }

    pub(super) fn read_seconds(self, text: &str) -> Result<Duration, BadValue> {
        self.read(text).map(|n| Duration::from_secs(n as u64))
    }

    pub(super) fn read_milliseconds(self, text: &str) -> Result<Duration, BadValue> {
        self.read(text).map(|n| Duration::from_millis(n as u64))
    }
}

/// Rust reads `+5` as a number too; nobody means that.
fn digits(text: &str) -> Option<usize> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
}

pub(super) fn duration(
    text: &str,
    shortest: Duration,
    longest: Duration,
) -> Result<Duration, BadValue> {
    let duration = duration::parse(text).ok_or_else(|| BadValue::Duration(text.to_owned()))?;
    if !(shortest..=longest).contains(&duration) {
        return Err(BadValue::DurationRange {
            value: text.to_owned(),
            shortest,
            longest,
        });
    }
    Ok(duration)
}

pub(super) fn deletes_cap(text: &str) -> Result<DeletesCap, BadValue> {
    if text == "none" {
        return Ok(DeletesCap::None);
    }
    digits(text)
        .map(DeletesCap::AtMost)
        .ok_or_else(|| BadValue::DeletesCap(text.to_owned()))
}

/// `:8080` is every interface, of IPv6 and of IPv4, as Go programs have it; `0` is nowhere.
pub(super) fn address(text: &str) -> Result<Option<SocketAddr>, BadValue> {
    if text == "0" {
        return Ok(None);
    }
    let address = match text.strip_prefix(':') {
        Some(port) => digits(port)
            .and_then(|port| u16::try_from(port).ok())
            .map(|port| SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))),
        None => text.parse().ok(),
    };
    address
        .map(Some)
        .ok_or_else(|| BadValue::Address(text.to_owned()))
}

/// The items of a flag that is given several times, with commas, or both. An empty item is what a
/// template leaves behind, and means nothing.
pub(super) fn list(values: &[String]) -> impl Iterator<Item = &str> {
    values
        .iter()
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|item| !item.is_empty())
}

pub(super) fn excluded_type(text: &str) -> Result<ExcludedType, BadValue> {
    ExcludedType::parse(text).ok_or_else(|| BadValue::ExcludedType(text.to_owned()))
}

pub(super) fn schemes(text: &str) -> Result<Vec<Scheme>, BadValue> {
    let mut schemes = Vec::new();
    for name in list(&[text.to_owned()]) {
        // A GitRepoConfig with `git://` is refused by the API server, so there is nothing to allow.
        let scheme = Scheme::named(name)
            .filter(|scheme| *scheme != Scheme::Git)
            .ok_or_else(|| BadValue::Scheme(name.to_owned()))?;
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    if schemes.is_empty() {
        return Err(BadValue::NoScheme);
    }
    Ok(schemes)
}

pub(super) fn secrets_mode(text: &str) -> Result<SecretsMode, BadValue> {
    match text {
        "AsIs" => Ok(SecretsMode::AsIs),
        "Redact" => Ok(SecretsMode::Redact),
        "Skip" => Ok(SecretsMode::Skip),
        _ => Err(BadValue::SecretsMode(text.to_owned())),
    }
}

/// Clones are made and removed in it, so it is nobody's home and not the root.
pub(super) fn folder(text: &str) -> Result<PathBuf, BadValue> {
    let path = Path::new(text);
    let plain = path
        .components()
        .all(|component| component != Component::ParentDir);
    if path.is_absolute() && plain && path.parent().is_some() {
        Ok(path.to_owned())
    } else {
        Err(BadValue::Folder(text.to_owned()))
    }
}

pub(super) fn file(text: &str) -> Result<PathBuf, BadValue> {
    if text.is_empty() {
        return Err(BadValue::NoFile);
    }
    Ok(PathBuf::from(text))
}

/// What can be the value of a label too, so that it can be selected by.
pub(super) fn instance_id(text: &str) -> Result<String, BadValue> {
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    if edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner) && bytes.len() <= 63 {
        Ok(text.to_owned())
    } else {
        Err(BadValue::InstanceId(text.to_owned()))
    }
}

pub(super) fn namespace(text: &str) -> Result<String, BadValue> {
    let alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let edge = |byte: Option<&u8>| byte.is_some_and(alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| alphanumeric(byte) || *byte == b'-';
    if edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inner) && bytes.len() <= 63 {
        Ok(text.to_owned())
    } else {
        Err(BadValue::Namespace(text.to_owned()))
    }
}

/// `namespace/name`
pub(super) fn config_map(text: &str) -> Result<AuthorMapName, BadValue> {
    let bad = || BadValue::ConfigMap(text.to_owned());
    let (in_namespace, name) = text.split_once('/').ok_or_else(bad)?;
    let is_name =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    if name.is_empty() || name.len() > 253 || !name.bytes().all(is_name) {
        return Err(bad());
    }
    Ok(AuthorMapName {
        namespace: namespace(in_namespace).map_err(|_| bad())?,
        name: name.to_owned(),
    })
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, BadValue> {
    match text {
        "json" => Ok(LogFormat::Json),
        "text" => Ok(LogFormat::Text),
        _ => Err(BadValue::LogFormat(text.to_owned())),
    }
}

pub(super) fn log_filter(text: &str) -> Result<LogFilter, BadValue> {
    LogFilter::parse(text).ok_or_else(|| BadValue::LogLevel(text.to_owned()))
}

/// The name of most objects: parts of letters, digits and '-', with dots between them.
pub(super) fn object_name(text: &str) -> Result<String, BadValue> {
    let part = |part: &str| dns_label(part).is_ok();
    if text.len() <= 253 && text.split('.').all(part) {
        Ok(text.to_owned())
    } else {
        Err(BadValue::ObjectName(text.to_owned()))
    }
}

/// The name of a Service or a namespace.
pub(super) fn dns_label(text: &str) -> Result<String, BadValue> {
    let inner = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    let edges = !text.starts_with('-') && !text.ends_with('-');
    if (1..=63).contains(&text.len()) && edges && text.bytes().all(inner) {
        Ok(text.to_owned())
    } else {
        Err(BadValue::ObjectName(text.to_owned()))
    }
}

/// The name of a role can be anything that stands in a path.
pub(super) fn role_name(text: &str) -> Result<String, BadValue> {
    let inner = |c: char| !c.is_control() && !"/%".contains(c);
    if text != "." && text != ".." && text.len() <= 253 && text.chars().all(inner) {
        Ok(text.to_owned())
    } else {
        Err(BadValue::RoleName(text.to_owned()))
    }
}

/// A namespace and a name.
pub(super) fn certificate(text: &str) -> Result<String, BadValue> {
    let parts = text.split_once('/');
    let good = parts
        .is_some_and(|(namespace, name)| dns_label(namespace).is_ok() && object_name(name).is_ok());
    if good {
        Ok(text.to_owned())
    } else {
        Err(BadValue::Certificate(text.to_owned()))
    }
}

/// What the API server accepts: https, a host and a path, and nothing that it would refuse.
pub(super) fn webhook_url(text: &str) -> Result<String, BadValue> {
    let good = text.parse::<http::Uri>().is_ok_and(|url| {
        let plain = url.query().is_none() && !text.contains(['@', '#']);
        url.scheme_str() == Some("https") && url.host().is_some() && url.path() != "/" && plain
    });
    if good {
        Ok(text.to_owned())
    } else {
        Err(BadValue::WebhookUrl(text.to_owned()))
    }
}

/// The address that spans are posted to. Whoever writes only where a collector is means the usual path
/// there.
pub(super) fn collector(text: &str) -> Result<String, BadValue> {
    const PATH: &str = "/v1/traces";
    let good = text.parse::<http::Uri>().is_ok_and(|url| {
        let plain = url.query().is_none() && !text.contains(['@', '#']);
        url.scheme_str() == Some("http") && url.host().is_some_and(|host| !host.is_empty()) && plain
    });
    if good {
        let base = text.trim_end_matches('/');
        Ok(format!("{}{PATH}", base.strip_suffix(PATH).unwrap_or(base)))
    } else {
        Err(BadValue::Collector(text.to_owned()))
    }
}

pub(super) fn absolute_file(text: &str) -> Result<PathBuf, BadValue> {
    let path = Path::new(text);
    if path.is_absolute() && path.file_name().is_some() {
        Ok(path.to_owned())
    } else {
        Err(BadValue::AbsoluteFile(text.to_owned()))
    }
}
