//! From what users wrote to what goes where: references, access policies, overlaps, types.
//!
//! A pure function of the configuration and of what the cluster serves, computed anew whenever
//! either changes. What may not be used is a [`Refusal`] that names the cure, and becomes right by
//! itself once the cause is gone.

mod access;
mod destinations;
mod kept;
mod rules;
mod unreadable;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reverser_api::git_destination::SecretsMode;
use reverser_api::git_repo_config::AuthorMode;
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use reverser_core::base_folder::BaseFolder;
use reverser_core::catalogue::{Catalogue, ServedType};
use reverser_core::ignore::Ignored;
use reverser_core::labels::{LabelSelector, Labels};
use reverser_core::object_key::TypeKey;
use reverser_core::plan::PruneMode;
use reverser_core::selection::{Exclusions, RulePart};
use reverser_git::{BranchName, PushOptions, RemoteUrl, Scheme};

pub(crate) use self::destinations::has_written;
pub use self::kept::Kept;
pub use self::unreadable::{OwnKind, Unreadable};
use crate::identity::{Id, RuleId};
use crate::settings::{AllowedRepoUrls, DestinationSettings, DiscoverySettings};

/// Everything that users wrote, and the labels of namespaces.
#[derive(Clone, Debug, Default)]
pub struct Configuration {
    /// The repositories.
    pub repos: BTreeMap<Id, Arc<GitRepoConfig>>,
    /// The destinations.
    pub destinations: BTreeMap<Id, Arc<GitDestination>>,
    /// The rules of namespaces.
    pub watch_rules: BTreeMap<Id, Arc<WatchRule>>,
    /// The rules of the cluster.
    pub cluster_rules: BTreeMap<String, Arc<ClusterWatchRule>>,
    /// Those of the four kinds that cannot be read, although the API server took them.
    pub unreadable: BTreeMap<(OwnKind, Id), Unreadable>,
    /// Rules that were seen to be deleted, which a person did on purpose.
    pub deleted_rules: BTreeSet<RuleId>,
    /// The namespaces.
    pub namespaces: BTreeMap<String, Labels>,
    /// Counts how often our own definitions were gone: rules that vanished with them were deleted by
    /// nobody.
    pub installation: u64,
}

/// What the operator's flags say about it.
#[derive(Clone, Debug)]
pub struct RoutingOptions {
    /// How repositories may be reached.
    pub schemes: Vec<Scheme>,
    /// The repositories that may be written.
    pub allowed_urls: AllowedRepoUrls,
    /// How Secrets are written where a destination does not say.
    pub secrets_mode: SecretsMode,
    /// Types that are left out unless a rule names them.
    pub exclusions: Exclusions,
    /// Whether no resources means all of them.
    pub watch_all: bool,
    /// How many types are watched at most.
    pub max_types: usize,
}

impl RoutingOptions {
    /// What these flags say.
    #[must_use]
    pub fn of(discovery: &DiscoverySettings, destination: &DestinationSettings) -> Self {
        let exclude: Vec<String> = discovery.exclude.iter().map(ToString::to_string).collect();
        Self {
            schemes: destination.allowed_schemes.clone(),
            allowed_urls: destination.allowed_repo_urls.clone(),
            secrets_mode: destination.secrets_mode,
            exclusions: Exclusions::new(discovery.default_exclusions, &exclude),
            watch_all: discovery.watch_all,
            max_types: discovery.max_types,
        }
    }

    fn url_of(&self, text: &str) -> Result<RemoteUrl, Refusal> {
        let refused = |message: String| Refusal {
            reason: reverser_api::conditions::remote_reason::URL_NOT_ALLOWED,
            message,
        };
        let url = RemoteUrl::parse(text, &self.schemes)
            .map_err(|error| refused(format!("spec.repoUrl: {error}")))?;
        if self.allowed_urls.allows(&url) {
            Ok(url)
        } else {
            let patterns: Vec<&str> = self.allowed_urls.patterns().collect();
            Err(refused(format!(
                "spec.repoUrl is none that the operator's flag --allowed-repo-urls allows: {}",
                patterns.join(", ")
            )))
        }
    }
}

/// Why something is not in effect, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// A documented word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// A destination that can be written.
#[derive(Clone, Debug, PartialEq)]
pub struct Destination {
    /// Where it is.
    pub target: Target,
    /// The folder that it owns.
    pub folder: BaseFolder,
    /// How objects are written.
    pub form: Form,
    /// When files are deleted.
    pub prune: PruneMode,
    /// Whether mass deletions are stopped.
    pub guard: bool,
    /// The mass deletion that a person has released.
    pub acknowledged: Option<String>,
    /// What becomes of a folder that another installation has marked.
    pub marked: MarkedFolder,
    /// Whether writing is stopped.
    pub suspend: bool,
    /// Which state of its GitRepoConfig this is: in another one credentials may be others.
    pub repo_edition: Edition,
    /// How its repository is pushed to.
    pub push: PushSettings,
    /// How its commits look.
    pub commit: CommitSettings,
}

/// What becomes of a folder that another installation has marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedFolder {
    /// Whether it is left alone.
    pub exclusive: bool,
    /// The mark that a person has released.
    pub take_over: Option<String>,
}

/// So many pushes a minute where neither the user nor the host says otherwise.
pub const DEFAULT_PUSHES_PER_MINUTE: u32 = 60;

#[cfg(test)]
impl Destination {
    /// One with defaults everywhere.
    pub(crate) fn sample(target: Target) -> Self {
        Self {
            target,
            folder: BaseFolder::parse("prod").expect("a plain folder"),
            form: Form {
                secrets: SecretsMode::AsIs,
                ignored: Ignored::default(),
            },
            prune: PruneMode::Always,
            guard: true,
            acknowledged: None,
            marked: MarkedFolder::default(),
            suspend: false,
            repo_edition: Edition::default(),
            push: PushSettings {
                max_wait: None,
                max_files: None,
                per_minute: DEFAULT_PUSHES_PER_MINUTE,
                options: PushOptions::default(),
            },
            commit: CommitSettings::default(),
        }
    }
}

/// How a repository is pushed to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSettings {
    /// The longest that a change waits for others, instead of the operator's flag.
    pub max_wait: Option<std::time::Duration>,
    /// The most files of a batch, instead of the operator's flag.
    pub max_files: Option<usize>,
    /// How many pushes a minute are made.
    pub per_minute: u32,
    /// Passed to the server with each push.
    pub options: PushOptions,
}

/// How commits look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitSettings {
    /// What goes in front of subjects.
    pub subject_prefix: Option<String>,
    /// The committer's name, instead of the operator's flag.
    pub committer_name: Option<String>,
    /// The committer's address, instead of the operator's flag.
    pub committer_email: Option<String>,
    /// Where the person who made a change is named.
    pub author_mode: AuthorMode,
    /// The domain of addresses that are made up.
    pub author_domain: Option<String>,
}

/// A branch of a repository, and how it is reached. Destinations with the same one share a writer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// The repository.
    pub url: RemoteUrl,
    /// The branch.
    pub branch: BranchName,
    /// The GitRepoConfig: two of them may name one URL with different credentials.
    pub repo: Id,
}

/// A repository, in one state of its GitRepoConfig. What was heard of another one says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoState {
    /// Where it is.
    pub url: RemoteUrl,
    /// Which state of its GitRepoConfig that is.
    pub edition: Edition,
}

/// A state of an object. One that is made anew under its name counts its generations from one again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edition {
    uid: Option<String>,
    generation: Option<i64>,
}

impl Edition {
    /// Of an object as it is now.
    #[must_use]
    pub fn of(object: &impl kube::Resource) -> Self {
        let metadata = object.meta();
        Self {
            uid: metadata.uid.clone(),
            generation: metadata.generation,
        }
    }
}

impl Destination {
    /// The repository that it is written to.
    #[must_use]
    pub fn repo_state(&self) -> RepoState {
        RepoState {
            url: self.target.url.clone(),
            edition: self.repo_edition.clone(),
        }
    }
}

/// How objects are written.
#[derive(Clone, Debug, PartialEq)]
pub struct Form {
    /// Secrets.
    pub secrets: SecretsMode,
    /// What is left out.
    pub ignored: Ignored,
}

/// A rule that is in effect.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Where its objects go.
    pub destination: Id,
    /// The labels of its objects.
    pub selector: LabelSelector,
    /// What it selects, and what that means here.
    pub parts: Vec<RulePart>,
    /// Names that the cluster does not serve.
    pub unserved: Vec<String>,
    /// Names that live elsewhere than the rule reaches.
    pub out_of_reach: Vec<String>,
    /// Names of subresources.
    pub subresources: Vec<String>,
    /// Types that are over the limit.
    pub over_limit: Vec<TypeKey>,
    /// How many types are watched for it.
    pub watched_types: usize,
}

impl Rule {
    /// Whether it selects no type at all, without naming one that is missing.
    #[must_use]
    pub fn means_no_type(&self) -> bool {
        let named = [&self.unserved, &self.out_of_reach, &self.subresources];
        self.watched_types == 0
            && self.over_limit.is_empty()
            && named.into_iter().all(Vec::is_empty)
    }
}

#[cfg(test)]
impl Rule {
    /// One that selects nothing in particular.
    pub(crate) fn sample() -> Self {
        Self {
            destination: Id::new("shop", "prod"),
            selector: LabelSelector::default(),
            parts: Vec::new(),
            unserved: Vec::new(),
            out_of_reach: Vec::new(),
            subresources: Vec::new(),
            over_limit: Vec::new(),
            watched_types: 1,
        }
    }
}

/// A part of a rule, seen from one type.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Where the objects go.
    pub destination: Id,
    /// The rule.
    pub rule: RuleId,
    /// The labels of its objects.
    pub selector: LabelSelector,
    /// Where they live, and which changes are followed.
    pub part: RulePart,
    /// Whether the rule names the type although it is excluded.
    pub named_although_excluded: bool,
}

/// A type that has to be watched.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// The type.
    pub served: ServedType,
    /// The namespaces in which its objects are wanted; nothing means all, or none for types that
    /// live in none.
    pub namespaces: Option<BTreeSet<String>>,
    /// Who wants it, in the order of destinations.
    pub routes: Vec<Route>,
}

impl Need {
    /// Those that go to one destination.
    pub fn routes_to(&self, destination: &Id) -> impl Iterator<Item = &Route> {
        let begin = self
            .routes
            .partition_point(|route| route.destination < *destination);
        let routes = self.routes.iter().skip(begin);
        routes.take_while(move |route| route.destination == *destination)
    }
}

/// What goes where.
#[derive(Clone, Debug, Default)]
pub struct Routing {
    /// Repositories whose spec cannot be used.
    pub repos: BTreeMap<Id, Result<RemoteUrl, Refusal>>,
    /// Every destination.
    pub destinations: BTreeMap<Id, Result<Destination, Refusal>>,
    /// Every rule.
    pub rules: BTreeMap<RuleId, Result<Rule, Refusal>>,
    /// Every type that is wanted.
    pub needs: BTreeMap<TypeKey, Need>,
    /// What stays because a refused rule may have written it.
    pub kept: Kept,
    /// Rules that were seen to be deleted.
    pub deleted_rules: BTreeSet<RuleId>,
}

impl Routing {
    /// What this configuration means on a cluster that serves these types.
    #[must_use]
    pub fn of(
        configuration: &Configuration,
        catalogue: &Catalogue,
        options: &RoutingOptions,
    ) -> Self {
        let mut routing = Self {
            deleted_rules: configuration.deleted_rules.clone(),
            ..Self::default()
        };
        for (id, repo) in &configuration.repos {
            routing
                .repos
                .insert(id.clone(), options.url_of(&repo.spec.repo_url));
        }
        destinations::resolve(&mut routing, configuration, options);
        rules::resolve(&mut routing, configuration, catalogue, options);
        for need in routing.needs.values_mut() {
            need.routes
                .sort_by(|one, other| one.destination.cmp(&other.destination));
        }
        unreadable::resolve(&mut routing, configuration);
        routing
    }
}
