//! Lines, events and pages: bytes in, values out. Objects stay text.

use std::borrow::Cow;
use std::cmp::Ordering;

use bytes::{Bytes, BytesMut};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{LossReason, Scope};
use crate::api_read::{Failure, Status};

/// Bytes as they come, lines as they are complete.
#[derive(Debug, Default)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// So far there is no end of a line.
    searched: usize,
}

impl Lines {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next line that is complete, without its end.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        loop {
            let found = self.buffer[self.searched..]
                .iter()
                .position(|&byte| byte == b'\n');
            let Some(found) = found else {
                self.searched = self.buffer.len();
                return None;
            };
            let line = self.buffer.split_to(self.searched + found + 1).freeze();
            self.searched = 0;
            let line = line.slice(..line.len() - 1);
            if !line.trim_ascii().is_empty() {
                return Some(line);
            }
        }
    }

    /// How much there is of a line that is not complete.
    pub(super) fn unfinished(&self) -> usize {
        self.buffer.len()
    }
}

/// What a line of a watch tells.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// An object changed.
    Object {
        change: Change,
        object: Box<str>,
        version: String,
    },
    /// Nothing changed up to this version.
    Bookmark {
        version: String,
        /// All that was there at the start has been told.
        initial_events_end: bool,
    },
    /// The watch is over.
    Error(Failure),
    /// An object changed, but which?
    Undecodable {
        name: Option<(Option<String>, String)>,
        reason: String,
    },
}

/// How an object changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Added,
    Modified,
    Deleted,
}

#[derive(Deserialize)]
struct WireEvent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// As much of an object as the driver needs.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    metadata: HeadMetadata<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HeadMetadata<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    namespace: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BookmarkObject {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BookmarkAnnotations>,
}

#[derive(Default, Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

/// Reads one line of a watch.
pub(super) fn read_event(line: &[u8]) -> Result<Event, Failure> {
    let WireEvent { kind, object } = serde_json::from_slice(line)
        .map_err(|error| malformed(format!("a line of the watch is no event: {error}")))?;
    let change = match &*kind {
        "ADDED" => Change::Added,
        "MODIFIED" => Change::Modified,
        "DELETED" => Change::Deleted,
        "BOOKMARK" => {
            let bookmark: BookmarkObject = serde_json::from_str(object.get())
                .map_err(|error| malformed(format!("a bookmark cannot be read: {error}")))?;
            let BookmarkMetadata {
                resource_version,
                annotations,
            } = bookmark.metadata;
            let end = annotations.unwrap_or_default().initial_events_end;
            return Ok(Event::Bookmark {
                version: usable(Some(resource_version.into()))?,
                initial_events_end: end.as_deref() == Some("true"),
            });
        }
        "ERROR" => {
            let status: Option<Status> = serde_json::from_str(object.get()).ok();
            let code = status.as_ref().and_then(|status| status.code);
            let failure = Failure::of_status(code.unwrap_or(500), status.as_ref());
            return Ok(Event::Error(failure));
        }
        other => return Err(malformed(format!("{other:?} is no kind of event"))),
    };
    Ok(read_change(change, object))
}

fn read_change(change: Change, object: &RawValue) -> Event {
    let head: HeadMetadata<'_> = match serde_json::from_str(object.get()) {
        Ok(Head { metadata }) => metadata,
        Err(error) => {
            return Event::Undecodable {
                name: None,
                reason: error.to_string(),
            };
        }
    };
    let HeadMetadata {
        resource_version,
        name,
        namespace,
    } = head;
    match usable(resource_version) {
        Ok(version) => Event::Object {
            change,
            object: object.get().into(),
            version,
        },
        Err(Failure { message, .. }) => Event::Undecodable {
            name: name.map(|name| (namespace.map(Cow::into_owned), name.into_owned())),
            reason: message,
        },
    }
}

/// A page of a list.
#[derive(Debug)]
pub(super) struct Page<'a> {
    /// The version of the whole list.
    pub(super) version: String,
    /// How to ask for the next page.
    pub(super) next: Option<String>,
    /// Its objects, or why one is none.
    pub(super) items: Vec<Result<&'a str, String>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WirePage<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    metadata: PageMetadata<'a>,
    /// `null` is an empty list to Go; a list without it is no list.
    #[serde(borrow, deserialize_with = "null_or_items")]
    items: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageMetadata<'a> {
    #[serde(borrow)]
    resource_version: Option<Cow<'a, str>>,
    #[serde(rename = "continue", borrow)]
    next: Option<Cow<'a, str>>,
    remaining_item_count: Option<i64>,
}

fn null_or_items<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<&'de RawValue>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// The version of a list of which nothing else is asked.
pub(super) fn version_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct OnlyMetadata<'a> {
        #[serde(borrow)]
        metadata: PageMetadata<'a>,
    }
    let page: OnlyMetadata<'_> = serde_json::from_slice(body).ok()?;
    usable(page.metadata.resource_version).ok()
}

/// Reads a page of the list of a scope.
pub(super) fn read_page<'a>(body: &'a [u8], scope: &Scope) -> Result<Page<'a>, Failure> {
    let page: WirePage<'a> = serde_json::from_slice(body).map_err(|error| {
        // Whoever cut it, cut it in the middle of something.
        let reason = if error.is_eof() {
            LossReason::Truncated
        } else {
            LossReason::Malformed
        };
        Failure::new(reason, format!("the answer is no list: {error}"))
    })?;
    let WirePage {
        kind,
        api_version,
        metadata,
        items,
    } = page;
    // A custom type may name its list as it likes.
    let is_list = !kind.is_empty() && kind != "Status" && kind != *scope.kind;
    if !is_list || api_version != *scope.api_version() {
        let message = format!("the answer is of {api_version} {kind}, not a list of {scope}");
        return Err(malformed(message));
    }
    let next = metadata.next.filter(|token| !token.is_empty());
    let left = metadata.remaining_item_count.unwrap_or(0);
    if next.is_none() && left > 0 {
        let message = format!("the list ends, and says that {left} objects are left");
        return Err(malformed(message));
    }
    let items = items.into_iter().map(|item| match item.get() {
        text if text.starts_with('{') => Ok(text),
        _ => Err("an item of the list is no object".to_owned()),
    });
    Ok(Page {
        version: usable(metadata.resource_version)?,
        next: next.map(Cow::into_owned),
        items: items.collect(),
    })
}

/// A version to watch from. `0` would mean "from wherever you are".
fn usable(version: Option<Cow<'_, str>>) -> Result<String, Failure> {
    match version {
        Some(version) if !version.is_empty() && version != "0" => Ok(version.into_owned()),
        _ => Err(malformed("it has no resourceVersion")),
    }
}

/// Whether a version is older than another. Versions that are not numbers cannot be compared.
pub(super) fn is_older(version: &str, than: &str) -> bool {
    let decimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !decimal(version) || !decimal(than) {
        return false;
    }
    let digits = |text: &str| text.trim_start_matches('0').to_owned();
    let (version, than) = (digits(version), digits(than));
    version.len().cmp(&than.len()).then(version.cmp(&than)) == Ordering::Less
}

fn malformed(message: impl Into<String>) -> Failure {
    Failure::new(LossReason::Malformed, message)
}

#[cfg(test)]
mod tests;
