//! `restore`: brings objects back as they were, by a person's own hand and with that person's rights.

mod cluster;
mod order;
mod past;

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use reverser_core::canon::{canonicalise, say_the_same};
use reverser_core::commit_message::describe;
use reverser_core::object::Object;
use reverser_git::CommitId;

use self::cluster::{apply, live};
use self::order::rank;
use self::past::{Old, read_files};
use super::{EndSignals, block_on, print};
use crate::command_line::RestoreArguments;
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::text::{self, Colour, Paint};

pub(super) fn run(arguments: &RestoreArguments) -> ExitCode {
    exit::end(block_on(restore(arguments)))
}

/// What is to be done about a file.
struct Step {
    old: Old,
    live: Option<String>,
}

async fn restore(arguments: &RestoreArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    let (commit, cluster, mut steps, same) = signals.unless(prepare(arguments)).await?;
    steps.sort_by_key(|step| (rank(&step.old.identity), step.old.path.clone()));
    show(&cluster, &commit, &steps, same)?;
    if steps.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    if !arguments.yes && !arguments.dry_run {
        tokio::select! {
            agreed = tokio::task::spawn_blocking(ask) => agreed.map_err(Complaint::failed)??,
            _ = signals.next() => {
                let sentence = "stopped; nothing was applied";
                return Err(Complaint::new(Exit::Interrupted, sentence));
            }
        }
    }
    let mut failed = 0;
    let mut result = Ok(());
    for step in &steps {
        let outcome = tokio::select! {
            outcome = apply(&cluster, &step.old, arguments.dry_run) => outcome,
            _ = signals.next() => {
                result = Err(interrupted());
                break;
            }
        };
        let (line, good) = report(step, outcome, arguments.dry_run);
        failed += usize::from(!good);
        print(&line).map_err(Complaint::failed)?;
    }
    result?;
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        all if all == steps.len() => Exit::Failed.into(),
        _ => Exit::Partial.into(),
    })
}

/// What is to be done, with how many objects are as they were.
async fn prepare(
    arguments: &RestoreArguments,
) -> Result<(CommitId, Cluster, Vec<Step>, usize), Complaint> {
    let for_git = arguments.clone();
    let read = tokio::task::spawn_blocking(move || read_files(&for_git));
    let (commit, files) = read.await.map_err(Complaint::failed)??;
    let cluster = Cluster::connect(&arguments.cluster).await?;
    let mut steps = Vec::new();
    let mut same = 0;
    for old in files {
        let live = live(&cluster, &old).await?;
        let is_same = |live: &String| say_the_same(live, &old.text);
        if live.as_ref().is_some_and(is_same) {
            same += 1;
        } else {
            steps.push(Step { old, live });
        }
    }
    Ok((commit, cluster, steps, same))
}

fn interrupted() -> Complaint {
    Complaint::new(
        Exit::Interrupted,
        "stopped; objects that were named above are restored, the others are as they were",
    )
}

fn show(
    cluster: &Cluster,
    commit: &CommitId,
    steps: &[Step],
    same: usize,
) -> Result<(), Complaint> {
    let paint = Paint::for_stdout();
    let mut text = String::new();
    for Step { old, live } in steps {
        let what = describe(&old.path);
        match live {
            _ if old.refused.is_some() => {}
            None => {
                let _infallible =
                    writeln!(text, "{} {what}\n", paint.paint(Colour::Green, "create"));
            }
            Some(live) => {
                let _infallible =
                    writeln!(text, "{} {what}", paint.paint(Colour::Yellow, "change"));
                text.push_str(&paint.diff(("live", live), (old.path.as_str(), &old.text)));
                text.push('\n');
            }
        }
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

/// Asks on the terminal.
fn ask() -> Result<(), Complaint> {
    if !io::stdin().is_terminal() {
        return Err(Complaint::new(
            Exit::Usage,
            "nobody is there to be asked: write --yes to apply this, or --dry-run to check it",
        ));
    }
    let failed = |error: io::Error| Complaint::failed(error);
    // Standard error keeps nothing back.
    eprint!("Apply? [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Complaint::failed("nothing was applied"))
    }
}

fn report(step: &Step, outcome: Result<String, String>, dry_run: bool) -> (String, bool) {
    let paint = Paint::for_stdout();
    let what = describe(&step.old.path);
    match outcome {
        Err(why) => (
            format!("{} {what}: {why}\n", paint.paint(Colour::Red, "failed")),
            false,
        ),
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
