//! `log` and `blame`: what the repository tells about one object.

use std::process::ExitCode;

use reverser_git::{History, HistoryError, LoggedCommit};
use serde_json::json;

use super::print;
use crate::command_line::{BlameArguments, LogArguments, ObjectArguments};
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::object_name::ObjectName;
use crate::terminal::repository::{Purpose, Repository};
use crate::terminal::text::{self, Colour, Paint};

/// So much of a commit's name tells it from others.
const SHORT: usize = 10;

pub(super) fn log(arguments: &LogArguments) -> ExitCode {
    exit::end(tell_log(arguments))
}

pub(super) fn blame(arguments: &BlameArguments) -> ExitCode {
    exit::end(tell_blame(arguments))
}

fn tell_log(arguments: &LogArguments) -> Result<ExitCode, Complaint> {
    let (history, path) = open(&arguments.object)?;
    let commits = history
        .log(&path, arguments.patch)
        .map_err(|error| unreadable(&error))?;
    let text = if arguments.json {
        let commits: Vec<_> = commits
            .iter()
            .map(|commit| as_json(commit, arguments.patch))
            .collect();
        format!("{:#}\n", json!({"path": path, "commits": commits}))
    } else {
        as_text(&path, &commits, Paint::for_stdout())
    };
    print(&text).map_err(Complaint::failed)?;
    Ok(ExitCode::SUCCESS)
}

fn as_text(path: &str, commits: &[LoggedCommit], paint: Paint) -> String {
    let mut text = format!("{}\n\n", paint.paint(Colour::Bold, path));
    if commits.iter().any(|commit| !commit.patch.is_empty()) {
        for commit in commits {
            text.push_str(&text::table(&[row(commit, paint)]));
            text.push_str(&paint.patch(&commit.patch));
            text.push('\n');
        }
        return text;
    }
    let head = ["COMMIT", "TIME (UTC)", "WHO", "HOW KNOWN", "WHAT"].map(str::to_owned);
    let rows =
        std::iter::once(head.to_vec()).chain(commits.iter().map(|commit| row(commit, paint)));
    text.push_str(&text::table(&rows.collect::<Vec<_>>()));
    text
}

fn row(commit: &LoggedCommit, paint: Paint) -> Vec<String> {
    let how = commit.trailer("X-ConfigButler-Attribution");
    vec![
        paint.paint(Colour::Yellow, &commit.id[..SHORT.min(commit.id.len())]),
        text::time(commit.time),
        who(commit),
        how.unwrap_or("by hand").to_owned(),
        commit.subject.clone(),
    ]
}

/// The user that the cluster named; where it named none, who wrote the commit.
fn who(commit: &LoggedCommit) -> String {
    let user = commit.trailer("X-ConfigButler-User");
    match user.filter(|user| *user != "unknown") {
        Some(user) => user.to_owned(),
        None => commit.author.clone(),
    }
}

fn as_json(commit: &LoggedCommit, with_patch: bool) -> serde_json::Value {
    let LoggedCommit {
        id,
        author,
        email,
        time,
        subject,
        trailers: _,
        patch,
    } = commit;
    let mut value = json!({
        "commit": id,
        "time": text::time(*time).replace(' ', "T") + "Z",
        "author": {"name": author, "email": email},
        "user": commit.trailer("X-ConfigButler-User"),
        "attribution": commit.trailer("X-ConfigButler-Attribution"),
        "subject": subject,
    });
    if with_patch {
        value["patch"] = patch.as_str().into();
    }
    value
}

fn tell_blame(arguments: &BlameArguments) -> Result<ExitCode, Complaint> {
    let (history, path) = open(&arguments.object)?;
    let lines = history.blame(&path).map_err(|error| match error {
        HistoryError::Git(said) if said.contains("no such path") => {
            let sentence =
                format!("{path} is not there any more: `gitops-reverser log` tells who deleted it");
            Complaint::new(Exit::NoSuchObject, sentence)
        }
        error => Complaint::failed(error),
    })?;
    let paint = Paint::for_stdout();
    let rows: Vec<Vec<String>> = lines
        .iter()
        .map(|line| {
            vec![
                paint.paint(Colour::Yellow, &line.commit[..SHORT.min(line.commit.len())]),
                line.author.clone(),
                paint.paint(Colour::Dim, &text::time(line.time)),
                format!("│ {}", line.text),
            ]
        })
        .collect();
    print(&text::table(&rows)).map_err(Complaint::failed)?;
    Ok(ExitCode::SUCCESS)
}

fn open(arguments: &ObjectArguments) -> Result<(History, String), Complaint> {
    let ObjectArguments {
        object,
        namespace,
        repository,
    } = arguments;
    let name = ObjectName::parse(object).ok_or_else(|| {
        let sentence =
            format!("{object:?} is no object: write kind and name, such as deployment/web");
        Complaint::new(Exit::Usage, sentence)
    })?;
    let repository = Repository::find(repository, Purpose::Read)?;
    let history = repository.history()?;
    let path = name.find(&history, &repository, namespace.as_deref())?;
    Ok((history, path))
}

fn unreadable(error: &HistoryError) -> Complaint {
    Complaint::new(Exit::RepositoryUnusable, error.to_string())
}
