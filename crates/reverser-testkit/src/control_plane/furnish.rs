use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::credentials::DEVELOPERS;
use super::{NAMESPACE_LABEL, User, blocking};
use crate::wait::{self, TimedOut};

/// The API server and the controller-manager make what is awaited here within a second.
const SOON: Duration = Duration::from_mins(2);
/// Longer than any test.
const TOKEN_LIFETIME: i64 = 24 * 60 * 60;

/// Why something cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum FurnishError {
    /// The API server cannot be reached or refuses.
    #[error("cannot create {what}")]
    Create {
        /// What was to be created.
        what: String,
        /// Its answer.
        #[source]
        source: Box<kube::Error>,
    },
    /// Something that others create is not there.
    #[error(transparent)]
    Missing(#[from] TimedOut),
    /// The answer has no token.
    #[error("the API server gave no token for {}", User::Robot.username())]
    NoToken,
}

/// Gives the users their rights, and the service account its token.
pub(super) fn plane(admin: kube::Config) -> Result<String, FurnishError> {
    blocking::run(async || {
        let client = client(admin)?;
        let robot_namespace = User::ROBOT_NAMESPACE;
        let tenant_namespace = User::TENANT_NAMESPACE;

        let cluster_admins = json!({
            "metadata": {"name": "testkit-developers"},
            "roleRef": role("ClusterRole", "cluster-admin"),
            "subjects": [
                {"kind": "Group", "name": DEVELOPERS, "apiGroup": "rbac.authorization.k8s.io"},
                {
                    "kind": "ServiceAccount",
                    "name": User::Robot.short_name(),
                    "namespace": robot_namespace,
                },
            ],
        });
        create::<ClusterRoleBinding>(&Api::all(client.clone()), cluster_admins).await?;

        let namespaces: Api<Namespace> = Api::all(client.clone());
        create(&namespaces, json!({"metadata": {"name": tenant_namespace}})).await?;
        let all = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let everything_here = json!({"metadata": {"name": "everything-here"}, "rules": [all]});
        let roles: Api<Role> = Api::namespaced(client.clone(), tenant_namespace);
        create(&roles, everything_here).await?;
        let tenant = User::Tenant.username();
        let binding = json!({
            "metadata": {"name": "tenant"},
            "roleRef": role("Role", "everything-here"),
            "subjects": [
                {"kind": "User", "name": tenant, "apiGroup": "rbac.authorization.k8s.io"},
            ],
        });
        let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), tenant_namespace);
        create(&bindings, binding).await?;

        exists("the default namespace", &namespaces, robot_namespace).await?;
        robot_token(client).await
    })
}

/// Awaits that a server grants the rights that were written: it hears of them a moment later.
pub(super) fn await_rights(alice: kube::Config, tenant: kube::Config) -> Result<(), FurnishError> {
    blocking::run(async || {
        let namespaces: Api<Namespace> = Api::all(client(alice)?);
        granted("Alice's rights", &namespaces).await?;
        let own = User::TENANT_NAMESPACE;
        let accounts: Api<ServiceAccount> = Api::namespaced(client(tenant)?, own);
        granted("the tenant's rights", &accounts).await
    })
}

async fn granted<K>(what: &str, api: &Api<K>) -> Result<(), FurnishError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let one = ListParams::default().limit(1);
    let listed = wait::until(what, SOON, async || {
        let listed = api.list(&one).await;
        listed.map(|_| ()).map_err(|error| error.to_string())
    });
    Ok(listed.await?)
}

async fn robot_token(client: Client) -> Result<String, FurnishError> {
    let name = User::Robot.short_name();
    let accounts: Api<ServiceAccount> = Api::namespaced(client, User::ROBOT_NAMESPACE);
    create(&accounts, json!({"metadata": {"name": name}})).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            // For the API server itself.
            audiences: Vec::new(),
            expiration_seconds: Some(TOKEN_LIFETIME),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await
        .map_err(|source| FurnishError::Create {
            what: format!("a token for {name}"),
            source: Box::new(source),
        })?;
    answer
        .status
        .map(|status| status.token)
        .ok_or(FurnishError::NoToken)
}

/// Creates a namespace, and awaits its service account if somebody makes one.
pub(super) fn namespace(
    admin: kube::Config,
    name: &str,
    prefix: &str,
    with_account: bool,
) -> Result<(), FurnishError> {
    blocking::run(async || {
        let client = client(admin)?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let labels = json!({NAMESPACE_LABEL: prefix});
        create(
            &namespaces,
            json!({"metadata": {"name": name, "labels": labels}}),
        )
        .await?;
        if with_account {
            let accounts: Api<ServiceAccount> = Api::namespaced(client, name);
            exists("the default service account", &accounts, "default").await?;
        }
        Ok(())
    })
}

fn client(config: kube::Config) -> Result<Client, FurnishError> {
    Client::try_from(config).map_err(|source| FurnishError::Create {
        what: "a client".to_owned(),
        source: Box::new(source),
    })
}

async fn create<K>(api: &Api<K>, object: Value) -> Result<(), FurnishError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    let what = || format!("{} {}", K::kind(&()), object["metadata"]["name"]);
    let parsed: K = serde_json::from_value(object.clone()).expect("written out in this file");
    let created = api.create(&PostParams::default(), &parsed).await;
    created.map_err(|source| FurnishError::Create {
        what: what(),
        source: Box::new(source),
    })?;
    Ok(())
}

async fn exists<K>(what: &str, api: &Api<K>, name: &str) -> Result<(), FurnishError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    wait::until(what, SOON, async || api.get(name).await).await?;
    Ok(())
}

fn role(kind: &str, name: &str) -> Value {
    json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name})
}
