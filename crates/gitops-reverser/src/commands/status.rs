//! `status`: what `kubectl get` cannot show in one place.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::ListParams;
use kube::core::error_boundary::InvalidObject;
use kube::core::{DeserializeGuard, NamespaceResourceScope};
use kube::{Api, Resource, ResourceExt as _};
use reverser_api::conditions::{condition, reason};
use reverser_api::{ClusterWatchRule, GitDestination, GitRepoConfig, WatchRule};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{EndSignals, block_on, print};
use crate::command_line::StatusArguments;
use crate::identity::Id;
use crate::routing::OwnKind;
use crate::terminal::cluster::Cluster;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::text::{self, Colour, Paint};

/// How often it is looked again.
const AGAIN: Duration = Duration::from_secs(2);

pub(super) fn run(arguments: &StatusArguments) -> ExitCode {
    exit::end(block_on(tell(arguments)))
}

/// Everything, as it stands.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Overview {
    destinations: Vec<DestinationRow>,
    rules: Vec<RuleRow>,
    /// What needs attention, in sentences.
    notes: Vec<Note>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct DestinationRow {
    name: String,
    ready: String,
    reason: String,
    repository: String,
    branch: String,
    folder: String,
    objects: Option<i64>,
    waiting: Option<i64>,
    last_commit: Option<String>,
    /// In seconds since 1970.
    last_push: Option<i64>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct RuleRow {
    name: String,
    ready: String,
    reason: String,
    destination: String,
    types: Option<i64>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
struct Note {
    about: String,
    reason: String,
    message: String,
}

async fn tell(arguments: &StatusArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    let cluster = signals.unless(Cluster::connect(&arguments.cluster)).await?;
    if let Some(namespace) = &arguments.namespace {
        signals.unless(cluster.check_namespace(namespace)).await?;
    }
    let client = crate::api_read::following(&cluster.config).map_err(Complaint::failed)?;
    let on_terminal = io::stdout().is_terminal();
    let mut last = None;
    loop {
        let looked = look(&client, arguments.namespace.as_deref());
        let overview = signals.unless(looked).await?;
        // On a terminal the ages go on; elsewhere only news are.
        let news = last.as_ref() != Some(&overview);
        if news || (on_terminal && !arguments.json) {
            if arguments.watch && on_terminal && !arguments.json {
                print("\u{1b}[2J\u{1b}[H").map_err(Complaint::failed)?;
            }
            let text = if arguments.json {
                let json = serde_json::to_value(&overview).map_err(Complaint::failed)?;
                if arguments.watch {
                    format!("{json}\n")
                } else {
                    format!("{json:#}\n")
                }
            } else {
                let now = jiff::Timestamp::now().as_second();
                as_text(&overview, now, Paint::for_stdout())
            };
            print(&text).map_err(Complaint::failed)?;
        }
        if !arguments.watch {
            let destinations = overview.destinations.iter().map(|row| &row.ready);
            let mut ready = destinations.chain(overview.rules.iter().map(|row| &row.ready));
            return Ok(if ready.all(|ready| ready == "True") {
                ExitCode::SUCCESS
            } else {
                Exit::Failed.into()
            });
        }
        last = Some(overview);
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = signals.next() => return Ok(ExitCode::SUCCESS),
        }
    }
}

async fn look(client: &kube::Client, namespace: Option<&str>) -> Result<Overview, Complaint> {
    let (repos, destinations, rules, cluster_rules) = tokio::try_join!(
        of_namespaces::<GitRepoConfig>(client, namespace),
        of_namespaces::<GitDestination>(client, namespace),
        of_namespaces::<WatchRule>(client, namespace),
        of_cluster(client, namespace),
    )?;
    let foreign = match namespace {
        Some(_) => elsewhere(client, &destinations.read).await,
        None => Vec::new(),
    };
    let here = |of: &str| namespace.is_none_or(|namespace| namespace == of);
    let mut overview = Overview {
        destinations: Vec::new(),
        rules: Vec::new(),
        notes: Vec::new(),
    };
    let cluster_rules = cluster_rules.unwrap_or_else(|| {
        overview.notes.push(Note {
            about: "ClusterWatchRules".to_owned(),
            reason: "Forbidden".to_owned(),
            message: "you may not list them, so those that lead here are not shown".to_owned(),
        });
        Listed::default()
    });
    for destination in &destinations.read {
        let home = destination.namespace().unwrap_or_default();
        let known = repos.read.iter().chain(&foreign);
        let (row, notes) = of_destination(destination, &home, known);
        overview.destinations.push(row);
        overview.notes.extend(notes);
    }
    for repo in &repos.read {
        let about = format!("GitRepoConfig {}", full_name(repo));
        let conditions = repo.status.as_ref().map(|status| &status.conditions[..]);
        overview
            .notes
            .extend(notes(&about, conditions.unwrap_or_default()));
    }
    for rule in &rules.read {
        let home = rule.namespace().unwrap_or_default();
        let to = Id::of_destination(&rule.spec.destination_ref, &home).to_string();
        overview.add_rule("WatchRule", full_name(rule), to, rule.status.as_ref());
    }
    for rule in cluster_rules
        .read
        .iter()
        .filter(|rule| here(&rule.spec.destination_ref.namespace))
    {
        let reference = &rule.spec.destination_ref;
        let to = format!("{}/{}", reference.namespace, reference.name);
        overview.add_rule(
            "ClusterWatchRule",
            rule.name_any(),
            to,
            rule.status.as_ref(),
        );
    }
    overview.add_unreadable(repos.unreadable, OwnKind::Repo);
    overview.add_unreadable(destinations.unreadable, OwnKind::Destination);
    overview.add_unreadable(rules.unreadable, OwnKind::WatchRule);
    // Nobody knows where they lead.
    if namespace.is_none() {
        overview.add_unreadable(cluster_rules.unreadable, OwnKind::ClusterRule);
    }
    Ok(overview)
}

/// The objects of a kind.
struct Listed<K> {
    read: Vec<K>,
    unreadable: Vec<InvalidObject>,
}

impl<K> Default for Listed<K> {
    fn default() -> Self {
        Self {
            read: Vec::new(),
            unreadable: Vec::new(),
        }
    }
}

impl<K> Listed<K> {
    fn of(all: Vec<DeserializeGuard<K>>) -> Self {
        let mut listed = Self::default();
        for guard in all {
            match guard.0 {
                Ok(read) => listed.read.push(read),
                Err(unreadable) => listed.unreadable.push(unreadable),
            }
        }
        listed
    }
}

impl Overview {
    /// Objects that cannot be read are there nevertheless, and nobody follows them.
    fn add_unreadable(&mut self, objects: Vec<InvalidObject>, kind: OwnKind) {
        for InvalidObject { error, metadata } in objects {
            let name = metadata.name.unwrap_or_default();
            let name = match metadata.namespace {
                Some(namespace) => format!("{namespace}/{name}"),
                None => name,
            };
            self.notes.push(Note {
                about: format!("{} {name}", kind.name()),
                reason: reason::INVALID_SPEC.to_owned(),
                message: format!("it cannot be read: {error}"),
            });
            let (ready, reason) = ("False".to_owned(), reason::INVALID_SPEC.to_owned());
            let unknown = || "?".to_owned();
            match kind {
                OwnKind::Repo => {}
                OwnKind::Destination => self.destinations.push(DestinationRow {
                    name,
                    ready,
                    reason,
                    repository: unknown(),
                    branch: unknown(),
                    folder: unknown(),
                    objects: None,
                    waiting: None,
                    last_commit: None,
                    last_push: None,
                }),
                OwnKind::WatchRule | OwnKind::ClusterRule => self.rules.push(RuleRow {
                    name,
                    ready,
                    reason,
                    destination: unknown(),
                    types: None,
                }),
            }
        }
    }

    fn add_rule(
        &mut self,
        kind: &str,
        name: String,
        destination: String,
        status: Option<&reverser_api::watch_rule::WatchRuleStatus>,
    ) {
        let conditions = status
            .map(|status| &status.conditions[..])
            .unwrap_or_default();
        let (ready, reason) = ready(conditions);
        self.notes
            .extend(notes(&format!("{kind} {name}"), conditions));
        self.rules.push(RuleRow {
            name,
            ready,
            reason,
            destination,
            types: status.and_then(|status| status.watched_types),
        });
    }
}

fn of_destination<'r>(
    destination: &GitDestination,
    home: &str,
    mut repos: impl Iterator<Item = &'r GitRepoConfig>,
) -> (DestinationRow, Vec<Note>) {
    let spec = &destination.spec;
    let status = destination.status.clone().unwrap_or_default();
    let repo_id = Id::of_repo(&spec.repo_ref, home);
    let repo = repos.find(|repo| {
        repo.namespace().as_ref() == Some(&repo_id.namespace) && repo.name_any() == repo_id.name
    });
    let (ready, reason) = ready(&status.conditions);
    let name = full_name(destination);
    let mut notes = notes(&format!("GitDestination {name}"), &status.conditions);
    for aside in &status.set_aside {
        notes.push(Note {
            about: format!("GitDestination {name}"),
            reason: "SetAside".to_owned(),
            message: format!("{}: {}", aside.path, aside.message),
        });
    }
    let row = DestinationRow {
        name,
        ready,
        reason,
        repository: repo.map_or_else(
            || format!("GitRepoConfig {repo_id}"),
            |repo| repo.spec.repo_url.clone(),
        ),
        branch: spec.branch.clone(),
        folder: spec.base_folder.clone(),
        objects: status.objects,
        waiting: status.waiting_files,
        last_commit: status.last_pushed_commit,
        last_push: status.last_push_time.map(|time| time.0.as_second()),
    };
    (row, notes)
}

fn full_name(object: &impl kube::ResourceExt) -> String {
    format!(
        "{}/{}",
        object.namespace().unwrap_or_default(),
        object.name_any()
    )
}

/// Ready and why, in one word each.
fn ready(conditions: &[Condition]) -> (String, String) {
    let found = conditions.iter().find(|one| one.type_ == condition::READY);
    found.map_or_else(
        || ("Unknown".to_owned(), "NotSeenYet".to_owned()),
        |one| (one.status.clone(), one.reason.clone()),
    )
}

/// Sentences about what is not ready, and warnings.
fn notes(about: &str, conditions: &[Condition]) -> Vec<Note> {
    let is_summary =
        |one: &Condition| one.type_ == condition::RECONCILING || one.type_ == condition::STALLED;
    let speaks = |one: &&Condition| match &*one.type_ {
        condition::READY => one.status != "True",
        _ => one.status == "True" && !is_summary(one),
    };
    let speaking = conditions.iter().filter(speaks);
    let note = |one: &Condition| Note {
        about: about.to_owned(),
        reason: one.reason.clone(),
        message: one.message.clone(),
    };
    speaking.map(note).collect()
}

/// A kind in one namespace or in all: whoever may read one only is not refused for the others.
async fn of_namespaces<K>(
    client: &kube::Client,
    namespace: Option<&str>,
) -> Result<Listed<K>, Complaint>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    DeserializeGuard<K>: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    let api = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    list(&api).await.map_err(|error| refused(error, namespace))
}

/// The rules of the cluster; nothing if somebody who asks for a namespace may not list them.
async fn of_cluster(
    client: &kube::Client,
    namespace: Option<&str>,
) -> Result<Option<Listed<ClusterWatchRule>>, Complaint> {
    match list(&Api::all(client.clone())).await {
        Ok(rules) => Ok(Some(rules)),
        Err(kube::Error::Api(status)) if status.code == 403 && namespace.is_some() => Ok(None),
        Err(error) => Err(refused(error, namespace)),
    }
}

/// The repositories of other namespaces that destinations refer to, as far as they may be read.
async fn elsewhere(client: &kube::Client, destinations: &[GitDestination]) -> Vec<GitRepoConfig> {
    let mut found = Vec::new();
    for destination in destinations {
        let reference = &destination.spec.repo_ref;
        let Some(namespace) = &reference.namespace else {
            continue;
        };
        let api: Api<DeserializeGuard<GitRepoConfig>> = Api::namespaced(client.clone(), namespace);
        let repo = api.get(&reference.name).await.ok();
        found.extend(repo.and_then(|repo| repo.0.ok()));
    }
    found
}

async fn list<K>(api: &Api<DeserializeGuard<K>>) -> Result<Listed<K>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
    DeserializeGuard<K>: Resource<DynamicType = ()>,
{
    let all = api.list(&ListParams::default()).await?;
    Ok(Listed::of(all.items))
}

/// Why a kind cannot be listed, and what would help.
fn refused(error: kube::Error, namespace: Option<&str>) -> Complaint {
    match error {
        kube::Error::Api(status) if status.code == 404 => Complaint::new(
            Exit::NoSuchType,
            "the operator is not installed in this cluster: `gitops-reverser crds | kubectl apply \
             --server-side -f -` installs its kinds, and `gitops-reverser mirror` needs none",
        ),
        kube::Error::Api(status) if status.code == 403 => {
            let cure = match namespace {
                Some(namespace) => format!(
                    "the ClusterRole gitops-reverser-viewer gives that right, bound in namespace \
                     {namespace}"
                ),
                None => "write -n with a namespace that is yours".to_owned(),
            };
            Complaint::failed(format!("{}: {cure}", status.message))
        }
        error => Complaint::failed(error),
    }
}

fn as_text(overview: &Overview, now: i64, paint: Paint) -> String {
    let mut text = String::new();
    let ready = |word: &str| {
        let colour = if word == "True" {
            Colour::Green
        } else {
            Colour::Red
        };
        paint.paint(colour, word)
    };
    let shown = |number: Option<i64>| number.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let head = |names: &[&str]| vec![names.iter().map(|name| (*name).to_owned()).collect()];
    if overview.destinations.is_empty() {
        text.push_str("no destinations yet: create a GitRepoConfig and a GitDestination\n");
    } else {
        let mut rows: Vec<Vec<String>> = head(&[
            "DESTINATION",
            "READY",
            "OBJECTS",
            "WAITING",
            "LAG",
            "LAST COMMIT",
            "PUSHED",
            "WHERE",
        ]);
        rows.extend(overview.destinations.iter().map(|row| {
            let commit = row.last_commit.as_deref().unwrap_or("-");
            vec![
                row.name.clone(),
                ready(&row.ready),
                shown(row.objects),
                shown(row.waiting),
                lag(row, now),
                commit.get(..10).unwrap_or(commit).to_owned(),
                row.last_push
                    .map_or_else(|| "never".to_owned(), |push| text::age(now - push) + " ago"),
                format!("{} {}:{}", row.repository, row.branch, row.folder),
            ]
        }));
        text.push_str(&text::table(&rows));
    }
    if !overview.rules.is_empty() {
        let mut rows: Vec<Vec<String>> = head(&["RULE", "READY", "TYPES", "DESTINATION"]);
        rows.extend(overview.rules.iter().map(|row| {
            vec![
                row.name.clone(),
                ready(&row.ready),
                shown(row.types),
                row.destination.clone(),
            ]
        }));
        text.push('\n');
        text.push_str(&text::table(&rows));
    }
    if !overview.notes.is_empty() {
        text.push('\n');
        for note in &overview.notes {
            let reason = paint.paint(Colour::Yellow, &note.reason);
            let _infallible = writeln!(text, "{}: {reason}: {}", note.about, note.message);
        }
    }
    text
}

/// How far the branch is behind: nothing while nothing waits, and otherwise at least as long as
/// nothing was pushed.
fn lag(row: &DestinationRow, now: i64) -> String {
    match (row.waiting, row.last_push) {
        (None, _) => "-".to_owned(),
        (Some(0), _) => "none".to_owned(),
        (Some(_), Some(push)) => text::age(now - push),
        (Some(_), None) => "all of it".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_that_cannot_be_read_is_listed_with_the_reason() {
        let rule = |name: &str, rules: serde_json::Value| {
            let reference = json!({"name": "prod"});
            let object = json!({
                "apiVersion": "configbutler.ai/v1alpha1", "kind": "WatchRule",
                "metadata": {"name": name, "namespace": "shop"},
                "spec": {"destinationRef": reference, "rules": rules},
            });
            serde_json::from_value::<DeserializeGuard<WatchRule>>(object).unwrap()
        };
        let rules = vec![rule("good", json!([{}])), rule("bad", json!("nonsense"))];
        let Listed { read, unreadable } = Listed::of(rules);
        let names: Vec<String> = read.iter().map(full_name).collect();
        assert_eq!(names, ["shop/good"]);
        let mut overview = Overview {
            destinations: Vec::new(),
            rules: Vec::new(),
            notes: Vec::new(),
        };
        overview.add_unreadable(unreadable, OwnKind::WatchRule);
        let row = &overview.rules[0];
        assert_eq!((&*row.name, &*row.ready), ("shop/bad", "False"));
        let note = &overview.notes[0];
        assert_eq!(note.about, "WatchRule shop/bad");
        assert!(note.message.starts_with("it cannot be read: "), "{note:?}");
        assert!(note.message.contains("nonsense"), "{note:?}");
    }
}
