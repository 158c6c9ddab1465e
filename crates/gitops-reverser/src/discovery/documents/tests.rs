//! On what a real API server answered, shortened to a few groups.

use super::*;

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/samples/discovery/",
            $name,
            ".json"
        ))
    };
}

fn described(version: &GroupVersion) -> Vec<String> {
    let one = |served: &ServedType| {
        let place = if served.namespaced { "ns" } else { "cluster" };
        let preferred = if served.preferred { " preferred" } else { "" };
        format!("{} {} {place}{preferred}", served.key, served.kind)
    };
    version.types.iter().map(one).collect()
}

#[test]
fn core_is_the_group_without_a_name_and_only_what_can_be_watched_counts() {
    let Root::Aggregated(groups) = read_root(sample!("api-aggregated")).unwrap() else {
        panic!("it is aggregated");
    };
    assert_eq!(groups.len(), 1);
    assert_eq!(groups[0].name, "");
    assert_eq!(
        described(&groups[0].versions[0]),
        [
            "v1/configmaps ConfigMap ns preferred",
            "v1/namespaces Namespace cluster preferred",
            "v1/pods Pod ns preferred",
        ]
    );
}

#[test]
fn versions_are_in_order_of_preference_and_a_stale_one_is_doubted() {
    let Root::Aggregated(groups) = read_root(sample!("apis-aggregated")).unwrap() else {
        panic!("it is aggregated");
    };
    let group = |name: &str| groups.iter().find(|group| group.name == name).unwrap();
    let autoscaling = &group("autoscaling").versions;
    assert_eq!(
        described(&autoscaling[0]),
        ["autoscaling/v2/horizontalpodautoscalers HorizontalPodAutoscaler ns preferred"]
    );
    assert_eq!(
        described(&autoscaling[1]),
        ["autoscaling/v1/horizontalpodautoscalers HorizontalPodAutoscaler ns"]
    );
    // Reviews are created and never listed.
    let reviews = &group("authorization.k8s.io").versions[0];
    assert!(reviews.types.is_empty() && reviews.doubt.is_none());
    let down = &group("down.example.com").versions[0];
    assert!(down.types.is_empty() && down.doubt.is_some());
}

#[test]
fn older_documents_say_the_same() {
    let names = |body: &[u8]| match read_root(body).unwrap() {
        Root::Names(names) => names,
        Root::Aggregated(_) => panic!("it is not aggregated"),
    };
    let core = names(sample!("api-legacy"));
    assert_eq!(
        (core[0].name.as_str(), &core[0].versions[..]),
        ("", &["v1".to_owned()][..])
    );
    let groups = names(sample!("apis-legacy"));
    assert_eq!(groups[0].name, "autoscaling");
    assert_eq!(groups[0].versions, ["v2", "v1"]);
    let core = read_version(sample!("api-v1-legacy"), "", "v1", true).unwrap();
    assert_eq!(
        described(&core),
        [
            "v1/configmaps ConfigMap ns preferred",
            "v1/namespaces Namespace cluster preferred",
            "v1/pods Pod ns preferred",
        ]
    );
    let v2 = read_version(sample!("autoscaling-v2-legacy"), "autoscaling", "v2", true).unwrap();
    assert_eq!(v2.types.len(), 1);
}

#[test]
fn the_preferred_version_comes_first_where_the_list_says_otherwise() {
    let body = br#"{"kind":"APIGroupList","groups":[{"name":"a","versions":[{"version":"v1"},
        {"version":"v3"},{"version":"v2"}],"preferredVersion":{"version":"v2"}}]}"#;
    let Root::Names(groups) = read_root(body).unwrap() else {
        panic!("it is not aggregated");
    };
    assert_eq!(groups[0].versions, ["v2", "v1", "v3"]);
}

#[test]
fn a_group_of_nothing_is_read_and_a_name_that_is_none_is_doubted() {
    let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a"},
        "versions":null},{"metadata":{"name":"b"},"versions":[{"version":"v1","resources":[
        {"resource":"A b","responseKind":{"kind":"A"},"scope":"Cluster","verbs":["list","watch"]},
        {"resource":"cs","responseKind":{"kind":"C"},"scope":"Cluster","verbs":["list","watch"]},
        {"resource":"ds","scope":"Cluster","verbs":null}]}]}]}"#;
    let Root::Aggregated(groups) = read_root(body).unwrap() else {
        panic!("it is aggregated");
    };
    assert!(groups[0].versions.is_empty());
    assert_eq!(
        described(&groups[1].versions[0]),
        ["b/v1/cs C cluster preferred"]
    );
    assert!(
        groups[1].versions[0]
            .doubt
            .as_ref()
            .unwrap()
            .contains("\"A b\"")
    );
}

#[test]
fn what_can_be_scaled_is_known_from_either_document() {
    let scaled = |version: &GroupVersion| -> Vec<(String, bool)> {
        let types = version.types.iter();
        types
            .map(|served| (served.key.resource().to_owned(), served.scale))
            .collect()
    };
    let expected = [("deployments".to_owned(), true), ("jobs".to_owned(), false)];
    let body = br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"name":"a"},"versions":[
        {"version":"v1","resources":[{"resource":"deployments","verbs":["list","watch"],
        "subresources":[{"subresource":"status"},{"subresource":"scale"}]},
        {"resource":"jobs","verbs":["list","watch"],"subresources":[{"subresource":"status"}]}]}]}]}"#;
    let Root::Aggregated(groups) = read_root(body).unwrap() else {
        panic!("it is aggregated");
    };
    assert_eq!(scaled(&groups[0].versions[0]), expected);
    let body = br#"{"kind":"APIResourceList","groupVersion":"a/v1","resources":[
        {"name":"deployments","verbs":["list","watch"]},{"name":"deployments/scale","verbs":["get"]},
        {"name":"jobs","verbs":["list","watch"]},{"name":"jobs/status","verbs":["get"]}]}"#;
    assert_eq!(
        scaled(&read_version(body, "a", "v1", true).unwrap()),
        expected
    );
}

#[test]
fn every_other_answer_is_refused() {
    for body in [
        &b""[..],
        b"null",
        b"service unavailable",
        br#"{"kind":"Status","status":"Failure","code":503}"#,
        br#"{"kind":"APIGroupDiscoveryList","items":[{"metadata":{"na"#,
        br#"{"kind":"APIGroupDiscoveryList","items":7}"#,
        br#"{"kind":"APIResourceList","groupVersion":"v1","resources":[]}"#,
    ] {
        assert!(
            read_root(body).is_err(),
            "{}",
            String::from_utf8_lossy(body)
        );
    }
    let body = sample!("autoscaling-v2-legacy");
    assert!(read_version(body, "autoscaling", "v1", true).is_err());
    assert!(read_version(sample!("apis-legacy"), "autoscaling", "v2", true).is_err());
}
