//! Which destinations can be written.

use std::collections::BTreeMap;

use kube::ResourceExt as _;
use reverser_api::GitRepoConfig;
use reverser_api::conditions::{destination_reason, reason, reference_reason};
use reverser_api::git_destination::{
    ACKNOWLEDGE_MASS_DELETE, GitDestination, Ignore, PruneGuard, TAKE_OVER,
};
use reverser_core::base_folder::BaseFolder;
use reverser_core::ignore::{Ignored, IgnoredField};
use reverser_core::plan::PruneMode;
use reverser_git::{BranchName, FolderPath, Person, PushOptions, RemoteUrl, RepositoryIdentity};

use super::access::lets_in;
use super::{
    CommitSettings, Configuration, DEFAULT_PUSHES_PER_MINUTE, Destination, Edition, Form,
    MarkedFolder, OwnKind, PushSettings, Refusal, Routing, RoutingOptions, Target,
};
use crate::identity::Id;

pub(super) fn resolve(
    routing: &mut Routing,
    configuration: &Configuration,
    options: &RoutingOptions,
) {
    for (id, destination) in &configuration.destinations {
        let resolved = destination_of(id, destination, routing, configuration, options);
        routing.destinations.insert(id.clone(), resolved);
    }
    refuse_overlaps(routing, configuration);
}

fn destination_of(
    id: &Id,
    destination: &GitDestination,
    routing: &Routing,
    configuration: &Configuration,
    options: &RoutingOptions,
) -> Result<Destination, Refusal> {
    let spec = &destination.spec;
    let repo_id = Id::of_repo(&spec.repo_ref, &id.namespace);
    let (repo, url) = repo_of(id, &repo_id, routing, configuration)?;
    if !repo.spec.allows_branch(&spec.branch) {
        return Err(Refusal {
            reason: destination_reason::BRANCH_NOT_ALLOWED,
            message: format!(
                "branch {:?} is none of spec.allowedBranches of GitRepoConfig {repo_id}",
                spec.branch
            ),
        });
    }
    let invalid = |message: String| Refusal {
        reason: reason::INVALID_SPEC,
        message,
    };
    let branch = BranchName::parse(&spec.branch)
        .map_err(|error| invalid(format!("spec.branch: {error}")))?;
    let folder = BaseFolder::parse(&spec.base_folder)
        .map_err(|error| invalid(format!("spec.baseFolder: {error}")))?;
    FolderPath::or_root(folder.as_str())
        .map_err(|error| invalid(format!("spec.baseFolder: {error}")))?;
    let push = push_settings(repo, url.host())
        .map_err(|message| invalid(format!("GitRepoConfig {repo_id}, spec.push: {message}")))?;
    let commit = commit_settings(repo)
        .map_err(|message| invalid(format!("GitRepoConfig {repo_id}, spec.commit: {message}")))?;
    Ok(Destination {
        target: Target {
            url,
            branch,
            repo: repo_id,
        },
        folder,
        form: Form {
            secrets: spec
                .secrets
                .as_ref()
                .and_then(|secrets| secrets.mode)
                .unwrap_or(options.secrets_mode),
            ignored: spec.ignore.as_ref().map(ignored).unwrap_or_default(),
        },
        prune: prune_mode(spec.prune.mode),
        guard: spec.prune.guard == PruneGuard::Enabled,
        acknowledged: destination
            .annotations()
            .get(ACKNOWLEDGE_MASS_DELETE)
            .cloned(),
        marked: MarkedFolder {
            exclusive: spec.exclusive_mode,
            take_over: destination.annotations().get(TAKE_OVER).cloned(),
        },
        suspend: spec.suspend,
        repo_edition: Edition::of(repo),
        push,
        commit,
    })
}

/// The repository that a destination names, and where it is, if the destination may use it.
fn repo_of<'c>(
    id: &Id,
    repo_id: &Id,
    routing: &Routing,
    configuration: &'c Configuration,
) -> Result<(&'c GitRepoConfig, RemoteUrl), Refusal> {
    if let Some(unreadable) = configuration.unreadable(OwnKind::Repo, repo_id) {
        return Err(Refusal {
            reason: reference_reason::REFERENCE_NOT_READY,
            message: format!("GitRepoConfig {repo_id}: {}", unreadable.refusal().message),
        });
    }
    let repo = configuration.repos.get(repo_id).ok_or_else(|| Refusal {
        reason: reference_reason::REFERENCE_NOT_FOUND,
        message: format!(
            "GitRepoConfig {repo_id} does not exist: create it, or change spec.repoRef"
        ),
    })?;
    let policy = &repo.spec.access_policy.namespaced_rules;
    if !lets_in(policy, &repo_id.namespace, &id.namespace, configuration) {
        return Err(Refusal {
            reason: reference_reason::ACCESS_DENIED,
            message: format!(
                "GitRepoConfig {repo_id} does not let in namespace {}: \
                 its spec.accessPolicy.namespacedRules would",
                id.namespace
            ),
        });
    }
    let url = routing.repos.get(repo_id).cloned().unwrap_or_else(|| {
        Err(Refusal {
            reason: reason::PROGRESSING,
            message: "not read yet".to_owned(),
        })
    });
    let url = url.map_err(|refusal| Refusal {
        reason: reference_reason::REFERENCE_NOT_READY,
        message: format!("GitRepoConfig {repo_id}: {}", refusal.message),
    })?;
    Ok((repo, url))
}

/// GitHub advises no more than this many pushes a minute to one repository.
const GITHUB_PUSHES_PER_MINUTE: u32 = 6;

fn push_settings(repo: &GitRepoConfig, host: &str) -> Result<PushSettings, String> {
    let push = repo.spec.push.clone().unwrap_or_default();
    let positive = |number: i32| u32::try_from(number).ok().filter(|number| *number > 0);
    let default = if host.eq_ignore_ascii_case("github.com") {
        GITHUB_PUSHES_PER_MINUTE
    } else {
        DEFAULT_PUSHES_PER_MINUTE
    };
    Ok(PushSettings {
        max_wait: push.interval.map(Into::into),
        max_files: push
            .max_commits
            .and_then(positive)
            .and_then(|number| usize::try_from(number).ok()),
        per_minute: push.max_per_minute.and_then(positive).unwrap_or(default),
        options: PushOptions::new(push.options).map_err(|error| error.to_string())?,
    })
}

fn commit_settings(repo: &GitRepoConfig) -> Result<CommitSettings, String> {
    let commit = repo.spec.commit.clone().unwrap_or_default();
    let committer = commit.committer.unwrap_or_default();
    // The operator's own name and address stand where one is left out, and are good.
    Person::new(
        committer.name.as_deref().unwrap_or("name"),
        committer.email.as_deref().unwrap_or_default(),
    )
    .map_err(|error| error.to_string())?;
    Ok(CommitSettings {
        subject_prefix: commit.subject_prefix,
        committer_name: committer.name,
        committer_email: committer.email,
        author_mode: commit.author_mode,
        author_domain: commit.author_email_domain,
    })
}

fn ignored(ignore: &Ignore) -> Ignored {
    let fields = ignore.fields.iter();
    Ignored {
        annotations: ignore.annotations.clone(),
        labels: ignore.labels.clone(),
        fields: fields
            .map(|field| IgnoredField::new(&field.pointer, field.kind.as_deref()))
            .collect(),
    }
}

fn prune_mode(mode: reverser_api::git_destination::PruneMode) -> PruneMode {
    use reverser_api::git_destination::PruneMode as Api;
    match mode {
        Api::Always => PruneMode::Always,
        Api::OnEvent => PruneMode::OnEvent,
        Api::Never => PruneMode::Never,
    }
}

/// Of two destinations whose folders overlap on one branch, the younger one is refused. Ages are told
/// in seconds: of the same second, one that has written goes before one that has not.
fn refuse_overlaps(routing: &mut Routing, configuration: &Configuration) {
    let mut by_age: Vec<(&Id, &GitDestination)> = configuration
        .destinations
        .iter()
        .map(|(id, destination)| (id, &**destination))
        .collect();
    by_age.sort_by_key(|(id, destination)| {
        (
            destination.creation_timestamp().map(|time| time.0),
            !has_written(destination),
            (*id).clone(),
        )
    });
    let mut taken: BTreeMap<(RepositoryIdentity, BranchName), Vec<(Id, BaseFolder)>> =
        BTreeMap::new();
    for (id, object) in by_age {
        let resolved = routing.destinations.get(id);
        let claim = match resolved {
            Some(Ok(destination)) => Some((
                destination.target.url.identity(),
                destination.target.branch.clone(),
                destination.folder.clone(),
            )),
            _ => claim_of_refused(id, object, routing),
        };
        let Some((repository, branch, folder)) = claim else {
            continue;
        };
        let folders = taken.entry((repository, branch)).or_default();
        let older = folders.iter().find(|(_, other)| other.overlaps(&folder));
        match older {
            Some((older, folder)) if resolved.is_some_and(Result::is_ok) => {
                let refusal = Refusal {
                    reason: destination_reason::FOLDER_OVERLAP,
                    message: format!(
                        "folder {folder} of this branch belongs to the older GitDestination {older}: \
                         choose one beside it"
                    ),
                };
                routing.destinations.insert(id.clone(), Err(refusal));
            }
            Some(_) => {}
            None => folders.push((id.clone(), folder)),
        }
    }
}

/// Whether it ever pushed a commit.
pub(crate) fn has_written(destination: &GitDestination) -> bool {
    let status = destination.status.as_ref();
    status.is_some_and(|status| status.last_pushed_commit.is_some())
}

/// What a refused destination has written is still its own: it may be let in again. One that never
/// wrote anything keeps nobody out.
fn claim_of_refused(
    id: &Id,
    object: &GitDestination,
    routing: &Routing,
) -> Option<(RepositoryIdentity, BranchName, BaseFolder)> {
    let spec = &object.spec;
    if !has_written(object) {
        return None;
    }
    let repo_id = Id::of_repo(&spec.repo_ref, &id.namespace);
    let repo = routing.repos.get(&repo_id)?;
    let folder = BaseFolder::parse(&spec.base_folder).ok()?;
    let branch = BranchName::parse(&spec.branch).ok()?;
    Some((repo.as_ref().ok()?.identity(), branch, folder))
}
