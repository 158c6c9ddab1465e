use reverser_core::object_key::TypeKey;

use super::*;

fn namespaces() -> Scope {
    Scope {
        type_key: TypeKey::new("", "v1", "namespaces").unwrap(),
        kind: "Namespace".to_owned(),
        namespace: None,
    }
}

#[test]
fn lines_are_whole_however_their_bytes_come() {
    let text = b"one\n\ntwo\r\n \nthree\nfour";
    for size in 1..text.len() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        for bytes in text.chunks(size) {
            lines.push(bytes);
            while let Some(line) = lines.next() {
                seen.push(String::from_utf8(line.to_vec()).unwrap());
            }
        }
        assert_eq!(seen, ["one", "two\r", "three"]);
        assert_eq!(lines.unfinished(), 4);
    }
}

#[test]
fn events_of_a_real_server_are_read_and_objects_stay_as_they_are() {
    let object = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"default","uid":"3292a402-fbca-41a4-9193-1b30990f4fee","resourceVersion":"20","creationTimestamp":"2026-11-15T21:18:05Z","labels":{"kubernetes.io/metadata.name":"default"}},"spec":{"finalizers":["kubernetes"]},"status":{"phase":"Active"}}"#;
    for (word, change) in [
        ("ADDED", Change::Added),
        ("MODIFIED", Change::Modified),
        ("DELETED", Change::Deleted),
    ] {
        let line = format!(r#"{{"type":"{word}","object":{object}}}"#);
        let event = read_event(line.as_bytes()).unwrap();
        let expected = Event::Object {
            change,
            object: object.into(),
            version: "20".to_owned(),
        };
        assert_eq!(event, expected);
    }
    let end = br#"{"type":"BOOKMARK","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"resourceVersion":"197","annotations":{"k8s.io/initial-events-end":"true"}},"spec":{},"status":{}}}"#;
    let expected = |initial_events_end| Event::Bookmark {
        version: "197".to_owned(),
        initial_events_end,
    };
    assert_eq!(read_event(end).unwrap(), expected(true));
    let bookmark = br#"{"type":"BOOKMARK","object":{"kind":"Namespace","apiVersion":"v1","metadata":{"resourceVersion":"197"},"spec":{},"status":{}}}"#;
    assert_eq!(read_event(bookmark).unwrap(), expected(false));
}

#[test]
fn an_error_event_says_what_a_status_would() {
    let line = br#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (200)","reason":"Expired","code":410}}"#;
    let Event::Error(failure) = read_event(line).unwrap() else {
        panic!("it is an error");
    };
    assert_eq!(failure.reason, LossReason::Expired);
    assert_eq!(failure.message, "410: too old resource version: 1 (200)");
    let Event::Error(failure) = read_event(br#"{"type":"ERROR","object":{}}"#).unwrap() else {
        panic!("it is an error");
    };
    assert_eq!(failure.reason, LossReason::ServerError(500));
}

#[test]
fn one_bad_object_is_named_and_the_watch_goes_on() {
    let undecodable = |line: &str| match read_event(line.as_bytes()).unwrap() {
        Event::Undecodable { name, .. } => name,
        other => panic!("{other:?}"),
    };
    for line in [
        r#"{"type":"ADDED","object":null}"#,
        r#"{"type":"ADDED","object":[]}"#,
        r#"{"type":"ADDED","object":{"metadata":7}}"#,
        r#"{"type":"ADDED","object":{"metadata":{}}}"#,
    ] {
        assert_eq!(undecodable(line), None);
    }
    let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","namespace":"b"}}}"#;
    let name = Some((Some("b".to_owned()), "a".to_owned()));
    assert_eq!(undecodable(line), name);
}

#[test]
fn what_is_no_event_ends_the_watch() {
    for line in [
        &b"{"[..],
        b"null",
        b"<html>",
        b"\xff",
        br#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{},"items":[]}"#,
        br#"{"type":"CHANGED","object":{}}"#,
        br#"{"type":"ADDED"}"#,
        br#"{"type":"BOOKMARK","object":{"metadata":{}}}"#,
        br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"0"}}}"#,
    ] {
        let failure = read_event(line).unwrap_err();
        assert_eq!(failure.reason, LossReason::Malformed);
    }
}

#[test]
fn a_page_of_a_real_server_is_read_and_its_items_stay_as_they_are() {
    let body = br#"{
  "kind": "NamespaceList",
  "apiVersion": "v1",
  "metadata": {
    "resourceVersion": "197",
    "continue": "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTk3fQ",
    "remainingItemCount": 3
  },
  "items": [
    {"metadata": {"name": "default"}},
    null
  ]
}"#;
    let page = read_page(body, &namespaces()).unwrap();
    assert_eq!(page.version, "197");
    let next = page.next.as_deref();
    assert_eq!(next, Some("eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MTk3fQ"));
    assert_eq!(page.items[0], Ok(r#"{"metadata": {"name": "default"}}"#));
    assert!(page.items[1].is_err());
}

#[test]
fn a_list_without_items_is_empty_if_it_says_so() {
    for items in ["[]", "null"] {
        let body = format!(
            r#"{{"kind":"NamespaceList","apiVersion":"v1","metadata":{{"resourceVersion":"7","continue":""}},"items":{items}}}"#
        );
        let page = read_page(body.as_bytes(), &namespaces()).unwrap();
        assert!(page.items.is_empty() && page.next.is_none());
    }
}

#[test]
fn what_is_no_list_is_refused() {
    let whole = br#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#;
    assert!(read_page(whole, &namespaces()).is_ok());
    for length in 0..whole.len() {
        let failure = read_page(&whole[..length], &namespaces()).unwrap_err();
        assert_eq!(failure.reason, LossReason::Truncated);
    }
    for (body, words) in [
        ("<html></html>", "no list"),
        ("null", "no list"),
        (
            r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"7"}}"#,
            "items",
        ),
        (
            r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{},"items":[]}"#,
            "resourceVersion",
        ),
        (
            r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"0"},"items":[]}"#,
            "resourceVersion",
        ),
        (
            r#"{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"7","remainingItemCount":1},"items":[]}"#,
            "1 objects are left",
        ),
        (
            r#"{"kind":"Status","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
            "v1 Status",
        ),
        (
            r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
            "v1 Namespace",
        ),
        (
            r#"{"kind":"ThingList","apiVersion":"example.com/v1","metadata":{"resourceVersion":"7"},"items":[]}"#,
            "example.com/v1 ThingList",
        ),
    ] {
        let failure = read_page(body.as_bytes(), &namespaces()).unwrap_err();
        assert_eq!(failure.reason, LossReason::Malformed, "{body}");
        assert!(failure.message.contains(words), "{}", failure.message);
    }
}

#[test]
fn an_item_may_be_nested_as_deep_as_it_likes() {
    let deep = format!("{{\"a\":{}1{}}}", "[".repeat(5_000), "]".repeat(5_000));
    let body = format!(
        r#"{{"kind":"NamespaceList","apiVersion":"v1","metadata":{{"resourceVersion":"7"}},"items":[{deep}]}}"#
    );
    let page = read_page(body.as_bytes(), &namespaces()).unwrap();
    assert_eq!(page.items, [Ok(deep.as_str())]);
    let line = format!(
        r#"{{"type":"ADDED","object":{{"metadata":{{"resourceVersion":"7"}},"x":{deep}}}}}"#
    );
    assert!(matches!(
        read_event(line.as_bytes()),
        Ok(Event::Object { .. })
    ));
}

#[test]
fn only_numbers_are_older_or_newer() {
    for (older, newer) in [
        ("9", "10"),
        ("1", "2"),
        ("007", "8"),
        ("99999999999999999999", "100000000000000000000"),
    ] {
        assert!(is_older(older, newer) && !is_older(newer, older));
    }
    for (one, other) in [("7", "7"), ("", "1"), ("a1", "2"), ("1", "x"), ("7", "07")] {
        assert!(!is_older(one, other) && !is_older(other, one));
    }
}
