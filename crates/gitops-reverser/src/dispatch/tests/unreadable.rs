//! Objects that cannot be read.

use super::*;

#[test]
fn an_object_that_cannot_be_read_keeps_the_scope_unknown() {
    let mut world = World::new();
    world.list(vec![config_map("a", 1, "x"), "{\"metadata\":{}}".into()]);
    assert_eq!(world.names(), ["a"]);
    assert!(
        !world
            .knowledge
            .complete
            .covers(&config_maps().type_key, Some("shop"))
    );
}

#[test]
fn objects_that_could_not_be_read_are_to_be_listed_again() {
    let mut world = World::new();
    world.list(vec!["{\"metadata\":{}}".into()]);
    assert_eq!(world.dispatcher.partly_read().len(), 1);
    world.list(vec![config_map("a", 1, "x")]);
    assert!(world.dispatcher.partly_read().is_empty());
}

#[test]
fn an_object_that_cannot_be_read_is_named_and_its_file_stays() {
    let bad = |kind: &str| -> Box<str> {
        let metadata = r#""metadata":{"name":"a","namespace":"shop","resourceVersion":"7"}"#;
        format!(r#"{{{metadata},"data":{{"{kind}":1,"{kind}":2}}}}"#).into()
    };
    let named = |world: &World| {
        let mut unknown = world.knowledge.unknown.values();
        let unknown = unknown.next().cloned().unwrap_or_default();
        assert!(unknown.contains("shop/a ("), "{unknown}");
        assert_eq!(world.unreadable.last(), Some(&unknown));
        assert!(!world.covers());
        assert_eq!(world.names(), ["a", "b"]);
        assert_eq!(world.dispatcher.partly_read().len(), 1);
    };
    let listed = || {
        let mut world = World::new();
        world.list(vec![config_map("a", 1, "x"), config_map("b", 2, "y")]);
        assert_eq!(world.knowledge.unknown.len(), 0);
        world
    };
    let mut world = listed();
    world.see(bad("k"));
    named(&world);
    let mut world = listed();
    world.observe(Observation::Gone { object: bad("k") });
    named(&world);
    let mut world = listed();
    world.observe(Observation::Undecodable {
        name: Some((Some("shop".into()), "a".into())),
        reason: "no version".into(),
    });
    named(&world);
    let mut world = listed();
    world.list(vec![bad("k"), config_map("b", 2, "y")]);
    named(&world);
    world.list(vec![config_map("a", 8, "z"), config_map("b", 2, "y")]);
    assert_eq!(world.knowledge.unknown.len(), 0);
    assert_eq!(world.names(), ["a", "b"]);
}

#[test]
fn an_object_that_cannot_be_read_leaves_the_tenants_of_other_namespaces_alone() {
    let elsewhere = |object: Box<str>| object.replace("\"shop\"", "\"elsewhere\"").into();
    let bad = |name: &str| -> Box<str> {
        let metadata = format!(r#""metadata":{{"name":"{name}","namespace":"shop"}}"#);
        format!(r#"{{{metadata},"data":{{"k":1,"k":2}}}}"#).into()
    };
    let covers = |world: &World, namespace: &str| {
        let complete = &world.knowledge.complete;
        complete.covers(&config_maps().type_key, Some(namespace))
    };
    let mut world = World::new();
    world.list(vec![
        config_map("a", 1, "x"),
        elsewhere(bad("other")),
        elsewhere(config_map("third", 2, "y")),
    ]);
    assert!(covers(&world, "shop") && !covers(&world, "elsewhere"));
    assert!(
        world.knowledge.unknown.is_empty(),
        "that is another tenant's"
    );
    assert!(world.knowledge.pending.is_empty());
    assert_eq!(world.dispatcher.unknown_scopes(), 1);
    assert_eq!(world.unreadable.len(), 1);

    // What a list with such a gap lacks is gone, but not where the gap is.
    world.list(vec![elsewhere(bad("other"))]);
    let path = "core/v1/configmaps/shop/a.yaml".to_owned();
    let absent = Some(DeleteProof::AbsentFromList);
    assert_eq!(world.removed, [(path.clone(), absent)]);
    world.list(vec![config_map("a", 3, "x"), bad("other")]);
    world.list(vec![bad("other")]);
    assert_eq!(world.removed.len(), 1);
    assert_eq!(world.knowledge.unknown.len(), 1);

    // Where something happens there, it is worth another look.
    let before = world.list_soon;
    world.see(elsewhere(config_map("third", 4, "z")));
    assert_eq!(world.list_soon, before);
    world.see(config_map("other", 5, "x"));
    assert_eq!(world.list_soon, before + 1);
    world.list(vec![config_map("other", 5, "x")]);
    assert!(covers(&world, "shop") && covers(&world, "elsewhere"));
    assert_eq!(world.removed.last(), Some(&(path, absent)));
    assert_eq!(world.dispatcher.unknown_scopes(), 0);
    assert!(world.dispatcher.partly_read().is_empty());
}
