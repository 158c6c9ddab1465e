use serde_json::{Value, json};

use super::*;

const MANAGED: &str = r#"[{"manager":"kubectl","operation":"Update","time":"2026-01-01T00:00:01Z","fieldsV1":{"f:data":{}}}]"#;

fn config_map(version: &str, value: &str) -> Value {
    let managed: Value = serde_json::from_str(MANAGED).unwrap();
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "web", "namespace": "shop", "uid": "uid-1", "managedFields": managed,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "data": {"value": value},
    });
    if !version.is_empty() {
        object["metadata"]["resourceVersion"] = json!(version);
    }
    object
}

fn request(operation: &str, old: &Value, new: &Value) -> Value {
    json!({
        "uid": "review-1",
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "name": "web", "namespace": "shop", "operation": operation,
        "userInfo": {"username": "alice", "groups": ["system:authenticated"]},
        "object": new, "oldObject": old, "dryRun": false,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
    })
}

fn read(request: &Value) -> Review {
    let body =
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request});
    read_review(body.to_string().as_bytes()).unwrap()
}

fn change(request: &Value) -> AdmittedChange {
    read(request).record.unwrap().change
}

fn why(request: &Value) -> NoRecord {
    read(request).record.unwrap_err()
}

/// What the watch would say of the same object.
fn watched(object: &Value) -> FormId {
    let text = object.to_string();
    let object = crate::object::Object::from_json(&text, None).unwrap();
    FormId {
        managers: object.managers().map(|managers| managers.id()),
        blob: crate::canon::canonicalise(object).blob_id(),
    }
}

#[test]
fn each_operation_becomes_the_record_that_the_watch_can_be_compared_with() {
    let (old, new) = (config_map("41", "a"), config_map("41", "b"));
    let review = read(&request("UPDATE", &old, &new));
    assert_eq!(review.uid, "review-1");
    let record = review.record.unwrap();
    assert_eq!(
        (&*record.uid, record.namespace.as_deref(), &*record.name),
        ("uid-1", Some("shop"), "web")
    );
    assert_eq!(record.type_key.to_string(), "v1/configmaps");
    assert_eq!(record.user, Requester::new("alice"));
    let stored = config_map("42", "b");
    let update = AdmittedChange::Update {
        replaced: "41".into(),
        old: watched(&old).blob,
        new: watched(&stored),
    };
    assert_eq!(record.change, update);
    let create = AdmittedChange::Create {
        new: watched(&stored),
    };
    let unborn = config_map("", "b");
    assert_eq!(change(&request("CREATE", &Value::Null, &unborn)), create);
    let delete = AdmittedChange::Delete {
        version: "41".into(),
    };
    assert_eq!(change(&request("DELETE", &old, &Value::Null)), delete);
}

#[test]
fn scaling_is_told_by_version_and_number_and_a_number_that_is_absent_is_zero() {
    let scale = |replicas: &Value| {
        let spec = match replicas {
            Value::Null => json!({}),
            replicas => json!({ "replicas": replicas }),
        };
        json!({
            "apiVersion": "autoscaling/v1", "kind": "Scale", "spec": spec,
            "metadata": {"name": "web", "namespace": "shop", "uid": "uid-1", "resourceVersion": "7"},
        })
    };
    let asked = |replicas: &Value| {
        let mut request = request("UPDATE", &scale(&json!(3)), &scale(replicas));
        request["subResource"] = json!("scale");
        request["resource"] = json!({"group": "apps", "version": "v1", "resource": "deployments"});
        let record = read(&request).record?;
        assert_eq!(record.type_key.resource(), "deployments");
        Ok(record.change)
    };
    for (replicas, expected) in [(json!(5), 5), (Value::Null, 0)] {
        let replaced = "7".to_owned();
        let change = AdmittedChange::Scale {
            replaced,
            replicas: expected,
        };
        assert_eq!(asked(&replicas), Ok(change));
    }
    assert_eq!(asked(&json!("5")), Err(NoRecord::Missing("spec.replicas")));
}

#[test]
fn attempts_that_can_store_nothing_leave_no_record() {
    let (old, new) = (config_map("41", "a"), config_map("41", "b"));
    let with = |field: &str, value: Value| {
        let mut request = request("UPDATE", &old, &new);
        request[field] = value;
        why(&request)
    };
    assert_eq!(with("dryRun", json!(true)), NoRecord::DryRun);
    assert_eq!(with("object", old.clone()), NoRecord::Unchanged);
    assert_eq!(with("operation", json!("CONNECT")), NoRecord::Operation);
    assert_eq!(with("operation", json!("update")), NoRecord::Operation);
    for subresource in ["status", "ephemeralcontainers", "eviction"] {
        assert_eq!(
            with("subResource", json!(subresource)),
            NoRecord::Subresource
        );
    }
    assert_eq!(
        with("oldObject", Value::Null),
        NoRecord::Missing("request.oldObject")
    );
    assert_eq!(
        with("object", Value::Null),
        NoRecord::Missing("request.object")
    );
    assert_eq!(
        with("userInfo", json!({})),
        NoRecord::Missing("request.userInfo.username")
    );
    assert!(matches!(with("object", json!([1])), NoRecord::Object(_)));
    let resource = json!({"group": "", "version": "v1", "resource": "Config/Maps"});
    assert!(matches!(with("resource", resource), NoRecord::Type(_)));
    let mut unversioned = old.clone();
    unversioned["metadata"]["resourceVersion"] = json!("9".repeat(10_000));
    assert_eq!(
        with("oldObject", unversioned),
        NoRecord::TooLong("metadata.resourceVersion")
    );
}

#[test]
fn identity_providers_may_tell_name_and_address() {
    let user = |extra: Value| {
        let mut request = request("DELETE", &config_map("41", "a"), &Value::Null);
        request["userInfo"]["extra"] = extra;
        read(&request).record.unwrap().user
    };
    let known = user(json!({
        "example.com/email": ["alice@example.com"], "displayName": ["Alice Liddell"],
        "authentication.kubernetes.io/pod-name": ["web-1"],
    }));
    assert_eq!(known.email.as_deref(), Some("alice@example.com"));
    assert_eq!(known.display_name.as_deref(), Some("Alice Liddell"));
    for useless in [
        json!(null),
        json!({"email": [], "name": null}),
        json!({"email": ["a@b", "c@d"]}),
        json!({"name": ["x".repeat(1000)]}),
        json!({"authentication.kubernetes.io/name": ["node"], "sessionName": ["ceo@example.com"]}),
    ] {
        assert_eq!(user(useless.clone()), Requester::new("alice"), "{useless}");
    }
}

#[test]
fn service_accounts_are_told_by_their_names() {
    let account = |name: &str| {
        let user = Requester::new(name);
        let parts = user.service_account();
        parts.map(|(namespace, name)| format!("{namespace}/{name}"))
    };
    assert_eq!(
        account("system:serviceaccount:shop:deployer").as_deref(),
        Some("shop/deployer")
    );
    for other in [
        "alice",
        "system:serviceaccount:shop",
        "system:serviceaccount::x",
        "system:serviceaccount:shop:a b",
        "system:serviceaccount:shop:a:b",
    ] {
        assert_eq!(account(other), None, "{other}");
    }
}

#[test]
fn very_long_names_are_cut_and_stay_different() {
    let long = |last: char| Requester::new(&format!("{}{last}", "ä".repeat(40_000)));
    let (one, other) = (long('a'), long('b'));
    assert_ne!(one, other);
    assert!(one.name().len() < LONGEST_NAME + 100);
    let as_it_is = "x".repeat(LONGEST_NAME);
    assert_eq!(Requester::new(&as_it_is).name(), as_it_is);
    assert_ne!(
        Requester::new(one.name()).name(),
        one.name(),
        "nobody can take the cut name of another"
    );
}

#[test]
fn a_record_survives_being_stored() {
    let (old, new) = (config_map("41", "a"), config_map("41", "b"));
    for operation in ["CREATE", "UPDATE", "DELETE"] {
        let record = read(&request(operation, &old, &new)).record.unwrap();
        let text = serde_json::to_string(&record).unwrap();
        assert_eq!(
            serde_json::from_str::<AdmissionRecord>(&text).unwrap(),
            record
        );
        assert!(record.bytes() < 1000);
    }
}

#[test]
fn no_bytes_make_it_stumble() {
    for body in [
        &b""[..],
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"}"#,
        br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":null}"#,
        br#"{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":1}}"#,
    ] {
        assert!(read_review(body).is_err(), "{body:?}");
    }
    let body = |kind: &str, uid: &str| {
        let mut request = request("DELETE", &config_map("1", "a"), &Value::Null);
        request["uid"] = json!(uid);
        let body = json!({"kind": kind, "apiVersion": "admission.k8s.io/v1", "request": request});
        read_review(body.to_string().as_bytes())
    };
    assert!(matches!(body("Review", "1"), Err(ReviewError::Kind)));
    assert!(matches!(body("AdmissionReview", ""), Err(ReviewError::Uid)));
    let long = "u".repeat(10_000);
    assert!(matches!(
        body("AdmissionReview", &long),
        Err(ReviewError::Uid)
    ));
    let deep = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{}1{}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    assert!(read_review(deep.as_bytes()).is_err());
    let mut nested = json!({"x": 1});
    for _ in 0..250 {
        nested = json!({ "x": nested });
    }
    let mut object = config_map("1", "a");
    object["data"] = nested;
    assert!(matches!(
        why(&request("DELETE", &object, &Value::Null)),
        NoRecord::Object(_)
    ));
    let whole = json!({
        "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
        "request": request("UPDATE", &config_map("1", "a"), &config_map("1", "b")),
    })
    .to_string();
    for end in 0..whole.len() {
        assert!(
            read_review(&whole.as_bytes()[..end]).is_err(),
            "cut at {end}"
        );
    }
}
