//! What users wrote, and what becomes of it.

use reverser_api::conditions::{destination_reason, reference_reason, remote_reason};
use serde_json::{Value, json};

use super::*;

fn served(group: &str, resource: &str, namespaced: bool) -> ServedType {
    let key = TypeKey::new(group, "v1", resource).unwrap();
    ServedType {
        key,
        kind: "Kind".into(),
        namespaced,
        preferred: true,
        scale: false,
    }
}

fn catalogue() -> Catalogue {
    Catalogue::from_types(vec![
        served("", "configmaps", true),
        served("", "secrets", true),
        served("apps", "deployments", true),
        served("rbac.authorization.k8s.io", "clusterroles", false),
    ])
}

fn options() -> RoutingOptions {
    RoutingOptions {
        schemes: vec![Scheme::Https, Scheme::Ssh],
        allowed_urls: AllowedRepoUrls::default(),
        secrets_mode: SecretsMode::AsIs,
        exclusions: Exclusions::new(true, &[]),
        watch_all: false,
        max_types: 300,
    }
}

/// A repository, a destination and a rule in `shop`, each with its spec changed as a test wants.
struct World(Configuration);

impl World {
    fn new() -> Self {
        Self(Configuration::default())
            .namespace("shop", &[])
            .namespace("other", &[("team", "b")])
            .repo("shop", "repo", &json!({}))
            .destination("shop", "prod", "clusters/prod", &json!({}))
    }

    fn object<T: serde::de::DeserializeOwned>(namespace: &str, name: &str, spec: &Value) -> Arc<T> {
        let metadata = json!({"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z"});
        let object = json!({"apiVersion": "configbutler.ai/v1alpha1", "kind": "X", "metadata": metadata, "spec": spec});
        Arc::new(serde_json::from_value(object).unwrap())
    }

    fn with(mut base: Value, change: &Value) -> Value {
        for (key, value) in change.as_object().unwrap() {
            base[key] = value.clone();
        }
        base
    }

    fn namespace(mut self, name: &str, labels: &[(&str, &str)]) -> Self {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect();
        self.0.namespaces.insert(name.into(), labels);
        self
    }

    fn repo(mut self, namespace: &str, name: &str, change: &Value) -> Self {
        let base = json!({"repoUrl": "https://git.example.com/repo.git", "allowedBranches": ["main", "release/*"]});
        let repo = Self::object(namespace, name, &Self::with(base, change));
        self.0.repos.insert(Id::new(namespace, name), repo);
        self
    }

    fn destination(mut self, namespace: &str, name: &str, folder: &str, change: &Value) -> Self {
        let base = json!({"repoRef": {"name": "repo", "namespace": "shop"}, "branch": "main", "baseFolder": folder});
        let destination = Self::object(namespace, name, &Self::with(base, change));
        self.0
            .destinations
            .insert(Id::new(namespace, name), destination);
        self
    }

    fn has_written(&mut self, namespace: &str, name: &str) {
        let id = Id::new(namespace, name);
        let destination = self.0.destinations.get_mut(&id).unwrap();
        Arc::make_mut(destination).status =
            Some(reverser_api::git_destination::GitDestinationStatus {
                last_pushed_commit: Some("c0ffee".into()),
                ..Default::default()
            });
    }

    fn rule(mut self, namespace: &str, name: &str, rules: &Value) -> Self {
        let spec = json!({"destinationRef": {"name": "prod", "namespace": "shop"}, "rules": rules});
        let rule = Self::object(namespace, name, &spec);
        self.0.watch_rules.insert(Id::new(namespace, name), rule);
        self
    }

    fn cluster_rule(mut self, name: &str, rules: &Value) -> Self {
        let spec = json!({"destinationRef": {"name": "prod", "namespace": "shop"}, "rules": rules});
        self.0
            .cluster_rules
            .insert(name.into(), Self::object("", name, &spec));
        self
    }

    fn routing(&self) -> Routing {
        Routing::of(&self.0, &catalogue(), &options())
    }

    fn rule_reason(&self, namespace: &str) -> &'static str {
        let routing = self.routing();
        let rule = &routing.rules[&RuleId::Watch(Id::new(namespace, "rule"))];
        rule.as_ref().err().map_or("", |refusal| refusal.reason)
    }

    fn cluster_reason(&self) -> &'static str {
        let routing = self.routing();
        let rule = &routing.rules[&RuleId::Cluster("rule".into())];
        rule.as_ref().err().map_or("", |refusal| refusal.reason)
    }

    fn destination_reason(&self, name: &str) -> &'static str {
        let routing = self.routing();
        let destination = &routing.destinations[&Id::new("shop", name)];
        destination
            .as_ref()
            .err()
            .map_or("", |refusal| refusal.reason)
    }
}

fn selector(team: &str) -> Value {
    json!({"namespacedRules": {"mode": "FromSelector", "namespaceSelector": {"matchLabels": {"team": team}}}})
}

#[test]
fn a_rule_of_the_same_namespace_needs_its_types_there() {
    let routing = World::new().rule("shop", "rule", &json!([{}])).routing();
    let needs: Vec<_> = routing.needs.keys().map(ToString::to_string).collect();
    assert_eq!(
        needs,
        ["v1/configmaps", "v1/secrets", "apps/v1/deployments"]
    );
    let namespaces = routing
        .needs
        .values()
        .next()
        .unwrap()
        .namespaces
        .clone()
        .unwrap();
    assert_eq!(namespaces, BTreeSet::from(["shop".to_owned()]));
}

#[test]
fn access_is_denied_unless_both_policies_let_a_rule_in() {
    let all = json!({"accessPolicy": {"namespacedRules": {"mode": "AllNamespaces"}}});
    let with = |repo: &Value, destination: &Value| {
        World::new()
            .repo("shop", "repo", repo)
            .destination("shop", "prod", "clusters/prod", destination)
            .rule("other", "rule", &json!([{}]))
    };
    let denied = reference_reason::ACCESS_DENIED;
    assert_eq!(with(&json!({}), &json!({})).rule_reason("other"), denied);
    assert_eq!(with(&all, &json!({})).rule_reason("other"), denied);
    assert_eq!(with(&json!({}), &all).rule_reason("other"), denied);
    assert_eq!(with(&all, &all).rule_reason("other"), "");
    let by_label = |team| with(&all, &json!({"accessPolicy": selector(team)}));
    assert_eq!(by_label("b").rule_reason("other"), "");
    assert_eq!(by_label("a").rule_reason("other"), denied);
    let revoked = by_label("b").namespace("other", &[("team", "a")]);
    assert_eq!(revoked.rule_reason("other"), denied);
}

#[test]
fn a_refused_rule_keeps_what_it_may_have_written_and_nothing_else() {
    let (prod, elsewhere) = (Id::new("shop", "prod"), Id::new("shop", "elsewhere"));
    let key = |group, resource| TypeKey::new(group, "v1", resource).unwrap();
    let config_maps = key("", "configmaps");
    let world = World::new().rule("other", "rule", &json!([{"resources": ["configmaps"]}]));
    let kept = world.routing().kept;
    assert!(kept.contain(&prod, &config_maps, Some("other")));
    assert!(!kept.contain(&prod, &config_maps, Some("shop")));
    assert!(!kept.contain(&prod, &key("", "secrets"), Some("other")));
    assert!(!kept.contain(&elsewhere, &config_maps, Some("other")));

    // Nobody knows what was written before by a rule that says nothing sensible now.
    let mut world = World::new();
    let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
    let spec = json!({
        "destinationRef": {"name": "prod", "namespace": "shop"},
        "objectSelector": selector, "rules": [{"resources": ["configmaps"]}],
    });
    let rule = World::object("other", "rule", &spec);
    world.0.watch_rules.insert(Id::new("other", "rule"), rule);
    let kept = world.routing().kept;
    assert!(kept.contain(&prod, &key("", "secrets"), Some("other")));
    assert!(!kept.contain(&prod, &key("", "secrets"), Some("shop")));

    let cluster_roles = key("rbac.authorization.k8s.io", "clusterroles");
    let rules = json!([{"scope": "Namespaced", "resources": ["configmaps"]}]);
    let kept = World::new().cluster_rule("rule", &rules).routing().kept;
    assert!(kept.contain(&prod, &config_maps, Some("shop")));
    assert!(!kept.contain(&prod, &cluster_roles, None));
}

#[test]
fn a_rule_without_resources_means_every_type_where_all_are_watched_also_one_that_is_gone() {
    let world = World::new().rule("shop", "rule", &json!([{}]));
    let gone = TypeKey::new("shop.example.com", "v1", "orders").unwrap();
    let names = |watch_all| {
        let options = RoutingOptions {
            watch_all,
            ..options()
        };
        let routing = Routing::of(&world.0, &catalogue(), &options);
        let rule = &routing.rules[&RuleId::Watch(Id::new("shop", "rule"))];
        let part = rule.as_ref().unwrap().parts[0].clone();
        (part.names(&gone), routing.needs.len())
    };
    assert_eq!(names(false), (false, 3));
    assert_eq!(names(true), (true, 3));
}

#[test]
fn cluster_rules_need_the_repository_to_allow_them_and_the_destination_not_to_forbid_them() {
    let rules = json!([{"scope": "Cluster"}, {"scope": "Namespaced", "resources": ["configmaps"]}]);
    let allow = |allow: bool| json!({"accessPolicy": {"allowClusterRules": allow}});
    let world = World::new().cluster_rule("rule", &rules);
    assert_eq!(world.cluster_reason(), reference_reason::ACCESS_DENIED);
    let world = world.repo("shop", "repo", &allow(true));
    assert_eq!(world.cluster_reason(), "");
    let needs = world.routing().needs;
    assert!(needs.values().all(|need| need.namespaces.is_none()));
    assert_eq!(needs.len(), 2);
    let world = world.destination("shop", "prod", "clusters/prod", &allow(false));
    assert_eq!(world.cluster_reason(), reference_reason::ACCESS_DENIED);
}

#[test]
fn what_is_missing_or_not_allowed_is_named() {
    let world =
        World(Configuration::default())
            .namespace("shop", &[])
            .rule("shop", "rule", &json!([{}]));
    assert_eq!(
        world.rule_reason("shop"),
        reference_reason::REFERENCE_NOT_FOUND
    );
    let world = world.destination("shop", "prod", "clusters/prod", &json!({}));
    assert_eq!(
        world.destination_reason("prod"),
        reference_reason::REFERENCE_NOT_FOUND
    );
    assert_eq!(
        world.rule_reason("shop"),
        reference_reason::REFERENCE_NOT_READY
    );
    let world =
        World::new().destination("shop", "prod", "clusters/prod", &json!({"branch": "dev"}));
    assert_eq!(
        world.destination_reason("prod"),
        destination_reason::BRANCH_NOT_ALLOWED
    );
    let world = World::new().repo("shop", "repo", &json!({"repoUrl": "file:///etc"}));
    assert_eq!(
        world.destination_reason("prod"),
        reference_reason::REFERENCE_NOT_READY
    );
    let repo = world.routing().repos[&Id::new("shop", "repo")].clone();
    assert_eq!(repo.unwrap_err().reason, remote_reason::URL_NOT_ALLOWED);
}

#[test]
fn only_repositories_that_the_flag_allows_are_used_and_a_refusal_names_them() {
    let world = World::new();
    let repo_with = |patterns: [&str; 2]| {
        let schemes = options().schemes;
        let allowed_urls = AllowedRepoUrls::parse(patterns, &schemes).unwrap();
        let options = RoutingOptions {
            allowed_urls,
            ..options()
        };
        let routing = Routing::of(&world.0, &catalogue(), &options);
        routing.repos[&Id::new("shop", "repo")].clone()
    };
    let elsewhere = ["https://elsewhere.example.com/**", "git@github.com:acme/*"];
    let refusal = repo_with(elsewhere).unwrap_err();
    assert_eq!(refusal.reason, remote_reason::URL_NOT_ALLOWED);
    assert_eq!(
        refusal.message,
        "spec.repoUrl is none that the operator's flag --allowed-repo-urls allows: \
         https://elsewhere.example.com/**, git@github.com:acme/*"
    );
    let here = ["https://git.example.com/*", "git@github.com:acme/*"];
    assert!(repo_with(here).is_ok());
}

#[test]
fn of_two_overlapping_folders_the_older_destination_has_it() {
    let world = World::new()
        .destination("shop", "z-nested", "clusters/prod/east", &json!({}))
        .destination("shop", "z-beside", "clusters/dev", &json!({}))
        .destination(
            "shop",
            "z-branch",
            "clusters/prod",
            &json!({"branch": "release/1"}),
        );
    assert_eq!(world.destination_reason("prod"), "");
    assert_eq!(
        world.destination_reason("z-nested"),
        destination_reason::FOLDER_OVERLAP
    );
    assert_eq!(world.destination_reason("z-beside"), "");
    assert_eq!(world.destination_reason("z-branch"), "");
}

#[test]
fn of_two_destinations_of_one_second_the_one_that_has_written_keeps_its_folder() {
    let mut world = World::new().destination("shop", "a-twin", "clusters/prod", &json!({}));
    assert_eq!(
        world.destination_reason("prod"),
        destination_reason::FOLDER_OVERLAP
    );
    world.has_written("shop", "prod");
    assert_eq!(world.destination_reason("prod"), "");
    assert_eq!(
        world.destination_reason("a-twin"),
        destination_reason::FOLDER_OVERLAP
    );
}

#[test]
fn folders_of_one_repository_overlap_however_its_address_is_spelled() {
    for url in [
        "https://git.example.com/repo",
        "https://GIT.example.com:443/repo.git",
        "git@git.example.com:repo.git",
    ] {
        let world = World::new()
            .repo("shop", "again", &json!({"repoUrl": url}))
            .destination(
                "shop",
                "z-again",
                "clusters/prod",
                &json!({"repoRef": {"name": "again"}}),
            );
        assert_eq!(world.destination_reason("prod"), "", "{url}");
        let reason = world.destination_reason("z-again");
        assert_eq!(reason, destination_reason::FOLDER_OVERLAP, "{url}");
    }
}

#[test]
fn what_a_refused_destination_has_written_stays_its_own() {
    let mut world = World::new()
        .destination("other", "a-denied", "clusters/dev", &json!({}))
        .destination("shop", "z-younger", "clusters/dev", &json!({}));
    assert_eq!(
        world.destination_reason("z-younger"),
        "",
        "it wrote nothing"
    );
    world.has_written("other", "a-denied");
    assert_eq!(
        world.destination_reason("z-younger"),
        destination_reason::FOLDER_OVERLAP
    );
}

#[test]
fn types_over_the_limit_are_told() {
    let world = World::new().rule("shop", "rule", &json!([{}]));
    let options = RoutingOptions {
        max_types: 2,
        ..options()
    };
    let routing = Routing::of(&world.0, &catalogue(), &options);
    let rule = routing.rules[&RuleId::Watch(Id::new("shop", "rule"))]
        .as_ref()
        .unwrap();
    assert_eq!((rule.watched_types, rule.over_limit.len()), (2, 1));
}

#[test]
fn a_repository_is_pushed_to_as_often_as_it_says_or_its_host_advises() {
    let per_minute = |change: &Value| {
        let routing = World::new().repo("shop", "repo", change).routing();
        let destination = &routing.destinations[&Id::new("shop", "prod")];
        destination.as_ref().unwrap().push.per_minute
    };
    assert_eq!(per_minute(&json!({})), 60);
    for url in [
        "https://github.com/a/b.git",
        "https://GitHub.com/a/b.git",
        "git@github.com:a/b.git",
    ] {
        assert_eq!(per_minute(&json!({"repoUrl": url})), 6, "{url}");
    }
    let other = "https://github.com.example.com/a/b.git";
    assert_eq!(per_minute(&json!({"repoUrl": other})), 60);
    let own = json!({"repoUrl": "https://github.com/a/b.git", "push": {"maxPerMinute": 30}});
    assert_eq!(per_minute(&own), 30);
}
