//! What status says: condition types and reasons.
//!
//! The first three types follow the kstatus conventions, so that `kubectl wait
//! --for=condition=Ready` and the health checks of Flux and Argo CD read them. The others are
//! warnings: they are there, as `True`, only while there is something to warn of, their reason is
//! the type's own name, and they leave Ready as it is.

/// Declares constants together with a table of them, from which the reference is written.
macro_rules! words {
    ($($(#[doc = $doc:literal])+ $constant:ident = $word:literal;)+) => {
        $($(#[doc = $doc])+ pub const $constant: &str = $word;)+

        #[cfg(test)]
        pub(crate) const ALL: &[(&str, &str)] = &[$(($word, concat!($($doc),+))),+];
    };
}

/// Condition types of all four kinds.
pub mod condition {
    words! {
        /// Whether the object does what it is there for. Never `True` while anything is stopped,
        /// refused or failing.
        READY = "Ready";
        /// `True` while the operator is at work on the latest spec or on the latest changes.
        RECONCILING = "Reconciling";
        /// `True` while nothing will get better before somebody does something: a Secret, a right, an
        /// access policy, wrong credentials. It is tried again all the same.
        STALLED = "Stalled";
    }
}

/// Condition types of GitDestinations that warn.
pub mod destination_warning {
    words! {
        /// Secrets are written in a form that everyone who may read the repository can decode.
        SECRETS_READABLE = "SecretsReadable";
        /// Files stay although their objects are gone: `spec.prune.mode` or the operator's
        /// `--deletes-cap-per-cycle` holds their deletion back. The message says how many, and which of the two.
        DELETIONS_HELD_BACK = "DeletionsHeldBack";
        /// The folder holds files of types that no rule selects, and nobody can prove that they may
        /// go: a rule was deleted while the operator was down, or is not in effect. They stay.
        UNSELECTED_FILES = "UnselectedFiles";
        /// The folder carries the mark of another installation, and `exclusiveMode` is false.
        FOREIGN_OWNER = "ForeignOwner";
        /// The Git server refuses the authors of changes: commits name the operator instead, and the
        /// person in a trailer.
        AUTHOR_REFUSED = "AuthorRefused";
        /// The store that replicas share, of who tried to change what, cannot be used: changes that
        /// another replica heard of have no author.
        ATTRIBUTION_STORE_UNAVAILABLE = "AttributionStoreUnavailable";
    }
}

/// Condition types of WatchRules and ClusterWatchRules that warn.
pub mod rule_warning {
    words! {
        /// The rule names types that the cluster does not serve. It starts by itself to follow them
        /// once it does.
        TYPES_NOT_SERVED = "TypesNotServed";
        /// The rule names subresources, which cannot be watched: these entries select nothing.
        SUBRESOURCES_IGNORED = "SubresourcesIgnored";
        /// The rule selects more types than the operator may watch. Those that are over the limit
        /// are not followed, and their files stay.
        TYPES_OVER_LIMIT = "TypesOverLimit";
    }
}

/// Reasons of Ready, for every kind.
pub mod reason {
    words! {
        /// The operator has not come to a result yet.
        PROGRESSING = "Progressing";
        /// The operator runs with `--enable-watch-ingestion=false`: it checks specs, and neither
        /// watches objects nor makes commits.
        INGESTION_DISABLED = "IngestionDisabled";
        /// The spec says something that the operator cannot act on, although the API server took
        /// it. The message names the field.
        INVALID_SPEC = "InvalidSpec";
    }
}

/// Reasons of Ready, for kinds that refer to another.
pub mod reference_reason {
    words! {
        /// The GitRepoConfig or GitDestination that is referred to does not exist.
        REFERENCE_NOT_FOUND = "ReferenceNotFound";
        /// The GitRepoConfig or GitDestination that is referred to is not ready itself.
        REFERENCE_NOT_READY = "ReferenceNotReady";
        /// The access policy of the GitRepoConfig or of the GitDestination does not let this object
        /// use it. The message names the field that would.
        ACCESS_DENIED = "AccessDenied";
    }
}

/// Reasons of Ready, for GitRepoConfigs and for the GitDestinations that use them.
pub mod remote_reason {
    words! {
        /// The operator's flags do not allow this `repoUrl`.
        URL_NOT_ALLOWED = "UrlNotAllowed";
        /// The Secret that is named does not exist.
        SECRET_NOT_FOUND = "SecretNotFound";
        /// The Secret lacks what its use needs, or holds a key that cannot be read.
        SECRET_INVALID = "SecretInvalid";
        /// The Git server does not accept the credentials.
        CREDENTIALS_REFUSED = "CredentialsRefused";
        /// The Git server's host key or certificate is not the one that is trusted.
        HOST_NOT_TRUSTED = "HostNotTrusted";
        /// The Git server does not answer, or knows no such repository.
        UNREACHABLE = "Unreachable";
    }
}

/// Reasons of Ready, for GitRepoConfigs.
pub mod repo_reason {
    words! {
        /// Ready: the repository was reached with these credentials.
        REACHABLE = "Reachable";
    }
}

/// Reasons of Ready, for GitDestinations.
pub mod destination_reason {
    words! {
        /// Ready: the branch holds what the cluster holds, up to changes that are on their way.
        IN_SYNC = "InSync";
        /// Ready: the repository was reached, and no WatchRule or ClusterWatchRule that is in effect
        /// refers to it, so there is nothing to do.
        NO_RULES = "NoRules";
        /// `spec.suspend` is true: nothing is written.
        SUSPENDED = "Suspended";
        /// The branch is none of the repository's `allowedBranches`.
        BRANCH_NOT_ALLOWED = "BranchNotAllowed";
        /// An older destination has the same folder of the same branch, or one above or below it.
        FOLDER_OVERLAP = "FolderOverlap";
        /// The folder or the branch belongs to another installation.
        OWNERSHIP_CONFLICT = "OwnershipConflict";
        /// The Lease of the branch can be neither read nor written, so nobody knows whose turn it is:
        /// nothing is written. The message says what the operator may not do.
        LEASE_UNAVAILABLE = "LeaseUnavailable";
        /// Deletions that look like a mistake are stopped, until the annotation
        /// `configbutler.ai/acknowledge-mass-delete` has the id that status shows.
        MASS_DELETE_GUARD = "MassDeleteGuard";
        /// The Git server refuses the push. The message has what it said.
        PUSH_REFUSED = "PushRefused";
        /// The Git server refuses single objects, which status lists; everything else is written.
        OBJECTS_SET_ASIDE = "ObjectsSetAside";
    }
}

/// Reasons of Ready, for GitDestinations and for the rules whose objects go there.
pub mod scope_reason {
    words! {
        /// Types could not be listed completely, so nobody knows which of their objects are gone:
        /// their files stay as they are. Stalled where the operator may not read them.
        SCOPE_UNKNOWN = "ScopeUnknown";
    }
}

/// Reasons of Ready, for WatchRules and ClusterWatchRules.
pub mod rule_reason {
    words! {
        /// Ready: the objects that the rule selects were listed and are followed. Whether they are in
        /// Git is what the GitDestination says.
        WATCHING = "Watching";
        /// Ready, and nothing is followed: the cluster serves no type that the rule means. Types that
        /// are left out by default have to be named.
        NO_TYPES = "NoTypes";
        /// All types of the rule are over `--discovery-max-types`. Nothing is followed, and their
        /// files stay.
        ALL_TYPES_OVER_LIMIT = "AllTypesOverLimit";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_one_that_kubernetes_accepts_and_stands_for_one_thing() {
        let groups = [
            condition::ALL,
            destination_warning::ALL,
            rule_warning::ALL,
            reason::ALL,
            reference_reason::ALL,
            remote_reason::ALL,
            repo_reason::ALL,
            destination_reason::ALL,
            scope_reason::ALL,
            rule_reason::ALL,
        ];
        let mut seen = std::collections::BTreeSet::new();
        for (word, _) in groups.into_iter().flatten() {
            assert!(
                word.starts_with(|first: char| first.is_ascii_uppercase()),
                "{word}"
            );
            assert!(word.chars().all(|c| c.is_ascii_alphanumeric()), "{word}");
            assert!(seen.insert(word), "{word} stands twice");
        }
    }
}
