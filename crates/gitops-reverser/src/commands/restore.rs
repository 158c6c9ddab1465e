//! `restore`: brings objects back as they were, by a person's own hand and with that person's rights.

use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use http::{Request, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use reverser_core::canon::{canonicalise, say_the_same};
use reverser_core::commit_message::describe;
use reverser_core::object::Object;
use reverser_core::redaction::REDACTED;
use reverser_core::repo_path::{PathIdentity, RepoPath};
use reverser_core::value::Value;
use reverser_core::yaml_read;
use reverser_git::{CommitId, EntryKind, FolderPath, History};

use super::{EndSignals, block_on, print};
use crate::api_read::{Failure, FailureReason, Status};
use crate::command_line::RestoreArguments;
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::object_name::ObjectName;
use crate::terminal::repository::{Purpose, Repository};
use crate::terminal::text::{self, Colour, Paint};

/// Who the API server says wrote the fields.
const FIELD_MANAGER: &str = "gitops-reverser-restore";
/// How long a type or namespace that was just restored may take to be there.
const APPEARS: (u32, Duration) = (40, Duration::from_millis(250));

/// What others need comes before them; what acts on requests comes last.
const ORDER: &[&str] = &[
    "namespaces",
    "customresourcedefinitions",
    "priorityclasses",
    "storageclasses",
    "resourcequotas",
    "limitranges",
    "serviceaccounts",
    "secrets",
    "configmaps",
    "persistentvolumes",
    "persistentvolumeclaims",
    "clusterroles",
    "clusterrolebindings",
    "roles",
    "rolebindings",
    "services",
    "networkpolicies",
];
const LAST: &[&str] = &[
    "apiservices",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
];

pub(super) fn run(arguments: &RestoreArguments) -> ExitCode {
    exit::end(block_on(restore(arguments)))
}

/// A file that is to be an object again.
struct Old {
    path: RepoPath,
    identity: PathIdentity,
    name: String,
    text: String,
    /// Why it cannot be one.
    refused: Option<&'static str>,
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
            _ = signals.next() => return Err(interrupted()),
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

fn read_files(arguments: &RestoreArguments) -> Result<(CommitId, Vec<Old>), Complaint> {
    let repository = Repository::find(&arguments.repository, Purpose::Read)?;
    let history = repository.history()?;
    let commit = commit_at(&history, &arguments.at)?;
    let unreadable = |error: reverser_git::HistoryError| {
        Complaint::new(Exit::RepositoryUnusable, error.to_string())
    };
    let none = |what: &str| {
        Complaint::new(
            Exit::NoSuchObject,
            format!(
                "commit {:.10} of {} holds no {what}: `gitops-reverser log` tells when it did",
                commit.to_string(),
                repository.name()
            ),
        )
    };
    let base = repository.folder.as_str();
    let within = |path: &str| match (base, path.trim_matches('/')) {
        (base, "" | ".") => base.to_owned(),
        ("", path) => path.to_owned(),
        (base, path) => format!("{base}/{path}"),
    };
    let folder = FolderPath::or_root(&within(&arguments.what)).ok();
    let folder = folder.and_then(|folder| history.files(commit, &folder).ok());
    let mut paths: Vec<(String, reverser_git::BlobId)> = Vec::new();
    let mut add = |snapshot: &reverser_git::TreeSnapshot, only: Option<&str>| {
        for entry in snapshot
            .iter()
            .filter(|entry| entry.kind == EntryKind::File)
        {
            if let (Ok(path), Some(blob)) = (std::str::from_utf8(entry.path), entry.blob)
                && only.is_none_or(|only| only == path)
            {
                paths.push((path.to_owned(), blob));
            }
        }
    };
    match (
        folder.filter(|folder| !folder.is_empty()),
        ObjectName::parse(&arguments.what),
    ) {
        (Some(folder), _) => add(&folder, None),
        (None, Some(name)) => {
            let path = name.find(&history, &repository, arguments.namespace.as_deref())?;
            let all = history
                .files(commit, &repository.folder_path())
                .map_err(unreadable)?;
            add(&all, Some(&path));
        }
        (None, None) => {}
    }
    let mut files = Vec::new();
    for (path, blob) in paths {
        let below = path
            .strip_prefix(base)
            .map(|path| path.trim_start_matches('/'));
        // READMEs and other people's files are not objects.
        let Some(Ok(identity)) = below.map(RepoPath::parse) else {
            continue;
        };
        let text = history.content(blob).map_err(unreadable)?;
        let text = String::from_utf8_lossy(&text).into_owned();
        files.extend(old(identity, text));
    }
    if files.is_empty() {
        return Err(none(&arguments.what));
    }
    Ok((commit, files))
}

/// A file as an object; nothing if it says something else than its path.
fn old(identity: PathIdentity, text: String) -> Option<Old> {
    let (name, refused) = {
        let root = yaml_read::read(&text).ok()?;
        let root = root.as_map()?;
        let name = root.at(&["metadata", "name"]).and_then(Value::as_str)?;
        let redacted = root.at(&["metadata", "annotations", REDACTED]).is_some();
        let refused = if redacted {
            Some("its values are redacted, and would overwrite the real ones")
        } else if root.get("sops").is_some() {
            Some("it is encrypted: decrypt it with sops and apply that")
        } else {
            None
        };
        (name.to_owned(), refused)
    };
    let key = reverser_core::object_key::ObjectKey::new(
        identity.type_key.clone(),
        identity.namespace.clone(),
        &*name,
    );
    Some(Old {
        path: RepoPath::of(&key.ok()?),
        identity,
        name,
        text,
        refused,
    })
}

/// The commit that a person means: by name, or the last one before a time.
fn commit_at(history: &History, at: &str) -> Result<CommitId, Complaint> {
    let unreadable = |error: reverser_git::HistoryError| {
        Complaint::new(Exit::RepositoryUnusable, error.to_string())
    };
    // The clone that is read has no HEAD of its own.
    let revision = match at.strip_prefix("HEAD") {
        Some(rest) => format!("{}{rest}", history.tip()),
        None => at.to_owned(),
    };
    if let Some(commit) = history.commit(&revision).map_err(unreadable)? {
        return Ok(commit);
    }
    let now = jiff::Timestamp::now().as_second();
    let second = second_of(at, now).ok_or_else(|| {
        let sentence = format!(
            "--at: {at:?} is neither a commit of the branch nor a time: write for instance 4f3c2a1, \
             2026-11-15T14:00:00Z, 2026-11-15 or 3h"
        );
        Complaint::new(Exit::Usage, sentence)
    })?;
    let found = history.commit_at(second).map_err(unreadable)?;
    found.ok_or_else(|| {
        let sentence = format!("--at: the branch is younger than {}", text::time(second));
        Complaint::new(Exit::NoSuchObject, sentence)
    })
}

fn second_of(text: &str, now: i64) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    if let Ok(date) = text.parse::<jiff::civil::Date>() {
        let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
        return Some(midnight.timestamp().as_second());
    }
    let unit = text.chars().last()?;
    let length: i64 = text[..text.len() - unit.len_utf8()].parse().ok()?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    now.checked_sub(length.checked_mul(seconds)?)
}

fn rank(identity: &PathIdentity) -> usize {
    let resource = identity.type_key.resource();
    let at = |list: &[&str]| list.iter().position(|known| *known == resource);
    match (at(ORDER), at(LAST)) {
        (Some(first), _) => first,
        (None, Some(last)) => ORDER.len() + 1 + last,
        (None, None) => ORDER.len(),
    }
}

/// What lives under the name of a file, in the same form.
async fn live(cluster: &Cluster, old: &Old) -> Result<Option<String>, Complaint> {
    match cluster.get(&url(old)).await {
        Ok(body) => {
            let text = String::from_utf8_lossy(&body);
            let object = Object::from_json(&text, None).map_err(Complaint::failed)?;
            Ok(Some(canonicalise(object).to_yaml()))
        }
        Err(failure) if failure.reason == FailureReason::NotFound => Ok(None),
        Err(failure) if failure.reason == FailureReason::Forbidden => Ok(None),
        Err(failure) => Err(cluster.complaint(&failure)),
    }
}

fn url(old: &Old) -> String {
    let key = &old.identity.type_key;
    let root = if key.group().is_empty() {
        format!("/api/{}", key.version())
    } else {
        format!("/apis/{}/{}", key.group(), key.version())
    };
    let namespace = old.identity.namespace.as_deref();
    let namespace = namespace.map_or_else(String::new, |name| format!("/namespaces/{name}"));
    // RBAC lets names hold what a path may not.
    let mut name = String::new();
    for byte in old.name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            name.push(char::from(byte));
        } else {
            let _infallible = write!(name, "%{byte:02X}");
        }
    }
    format!("{root}{namespace}/{}/{name}", key.resource())
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

/// How an application went: what the server has now.
async fn apply(cluster: &Cluster, old: &Old, dry_run: bool) -> Result<String, String> {
    if let Some(why) = old.refused {
        return Err(why.to_owned());
    }
    let (attempts, wait) = APPEARS;
    let mut attempt = 1;
    loop {
        match patch(cluster, old, dry_run).await {
            // Its definition or its namespace may have been restored a moment ago.
            Err(failure)
                if failure.reason == FailureReason::NotFound && attempt < attempts && !dry_run =>
            {
                attempt += 1;
                tokio::time::sleep(wait).await;
            }
            Err(failure) => return Err(failure.message),
            Ok(text) => return Ok(text),
        }
    }
}

async fn patch(cluster: &Cluster, old: &Old, dry_run: bool) -> Result<String, Failure> {
    let malformed =
        |error: &dyn std::fmt::Display| Failure::new(FailureReason::Malformed, error.to_string());
    let mut path = format!("{}?fieldManager={FIELD_MANAGER}&force=true", url(old));
    if dry_run {
        path.push_str("&dryRun=All");
    }
    let request = Request::patch(path)
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .header(header::ACCEPT, "application/json")
        .body(Body::from(old.text.clone().into_bytes()))
        .map_err(|error| malformed(&error))?;
    let answer = cluster
        .client
        .send(request)
        .await
        .map_err(|error| Failure::new(FailureReason::Unreachable, error.to_string()))?;
    let (parts, body) = answer.into_parts();
    let body = body
        .collect()
        .await
        .map_err(|error| malformed(&error))?
        .to_bytes();
    if !parts.status.is_success() {
        let status: Option<Status> = serde_json::from_slice(&body).ok();
        return Err(Failure::of_status(parts.status.as_u16(), status.as_ref()));
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_moment_a_day_or_a_while_ago() {
        assert_eq!(second_of("1970-01-01T00:01:00Z", 0), Some(60));
        assert_eq!(second_of("1970-01-02", 0), Some(86_400));
        assert_eq!(second_of("3h", 20_000), Some(20_000 - 10_800));
        assert_eq!(second_of("90m", 6_000), Some(600));
        for bad in ["", "h", "3w", "yesterday", "9999999999999999999d"] {
            assert_eq!(second_of(bad, 0), None, "{bad}");
        }
    }

    #[test]
    fn what_others_need_comes_first_and_what_acts_on_requests_last() {
        let rank_of = |path: &str| rank(&RepoPath::parse(path).unwrap());
        let order = [
            "core/v1/namespaces/shop.yaml",
            "apiextensions.k8s.io/v1/customresourcedefinitions/a.b.yaml",
            "core/v1/secrets/shop/db.yaml",
            "core/v1/services/shop/web.yaml",
            "apps/v1/deployments/shop/web.yaml",
            "admissionregistration.k8s.io/v1/validatingwebhookconfigurations/x.yaml",
        ];
        assert!(order.map(rank_of).is_sorted());
    }

    #[test]
    fn a_redacted_secret_is_not_brought_back() {
        let identity = RepoPath::parse("core/v1/secrets/shop/db.yaml").unwrap();
        let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: db\n  annotations:\n    \
                    configbutler.ai/redacted: \"true\"\n";
        assert!(old(identity, text.to_owned()).unwrap().refused.is_some());
    }
}
