//! A writer, told what a dispatcher would tell it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;
use gitops_reverser::dispatch::ToWriter;
use gitops_reverser::identity::Id;
use gitops_reverser::routing::{
    CommitSettings, Destination, Form, MarkedFolder, PushSettings, Refusal, Target,
};
use gitops_reverser::telemetry::labels::{Gvk, ObjectScope, TypeLabels};
use gitops_reverser::telemetry::{Telemetry, metrics};
use gitops_reverser::writer::{Access, Common, FromWriter, Report, Told, Writer, WriterSettings};
use prometheus_client::registry::Registry;
use reverser_api::git_destination::SecretsMode;
use reverser_core::admission_record::{AdmissionRecord, AdmittedChange, FormId, Requester};
use reverser_core::attribution::{Attributor, Origin, StoreLimits, Transition};
use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::commit_message::Installation;
use reverser_core::ignore::Ignored;
use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::{DeleteProof, Operations, PruneMode, Wanted};
use reverser_core::repo_path::RepoPath;
use reverser_core::window::Limits;
use reverser_git::{
    BranchName, CancelToken, Credentials, Git, Person, PushOptions, RemoteUrl, Scheme,
};
use reverser_testkit::git_server::{BareRepository, HttpFront};
use reverser_testkit::wait;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// How long anything may take that takes well under a second.
const SOON: Duration = Duration::from_mins(2);

/// A repository behind HTTP, and writers for its branches.
pub(super) struct Bench {
    pub(super) repository: BareRepository,
    pub(super) front: HttpFront,
    pub(super) settings: WriterSettings,
    pub(super) common: Arc<Common>,
    pub(super) registry: Registry,
    pub(super) runtime: Runtime,
    folder: TempDir,
}

/// A writer that runs.
pub(super) struct Running<'b> {
    bench: &'b Bench,
    branch: String,
    inbox: Option<mpsc::Sender<Told>>,
    task: Option<JoinHandle<()>>,
    heard: Arc<Mutex<Heard>>,
    pub(super) access: Arc<Mutex<Result<Access, Refusal>>>,
}

#[derive(Default)]
struct Heard {
    reports: BTreeMap<Id, Report>,
    content_missing: usize,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with_workers(24, 5)
    }

    /// Whose batches end so late that a busy machine has told all of it, once the branch was looked at.
    pub(super) fn patient() -> Self {
        let mut bench = Self::new();
        bench.settings.limits.quiet = Duration::from_secs(2);
        bench
    }

    pub(super) fn with_workers(global: usize, per_repo: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let repository = BareRepository::create(folder.path(), "repo.git");
        let front = HttpFront::start(folder.path());
        let mut registry = metrics::registry();
        let telemetry = Telemetry::register(&mut registry);
        let names = Box::new(|key: &TypeKey| {
            let gvk = Gvk::new(key.group(), key.version(), "ConfigMap");
            Some(TypeLabels::new(gvk, ObjectScope::Namespaced))
        });
        Self {
            repository,
            front,
            settings: settings(&folder),
            common: Arc::new(Common::new(telemetry, names, global, per_repo)),
            registry,
            runtime: Runtime::new().unwrap(),
            folder,
        }
    }

    /// A writer of the branch `main`, with the destination `prod` in `clusters/prod`.
    pub(super) fn run(&self) -> Running<'_> {
        let writer = self.run_branch("main");
        writer.add("prod", "clusters/prod");
        writer
    }

    pub(super) fn run_branch(&self, branch: &str) -> Running<'_> {
        self.run_target(self.target(branch))
    }

    /// A writer that reaches the same repository by another GitRepoConfig.
    pub(super) fn run_beside(&self, repo: &str, branch: &str) -> Running<'_> {
        let repo = Id::new("shop", repo);
        self.run_target(Target {
            repo,
            ..self.target(branch)
        })
    }

    fn run_target(&self, target: Target) -> Running<'_> {
        let branch = target.branch.as_str().to_owned();
        let (inbox, receiver) = mpsc::channel(1024);
        let (reports, mut told) = mpsc::unbounded_channel();
        let anonymous = Access {
            credentials: Credentials::anonymous(),
            signer: None,
        };
        let access = Arc::new(Mutex::new(Ok(anonymous)));
        let source = access.clone();
        let writer = Writer::new(
            self.settings.clone(),
            self.common.clone(),
            target,
            Arc::new(move || std::future::ready(source.lock().unwrap().clone()).boxed()),
            reports,
        );
        let heard = Arc::new(Mutex::new(Heard::default()));
        let listener = heard.clone();
        self.runtime.spawn(async move {
            while let Some(message) = told.recv().await {
                let mut heard = listener.lock().unwrap();
                match message {
                    FromWriter::Report(id, report) => {
                        heard.reports.insert(id, *report);
                    }
                    FromWriter::ContentMissing(_) => heard.content_missing += 1,
                }
            }
        });
        Running {
            bench: self,
            branch,
            inbox: Some(inbox),
            task: Some(self.runtime.spawn(writer.run(receiver))),
            heard,
            access,
        }
    }

    fn target(&self, branch: &str) -> Target {
        let url = self.front.url("repo.git");
        Target {
            url: RemoteUrl::parse(&url, &[Scheme::Http, Scheme::File]).unwrap(),
            branch: BranchName::parse(branch).unwrap(),
            repo: Id::new("shop", "repo"),
        }
    }

    pub(super) fn destination(&self, branch: &str, folder: &str) -> Destination {
        Destination {
            target: self.target(branch),
            folder: BaseFolder::parse(folder).unwrap(),
            form: Form {
                secrets: SecretsMode::AsIs,
                ignored: Ignored::default(),
            },
            prune: PruneMode::Always,
            guard: true,
            acknowledged: None,
            marked: MarkedFolder::default(),
            suspend: false,
            repo_edition: gitops_reverser::routing::Edition::default(),
            push: PushSettings {
                max_wait: None,
                max_files: None,
                per_minute: 6000,
                options: PushOptions::default(),
            },
            commit: CommitSettings::default(),
        }
    }

    pub(super) fn commits(&self) -> usize {
        let tip = self.repository.tip("main");
        tip.map_or(0, |_| self.repository.history("main").len())
    }

    /// How often somebody began to push.
    pub(super) fn pushes(&self) -> usize {
        let seen = self.front.seen();
        let begun = seen
            .iter()
            .filter(|line| line.contains("service=git-receive-pack"));
        begun.count()
    }

    /// The names and values of the mirrored objects below a folder.
    pub(super) fn objects(&self, folder: &str) -> BTreeMap<String, String> {
        if self.repository.tip("main").is_none() {
            return BTreeMap::new();
        }
        let prefix = format!("{folder}/core/v1/configmaps/shop/");
        let files = self.repository.files("main").into_iter();
        files
            .filter_map(|(path, text)| {
                let name = path.strip_prefix(&prefix)?.strip_suffix(".yaml")?;
                let value = text.rsplit_once("value: ")?.1.trim().to_owned();
                Some((name.to_owned(), value))
            })
            .collect()
    }

    /// What `/metrics` would say.
    pub(super) fn scrape(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// Where the clones and what is staged for them lie.
    pub(super) fn work_dir(&self) -> std::path::PathBuf {
        self.folder.path().join("work")
    }
}

impl Running<'_> {
    pub(super) fn tell(&self, destination: &str, message: ToWriter) {
        let inbox = self.inbox.as_ref().unwrap().clone();
        let told = Told {
            id: Id::new("shop", destination),
            message,
            since: Some(std::time::Instant::now()),
        };
        self.bench.runtime.block_on(async move {
            inbox.send(told).await.unwrap();
        });
    }

    /// A destination whose types are all listed.
    pub(super) fn add(&self, name: &str, folder: &str) {
        let destination = self.bench.destination(&self.branch, folder);
        self.add_with(name, destination);
    }

    pub(super) fn add_with(&self, name: &str, destination: Destination) {
        self.tell(name, ToWriter::Settings(Box::new(destination)));
        self.tell(name, ToWriter::Knowledge(Box::default()));
    }

    pub(super) fn put(&self, name: &str, value: &str) {
        self.put_in("prod", name, value);
    }

    pub(super) fn put_in(&self, destination: &str, name: &str, value: &str) {
        let content = content(name, value);
        let put = ToWriter::Put {
            path: path(name),
            wanted: Wanted {
                blob: BlobId::of(content.as_bytes()),
                operations: Operations {
                    create: true,
                    update: true,
                    delete: true,
                },
            },
            content: content.into(),
            origin: None,
        };
        self.tell(destination, put);
    }

    /// The same, with whose change it is.
    pub(super) fn put_by(&self, user: &str, name: &str, value: &str) {
        let content = content(name, value);
        let put = ToWriter::Put {
            path: path(name),
            wanted: Wanted {
                blob: BlobId::of(content.as_bytes()),
                operations: Operations {
                    create: true,
                    update: true,
                    delete: true,
                },
            },
            content: content.into(),
            origin: Some(origin(user)),
        };
        self.tell("prod", put);
    }

    pub(super) fn remove(&self, name: &str) {
        self.tell("prod", removal(name, None));
    }

    pub(super) fn remove_by(&self, user: &str, name: &str) {
        self.tell("prod", removal(name, Some(origin(user))));
    }

    pub(super) fn content_missing(&self) -> usize {
        self.heard.lock().unwrap().content_missing
    }

    pub(super) fn report(&self, destination: &str) -> Option<Report> {
        let id = Id::new("shop", destination);
        self.heard.lock().unwrap().reports.get(&id).cloned()
    }

    /// Waits until the reason of a destination's failure is this; none if it is empty.
    #[track_caller]
    pub(super) fn await_failure(&self, destination: &str, reason: &str) -> String {
        soon(&format!("{destination}: {reason:?}"), || {
            let report = self.report(destination).ok_or("no report")?;
            match &report.failure {
                None if reason.is_empty() && report.in_sync => Ok(String::new()),
                Some(failure) if failure.reason == reason => Ok(failure.message.clone()),
                _ => Err(format!("{report:?}")),
            }
        })
    }

    /// Waits until the folder holds these objects and no others.
    #[track_caller]
    pub(super) fn await_objects(&self, folder: &str, objects: &[(&str, &str)]) {
        let wanted: BTreeMap<String, String> = objects
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        soon(&format!("{wanted:?}"), || {
            let seen = self.bench.objects(folder);
            if seen == wanted {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        });
    }

    /// Ends it as the end of the process does.
    pub(super) fn stop(&mut self) {
        drop(self.inbox.take());
        if let Some(task) = self.task.take() {
            self.bench.runtime.block_on(task).unwrap();
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

pub(super) fn path(name: &str) -> RepoPath {
    let config_maps = TypeKey::new("", "v1", "configmaps").unwrap();
    RepoPath::of(&ObjectKey::new(config_maps, Some("shop".into()), name).unwrap())
}

pub(super) fn file(folder: &str, name: &str) -> String {
    format!("{folder}/{}", path(name))
}

pub(super) fn content(name: &str, value: &str) -> String {
    format!("kind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  value: {value}\n")
}

/// Waits for a condition, and panics with what was seen last.
#[track_caller]
pub(super) fn soon<T>(what: &str, look: impl FnMut() -> Result<T, String>) -> T {
    wait::until_blocking(what, SOON, look).unwrap_or_else(|error| panic!("{error}"))
}

fn removal(name: &str, origin: Option<Arc<Origin>>) -> ToWriter {
    ToWriter::Remove {
        path: path(name),
        proof: Some(DeleteProof::Deleted),
        origin,
    }
}

/// A change that a user is known to have made; nobody, if the name is empty.
pub(super) fn origin(user: &str) -> Arc<Origin> {
    if user.is_empty() {
        return Arc::new(Origin::unseen(Some("helm".to_owned())));
    }
    let now = std::time::Instant::now();
    let new = FormId {
        blob: BlobId::of(b"form"),
        managers: None,
    };
    let record = AdmissionRecord {
        type_key: TypeKey::new("", "v1", "configmaps").unwrap(),
        namespace: None,
        name: "web".to_owned(),
        uid: "uid".to_owned(),
        change: AdmittedChange::Create { new },
        user: Requester::new(user),
    };
    let mut attributor = Attributor::new(StoreLimits::default());
    attributor.record(record, now);
    attributor.attribute("uid", Transition::Created { new }, None, now)
}

fn settings(folder: &TempDir) -> WriterSettings {
    WriterSettings {
        marks_folders: true,
        on_push: None,
        git: Git::find().unwrap(),
        cut_off: CancelToken::new(),
        work_dir: folder.path().join("work"),
        limits: Limits {
            max_files: 200,
            max_bytes: 1 << 20,
            max_wait: Duration::from_secs(20),
            quiet: Duration::from_millis(200),
        },
        poll: Duration::from_mins(5),
        deletes_cap: None,
        grace: Duration::from_millis(250),
        committer: Person::new("GitOps Reverser", "reverser@example.com").unwrap(),
        installation: Installation {
            cluster_uid: "cluster".into(),
            controller_namespace: "reverser".into(),
            controller_name: "gitops-reverser".into(),
            instance_id: "test".into(),
        },
    }
}
