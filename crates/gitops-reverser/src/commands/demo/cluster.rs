//! The cluster of the demo: one that is started for it, or the user's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

use serde::Deserialize;

use super::halt::{Halt, Program};
use super::{Complaint, Exit, Paint, say};
use crate::command_line::DemoArguments;
use crate::terminal::prompt;

/// Where Alice and Bob work.
pub(super) const NAMESPACE: &str = "shop";
/// Where the operator's own objects are.
pub(super) const HOME: &str = "reverser";
/// The program that starts a control plane; it is beside this one after `make demo`.
const STARTER: &str = "control-plane";

/// What is said to somebody who does not wait until everything is removed.
pub(super) const ENDED_AT_ONCE: &str = "ended at once; on a cluster of yours the namespaces shop and \
     reverser and the CustomResourceDefinitions of configbutler.ai may be left: delete them with kubectl";

/// A cluster, and how the people of the story reach it.
pub(super) struct DemoCluster {
    kubectl: PathBuf,
    pub(super) admin: PathBuf,
    people: People,
    /// Whether it can call the operator that runs here.
    pub(super) is_near: bool,
    halt: Halt,
    _plane: Option<Plane>,
}

/// A control plane that was started for the demo, and ends with its standard input.
struct Plane {
    program: Program,
    _stdin: ChildStdin,
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.program.end();
    }
}

enum People {
    /// A kubeconfig each.
    Files { alice: PathBuf, bob: PathBuf },
    /// The user of the current context speaks for them.
    Impersonated,
}

#[derive(Deserialize)]
struct Description {
    kubeconfigs: std::collections::BTreeMap<String, PathBuf>,
    kubectl: PathBuf,
}

impl DemoCluster {
    pub(super) fn prepare(
        arguments: &DemoArguments,
        paint: Paint,
        halt: &Halt,
        folder: &Path,
    ) -> Result<Self, Complaint> {
        match &arguments.plane {
            Some(file) => {
                let text = std::fs::read_to_string(file).map_err(Complaint::failed)?;
                halt.begin()?;
                Self::described(&text, halt, None)
            }
            None if arguments.use_current_context => Self::of_user(arguments, halt, folder),
            None => {
                say(paint, "Starting etcd and kube-apiserver")?;
                Self::started(halt)
            }
        }
    }

    fn started(halt: &Halt) -> Result<Self, Complaint> {
        let here = std::env::current_exe().map_err(Complaint::failed)?;
        let beside = here.parent().map(|folder| folder.join(STARTER));
        let starter = beside.filter(|path| path.is_file()).ok_or_else(|| {
            Complaint::failed(
                "there is no control plane beside this program: run `make demo` in the source, which \
                 builds one, or use your own cluster with --use-current-context",
            )
        })?;
        halt.begin()?;
        let mut child = Command::new(starter)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(Complaint::failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let program = halt.keep(child);
        let (Some(stdin), Some(stdout)) = (stdin, stdout) else {
            return Err(Complaint::failed("the control plane cannot be spoken to"));
        };
        let plane = Plane {
            program,
            _stdin: stdin,
        };
        let mut line = String::new();
        BufReader::new(stdout)
            .read_line(&mut line)
            .map_err(Complaint::failed)?;
        halt.check()?;
        Self::described(&line, halt, Some(plane))
    }

    fn described(text: &str, halt: &Halt, plane: Option<Plane>) -> Result<Self, Complaint> {
        let description: Description = serde_json::from_str(text).map_err(|error| {
            Complaint::failed(format!("the control plane did not start: {error}"))
        })?;
        let file = |user: &str| {
            let found = description.kubeconfigs.get(user).cloned();
            found.ok_or_else(|| Complaint::failed(format!("the control plane has no user {user}")))
        };
        Ok(Self {
            admin: file("admin")?,
            people: People::Files {
                alice: file("alice")?,
                bob: file("bob")?,
            },
            kubectl: description.kubectl,
            is_near: true,
            halt: halt.clone(),
            _plane: plane,
        })
    }

    /// The current context, written out so that every program here means the same.
    fn of_user(arguments: &DemoArguments, halt: &Halt, folder: &Path) -> Result<Self, Complaint> {
        let kubectl = PathBuf::from("kubectl");
        let view = Command::new(&kubectl)
            .args(["config", "view", "--minify", "--flatten", "--raw"])
            .output()
            .map_err(|error| {
                Complaint::failed(format!(
                    "kubectl cannot be run: {error}; the demo works with it"
                ))
            })?;
        if !view.status.success() {
            let why = String::from_utf8_lossy(&view.stderr).trim().to_owned();
            return Err(Complaint::new(Exit::NoKubeconfig, why));
        }
        let admin = folder.join("kubeconfig");
        write_private(&admin, &view.stdout).map_err(Complaint::failed)?;
        let cluster = Self {
            kubectl,
            admin,
            people: People::Impersonated,
            is_near: false,
            halt: halt.clone(),
            _plane: None,
        };
        cluster.refuse_what_is_there()?;
        if !arguments.yes {
            let name = cluster.kubectl(&["config", "current-context"])?;
            agree(name.trim())?;
        }
        // Where the operator keeps what is its own, which goes with that namespace.
        cluster.kubectl(&["config", "set-context", "--current", "--namespace", HOME])?;
        halt.begin()?;
        Ok(cluster)
    }

    /// What is there before the demo would be gone after it.
    fn refuse_what_is_there(&self) -> Result<(), Complaint> {
        let definitions = definition_names();
        let namespaces = [NAMESPACE.to_owned(), HOME.to_owned()];
        for (kind, names) in [("crd", &definitions[..]), ("namespace", &namespaces[..])] {
            let mut arguments = vec!["get", kind, "--ignore-not-found", "--output=name"];
            arguments.extend(names.iter().map(String::as_str));
            let there = self.kubectl(&arguments)?;
            if let Some(first) = there.lines().next() {
                return Err(Complaint::failed(format!(
                    "{first} is there already, and the demo would remove it at its end: use another \
                     cluster, or `make demo`, which starts one of its own"
                )));
            }
        }
        Ok(())
    }

    /// Where everything happens.
    pub(super) fn make_room(&self) -> Result<(), Complaint> {
        for namespace in [NAMESPACE, HOME] {
            self.kubectl(&["create", "namespace", namespace])?;
        }
        if matches!(self.people, People::Impersonated) {
            let binding = ["create", "rolebinding", "people", "--clusterrole=admin"];
            let people = ["--user=alice", "--user=bob", "-n", NAMESPACE];
            self.kubectl(&[&binding[..], &people].concat())?;
        }
        Ok(())
    }

    pub(super) fn install_definitions(&self) -> Result<(), Complaint> {
        self.apply(&reverser_api::crd_yaml::crds_yaml())?;
        let wait = ["wait", "--for=condition=Established", "--timeout=60s"];
        let names = definition_names().into_iter();
        let names: Vec<String> = names.map(|name| format!("crd/{name}")).collect();
        let names = names.iter().map(String::as_str);
        self.kubectl(&wait.into_iter().chain(names).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Applies YAML as the administrator.
    pub(super) fn apply(&self, yaml: &str) -> Result<(), Complaint> {
        let mut command = self.command(&self.admin);
        command.args(["apply", "--server-side", "-f", "-"]);
        self.go_on(command, yaml).map(drop)
    }

    /// What the administrator asks.
    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<String, Complaint> {
        let mut command = self.command(&self.admin);
        command.args(arguments);
        self.go_on(command, "")
    }

    /// What Alice or Bob does, in their namespace.
    pub(super) fn person(&self, name: &str, arguments: &[&str]) -> Result<String, Complaint> {
        let mut command = match &self.people {
            People::Files { alice, bob } => self.command(if name == "alice" { alice } else { bob }),
            People::Impersonated => {
                let mut command = self.command(&self.admin);
                command.args(["--as", name]);
                command
            }
        };
        command.args(["-n", NAMESPACE]).args(arguments);
        self.go_on(command, "")
    }

    /// Runs kubectl, unless it was asked to end; one that ended with the same Ctrl-C did not fail.
    fn go_on(&self, command: Command, input: &str) -> Result<String, Complaint> {
        self.halt.check()?;
        let said = run(command, input);
        self.halt.check()?;
        said
    }

    fn command(&self, kubeconfig: &Path) -> Command {
        let mut command = Command::new(&self.kubectl);
        command.env("KUBECONFIG", kubeconfig);
        command
    }

    /// How a person would call kubectl.
    pub(super) fn kubectl_line(&self) -> String {
        match &self.people {
            People::Files { alice, .. } => {
                format!("KUBECONFIG={} {}", alice.display(), self.kubectl.display())
            }
            People::Impersonated => "kubectl".to_owned(),
        }
    }

    /// Leaves a cluster that is somebody's as it was, however far the demo came, and ends one that was
    /// started for it.
    pub(super) fn tidy_up(self) -> Result<(), Complaint> {
        if matches!(self.people, People::Files { .. }) {
            return Ok(());
        }
        let definitions = definition_names();
        let definitions = definitions.iter().map(String::as_str);
        let delete = ["delete", "--ignore-not-found", "--wait=false"];
        let delete = |kind_and_names: Vec<&str>| {
            let mut command = self.command(&self.admin);
            command.args(delete).args(&kind_and_names);
            run(command, "").map_err(|why| {
                Complaint::failed(format!(
                    "not everything that the demo made could be removed: {why}; what is left goes by \
                     `kubectl delete {}`",
                    kind_and_names.join(" ")
                ))
            })
        };
        let kinds = delete(["crd"].into_iter().chain(definitions).collect());
        let rooms = delete(vec!["namespace", NAMESPACE, HOME]);
        kinds.and(rooms).map(drop)
    }
}

pub(super) fn definition_names() -> Vec<String> {
    let crds = reverser_api::crd_yaml::crds().into_iter();
    crds.filter_map(|crd| crd.metadata.name).collect()
}

fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)
}

fn agree(context: &str) -> Result<(), Complaint> {
    let question = format!(
        "This creates the namespaces {NAMESPACE} and {HOME} and four CustomResourceDefinitions in \
         context {context}, and removes them at the end. Go on?"
    );
    prompt::agree(&question, "write --yes", "nothing was created")
}

fn run(mut command: Command, input: &str) -> Result<String, Complaint> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Complaint::failed(format!("kubectl cannot be run: {error}")))?;
    if let Some(mut stdin) = child.stdin.take() {
        // It says itself what it misses.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(Complaint::failed)?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Complaint::failed(said.trim()))
    }
}
