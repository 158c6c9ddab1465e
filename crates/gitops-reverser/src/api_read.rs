//! Questions to the API server whose answers are read as bytes, with deadlines and limits.
//!
//! kube's typed calls decode whole answers and have no deadline of their own: a list whose bytes
//! stop coming is awaited for ever. Here the body is a stream of bytes, so that silence, length and
//! truncation are seen, and nothing is decoded that the caller does not ask for.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, stream::BoxStream};
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::{Instant, timeout_at};

mod connecting;

/// Of a refusal not more is read than a person would.
const REFUSAL_BYTES: usize = 64 * 1024;
/// Of a refusal nothing is awaited that does not come with it.
const REFUSAL_TIME: Duration = Duration::from_secs(5);

/// What kind of failure it is; decides what is done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// 401: the credentials are not accepted (any more).
    Unauthorized,
    /// 403: not allowed to read this.
    Forbidden,
    /// 404: the type, or its version, is not served.
    NotFound,
    /// 410: the past that was asked for is gone.
    Expired,
    /// 429: the server has too much to do.
    TooManyRequests,
    /// 5xx.
    ServerError(u16),
    /// Any other status that is not 200.
    Refused(u16),
    /// No connection, or it broke before an answer began.
    Unreachable,
    /// No answer, or no end of it, in time.
    Timeout,
    /// The answer broke off.
    Truncated,
    /// The answer is not what was asked for.
    Malformed,
    /// The answer is larger than the limit.
    TooLarge,
}

impl FailureReason {
    /// For a status that is not 200.
    #[must_use]
    pub fn of_status(code: u16) -> Self {
        match code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden,
            404 => Self::NotFound,
            410 => Self::Expired,
            429 => Self::TooManyRequests,
            500..=599 => Self::ServerError(code),
            _ => Self::Refused(code),
        }
    }

    /// One word, for metrics and conditions.
    #[must_use]
    pub const fn category(self) -> &'static str {
        match self {
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::Expired => "Expired",
            Self::TooManyRequests => "TooManyRequests",
            Self::ServerError(_) => "ServerError",
            Self::Refused(_) => "Refused",
            Self::Unreachable => "Unreachable",
            Self::Timeout => "Timeout",
            Self::Truncated => "Truncated",
            Self::Malformed => "Malformed",
            Self::TooLarge => "TooLarge",
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What kind of failure it is.
    pub reason: FailureReason,
    /// A sentence for status, in the server's own words where it has some.
    pub message: String,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl Failure {
    /// A failure that the server did not put into words.
    pub fn new(reason: FailureReason, message: impl Into<String>) -> Self {
        Self {
            reason,
            message: message.into(),
            retry_after: None,
        }
    }

    /// A failure as a `Status` tells it.
    #[must_use]
    pub fn of_status(code: u16, status: Option<&Status>) -> Self {
        let words = status.and_then(|status| status.message.as_deref());
        let name = StatusCode::from_u16(code).ok();
        let name = name.and_then(|code| code.canonical_reason());
        let message = words.filter(|words| !words.is_empty()).or(name);
        Self {
            reason: FailureReason::of_status(code),
            message: format!("{code}: {}", message.unwrap_or("no reason given")),
            retry_after: status
                .and_then(|status| status.details.as_ref()?.retry_after_seconds)
                .map(Duration::from_secs),
        }
    }
}

/// As much of a `Status` of the API as is used here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The status of HTTP.
    pub code: Option<u16>,
    /// A sentence.
    pub message: Option<String>,
    details: Option<StatusDetails>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    retry_after_seconds: Option<u64>,
}

/// The body of an answer, as it comes in.
pub struct Incoming {
    chunks: BoxStream<'static, Result<Bytes, kube::Error>>,
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl Incoming {
    /// The next bytes; `None` at the orderly end.
    pub async fn chunk(&mut self, deadline: Instant) -> Result<Option<Bytes>, Failure> {
        match timeout_at(deadline, self.chunks.next()).await {
            Err(_) => Err(Failure::new(
                FailureReason::Timeout,
                "the answer did not go on in time",
            )),
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(Failure::new(
                FailureReason::Truncated,
                format!("the answer broke off: {}", describe(&error)),
            )),
        }
    }

    /// The whole body, if it is complete in time and not larger than the limit.
    pub async fn whole(mut self, deadline: Instant, limit: usize) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(bytes) = self.chunk(deadline).await? {
            if body.len() + bytes.len() > limit {
                let message = format!("the answer is larger than {limit} bytes");
                return Err(Failure::new(FailureReason::TooLarge, message));
            }
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }
}

/// A client that leaves it to us whether and when to ask again.
///
/// kube's own retries wait for as long as a `Retry-After` says, in which nothing is known and nobody
/// is told.
pub fn client(mut config: kube::Config) -> Result<kube::Client, kube::Error> {
    config.default_retry = false;
    connecting::connect(&config)
}

/// A client for watches, which may be silent for long, and asks again by itself.
pub fn following(config: &kube::Config) -> Result<kube::Client, kube::Error> {
    connecting::connect(config)
}

/// So long an answer is waited for that is no list and no watch.
pub const ANSWER: Duration = Duration::from_secs(30);

/// A client for questions to which an answer comes soon, or never: what is not answered `within` that
/// time is an error.
pub fn asking(mut config: kube::Config, within: Duration) -> Result<kube::Client, kube::Error> {
    config.read_timeout = Some(within);
    config.write_timeout = Some(within);
    // How long a connection was idle before the question does not count.
    config.reset_reader_on_write = true;
    connecting::connect(&config)
}

/// Asks for a path; gives the body once the server has said 200.
pub async fn get(
    client: &kube::Client,
    path_and_query: &str,
    accept: &'static str,
    deadline: Instant,
) -> Result<Incoming, Failure> {
    let request = Request::get(path_and_query)
        .header(header::ACCEPT, HeaderValue::from_static(accept))
        // Compressed event streams come in pieces that decoders do not put together again.
        .header(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"))
        .body(Body::empty())
        .map_err(|error| Failure::new(FailureReason::Malformed, error.to_string()))?;
    let answer = match timeout_at(deadline, client.send(request)).await {
        Err(_) => {
            let message = "the server did not answer in time";
            return Err(Failure::new(FailureReason::Timeout, message));
        }
        Ok(Err(error)) => {
            let message = format!("cannot reach the server: {}", describe(&error));
            return Err(Failure::new(FailureReason::Unreachable, message));
        }
        Ok(Ok(answer)) => answer,
    };
    let (parts, body) = answer.into_parts();
    let incoming = Incoming {
        chunks: body.into_data_stream().boxed(),
    };
    if parts.status == StatusCode::OK {
        return Ok(incoming);
    }
    let text = incoming
        .whole(Instant::now() + REFUSAL_TIME, REFUSAL_BYTES)
        .await
        // The status says enough.
        .unwrap_or_default();
    let status: Option<Status> = serde_json::from_slice(&text).ok();
    let mut failure = Failure::of_status(parts.status.as_u16(), status.as_ref());
    let retry_after = parts.headers.get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
    failure.retry_after = failure
        .retry_after
        .max(retry_after.map(Duration::from_secs));
    Err(failure)
}

/// An error with its causes, which often say more than it does.
pub(crate) fn describe(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Namespace;

    use super::*;

    #[tokio::test]
    async fn a_server_that_takes_questions_and_never_answers_is_an_error() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = tokio::spawn(async move {
            let mut connections = Vec::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.push(connection);
            }
        });
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let client = asking(config, Duration::from_millis(100)).unwrap();
        let api: kube::Api<Namespace> = kube::Api::all(client);
        assert!(api.get("kube-system").await.is_err());
        silent.abort();
    }

    #[test]
    fn a_refusal_is_told_in_the_words_of_the_server() {
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"too many requests","reason":"TooManyRequests",
            "details":{"retryAfterSeconds":3},"code":429}"#;
        let status: Status = serde_json::from_str(body).unwrap();
        let failure = Failure::of_status(429, Some(&status));
        assert_eq!(failure.reason, FailureReason::TooManyRequests);
        assert_eq!(failure.message, "429: too many requests");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(3)));
        let failure = Failure::of_status(503, None);
        assert_eq!(failure.reason, FailureReason::ServerError(503));
        assert_eq!(failure.message, "503: Service Unavailable");
    }
}
