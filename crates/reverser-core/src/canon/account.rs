//! Credentials that a cluster gives out, and whom it gave them to.

use super::{AppliesTo, Draft, Rule};
use crate::value::Value;

pub(super) const GENERATED_SECRETS: Rule = Rule {
    name: "service-account-generated-secrets",
    applies_to: AppliesTo::Kinds(&[("", "ServiceAccount")]),
    removes: "`secrets` and `imagePullSecrets` whose name is the account's with `-token-` or `-dockercfg-` and five random characters",
    reason: "Generated for this cluster under random names.",
    before: "
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot}
secrets: [{name: robot-token-x7k2p}, {name: own}]
",
    after: "{apiVersion: v1, kind: ServiceAccount, metadata: {name: robot}, secrets: [{name: own}]}",
    apply: remove_generated_secrets,
};

pub(super) const TOKEN: Rule = Rule {
    name: "service-account-token",
    applies_to: AppliesTo::Kinds(&[("", "Secret")]),
    removes: "what controllers write into a Secret of the type `kubernetes.io/service-account-token`: the token, what goes with it, and when it was used",
    reason: "The token is signed by this cluster; another one would keep it, and it would be of no use there.",
    before: "
apiVersion: v1
kind: Secret
metadata:
  name: robot
  labels: {kubernetes.io/legacy-token-last-used: '2026-01-01'}
  annotations: {kubernetes.io/service-account.name: robot}
type: kubernetes.io/service-account-token
data: {token: ZXlK, ca.crt: LS0t, namespace: c2hvcA==}
",
    after: "
apiVersion: v1
kind: Secret
metadata:
  name: robot
  annotations: {kubernetes.io/service-account.name: robot}
type: kubernetes.io/service-account-token
",
    apply: |draft| {
        if draft.root.text("type") != Some("kubernetes.io/service-account-token") {
            return;
        }
        draft.prune(&["data"], |key, _| {
            matches!(key, "token" | "ca.crt" | "service-ca.crt" | "namespace")
        });
        draft.prune(&["metadata", "labels"], |key, _| {
            matches!(
                key,
                "kubernetes.io/legacy-token-last-used" | "kubernetes.io/legacy-token-invalid-since"
            )
        });
    },
};

pub(super) const REQUESTER: Rule = Rule {
    name: "certificate-requester",
    applies_to: AppliesTo::Kinds(&[("certificates.k8s.io", "CertificateSigningRequest")]),
    removes: "`spec.username`, `uid`, `groups` and `extra`",
    reason: "The server writes down who asks; whoever asks again is somebody else.",
    before: "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: web}
spec: {signerName: example.com/signer, username: alice, groups: [developers]}
",
    after: "
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: web}
spec: {signerName: example.com/signer}
",
    apply: |draft| {
        for field in ["username", "uid", "groups", "extra"] {
            draft.remove(&["spec"], field);
        }
    },
};

fn remove_generated_secrets(draft: &mut Draft<'_>) {
    let Some(name) = draft.root.at(&["metadata", "name"]).and_then(Value::as_str) else {
        return;
    };
    let prefixes = [format!("{name}-token-"), format!("{name}-dockercfg-")];
    let generated = |secret: &Value<'_>| {
        let secret = secret.as_map().and_then(|secret| secret.text("name"));
        prefixes.iter().any(|prefix| {
            secret
                .and_then(|secret| secret.strip_prefix(prefix.as_str()))
                .is_some_and(is_random)
        })
    };
    draft.prune_list(&[], "secrets", generated);
    draft.prune_list(&[], "imagePullSecrets", generated);
}

/// Five of the characters from which Kubernetes makes names: no vowels, and nothing that looks like
/// one, so that no words come out. A name that ends in a word is a person's.
fn is_random(suffix: &str) -> bool {
    suffix.len() == 5
        && suffix
            .bytes()
            .all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte))
}
