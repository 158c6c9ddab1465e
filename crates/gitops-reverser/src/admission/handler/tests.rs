use std::sync::Mutex;

use reverser_core::admission_record::AdmissionRecord;
use serde_json::{Value, json};

use super::*;
use crate::telemetry::metrics;

struct Asked {
    handler: Handler,
    records: Arc<Mutex<Vec<AdmissionRecord>>>,
}

impl Asked {
    fn new(own: Option<&str>) -> Self {
        let records = Arc::new(Mutex::new(Vec::new()));
        let taken = records.clone();
        let take: Records = Arc::new(move |record| taken.lock().unwrap().push(record));
        let telemetry = Telemetry::register(&mut metrics::registry());
        Self {
            handler: Handler::new(take, OwnWrites::of(own.map(str::to_owned)), telemetry),
            records,
        }
    }

    async fn post(&self, body: impl Into<Bytes>) -> (StatusCode, Value) {
        let body = body.into();
        let request = Request::post(PATH)
            .header(header::CONTENT_LENGTH, body.len())
            .body(Full::new(body))
            .unwrap();
        self.send(request).await
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> (StatusCode, Value) {
        let response = self.handler.clone().answer(request).await;
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn users(&self) -> Vec<String> {
        let records = self.records.lock().unwrap();
        records
            .iter()
            .map(|one| one.user.name().to_owned())
            .collect()
    }
}

fn review(user: &str, change: &Value) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "shop", "uid": "u1"},
    });
    let mut request = json!({
        "uid": "r1", "operation": "CREATE", "userInfo": {"username": user}, "object": object,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
    });
    for (key, value) in change.as_object().unwrap() {
        request[key] = value.clone();
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
        .to_string()
}

#[tokio::test]
async fn every_question_that_can_be_read_is_answered_with_yes_and_nothing_else() {
    let asked = Asked::new(None);
    let yes = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": "r1", "allowed": true},
    });
    for change in [
        json!({}),
        json!({"dryRun": true}),
        json!({"operation": "CONNECT"}),
        json!({"subResource": "status", "operation": "UPDATE"}),
        json!({"object": null}),
        json!({"object": {"kind": 7}}),
    ] {
        let answer = asked.post(review("alice", &change)).await;
        assert_eq!(answer, (StatusCode::OK, yes.clone()), "{change}");
    }
    assert_eq!(asked.users(), ["alice"], "the others name nobody");
}

#[tokio::test]
async fn a_large_question_is_answered_before_it_is_read() {
    let asked = Asked::new(None);
    let data = json!({"a": "x".repeat(LARGE)});
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": data,
        "metadata": {"name": "a", "namespace": "shop", "uid": "u1"},
    });
    let (status, answer) = asked
        .post(review("alice", &json!({"object": object})))
        .await;
    assert_eq!(
        (status, &answer["response"]["allowed"]),
        (StatusCode::OK, &json!(true))
    );
    while asked.users().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.users(), ["alice"]);
}

#[tokio::test]
async fn what_is_no_question_is_refused_and_names_nobody() {
    let asked = Asked::new(None);
    let good = review("mallory", &json!({}));
    for (body, status) in [
        (String::new(), StatusCode::BAD_REQUEST),
        ("[".repeat(100_000), StatusCode::BAD_REQUEST),
        (good[..good.len() - 1].to_owned(), StatusCode::BAD_REQUEST),
        (
            good.replace("AdmissionReview", "Review"),
            StatusCode::BAD_REQUEST,
        ),
        ("x".repeat(3 << 20), StatusCode::BAD_REQUEST),
        ("x".repeat(LARGEST_BODY + 1), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        assert_eq!(asked.post(body).await.0, status);
    }
    let body = || Full::from(good.clone());
    let without_length = Request::post(PATH).body(body()).unwrap();
    assert_eq!(
        asked.send(without_length).await.0,
        StatusCode::LENGTH_REQUIRED
    );
    let elsewhere = Request::post("/").body(body()).unwrap();
    assert_eq!(asked.send(elsewhere).await.0, StatusCode::NOT_FOUND);
    let get = Request::get(PATH).body(body()).unwrap();
    assert_eq!(asked.send(get).await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert!(asked.users().is_empty());
}

#[tokio::test]
async fn what_is_read_at_once_has_a_limit() {
    let asked = Asked::new(None);
    let rest = u32::try_from(BODIES / UNIT).unwrap();
    let others = asked.handler.bodies.clone().acquire_many_owned(rest).await;
    let question = review("alice", &json!({}));
    assert_eq!(
        asked.post(question.clone()).await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
    drop(others);
    assert_eq!(asked.post(question).await.0, StatusCode::OK);
    assert_eq!(asked.users(), ["alice"]);
}

#[tokio::test]
async fn the_operators_own_writes_name_nobody() {
    let account = "system:serviceaccount:gitops:gitops-reverser";
    let asked = Asked::new(Some(account));
    asked.post(review(account, &json!({}))).await;
    asked.post(review("alice", &json!({}))).await;
    assert_eq!(asked.users(), ["alice"]);
}

#[tokio::test]
async fn a_person_who_runs_the_operator_with_their_own_rights_keeps_their_own_work() {
    let asked = Asked::new(Some("alice"));
    let signed = |manager: &str| json!({"options": {"fieldManager": manager}});
    asked
        .post(review("alice", &signed(super::super::FIELD_MANAGER)))
        .await;
    assert!(asked.users().is_empty());
    asked.post(review("alice", &signed("kubectl-edit"))).await;
    asked.post(review("alice", &json!({}))).await;
    asked
        .post(review("bob", &signed(super::super::FIELD_MANAGER)))
        .await;
    assert_eq!(asked.users(), ["alice", "alice", "bob"]);
}
