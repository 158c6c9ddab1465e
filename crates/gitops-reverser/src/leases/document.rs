//! One Lease of the API server, with short deadlines: an answer that comes late is as good as none.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::PostParams;
use kube::core::{ObjectMeta, Status};
use kube::{Api, Client};

use super::claim::Document;
use crate::owner_role::{self, OwnerRole};

/// By this annotation another installation asks for a turn.
const WANTED_BY: &str = "configbutler.ai/wanted-by";

/// Why a lease could not be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum LeaseError {
    /// Somebody else was faster.
    #[error("somebody else has changed it meanwhile")]
    Conflict,
    #[error("not allowed: {0}; the operator's role needs get, create and update of leases there")]
    Forbidden(String),
    #[error("the namespace {0} does not exist")]
    NoNamespace(String),
    #[error("the API server did not answer in time")]
    Late,
    #[error("{0}")]
    Api(#[source] kube::Error),
}

/// What is written into a lease.
pub(super) enum Entry<'a> {
    /// Its holder.
    Holder(&'a str, Duration),
    /// Nobody; whoever asked is still named.
    Nobody,
    /// The holder stays, and this one asks for a turn.
    Asker(&'a str),
}

/// Where a lease is.
pub(super) struct LeaseSlot {
    api: Api<Lease>,
    namespace: String,
    name: String,
    /// What it is about, for people who look at it.
    about: BTreeMap<String, String>,
    /// With what it goes, as long as the API server lets us say so.
    owner: Option<OwnerRole>,
    deadline: Duration,
}

impl LeaseSlot {
    pub(super) fn new(
        client: Client,
        namespace: &str,
        name: String,
        about: BTreeMap<String, String>,
        owner: Option<OwnerRole>,
        deadline: Duration,
    ) -> Self {
        Self {
            api: Api::namespaced(client, namespace),
            namespace: namespace.to_owned(),
            name,
            about,
            owner,
            deadline,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where it is, for people.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(super) async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.in_time(self.api.get_opt(&self.name)).await
    }

    /// Makes a lease that names its holder.
    pub(super) async fn create(&self, holder: &str, length: Duration) -> Result<Lease, LeaseError> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.name.clone()),
                annotations: Some(self.about.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        };
        let mut lease = entered(lease, &Entry::Holder(holder, length));
        self.give_owner(&mut lease).await;
        self.in_time(self.api.create(&PostParams::default(), &lease))
            .await
    }

    /// Writes into a lease, if nobody has since it was read.
    pub(super) async fn write(
        &mut self,
        read: Lease,
        entry: &Entry<'_>,
    ) -> Result<Lease, LeaseError> {
        let mut lease = entered(read, entry);
        let annotations = lease.metadata.annotations.get_or_insert_default();
        annotations.extend(self.about.clone());
        let without = lease.metadata.owner_references.clone();
        if matches!(entry, Entry::Holder(..)) && self.give_owner(&mut lease).await {
            match self.replace(&lease).await {
                // Some clusters want the right to delete for it. What counts is who holds the lease.
                Err(LeaseError::Forbidden(_)) => self.owner = None,
                answer => return answer,
            }
            lease.metadata.owner_references = without;
        }
        self.replace(&lease).await
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, LeaseError> {
        let params = PostParams::default();
        self.in_time(self.api.replace(&self.name, &params, lease))
            .await
    }

    /// Names with what it goes, and tells whether that is new. A role that cannot be read now is asked
    /// for again at the next renewal.
    async fn give_owner(&self, lease: &mut Lease) -> bool {
        let missing = |role: &&OwnerRole| !role.is_named_by(&lease.metadata);
        let Some(role) = self.owner.as_ref().filter(missing) else {
            return false;
        };
        let found = tokio::time::timeout(self.deadline, role.find()).await;
        let found = found.ok().flatten();
        found.is_some_and(|owner| owner_role::belong_to(&mut lease.metadata, &owner))
    }

    async fn in_time<T>(
        &self,
        call: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, LeaseError> {
        let answer = tokio::time::timeout(self.deadline, call).await;
        answer
            .map_err(|_| LeaseError::Late)?
            .map_err(|error| match error {
                kube::Error::Api(status) => match status.code {
                    409 => LeaseError::Conflict,
                    403 => LeaseError::Forbidden(status.message),
                    // Somebody has deleted it since it was read.
                    404 if is_of_lease(&status) => LeaseError::Conflict,
                    404 => LeaseError::NoNamespace(self.namespace.clone()),
                    _ => LeaseError::Api(kube::Error::Api(status)),
                },
                error => LeaseError::Api(error),
            })
    }
}

/// Whether a lease is meant that was not found, and not its namespace.
fn is_of_lease(status: &Status) -> bool {
    let details = status.details.as_ref();
    details.is_some_and(|details| details.kind == "leases")
}

/// A lease with an entry. The times are for people: nobody here reads them again.
fn entered(mut lease: Lease, entry: &Entry<'_>) -> Lease {
    let now = MicroTime(jiff::Timestamp::now());
    let annotations = lease.metadata.annotations.get_or_insert_default();
    let spec = lease.spec.get_or_insert_default();
    match entry {
        Entry::Holder(holder, length) => {
            if spec.holder_identity.as_deref() != Some(holder) {
                spec.holder_identity = Some((*holder).to_owned());
                spec.lease_transitions =
                    Some(spec.lease_transitions.unwrap_or(-1).saturating_add(1));
                spec.acquire_time = Some(now.clone());
                annotations.remove(WANTED_BY);
            }
            spec.lease_duration_seconds = i32::try_from(length.as_secs()).ok();
            spec.renew_time = Some(now);
        }
        Entry::Nobody => {
            spec.holder_identity = None;
            spec.renew_time = Some(now);
        }
        Entry::Asker(asker) => {
            annotations.insert(WANTED_BY.to_owned(), (*asker).to_owned());
        }
    }
    lease
}

/// What a claim needs to know of a lease.
pub(super) fn document_of(lease: &Lease) -> Document {
    let LeaseSpec {
        holder_identity,
        lease_duration_seconds,
        renew_time,
        ..
    } = lease.spec.clone().unwrap_or_default();
    let seconds = lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let annotations = lease.metadata.annotations.as_ref();
    Document {
        renewal: renew_time
            .map(|time| time.0.to_string())
            .unwrap_or_default(),
        holder: holder_identity.filter(|holder| !holder.is_empty()),
        length: seconds.map(Duration::from_secs),
        wanted_by: annotations
            .and_then(|annotations| annotations.get(WANTED_BY))
            .cloned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_the_next_reader_needs() {
        let length = Duration::from_secs(24);
        let taken = entered(Lease::default(), &Entry::Holder("a", length));
        let document = document_of(&taken);
        assert_eq!(document.holder.as_deref(), Some("a"));
        assert_eq!(document.length, Some(length));
        let asked = entered(taken, &Entry::Asker("b"));
        let renewed = entered(asked, &Entry::Holder("a", length));
        assert_eq!(document_of(&renewed).wanted_by.as_deref(), Some("b"));
        let free = entered(renewed, &Entry::Nobody);
        let document = document_of(&free);
        assert_eq!(
            (document.holder, document.wanted_by.as_deref()),
            (None, Some("b"))
        );
        let given = document_of(&entered(free, &Entry::Holder("b", length)));
        assert_eq!(
            (given.holder.as_deref(), given.wanted_by),
            (Some("b"), None)
        );
    }
}
