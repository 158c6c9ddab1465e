//! `restore`: brings objects back as they were, by a person's own hand and with that person's rights.

mod cluster;
mod order;
mod past;

use std::fmt::Write as _;
use std::process::ExitCode;

use reverser_core::canon::{canonicalise, say_the_same};
use reverser_core::commit_message::describe;
use reverser_core::object::Object;
use reverser_core::repo_path::RepoPath;
use reverser_git::CommitId;

use self::cluster::{apply, live};
use self::order::rank;
use self::past::{Old, read_files};
use super::{EndSignals, block_on, print};
use crate::command_line::RestoreArguments;
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::prompt;
use crate::terminal::text::{self, Colour, Paint};

pub(super) fn run(arguments: &RestoreArguments) -> ExitCode {
    exit::end(block_on(restore(arguments)))
}

/// What is to be done about a file.
struct Step {
    old: Old,
    live: Option<String>,
}

/// What is to be done about all of them.
struct Prepared {
    commit: CommitId,
    cluster: Cluster,
    steps: Vec<Step>,
    /// Files that are not applied, and why.
    refused: Vec<(RepoPath, String)>,
    /// How many objects are as they were.
    same: usize,
}

async fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    let prepared = signals.unless(prepare(arguments)).await?;
    show(&prepared)?;
    let Prepared {
        cluster,
        steps,
        refused,
        same,
        ..
    } = prepared;
    if !steps.is_empty() && !arguments.yes && !arguments.dry_run {
        tokio::select! {
            agreed = tokio::task::spawn_blocking(ask) => agreed.map_err(Complaint::failed)??,
            _ = signals.next() => {
                let sentence = "stopped; nothing was applied";
                return Err(Complaint::new(Exit::Interrupted, sentence));
            }
        }
    }
    let mut failed = refused.len();
    let all = same + steps.len() + refused.len();
    for step in &steps {
        let outcome = tokio::select! {
            outcome = apply(&cluster, &step.old, arguments.dry_run) => outcome,
            _ = signals.next() => return Err(interrupted()),
        };
        let (line, good) = report(step, outcome, arguments.dry_run);
        failed += usize::from(!good);
        print(&line).map_err(Complaint::failed)?;
    }
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ if failed == all => Exit::Failed.into(),
        _ => Exit::Partial.into(),
    })
}

async fn prepare(arguments: &RestoreArguments) -> Result<Prepared, Complaint> {
    let for_git = arguments.clone();
    let read = tokio::task::spawn_blocking(move || read_files(&for_git));
    let (commit, files) = read.await.map_err(Complaint::failed)??;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let mut prepared = Prepared {
        commit,
        cluster,
        steps: Vec::new(),
        refused: Vec::new(),
        same: 0,
    };
    for old in files {
        let found = live(&prepared.cluster, &old).await?;
        match (found, old.refused) {
            (Ok(Some(live)), _) if say_the_same(&live, &old.text) => prepared.same += 1,
            (_, Some(why)) => prepared.refused.push((old.path, why.to_owned())),
            // Nobody agrees to what cannot be shown.
            (Err(why), None) => {
                let why = format!("it cannot be compared with the cluster: {why}");
                prepared.refused.push((old.path, why));
            }
            (Ok(live), None) => prepared.steps.push(Step { old, live }),
        }
    }
    let steps = &mut prepared.steps;
    steps.sort_by_key(|step| (rank(&step.old.identity), step.old.path.clone()));
    Ok(prepared)
}

fn interrupted() -> Complaint {
    Complaint::new(
        Exit::Interrupted,
        "stopped; objects that were named above are restored, the others are as they were",
    )
}

fn show(prepared: &Prepared) -> Result<(), Complaint> {
    let Prepared {
        commit,
        cluster,
        steps,
        refused,
        same,
    } = prepared;
    let paint = Paint::for_stdout();
    let mut text = String::new();
    for Step { old, live } in steps {
        let what = describe(&old.path);
        match live {
            None => {
                let _infallible =
                    writeln!(text, "{} {what}\n", paint.paint(Colour::Green, "create"));
            }
            Some(live) => {
                let _infallible =
                    writeln!(text, "{} {what}", paint.paint(Colour::Yellow, "change"));
                let file = old.path.as_str();
                text.push_str(&paint.object_diff(&old.path, ("live", live), (file, &old.text)));
                text.push('\n');
            }
        }
    }
    for (path, why) in refused {
        text.push_str(&failure(path, why));
    }
    let _infallible = writeln!(
        text,
        "{} of commit {:.10} to restore in {}, {same} as they were",
        text::count(steps.len(), "object"),
        commit.to_string(),
        cluster.name
    );
    print(&text).map_err(Complaint::failed)
}

fn failure(path: &RepoPath, why: &str) -> String {
    let failed = Paint::for_stdout().paint(Colour::Red, "failed");
    format!("{failed} {}: {why}\n", describe(path))
}

fn ask() -> Result<(), Complaint> {
    let instead = "write --yes to apply this, or --dry-run to check it";
    prompt::agree("Apply?", instead, "nothing was applied")
}

fn report(step: &Step, outcome: Result<String, String>, dry_run: bool) -> (String, bool) {
    let paint = Paint::for_stdout();
    let what = describe(&step.old.path);
    match outcome {
        Err(why) => (failure(&step.old.path, &why), false),
        Ok(json) => {
            let now = Object::from_json(&json, None).map(|object| canonicalise(object).to_yaml());
            let whole = now.is_ok_and(|now| say_the_same(&now, &step.old.text));
            let word = match (dry_run, &step.live) {
                (true, _) => "would restore",
                (false, None) => "created",
                (false, Some(_)) => "restored",
            };
            let rest = if whole || dry_run {
                ""
            } else {
                "; fields that the file does not have stay, because others wrote them"
            };
            (
                format!("{} {what}{rest}\n", paint.paint(Colour::Green, word)),
                true,
            )
        }
    }
}
