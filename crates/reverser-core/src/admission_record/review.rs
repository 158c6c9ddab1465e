//! The body of an `AdmissionReview`, read into a record.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{AdmissionRecord, AdmittedChange, FormId, Requester};
use crate::canon::canonicalise;
use crate::object::{Object, ObjectError};
use crate::object_key::{KeyError, TypeKey};
use crate::value::{Number, Value};

/// The longest id of a review or an object, and the longest version. They are numbers and UUIDs.
const LONGEST_ID: usize = 256;
/// The longest name of an object: a DNS name, or one segment of a path.
const LONGEST_OBJECT_NAME: usize = 1024;
/// The longest e-mail address and the longest name of a person that are kept.
const LONGEST_PERSON: usize = 256;

/// What a webhook was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Review {
    /// The id that the answer has to carry.
    pub uid: String,
    /// Who tried what, or why that does not matter.
    pub record: Result<AdmissionRecord, NoRecord>,
}

/// Why nothing is noted of a request that is in order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoRecord {
    /// Nothing will be stored.
    #[error("a dry run")]
    DryRun,
    /// Not an operation that changes an object.
    #[error("not a creation, update or deletion")]
    Operation,
    /// The object is like that already: nothing will be stored.
    #[error("a change that changes nothing")]
    Unchanged,
    /// A part of an object that is not mirrored.
    #[error("a subresource other than scale")]
    Subresource,
    /// The object, or what it was before, is not in the request.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// The object cannot be read.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The type cannot be.
    #[error(transparent)]
    Type(#[from] KeyError),
    /// Nobody has such long names.
    #[error("`{0}` is longer than the server allows")]
    TooLong(&'static str),
}

/// Why a body is not a question to a webhook.
#[derive(Debug, thiserror::Error)]
pub enum ReviewError {
    /// Not text.
    #[error("the body is not UTF-8")]
    NotText,
    /// Not JSON, or not of this shape.
    #[error("the body is not an AdmissionReview (line {line}, column {column})")]
    NotAReview {
        /// The line, counted from 1.
        line: usize,
        /// The column, counted from 1.
        column: usize,
    },
    /// Another version, or another kind.
    #[error("expected kind AdmissionReview of admission.k8s.io/v1")]
    Kind,
    /// No id to answer to.
    #[error("`request.uid` is missing or too long")]
    Uid,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReviewBody<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Request<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    operation: String,
    resource: ServedAs,
    #[serde(default)]
    sub_resource: Option<String>,
    #[serde(default)]
    dry_run: Option<bool>,
    user_info: UserInfo,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    old_object: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ServedAs {
    #[serde(default)]
    group: String,
    version: String,
    resource: String,
}

#[derive(Deserialize)]
struct UserInfo {
    #[serde(default)]
    username: String,
    #[serde(default)]
    extra: Option<BTreeMap<String, Option<Vec<String>>>>,
}

/// Reads what a webhook was asked. Whatever the bytes are, the answer is a value.
pub fn read_review(body: &[u8]) -> Result<Review, ReviewError> {
    let text = std::str::from_utf8(body).map_err(|_| ReviewError::NotText)?;
    let ReviewBody {
        api_version,
        kind,
        request,
    } = serde_json::from_str(text).map_err(|error| ReviewError::NotAReview {
        line: error.line(),
        column: error.column(),
    })?;
    if api_version != "admission.k8s.io/v1" || kind != "AdmissionReview" {
        return Err(ReviewError::Kind);
    }
    if request.uid.is_empty() || request.uid.len() > LONGEST_ID {
        return Err(ReviewError::Uid);
    }
    Ok(Review {
        uid: request.uid.clone(),
        record: record_of(&request),
    })
}

fn record_of(request: &Request<'_>) -> Result<AdmissionRecord, NoRecord> {
    if request.dry_run == Some(true) {
        return Err(NoRecord::DryRun);
    }
    let subresource = request.sub_resource.as_deref().unwrap_or_default();
    let object = || read(request.object, "request.object");
    let old_object = || read(request.old_object, "request.oldObject");
    let (of, change) = match (&*request.operation, subresource) {
        ("CREATE", "") => {
            let new = object()?;
            let of = Of::read(&new)?;
            (of, AdmittedChange::Create { new: form(new) })
        }
        ("UPDATE", "") => {
            let (old, new) = (old_object()?, object()?);
            let of = Of::read(&old)?;
            let replaced = version(&old)?;
            let (old, new) = (form(old), form(new));
            if old == new {
                return Err(NoRecord::Unchanged);
            }
            let old = old.blob;
            (of, AdmittedChange::Update { replaced, old, new })
        }
        ("UPDATE", "scale") => {
            let (old, new) = (old_object()?, object()?);
            let change = AdmittedChange::Scale {
                replaced: version(&old)?,
                replicas: replicas_asked(&new)?,
            };
            (Of::read(&old)?, change)
        }
        ("DELETE", "") => {
            let old = old_object()?;
            let change = AdmittedChange::Delete {
                version: version(&old)?,
            };
            (Of::read(&old)?, change)
        }
        ("CREATE" | "UPDATE" | "DELETE", _) => return Err(NoRecord::Subresource),
        _ => return Err(NoRecord::Operation),
    };
    let Of {
        namespace,
        name,
        uid,
    } = of;
    let ServedAs {
        group,
        version,
        resource,
    } = &request.resource;
    Ok(AdmissionRecord {
        type_key: TypeKey::new(group, version, resource)?,
        namespace,
        name,
        uid,
        change,
        user: requester(&request.user_info)?,
    })
}

/// Which object it is about, in lengths that can be kept.
struct Of {
    namespace: Option<String>,
    name: String,
    uid: String,
}

impl Of {
    fn read(object: &Object<'_>) -> Result<Self, NoRecord> {
        let uid = object.uid();
        if uid.is_empty() {
            return Err(NoRecord::Missing("metadata.uid"));
        }
        for (text, longest, path) in [
            (uid, LONGEST_ID, "metadata.uid"),
            (object.name(), LONGEST_OBJECT_NAME, "metadata.name"),
            (
                object.namespace().unwrap_or_default(),
                LONGEST_ID,
                "metadata.namespace",
            ),
        ] {
            if text.len() > longest {
                return Err(NoRecord::TooLong(path));
            }
        }
        Ok(Self {
            namespace: object.namespace().map(str::to_owned),
            name: object.name().to_owned(),
            uid: uid.to_owned(),
        })
    }
}

fn read<'a>(raw: Option<&'a RawValue>, path: &'static str) -> Result<Object<'a>, NoRecord> {
    let raw = raw.filter(|raw| raw.get() != "null");
    let raw = raw.ok_or(NoRecord::Missing(path))?;
    Ok(Object::from_json(raw.get(), None)?)
}

fn form(object: Object<'_>) -> FormId {
    FormId {
        managers: object.managers().map(|managers| managers.id()),
        blob: canonicalise(object).blob_id(),
    }
}

fn version(object: &Object<'_>) -> Result<String, NoRecord> {
    match object.resource_version() {
        "" => Err(NoRecord::Missing("metadata.resourceVersion")),
        version if version.len() > LONGEST_ID => Err(NoRecord::TooLong("metadata.resourceVersion")),
        version => Ok(version.to_owned()),
    }
}

/// The server leaves a zero out.
fn replicas_asked(scale: &Object<'_>) -> Result<i64, NoRecord> {
    match scale.root.at(&["spec", "replicas"]) {
        None | Some(Value::Null) => Ok(0),
        Some(Value::Number(Number::Int(replicas))) => Ok(*replicas),
        Some(_) => Err(NoRecord::Missing("spec.replicas")),
    }
}

fn requester(info: &UserInfo) -> Result<Requester, NoRecord> {
    if info.username.is_empty() {
        return Err(NoRecord::Missing("request.userInfo.username"));
    }
    let mut user = Requester::new(&info.username);
    for (key, values) in info.extra.iter().flatten() {
        let Some([value]) = values.as_deref() else {
            continue;
        };
        if value.is_empty() || value.len() > LONGEST_PERSON {
            continue;
        }
        match Claim::of(key) {
            Some(Claim::Email) => {
                user.email.get_or_insert_with(|| value.clone());
            }
            Some(Claim::Name) => {
                user.display_name.get_or_insert_with(|| value.clone());
            }
            None => {}
        }
    }
    Ok(user)
}

/// What identity providers say about a person, by the names that are common for it.
enum Claim {
    Email,
    Name,
}

impl Claim {
    /// Keys are often below a domain, as in `example.com/email`.
    fn of(key: &str) -> Option<Self> {
        let (domain, word) = key.rsplit_once('/').unwrap_or_default();
        let word = if domain.is_empty() { key } else { word };
        if domain == "authentication.kubernetes.io" {
            return None;
        }
        match word.to_ascii_lowercase().as_str() {
            "email" | "mail" | "e-mail" | "emailaddress" => Some(Self::Email),
            "name" | "displayname" | "display-name" | "display_name" | "fullname" | "full-name"
            | "full_name" => Some(Self::Name),
            _ => None,
        }
    }
}
