//! Each user is who the name says, and may do what the name says.

use std::collections::BTreeMap;

use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client};
use reverser_testkit::control_plane::{ControlPlane, User};

fn map(name: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    }
}

/// Creates, lists and deletes an object there.
async fn works_in(client: Client, namespace: &str, user: User) -> Result<(), kube::Error> {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let name = user.short_name();
    maps.create(&PostParams::default(), &map(name)).await?;
    maps.list(&ListParams::default()).await?;
    maps.delete(name, &DeleteParams::default()).await?;
    Ok(())
}

async fn who_am_i(client: Client) -> UserInfo {
    let reviews: Api<SelfSubjectReview> = Api::all(client);
    let review = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await
        .expect("everyone may ask for the own name");
    let status = review.status.expect("an answer has a status");
    status.user_info.expect("it tells the user")
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

#[tokio::test]
async fn everyone_is_known_by_name() {
    let plane = ControlPlane::shared();
    for user in User::ALL {
        let info = who_am_i(plane.client(user).unwrap()).await;
        assert_eq!(info.username.as_deref(), Some(user.username()));
        assert!(info.uid.is_some());
    }
}

#[tokio::test]
async fn alice_and_bob_differ_by_name_only() {
    let plane = ControlPlane::shared();
    let alice = who_am_i(plane.client(User::Alice).unwrap()).await;
    let bob = who_am_i(plane.client(User::Bob).unwrap()).await;
    assert_eq!(alice.groups, bob.groups);
    assert_ne!(alice.username, bob.username);
    // Past all checks would be past those that tests are about.
    assert!(!alice.groups.unwrap().contains(&"system:masters".to_owned()));
}

#[tokio::test]
async fn everyone_but_the_tenant_may_work_everywhere() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("users");
    for user in [User::Admin, User::Alice, User::Bob, User::Robot] {
        let client = plane.client(user).unwrap();
        works_in(client.clone(), &namespace, user).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client);
        namespaces.list(&ListParams::default()).await.unwrap();
    }
}

#[tokio::test]
async fn the_tenant_may_work_at_home_and_nowhere_else() {
    let plane = ControlPlane::shared();
    let client = plane.client(User::Tenant).unwrap();
    works_in(client.clone(), User::TENANT_NAMESPACE, User::Tenant)
        .await
        .unwrap();

    let elsewhere = plane.namespace("users");
    let refused = works_in(client.clone(), &elsewhere, User::Tenant).await;
    assert!(is_forbidden(&refused.unwrap_err()));
    let maps: Api<ConfigMap> = Api::all(client.clone());
    let refused = maps.list(&ListParams::default()).await;
    assert!(is_forbidden(&refused.unwrap_err()));
    let namespaces: Api<Namespace> = Api::all(client);
    let refused = namespaces.list(&ListParams::default()).await;
    assert!(is_forbidden(&refused.unwrap_err()));
}

#[tokio::test]
async fn the_service_account_is_a_real_one() {
    let plane = ControlPlane::shared();
    let info = who_am_i(plane.client(User::Robot).unwrap()).await;
    let groups = info.groups.unwrap();
    for group in ["system:serviceaccounts", "system:serviceaccounts:default"] {
        assert!(groups.contains(&group.to_owned()), "{groups:?}");
    }
    // Only tokens that the API server issued have these.
    let extra: BTreeMap<_, _> = info.extra.unwrap();
    assert!(extra.contains_key("authentication.kubernetes.io/credential-id"));
}

#[tokio::test]
async fn a_client_that_does_not_know_the_authority_is_not_served() {
    let plane = ControlPlane::shared();
    let mut config = plane.kube_config(User::Admin);
    config.root_cert = Some(Vec::new());
    let client = Client::try_from(config).unwrap();
    let error = client.apiserver_version().await.unwrap_err();
    assert!(matches!(error, kube::Error::Service(_)), "{error}");
}

#[tokio::test]
async fn a_token_of_another_plane_is_worth_nothing() {
    let plane = ControlPlane::shared();
    let mut config = plane.kube_config(User::Admin);
    config.auth_info.token = Some("0123456789abcdef0123456789abcdef".to_owned().into());
    let client = Client::try_from(config).unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    let error = namespaces.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(&error, kube::Error::Api(status) if status.code == 401));
}
