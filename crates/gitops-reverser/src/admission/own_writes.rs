//! What the operator does itself, which is no person's work.

use std::time::Duration;

use serde::Deserialize;

/// How the operator signs what it writes to the cluster.
pub const FIELD_MANAGER: &str = "gitops-reverser";

/// How soon a server that does not answer is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The API server waits for answers of the webhook meanwhile.
const ANSWER: Duration = Duration::from_secs(3);

/// Who the operator is.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnWrites {
    user: Option<String>,
}

impl OwnWrites {
    /// The operator is this user; nothing if that could not be found out.
    #[must_use]
    pub(super) fn of(user: Option<String>) -> Self {
        Self { user }
    }

    /// Asks the API server who the operator is, until it answers. One that does not know the question
    /// leaves every write to whom it names.
    pub(super) async fn ask(client: &kube::Client) -> Self {
        use k8s_openapi::api::authentication::v1::SelfSubjectReview;
        let api: kube::Api<SelfSubjectReview> = kube::Api::all(client.clone());
        let params = kube::api::PostParams::default();
        loop {
            let question = SelfSubjectReview::default();
            match tokio::time::timeout(ANSWER, api.create(&params, &question)).await {
                Ok(Ok(review)) => {
                    let told = review.status.and_then(|status| status.user_info);
                    return Self::of(told.and_then(|told| told.username));
                }
                Ok(Err(kube::Error::Api(status))) if status.code < 500 => return Self::of(None),
                Ok(Err(_)) => tokio::time::sleep(RETRY).await,
                Err(_late) => {}
            }
        }
    }

    /// Whether a write is the operator's own.
    ///
    /// A service account belongs to the operator alone. A person who runs the operator with their own
    /// rights goes on working beside it: then only what carries its signature is its own.
    pub(super) fn is_own(&self, user: &str, review: &[u8]) -> bool {
        self.user.as_deref() == Some(user)
            && (user.starts_with("system:serviceaccount:") || is_signed(review))
    }
}

fn is_signed(review: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Review {
        request: Asked,
    }
    #[derive(Deserialize)]
    struct Asked {
        options: Option<Options>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Options {
        #[serde(default)]
        field_manager: String,
    }
    let review: Option<Review> = serde_json::from_slice(review).ok();
    let options = review.and_then(|review| review.request.options);
    options.is_some_and(|options| options.field_manager == FIELD_MANAGER)
}
