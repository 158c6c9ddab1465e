//! `demo`: a story on a real control plane. Alice and Bob work with kubectl as they always do, and Git
//! tells who did what.

mod cluster;
mod halt;
mod story;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use reverser_git::{BranchName, Git, LocalRepository};

use self::cluster::DemoCluster;
use self::halt::{Halt, Program};
use super::{EndSignals, block_on};
use crate::command_line::DemoArguments;
use crate::terminal::exit::{self, Complaint, Exit};
use crate::terminal::text::{Colour, Paint};

/// Longer than anything here takes on a slow machine.
const SOON: Duration = Duration::from_secs(90);
/// How often it is looked whether something has happened.
const LOOK: Duration = Duration::from_millis(50);

pub(super) fn run(arguments: &DemoArguments) -> ExitCode {
    exit::end(block_on(demo(arguments.clone())))
}

/// Plays, and listens to whoever has seen enough.
async fn demo(arguments: DemoArguments) -> Result<ExitCode, Complaint> {
    let mut signals = EndSignals::listen().map_err(Complaint::failed)?;
    let folder = DemoFolder::create()?;
    let halt = Halt::default();
    let (stage, path) = (halt.clone(), folder.path().to_owned());
    let mut playing =
        tokio::task::spawn_blocking(move || play_and_tidy_up(&arguments, &stage, &path));
    tokio::select! {
        played = &mut playing => return played.map_err(Complaint::failed)?,
        _ = signals.next() => {}
    }
    if !halt.ask() {
        let sentence = "stopped; nothing was created";
        return Err(Complaint::new(Exit::Interrupted, sentence));
    }
    eprintln!("\nstopping, and removing what the demo has made; Ctrl-C again ends it at once");
    tokio::select! {
        played = playing => played.map_err(Complaint::failed)?,
        _ = signals.next() => {
            halt.end_programs();
            Err(Complaint::new(Exit::Interrupted, cluster::ENDED_AT_ONCE))
        }
    }
}

fn play_and_tidy_up(
    arguments: &DemoArguments,
    halt: &Halt,
    folder: &Path,
) -> Result<ExitCode, Complaint> {
    let paint = Paint::for_stdout();
    let cluster = DemoCluster::prepare(arguments, paint, halt, folder)?;
    let played = play(arguments, &cluster, paint, halt, folder);
    let tidied = cluster.tidy_up();
    match (played, tidied) {
        (Ok(()), tidied) => tidied.map(|()| ExitCode::SUCCESS),
        (Err(complaint), Ok(())) if complaint.exit == Exit::Interrupted => {
            let sentence = "stopped; what the demo had made is removed";
            Err(Complaint::new(Exit::Interrupted, sentence))
        }
        (Err(complaint), Ok(())) => Err(complaint),
        (Err(complaint), Err(left)) => {
            let sentence = format!("{complaint}; {left}");
            Err(Complaint::new(complaint.exit, sentence))
        }
    }
}

fn play(
    arguments: &DemoArguments,
    cluster: &DemoCluster,
    paint: Paint,
    halt: &Halt,
    folder: &Path,
) -> Result<(), Complaint> {
    cluster.make_room()?;
    let mut stage = Stage::set(cluster, paint, halt, folder)?;
    story::tell(&mut stage, cluster)?;
    story::say_where_to_look(&stage, cluster)?;
    let stays = !arguments.once && std::io::IsTerminal::is_terminal(&std::io::stdout());
    if stays {
        say(
            paint,
            "Everything keeps running. Ctrl-C ends it and removes it.",
        )?;
        halt.asked();
    } else {
        say(
            paint,
            "Without --once, on a terminal, all of that stays until Ctrl-C; now it is removed.",
        )?;
    }
    Ok(())
}

/// The operator and its repository.
struct Stage {
    paint: Paint,
    git: Git,
    repository: PathBuf,
    metrics: String,
    log: PathBuf,
    operator: Program,
    halt: Halt,
}

impl Stage {
    fn set(
        cluster: &DemoCluster,
        paint: Paint,
        halt: &Halt,
        folder: &Path,
    ) -> Result<Self, Complaint> {
        let git = Git::find().map_err(Complaint::failed)?;
        let branch = BranchName::parse("main").expect("`main` is a branch");
        let repository = folder.join("repository.git");
        LocalRepository::create(&git, &repository, &branch).map_err(Complaint::failed)?;
        say(
            paint,
            "Installing four kinds, and starting the operator beside the cluster",
        )?;
        cluster.install_definitions()?;
        let (metrics, webhook) = (free_port()?, free_port()?);
        let log = folder.join("operator.log");
        let log_file = std::fs::File::create(&log).map_err(Complaint::failed)?;
        let mut operator = Command::new(std::env::current_exe().map_err(Complaint::failed)?);
        operator
            .arg("controller")
            .args(["--allow-url-schemes", "file", "--log-format", "text"])
            .args(["--leader-elect=false", "--health-probe-bind-address", "0"])
            .args(["--metrics-bind-address", &format!("127.0.0.1:{metrics}")])
            .arg("--work-dir")
            .arg(folder.join("work"))
            .arg("--kubeconfig")
            .arg(&cluster.admin)
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().map_err(Complaint::failed)?)
            .stderr(log_file);
        if cluster.is_near {
            let address = format!("127.0.0.1:{webhook}");
            let url = format!("https://{address}/process-validating-webhook");
            operator.args(["--webhook-bind-address", &address, "--webhook-url", &url]);
        } else {
            operator.args(["--webhook-bind-address", "0"]);
        }
        let operator = halt.keep(operator.spawn().map_err(Complaint::failed)?);
        Ok(Self {
            paint,
            git,
            repository,
            metrics: format!("http://127.0.0.1:{metrics}/metrics"),
            log,
            operator,
            halt: halt.clone(),
        })
    }

    /// Waits for something to become true.
    fn wait(&mut self, what: &str, mut look: impl FnMut() -> bool) -> Result<(), Complaint> {
        let start = Instant::now();
        while !look() {
            self.halt.check()?;
            if start.elapsed() > SOON || self.operator.has_ended() {
                return Err(Complaint::failed(format!(
                    "{what} did not happen; the operator's log is {}",
                    self.log.display()
                )));
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.operator.end();
    }
}

/// A folder that goes with the demo.
struct DemoFolder(PathBuf);

impl DemoFolder {
    fn create() -> Result<Self, Complaint> {
        let name = format!("gitops-reverser-demo-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).map_err(Complaint::failed)?;
        Ok(Self(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DemoFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody has; whoever is faster than we are makes the demo fail with a sentence.
fn free_port() -> Result<u16, Complaint> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").map_err(Complaint::failed)?;
    Ok(listener.local_addr().map_err(Complaint::failed)?.port())
}

fn say(paint: Paint, line: &str) -> Result<(), Complaint> {
    let line = paint.paint(Colour::Bold, &format!("\u{25b8} {line}"));
    super::print(&format!("\n{line}\n")).map_err(Complaint::failed)
}
