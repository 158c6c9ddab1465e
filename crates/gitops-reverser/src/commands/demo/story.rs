//! What Alice and Bob do, and what Git shows of it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use reverser_git::{BranchName, History};

use super::cluster::{DemoCluster, HOME, NAMESPACE, definition_names};
use super::{Complaint, Stage, say};
use crate::commands::print;
use crate::terminal::text::Colour;

/// Who does what, with kubectl. Each becomes a commit.
const STORY: &[(&str, &[&str])] = &[
    (
        "alice",
        &[
            "create",
            "deployment",
            "web",
            "--image=nginx:1.29",
            "--port=80",
        ],
    ),
    ("alice", &["expose", "deployment", "web"]),
    ("bob", &["scale", "deployment", "web", "--replicas=3"]),
    (
        "alice",
        &[
            "create",
            "configmap",
            "settings",
            "--from-literal=colour=blue",
        ],
    ),
    ("bob", &["delete", "configmap", "settings"]),
];

pub(super) fn tell(stage: &mut Stage, cluster: &DemoCluster) -> Result<(), Complaint> {
    stage.wait("serving the four kinds", || are_served(cluster))?;
    cluster.apply(&configuration(stage))?;
    let metrics = stage.metrics.clone();
    // Nobody's change is missed once the destination is ready and the webhook is asked.
    let is_ready = || {
        let ready = ["get", "gitdestination", "demo", "-n", HOME, "-o"];
        let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")].status}";
        let asked = cluster.kubectl(&[&ready[..], &[path]].concat());
        let webhook = !cluster.is_near || is_asked(cluster, &metrics);
        webhook && asked.is_ok_and(|status| status == "True")
    };
    stage.wait("the first mirror", is_ready)?;
    let paint = stage.paint;
    for (who, arguments) in STORY {
        let before = commits(stage);
        let line = format!("{who}$ kubectl {}", arguments.join(" "));
        let said = cluster.person(who, arguments)?;
        print(&format!("\n{}\n{said}", paint.paint(Colour::Bold, &line)))
            .map_err(Complaint::failed)?;
        let git = stage.git.clone();
        let repository = stage.repository.clone();
        let pushed = || count(&git, &repository) > before;
        stage.wait("a commit", pushed)?;
    }
    show(stage)
}

/// Definitions are established a moment before their kinds are served.
fn are_served(cluster: &DemoCluster) -> bool {
    let served = cluster.kubectl(&["get", "--raw", "/apis/configbutler.ai/v1alpha1"]);
    let kinds = definition_names().into_iter();
    let mut plurals = kinds.filter_map(|name| Some(name.split_once('.')?.0.to_owned()));
    served.is_ok_and(|served| plurals.all(|plural| served.contains(&format!("\"{plural}\""))))
}

/// Whether the API server asks the operator about changes in the namespace of the story; it does so
/// a moment after it was told to. What is only tried changes nothing.
fn is_asked(cluster: &DemoCluster, metrics: &str) -> bool {
    let create = ["create", "configmap", "anything", "-n", NAMESPACE];
    let tried = cluster.kubectl(&[&create[..], &["--dry-run=server"]].concat());
    let counted = tried.ok().and_then(|_| read(metrics).ok());
    counted.is_some_and(|counted| {
        let reviews = counted
            .lines()
            .filter(|line| line.contains("admission_reviews_total{"));
        reviews.into_iter().any(|line| !line.ends_with(" 0"))
    })
}

/// What is at an address of this machine.
fn read(url: &str) -> std::io::Result<String> {
    let (address, path) = url
        .strip_prefix("http://")
        .and_then(|rest| rest.split_once('/'))
        .ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    write!(stream, "GET /{path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn commits(stage: &Stage) -> usize {
    count(&stage.git, &stage.repository)
}

fn count(git: &reverser_git::Git, repository: &std::path::Path) -> usize {
    let branch = BranchName::parse("main").expect("`main` is a branch");
    let history = History::of_local(git.clone(), repository, &branch);
    history.map_or(0, |history| {
        history.log("", false).map_or(0, |all| all.len())
    })
}

fn show(stage: &Stage) -> Result<(), Complaint> {
    let branch = BranchName::parse("main").expect("`main` is a branch");
    let read = |error: reverser_git::HistoryError| Complaint::failed(error);
    let history = History::of_local(stage.git.clone(), &stage.repository, &branch).map_err(read)?;
    say(
        stage.paint,
        "What Git has of it: git log --format='%h %<(16)%an %s'",
    )?;
    let log = history
        .show(&["log", "--format=%h %<(16)%an %s"], history.tip())
        .map_err(read)?;
    print(&log).map_err(Complaint::failed)?;
    let all = history.log("", false).map_err(read)?;
    let scaled = all
        .iter()
        .find(|commit| commit.subject.starts_with("Update"));
    if let Some(scaled) = scaled {
        say(
            stage.paint,
            &format!("What one of them changed: git show {:.7}", scaled.id),
        )?;
        let id = scaled.id.parse().map_err(Complaint::failed)?;
        let patch = history.show(&["show", "--format="], id).map_err(read)?;
        print(&stage.paint.patch(&patch)).map_err(Complaint::failed)?;
    }
    Ok(())
}

pub(super) fn say_where_to_look(stage: &Stage, cluster: &DemoCluster) -> Result<(), Complaint> {
    say(stage.paint, "Where to look further")?;
    let lines = format!(
        "  repository  git -C {} log -p\n  cluster     {} get gitdestinations,watchrules -n {HOME}\n  \
         metrics     {}\n",
        stage.repository.display(),
        cluster.kubectl_line(),
        stage.metrics
    );
    print(&lines).map_err(Complaint::failed)
}

/// A repository, a destination and a rule, as a user would write them.
fn configuration(stage: &Stage) -> String {
    format!(
        "apiVersion: configbutler.ai/v1alpha1
kind: GitRepoConfig
metadata: {{name: demo, namespace: {HOME}}}
spec:
  repoUrl: file://{}
  allowedBranches: [main]
  accessPolicy: {{namespacedRules: {{mode: AllNamespaces}}}}
---
apiVersion: configbutler.ai/v1alpha1
kind: GitDestination
metadata: {{name: demo, namespace: {HOME}}}
spec:
  repoRef: {{name: demo}}
  branch: main
  baseFolder: clusters/demo
  accessPolicy: {{namespacedRules: {{mode: AllNamespaces}}}}
---
apiVersion: configbutler.ai/v1alpha1
kind: WatchRule
metadata: {{name: demo, namespace: {NAMESPACE}}}
spec:
  destinationRef: {{name: demo, namespace: {HOME}}}
  rules: [{{}}]
",
        stage.repository.display()
    )
}
