//! The objects as they live, and how they are brought back.

use std::fmt::Write as _;
use std::time::Duration;

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use reverser_core::canon::canonicalise;
use reverser_core::object::Object;

use super::past::Old;
use crate::api_read::{Failure, FailureReason, Status};
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::Complaint;

/// Who the API server says wrote the fields.
const FIELD_MANAGER: &str = "gitops-reverser-restore";
/// How long a type or namespace that was just restored may take to be there.
const APPEARS: (u32, Duration) = (40, Duration::from_millis(250));

/// What lives under the name of a file, in the same form. `Err` inside says why that cannot be known of
/// this object; a cluster that does not answer at all is a complaint.
pub(super) async fn live(
    cluster: &Cluster,
    old: &Old,
) -> Result<Result<Option<String>, String>, Complaint> {
    match cluster.get(&url(old)).await {
        Ok(body) => {
            let text = String::from_utf8_lossy(&body);
            let object = Object::from_json(&text, None);
            let text = object.map(|object| Some(canonicalise(object).to_yaml()));
            Ok(text.map_err(|error| error.to_string()))
        }
        Err(failure) => match failure.reason {
            FailureReason::NotFound => Ok(Ok(None)),
            FailureReason::Unauthorized
            | FailureReason::Unreachable
            | FailureReason::Timeout
            | FailureReason::Truncated => Err(cluster.complaint(&failure)),
            _ => Ok(Err(failure.message)),
        },
    }
}

fn url(old: &Old) -> String {
    let key = &old.identity.type_key;
    let root = if key.group().is_empty() {
        format!("/api/{}", key.version())
    } else {
        format!("/apis/{}/{}", key.group(), key.version())
    };
    let namespace = old.identity.namespace.as_deref();
    let namespace = namespace.map_or_else(String::new, |name| format!("/namespaces/{name}"));
    // RBAC lets names hold what a path may not.
    let mut name = String::new();
    for byte in old.name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _infallible = write!(name, "%{byte:02X}");
        }
    }
    format!("{root}{namespace}/{}/{name}", key.resource())
}

/// How an application went: what the server has now.
pub(super) async fn apply(cluster: &Cluster, old: &Old, dry_run: bool) -> Result<String, String> {
    let (attempts, wait) = APPEARS;
    let mut attempt = 1;
    loop {
        match patch(cluster, old, dry_run).await {
            // Its definition or its namespace may have been restored a moment ago.
            Err(failure)
                if failure.reason == FailureReason::NotFound && attempt < attempts && !dry_run =>
            {
                attempt += 1;
                tokio::time::sleep(wait).await;
            }
            Err(failure) => return Err(failure.message),
            Ok(text) => return Ok(text),
        }
    }
}

async fn patch(cluster: &Cluster, old: &Old, dry_run: bool) -> Result<String, Failure> {
    let malformed =
        |error: &dyn std::fmt::Display| Failure::new(FailureReason::Malformed, error.to_string());
    let mut path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", url(old));
    if dry_run {
        path.push_str("&dryRun=All");
    }
    let request = Request::patch(path)
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .header(header::ACCEPT, "application/json")
        .body(Body::from(old.text.clone().into_bytes()))
        .map_err(|error| malformed(&error))?;
    let answer = cluster
        .client
        .send(request)
        .await
        .map_err(|error| Failure::new(FailureReason::Unreachable, error.to_string()))?;
    let (parts, body) = answer.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|error| malformed(&error))?
        .to_bytes();
    if !parts.status.is_success() {
        let status: Option<Status> = serde_json::from_slice(&body).ok();
        return Err(Failure::of_status(parts.status.as_u16(), status.as_ref()));
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}
