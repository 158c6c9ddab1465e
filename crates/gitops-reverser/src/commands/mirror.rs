//! `mirror`: the operator without an installation, for one person and one folder.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use reverser_api::conditions::{destination_reason, reference_reason, remote_reason, scope_reason};
use reverser_git::Person;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{EndSignals, block_on, print};
use crate::command_line::MirrorArguments;
use crate::operator::{Parts, Progress, WriterStart};
use crate::routing::Refusal;
use crate::status::Statuses;
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::pass::{self, Pass, Plan};
use crate::terminal::progress::Shown;
use crate::terminal::repository::{Purpose, Repository, repository_sentence};
use crate::terminal::selection::Selection;
use crate::terminal::text;
use crate::writer::{Report, WriterSettings};

/// How long a follower waits for more before it commits, as the operator does.
const QUIET: Duration = Duration::from_millis(300);

pub(super) fn run(arguments: &MirrorArguments) -> ExitCode {
    exit::end(block_on(mirror(arguments)))
}

async fn mirror(arguments: &MirrorArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    let committer = Person::new(&arguments.committer_name, &arguments.committer_email)
        .map_err(|error| Complaint::new(Exit::Usage, error.to_string()))?;
    let prepare = async {
        let cluster = Cluster::connect(&arguments.cluster).await?;
        let selection = Selection::read(&arguments.selection, &cluster).await?;
        let repository = Repository::find(&arguments.repository, Purpose::Write)?;
        check_folder(&repository).await?;
        Ok((cluster, selection, repository))
    };
    let (cluster, selection, repository) = signals.unless(prepare).await?;
    let go = CancellationToken::new();
    let mut pass = start(arguments, &cluster, &selection, &repository, committer, &go)?;
    let mut shown = Shown::new(pass.progress.clone(), arguments.quiet || arguments.json);
    shown.say(&format!(
        "mirroring {} of {} to {}, folder {}",
        selection.name(),
        cluster.name,
        repository.name(),
        repository.folder
    ));
    let result = attend(
        arguments,
        &repository,
        &mut pass,
        &mut shown,
        &mut signals,
        &go,
    )
    .await;
    shown.end();
    if !go.is_cancelled() {
        // Nothing was begun that would have to end.
        return result;
    }
    let finished = tokio::select! {
        finished = pass.finish() => finished,
        _ = signals.next() => {
            pass.cut_off().await;
            return Err(Complaint::new(Exit::Interrupted, "ended at once"));
        }
    };
    let code = result?;
    finished.map(|()| code)
}

/// Files that say that everything below them is another tool's.
const MARKS: &[&str] = &[
    "Chart.yaml",
    "kustomization.yaml",
    "kustomization.yml",
    "Kustomization",
    "Kptfile",
    "fleet.yaml",
    "gotk-components.yaml",
    "gotk-sync.yaml",
    ".configbutler/owner.yaml",
];

/// A folder below a chart, a kustomization, a bundle of Fleet, Flux's own files or another mirror would be taken for a part of it.
async fn check_folder(repository: &Repository) -> Result<(), Complaint> {
    let folder = repository.folder.as_str().to_owned();
    if folder.is_empty() || repository.is_new() {
        return Ok(());
    }
    let repository = repository.clone();
    let listed = tokio::task::spawn_blocking(move || repository.fetch()?.files(""));
    let files = listed.await.map_err(Complaint::failed)??;
    let above = |path: &str| {
        let mark = MARKS.iter().find_map(|mark| path.strip_suffix(mark));
        mark.is_some_and(|above| {
            above.is_empty() || (above.ends_with('/') && folder.starts_with(above))
        })
    };
    match files.iter().find(|(path, _)| above(path)) {
        None => Ok(()),
        Some((path, _)) => Err(Complaint::new(
            Exit::FolderUnusable,
            format!(
                "--folder: {folder} is inside of a folder that belongs to another tool, as {path} says: \
                 choose one beside it"
            ),
        )),
    }
}

fn start(
    arguments: &MirrorArguments,
    cluster: &Cluster,
    selection: &Selection,
    repository: &Repository,
    committer: Person,
    go: &CancellationToken,
) -> Result<Pass, Complaint> {
    let (told, configuration) = watch::channel(None);
    let mut parts = Parts::default();
    let client = crate::api_read::following(&cluster.config).map_err(Complaint::failed)?;
    let acknowledged = arguments.acknowledge_mass_delete.as_deref();
    let made = selection.configuration(repository, acknowledged);
    let following = selection.clone().follow(client, made, told);
    parts.spawn("the follower of namespaces", following);
    // One pass has everything before it writes anything: there is nothing to wait for.
    let quiet = if arguments.once {
        Duration::ZERO
    } else {
        QUIET
    };
    let settings = pass::settings(
        repository.git.clone(),
        repository.work_dir.clone(),
        &selection.exclude,
        committer,
        quiet,
    );
    let progress = Arc::<Progress>::default();
    // A person's own mirror belongs to no installation.
    let writer = WriterSettings {
        marks_folders: false,
        on_push: Some(progress.push_listener()),
        ..settings.writers(cluster.uid.clone().unwrap_or_else(|| "unknown".to_owned()))
    };
    let (access, go) = (repository.access(), go.clone());
    Ok(Pass::start(Plan {
        config: cluster.config.clone(),
        settings,
        configuration,
        parts,
        writers: Box::new(move |start: WriterStart| {
            let (go, write) = (go.clone(), start.write(writer.clone(), access.clone()));
            async move {
                go.cancelled().await;
                write.await;
            }
            .boxed()
        }),
        redaction: selection.key_source(),
        namespaces_first: selection.namespaces.is_some(),
        progress,
    }))
}

/// Tells what happens until it is over.
async fn attend(
    arguments: &MirrorArguments,
    repository: &Repository,
    pass: &mut Pass,
    shown: &mut Shown,
    signals: &mut EndSignals,
    go: &CancellationToken,
) -> Result<ExitCode, Complaint> {
    let mut last = None;
    loop {
        tokio::select! {
            _ = signals.next() => {
                let done = last.as_ref().is_some_and(|outcome| matches!(outcome, Outcome::Standing(_)));
                return if done && !arguments.once {
                    shown.say("ending; what is waiting is pushed first");
                    Ok(ExitCode::SUCCESS)
                } else {
                    shown.say("stopping; a push that is under way ends first, Ctrl-C again ends it at once");
                    Err(Complaint::new(
                        Exit::Interrupted,
                        "stopped before everything was there; what is in the repository is whole, and \
                         the next run goes on",
                    ))
                };
            }
            () = Shown::tick() => shown.look(),
            statuses = pass.news() => {
                let statuses = statuses?;
                let outcome = outcome(&statuses);
                // Nothing is written, nor created, before it is known that everything makes sense.
                let refused = matches!(outcome, Some(Outcome::Refused(_)));
                if !refused && !statuses.routing.destinations.is_empty() {
                    go.cancel();
                }
                shown.look();
                if outcome.is_some() && outcome != last {
                    last = outcome;
                    if let Some(outcome) = &last {
                        tell(arguments, repository, outcome, shown)?;
                        if let Some(code) = outcome.ends(arguments.once)? {
                            return Ok(code);
                        }
                    }
                }
            }
        }
    }
}

/// How a mirror stands, once it stands at all.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Outcome {
    /// The branch holds what is wanted, apart from what the report says.
    Standing(Box<Report>),
    /// It does not.
    Refused(Complaint),
}

impl Outcome {
    /// Whether this is the end, and how.
    fn ends(&self, once: bool) -> Result<Option<ExitCode>, Complaint> {
        match self {
            Self::Standing(_) if !once => Ok(None),
            Self::Standing(report) => {
                let whole = report.unknown.is_empty() && report.set_aside_objects == 0;
                Ok(Some(if whole {
                    ExitCode::SUCCESS
                } else {
                    Exit::Partial.into()
                }))
            }
            // A server that is down for a while is followed again when it is back.
            Self::Refused(complaint) if !once && complaint.exit == Exit::RepositoryUnusable => {
                Ok(None)
            }
            Self::Refused(complaint) => Err(complaint.clone()),
        }
    }
}

fn outcome(statuses: &Statuses) -> Option<Outcome> {
    let id = Selection::destination();
    let routing = &statuses.routing;
    if let Err(refusal) = routing.destinations.get(&id)? {
        return Some(Outcome::Refused(complaint(refusal)));
    }
    if let Some(complaint) = unknown_types(statuses) {
        return Some(Outcome::Refused(complaint));
    }
    let report = statuses.reports.get(&id)?;
    if let Some(stopped) = &report.stopped {
        let sentence = format!(
            "{} files would be deleted, which leaves none: if that is right, run it again with \
             --acknowledge-mass-delete {}",
            stopped.deletions, stopped.id
        );
        return Some(Outcome::Refused(Complaint::new(
            Exit::FolderUnusable,
            sentence,
        )));
    }
    match &report.failure {
        // What is refused is known when it was found, and then it is set aside.
        Some(_) if report.searching => None,
        Some(refusal) if refusal.reason != scope_reason::SCOPE_UNKNOWN => {
            Some(Outcome::Refused(complaint(refusal)))
        }
        _ if report.in_sync => {
            // What has come since is told with the next commit.
            let waiting = 0;
            Some(Outcome::Standing(Box::new(Report {
                waiting,
                ..report.clone()
            })))
        }
        _ => None,
    }
}

/// Types that the flags name and the cluster does not serve, or not there.
pub(super) fn unknown_types(statuses: &Statuses) -> Option<Complaint> {
    let rules: Vec<_> = statuses.routing.rules.values().flatten().collect();
    let first = rules.first()?;
    if let Some(name) = first.unserved.first().or(first.subresources.first()) {
        let sentence = format!(
            "the cluster has no type {name:?} that can be mirrored: `kubectl api-resources` lists them \
             by their plural names"
        );
        return Some(Complaint::new(Exit::NoSuchType, sentence));
    }
    let in_namespaces = statuses.configuration.cluster_rules.is_empty();
    let elsewhere = first.out_of_reach.first().filter(|_| in_namespaces)?;
    let sentence = format!("{elsewhere} live in no namespace: write -A instead of -n");
    Some(Complaint::new(Exit::NoSuchType, sentence))
}

pub(super) fn complaint(refusal: &Refusal) -> Complaint {
    let exit = match refusal.reason {
        remote_reason::CREDENTIALS_REFUSED | destination_reason::PUSH_REFUSED => {
            Exit::RepositoryRefused
        }
        remote_reason::UNREACHABLE
        | remote_reason::HOST_NOT_TRUSTED
        | remote_reason::URL_NOT_ALLOWED
        | reference_reason::REFERENCE_NOT_READY => Exit::RepositoryUnusable,
        _ => return Complaint::failed(&refusal.message),
    };
    Complaint::new(exit, repository_sentence(exit, &refusal.message))
}

fn tell(
    arguments: &MirrorArguments,
    repository: &Repository,
    outcome: &Outcome,
    shown: &mut Shown,
) -> Result<(), Complaint> {
    if arguments.json {
        let line = format!("{}\n", as_json(repository, outcome));
        return print(&line).map_err(Complaint::failed);
    }
    if arguments.quiet {
        return Ok(());
    }
    let text = match outcome {
        Outcome::Standing(report) => as_text(repository, report),
        // It is said once, at the end.
        Outcome::Refused(_) if arguments.once => return Ok(()),
        Outcome::Refused(complaint) => format!("waiting: {complaint}\n"),
    };
    if arguments.once {
        shown.end();
        print(&text).map_err(Complaint::failed)
    } else {
        shown.say(text.trim_end());
        Ok(())
    }
}

fn as_text(repository: &Repository, report: &Report) -> String {
    let mut text = format!(
        "{} in {}: {}\n",
        text::count(report.objects, "object"),
        repository.name(),
        match &report.last_commit {
            Some(commit) => format!("pushed {:.10}", commit.to_string()),
            None => "nothing has changed".to_owned(),
        }
    );
    if !report.unknown.is_empty() {
        text.push_str("not listed, their files stay:\n");
        for one in &report.unknown {
            let _infallible = writeln!(text, "  {one}");
        }
    }
    if report.set_aside_objects > 0 {
        text.push_str("refused by the repository:\n");
        for (path, why) in &report.set_aside {
            let _infallible = writeln!(text, "  {path}: {why}");
        }
    }
    text
}

fn as_json(repository: &Repository, outcome: &Outcome) -> Value {
    let place = json!({
        "url": repository.url.as_str(),
        "branch": repository.branch.as_str(),
        "folder": repository.folder.to_string(),
    });
    match outcome {
        Outcome::Refused(Complaint { exit, sentence }) => json!({
            "outcome": "refused", "repository": place, "exitStatus": *exit as u8,
            "message": sentence,
        }),
        Outcome::Standing(report) => {
            let aside = report.set_aside.iter();
            let aside: Vec<Value> = aside
                .map(|(path, message)| json!({"path": path, "message": message}))
                .collect();
            let whole = report.unknown.is_empty() && report.set_aside_objects == 0;
            json!({
                "outcome": if whole { "confirmed" } else { "partial" },
                "repository": place,
                "objects": report.objects,
                "commit": report.last_commit.map(|commit| commit.to_string()),
                "unknown": report.unknown,
                "setAside": aside,
            })
        }
    }
}
