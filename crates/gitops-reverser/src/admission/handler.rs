//! One question of the API server, and the answer, which is always yes.
//!
//! ## Guarantees
//! - Nothing is ever denied or changed, and nothing is waited for but the body of the question and,
//!   where replicas share what they learn, a moment for those who keep it.
//! - However many ask, and whatever they send, the bodies in memory have a limit together.
//! - A question that cannot be read is refused; the API server then goes on as if nobody had been
//!   asked, and the change has no author.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited};
use reverser_core::admission_record::read_review;
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::own_writes::OwnWrites;
use crate::attribution::{Kept, TakeRecords};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{AdmissionAnswered, AdmissionOutcome};

/// Where the API server asks.
pub const PATH: &str = "/process-validating-webhook";

/// Two objects as large as etcd takes them, and what is around them.
const LARGEST_BODY: usize = 4 * 1024 * 1024;
/// All bodies that are being read, together. Thousands of usual ones, or eight of the largest.
const BODIES: usize = 32 * 1024 * 1024;
/// What bodies are counted in.
const UNIT: usize = 1024;
/// Above this, the answer comes first and the reading after it.
const LARGE: usize = 256 * 1024;
/// Longer than the API server waits for an answer: what comes later is of no use to anybody.
const BODY_DEADLINE: Duration = Duration::from_secs(5);

/// Who takes records.
pub type Records = Arc<dyn TakeRecords>;

/// What answers.
#[derive(Clone)]
pub(super) struct Handler {
    records: Records,
    own: OwnWrites,
    telemetry: Telemetry,
    bodies: Arc<Semaphore>,
}

/// A body, and its part of the memory for bodies.
struct Held {
    body: Bytes,
    _part: OwnedSemaphorePermit,
}

/// What was learnt from a question.
struct Noted {
    /// The id of the question.
    uid: String,
    outcome: AdmissionOutcome,
    why: &'static str,
    kept: Option<Kept>,
}

impl Handler {
    /// Gives what it learns to `records`, but for what the operator did itself.
    #[must_use]
    pub(super) fn new(records: Records, own: OwnWrites, telemetry: Telemetry) -> Self {
        Self {
            records,
            own,
            telemetry,
            bodies: Arc::new(Semaphore::new(BODIES / UNIT)),
        }
    }

    /// Answers one request.
    pub(super) async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, "there is nothing here");
        }
        if request.method() != Method::POST {
            return refusal(StatusCode::METHOD_NOT_ALLOWED, "post an AdmissionReview");
        }
        match self.read(request).await {
            Ok(held) => self.review(held).await,
            Err((status, why)) => {
                self.telemetry.emit(AdmissionAnswered {
                    outcome: AdmissionOutcome::Refused,
                    took: Duration::ZERO,
                    why,
                });
                refusal(status, why)
            }
        }
    }

    async fn read<B>(&self, request: Request<B>) -> Result<Held, (StatusCode, &'static str)>
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let length = length.ok_or((StatusCode::LENGTH_REQUIRED, "say how long the body is"))?;
        if length > LARGEST_BODY {
            return Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
        }
        let units = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
        let part = self.bodies.clone().try_acquire_many_owned(units);
        let part = part.map_err(|_| (StatusCode::SERVICE_UNAVAILABLE, "too much at once"))?;
        let whole = Limited::new(request.into_body(), LARGEST_BODY).collect();
        match tokio::time::timeout(BODY_DEADLINE, whole).await {
            Ok(Ok(whole)) => Ok(Held {
                body: whole.to_bytes(),
                _part: part,
            }),
            Ok(Err(_)) => Err((StatusCode::BAD_REQUEST, "the body broke off")),
            Err(_) => Err((StatusCode::REQUEST_TIMEOUT, "the body took too long")),
        }
    }

    async fn review(self, held: Held) -> Response<Full<Bytes>> {
        let began = Instant::now();
        if held.body.len() <= LARGE {
            let Some(noted) = self.note(&held.body) else {
                self.refuse_unreadable(began);
                return refusal(StatusCode::BAD_REQUEST, "the body is no AdmissionReview");
            };
            drop(held);
            if let Some(kept) = noted.kept {
                kept.wait().await;
            }
            self.tell(noted.outcome, noted.why, began);
            return allowed(&noted.uid);
        }
        let Some(uid) = uid_of(&held.body) else {
            self.refuse_unreadable(began);
            return refusal(StatusCode::BAD_REQUEST, "the body is no AdmissionReview");
        };
        tokio::task::spawn_blocking(move || match self.note(&held.body) {
            Some(noted) => self.tell(noted.outcome, noted.why, began),
            None => self.refuse_unreadable(began),
        });
        allowed(&uid)
    }

    /// Notes who tried what; nothing if it cannot be read.
    fn note(&self, body: &[u8]) -> Option<Noted> {
        let review = read_review(body).ok()?;
        let (outcome, why, kept) = match review.record {
            Ok(record) if self.own.is_own(record.user.name(), body) => {
                (AdmissionOutcome::Ignored, "a write of the operator", None)
            }
            Ok(record) => (AdmissionOutcome::Recorded, "", self.records.take(record)),
            Err(_) => (AdmissionOutcome::Ignored, "nothing to note", None),
        };
        Some(Noted {
            uid: review.uid,
            outcome,
            why,
            kept,
        })
    }

    fn tell(&self, outcome: AdmissionOutcome, why: &'static str, began: Instant) {
        self.telemetry.emit(AdmissionAnswered {
            outcome,
            took: began.elapsed(),
            why,
        });
    }

    fn refuse_unreadable(&self, began: Instant) {
        self.tell(
            AdmissionOutcome::Refused,
            "the body is no AdmissionReview",
            began,
        );
    }
}

/// The id of a question, without a look at its objects.
fn uid_of(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Review {
        request: Asked,
    }
    #[derive(Deserialize)]
    struct Asked {
        uid: String,
    }
    let review: Review = serde_json::from_slice(body).ok()?;
    Some(review.request.uid)
}

fn allowed(uid: &str) -> Response<Full<Bytes>> {
    let answer = serde_json::json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true},
    });
    let mut response = Response::new(Full::from(answer.to_string()));
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn refusal(status: StatusCode, why: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(format!("{why}\n")));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
