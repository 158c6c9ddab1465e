//! `verify`: compares a folder of a branch with the cluster.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use reverser_api::git_destination::SecretsMode;
use reverser_core::base_folder::BaseFolder;
use reverser_core::commit_message::describe;
use reverser_core::repo_path::RepoPath;
use reverser_git::{Git, Person};
use serde_json::json;
use tokio::sync::watch;

use super::mirror::{complaint, unknown_types};
use super::{EndSignals, block_on, print};
use crate::command_line::VerifyArguments;
use crate::configuration::Trouble;
use crate::http::Readiness;
use crate::identity::Id;
use crate::operator::Parts;
use crate::routing::{Configuration, Destination, OwnKind, RoutingOptions, Target};
use crate::status::Statuses;
use crate::telemetry::{Telemetry, metrics};
use crate::terminal::cluster::Cluster;
use crate::terminal::comparison::{Branch, Comparison, Wishes, gatherer};
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::installed_flags::installed;
use crate::terminal::pass::{self, Pass, Plan};
use crate::terminal::progress::Shown;
use crate::terminal::repository::{Purpose, Repository, user_folder};
use crate::terminal::selection::Selection;
use crate::terminal::text::{self, Colour, Paint};

/// Longer than any cluster takes to tell what was written to it.
const CONFIGURED: Duration = Duration::from_secs(30);

pub(super) fn run(arguments: &VerifyArguments) -> ExitCode {
    exit::end(block_on(verify(arguments)))
}

async fn verify(arguments: &VerifyArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    signals.unless(compare(arguments)).await
}

async fn compare(arguments: &VerifyArguments) -> Result<ExitCode, Complaint> {
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let (id, plan, branch) = match &arguments.destination {
        Some(name) => of_destination(arguments, &cluster, name).await?,
        None => of_flags(arguments, &cluster).await?,
    };
    let (writers, mut gathered) = gatherer();
    let mut pass = Pass::start(Plan { writers, ..plan });
    let mut shown = Shown::new(pass.progress.clone(), arguments.json);
    let (wishes, destination) = loop {
        tokio::select! {
            Some(wishes) = gathered.recv() => {
                let statuses = pass.look();
                let destination = usable(&statuses, &id)?.ok_or_else(|| Complaint::failed("nothing is routed"))?;
                break (wishes, destination);
            }
            statuses = pass.news() => {
                usable(&statuses?, &id)?;
            }
            () = Shown::tick() => shown.look(),
        }
    };
    shown.end();
    pass.finish().await?;
    let branch = branch(destination.clone()).await?;
    let compared = tokio::task::spawn_blocking(move || {
        let mut branch = branch;
        let comparison = branch.compare(&destination.folder, &wishes);
        comparison.map(|comparison| (comparison, wishes, destination.folder))
    });
    let (comparison, wishes, folder) = compared.await.map_err(Complaint::failed)??;
    let text = if arguments.json {
        format!("{:#}\n", as_json(&comparison, &wishes))
    } else {
        as_text(
            &folder,
            &comparison,
            &wishes,
            !arguments.no_diff,
            Paint::for_stdout(),
        )
    };
    print(&text).map_err(Complaint::failed)?;
    let Comparison {
        same: _,
        missing,
        extra,
        different,
    } = comparison;
    Ok(if missing.len() + extra.len() + different.len() > 0 {
        Exit::Failed.into()
    } else if wishes.unknown.is_empty() {
        ExitCode::SUCCESS
    } else {
        Exit::Partial.into()
    })
}

/// Fetches the branch of a destination.
type FetchBranch = Box<
    dyn FnOnce(Destination) -> futures::future::BoxFuture<'static, Result<Branch, Complaint>>
        + Send,
>;

/// A folder of a repository that flags name, and objects that flags select.
async fn of_flags(
    arguments: &VerifyArguments,
    cluster: &Cluster,
) -> Result<(Id, Plan, FetchBranch), Complaint> {
    let selection = Selection::read(&arguments.selection, cluster).await?;
    let repository = Repository::find(&arguments.repository, Purpose::Read)?;
    let (told, configuration) = watch::channel(None);
    let client = crate::api_read::following(&cluster.config).map_err(Complaint::failed)?;
    let mut parts = Parts::default();
    let made = selection.configuration(&repository, None);
    let following = selection.clone().follow(client, made, told);
    parts.spawn("the follower of namespaces", following);
    let plan = Plan {
        config: cluster.config.clone(),
        settings: pass::settings(
            repository.git.clone(),
            repository.work_dir.clone(),
            &selection.exclude,
            nobody(),
            Duration::ZERO,
        ),
        configuration,
        parts,
        writers: gatherer().0,
        redaction: selection.key_source(),
        namespaces_first: selection.namespaces.is_some(),
        progress: Arc::default(),
    };
    let fetch = move |_: Destination| -> futures::future::BoxFuture<'static, _> {
        Box::pin(async move {
            let fetched = tokio::task::spawn_blocking(move || repository.fetch());
            fetched.await.map_err(Complaint::failed)?
        })
    };
    Ok((Selection::destination(), plan, Box::new(fetch)))
}

/// What a GitDestination and the rules that refer to it say.
async fn of_destination(
    arguments: &VerifyArguments,
    cluster: &Cluster,
    name: &str,
) -> Result<(Id, Plan, FetchBranch), Complaint> {
    let (namespace, name) = name.split_once('/').ok_or_else(|| {
        let sentence = format!("{name:?} is no destination: write -d namespace/name");
        Complaint::new(Exit::Usage, sentence)
    })?;
    let id = Id::new(namespace, name);
    let client = crate::api_read::following(&cluster.config).map_err(Complaint::failed)?;
    let all = followed(client.clone()).await?;
    let configuration = only(&id, &all)?;
    let (told, followed) = watch::channel(None);
    told.send_replace(Some(Arc::new(configuration)));
    let configuration = followed;
    let mut parts = Parts::default();
    parts.spawn("the configuration", async move { told.closed().await });
    let git = Git::find().map_err(Complaint::failed)?;
    let work_dir = arguments.repository.work_dir.clone();
    let work_dir = work_dir.unwrap_or_else(|| user_folder("XDG_CACHE_HOME", ".cache"));
    let mut settings = pass::settings(git.clone(), work_dir.clone(), &[], nobody(), Duration::ZERO);
    match installed(client.clone(), &arguments.operator_namespace).await {
        Ok(installed) => {
            settings.routing = RoutingOptions::of(&installed.discovery, &installed.destination);
            settings.noise = installed.discovery.noise;
        }
        Err(why) => {
            eprintln!(
                "note: the flags of the operator are not known, so its defaults are compared with: \
                 {why}; --operator-namespace says where it runs, --secrets how it writes Secrets"
            );
            settings.routing.secrets_mode = SecretsMode::AsIs;
        }
    }
    if let Some(secrets) = arguments.selection.secrets {
        settings.routing.secrets_mode = secrets.into();
    }
    let plan = Plan {
        config: cluster.config.clone(),
        settings,
        configuration,
        parts,
        writers: gatherer().0,
        redaction: crate::operator::key_of_operator(client.clone(), &arguments.operator_namespace),
        namespaces_first: false,
        progress: Arc::default(),
    };
    let fetch = move |destination: Destination| -> futures::future::BoxFuture<'static, _> {
        Box::pin(async move {
            let Target { repo, url, .. } = &destination.target;
            let access = crate::credentials::source(client, repo, url);
            let access = access().await.map_err(|refusal| complaint(&refusal))?;
            let fetched = tokio::task::spawn_blocking(move || {
                let target = &destination.target;
                Branch::fetch(
                    git,
                    &target.url,
                    &target.branch,
                    access.credentials,
                    &work_dir,
                )
            });
            fetched.await.map_err(Complaint::failed)?
        })
    };
    Ok((id, plan, Box::new(fetch)))
}

/// Everything that users wrote, as soon as it is known completely.
async fn followed(client: kube::Client) -> Result<Arc<Configuration>, Complaint> {
    let (told, mut configuration) = watch::channel(None);
    let (readiness, _) = watch::channel(Readiness::NotReady(String::new()));
    let telemetry = Telemetry::register(&mut metrics::registry());
    let trouble = Trouble::new(telemetry, readiness);
    let follower = tokio::spawn(crate::configuration::follow(client, None, trouble, told));
    let waited = tokio::time::timeout(CONFIGURED, configuration.wait_for(Option::is_some)).await;
    let found = waited
        .ok()
        .and_then(Result::ok)
        .and_then(|found| found.clone());
    follower.abort();
    found.ok_or_else(|| {
        Complaint::failed(
            "the four kinds cannot be read: check that they are installed (`gitops-reverser crds`) and \
             that you may list them and the namespaces",
        )
    })
}

/// One destination, its repository and its rules.
fn only(id: &Id, all: &Configuration) -> Result<Configuration, Complaint> {
    let destination = all.destinations.get(id).ok_or_else(|| {
        let known: Vec<String> = all.destinations.keys().map(ToString::to_string).collect();
        let sentence = format!(
            "there is no GitDestination {id}; there are: {}",
            known.join(", ")
        );
        Complaint::new(Exit::NoSuchObject, sentence)
    })?;
    let mut one = all.clone();
    one.destinations.retain(|other, _| other == id);
    let repo = Id::of_repo(&destination.spec.repo_ref, &id.namespace);
    one.repos.retain(|other, _| *other == repo);
    one.watch_rules.retain(|rule_id, rule| {
        Id::of_destination(&rule.spec.destination_ref, &rule_id.namespace) == *id
    });
    one.cluster_rules.retain(|_, rule| {
        let reference = &rule.spec.destination_ref;
        reference.namespace == id.namespace && reference.name == id.name
    });
    one.unreadable.retain(|(kind, _), unreadable| {
        let is_rule = matches!(kind, OwnKind::WatchRule | OwnKind::ClusterRule);
        !is_rule || unreadable.destination.as_ref() == Some(id)
    });
    Ok(one)
}

/// The destination, as soon as it is routed, unless it or its rules cannot be used.
fn usable(statuses: &Statuses, id: &Id) -> Result<Option<Destination>, Complaint> {
    let Some(destination) = statuses.routing.destinations.get(id) else {
        return Ok(None);
    };
    let destination = destination.clone().map_err(|refusal| complaint(&refusal))?;
    for rule in statuses.routing.rules.values() {
        if let Err(refusal) = rule {
            return Err(complaint(refusal));
        }
    }
    if *id == Selection::destination()
        && let Some(complaint) = unknown_types(statuses)
    {
        return Err(complaint);
    }
    Ok(Some(destination))
}

/// Nothing is committed.
fn nobody() -> Person {
    Person::new("nobody", "").expect("a name without an address is a person")
}

fn as_text(
    folder: &BaseFolder,
    comparison: &Comparison,
    wishes: &Wishes,
    with_diff: bool,
    paint: Paint,
) -> String {
    let Comparison {
        same,
        missing,
        extra,
        different,
    } = comparison;
    let mut rows = Vec::new();
    let mut add = |state: &str, colour, path: &RepoPath| {
        rows.push(vec![
            paint.paint(colour, state),
            describe(path),
            folder.join(path),
        ]);
    };
    for one in different {
        add("different", Colour::Yellow, &one.path);
    }
    for path in missing {
        add("missing", Colour::Red, path);
    }
    for path in extra {
        add("extra", Colour::Red, path);
    }
    let mut text = String::new();
    if !rows.is_empty() {
        let head = ["STATE", "OBJECT", "FILE"].map(str::to_owned).to_vec();
        rows.insert(0, head);
        text.push_str(&text::table(&rows));
        text.push('\n');
    }
    if with_diff {
        for one in different {
            let file = folder.join(&one.path);
            text.push_str(&paint.object_diff(&one.path, (&file, &one.file), ("live", &one.live)));
            text.push('\n');
        }
    }
    for one in &wishes.unknown {
        let _infallible = writeln!(text, "not listed, not compared: {one}");
    }
    let colour = if rows.is_empty() {
        Colour::Green
    } else {
        Colour::Bold
    };
    let sum = format!(
        "{} same, {} different, {} missing, {} extra",
        text::number(*same),
        text::number(different.len()),
        text::number(missing.len()),
        text::number(extra.len())
    );
    text.push_str(&paint.paint(colour, &sum));
    text.push('\n');
    text
}

fn as_json(comparison: &Comparison, wishes: &Wishes) -> serde_json::Value {
    let Comparison {
        same,
        missing,
        extra,
        different,
    } = comparison;
    let paths = |paths: &[RepoPath]| -> Vec<serde_json::Value> {
        let paths = paths.iter();
        paths
            .map(|path| json!({"path": path.as_str(), "object": describe(path)}))
            .collect()
    };
    let different: Vec<_> = different
        .iter()
        .map(|one| {
            let (file, live) = (("git", &*one.file), ("live", &*one.live));
            let diff = Paint::none().object_diff(&one.path, file, live);
            json!({"path": one.path.as_str(), "object": describe(&one.path), "diff": diff})
        })
        .collect();
    json!({
        "same": same, "missing": paths(missing), "extra": paths(extra), "different": different,
        "unknown": wishes.unknown,
    })
}
