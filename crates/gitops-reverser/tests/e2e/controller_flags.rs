//! `gitops-reverser controller`: its flags, its servers and its end, as a platform engineer meets them.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use clap::CommandFactory as _;
use gitops_reverser::command_line::CommandLine;
use reverser_testkit::control_plane::{ControlPlane, User};
use reverser_testkit::ports::Port;
use reverser_testkit::process::Process;
use reverser_testkit::scratch::Scratch;
use reverser_testkit::{command, wait};
use tempfile::TempDir;

/// A pod that has not ended by then is killed.
const PROMPT: Duration = Duration::from_secs(30);
/// As long as anything may take on a machine that does many other things.
const SOON: Duration = Duration::from_mins(1);

/// The program without anything that the environment of the tests says.
fn controller(flags: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("gitops-reverser"));
    command.env_clear().arg("controller").args(flags);
    command.stdin(Stdio::null());
    command
}

/// The same with a cluster of its own, in which its installation of rules is the only one: on the
/// plane that the other tests share it would follow their rules.
fn connected(flags: &[&str]) -> Command {
    static CLUSTER: LazyLock<(ControlPlane, TempDir)> = LazyLock::new(|| {
        let plane = ControlPlane::builder().start().unwrap();
        let crds = reverser_api::crd_yaml::crds_yaml();
        let apply = ["apply", "--server-side", "-f", "-"];
        command::run_with_input(plane.kubectl(User::Admin).args(apply), crds.as_bytes());
        (plane, tempfile::tempdir().unwrap())
    });
    let (plane, work_dir) = &*CLUSTER;
    let mut command = controller(flags);
    command
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("GITOPS_REVERSER_KUBECONFIG", plane.kubeconfig(User::Admin))
        .env("GITOPS_REVERSER_WEBHOOK_BIND_ADDRESS", "0")
        .env("GITOPS_REVERSER_WORK_DIR", work_dir.path());
    command
}

/// Exit status, standard output and standard error of a run that ends by itself.
#[track_caller]
fn ended(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// A controller that runs, on ports that the system chose.
struct Running {
    child: Child,
    log: Vec<serde_json::Value>,
    metrics: SocketAddr,
    probes: SocketAddr,
}

impl Running {
    #[track_caller]
    fn start(mut command: Command) -> Self {
        command
            .env("GITOPS_REVERSER_METRICS_BIND_ADDRESS", "127.0.0.1:0")
            .env("GITOPS_REVERSER_HEALTH_PROBE_BIND_ADDRESS", "127.0.0.1:0")
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut log: Vec<serde_json::Value> = Vec::new();
        while log.last().is_none_or(|line| line["message"] != "started") {
            let line = lines.next().expect("it says that it started").unwrap();
            log.push(serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}")));
        }
        // Nobody reads on, but a program whose log is closed would not be the one that we test.
        std::thread::spawn(move || lines.count());
        let address = |path: &str| {
            let serving = |line: &&serde_json::Value| {
                line["paths"]
                    .as_str()
                    .is_some_and(|paths| paths.contains(path))
            };
            let line = log.iter().find(serving).unwrap();
            line["address"].as_str().unwrap().parse().unwrap()
        };
        let (metrics, probes) = (address("/metrics"), address("/readyz"));
        Self {
            child,
            log,
            metrics,
            probes,
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
    }

    #[track_caller]
    fn wait(&mut self) -> ExitStatus {
        let ended = || self.child.try_wait().unwrap().ok_or("it runs");
        wait::until_blocking("it ends", PROMPT, ended).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Head and body of the answer to a GET.
fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

#[track_caller]
fn await_ready(probes: SocketAddr) {
    let ready = || {
        TcpStream::connect(probes).map_err(|error| error.to_string())?;
        let (head, _) = get(probes, "/readyz");
        if head.starts_with("HTTP/1.1 200") {
            Ok(())
        } else {
            Err(head)
        }
    };
    wait::until_blocking("it is ready", SOON, ready).unwrap();
}

#[test]
fn the_help_shows_every_flag_with_its_variable_and_its_default() {
    let (status, help, errors) = ended(controller(&["--help"]));
    assert_eq!((status, errors.as_str()), (Some(0), ""));
    assert!(
        help.starts_with("Run the operator: watch the cluster"),
        "{help}"
    );
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let command = CommandLine::command();
    let flags: Vec<_> = command
        .find_subcommand("controller")
        .unwrap()
        .get_arguments()
        .filter(|flag| flag.get_id() != "help")
        .collect();
    assert!(flags.len() > 40, "there are only {} flags", flags.len());
    for flag in flags {
        let name = flag.get_long().unwrap();
        let variable = format!("GITOPS_REVERSER_{}", name.to_uppercase().replace('-', "_"));
        // From one flag to the next.
        let from = help.find(&format!(" --{name}")).expect(name);
        let variable_at = help[from..].find(&format!("[env: {variable}=]"));
        let about = &help[from..][..variable_at.expect(name)];
        let after = &help[from + about.len()..];
        match flag.get_default_values() {
            [] => assert!(about.contains("left out, "), "{about}"),
            [default] => {
                let default = default.to_str().unwrap();
                let quoted = if default.contains(' ') { "\"" } else { "" };
                let shown = format!("[env: {variable}=] [default: {quoted}{default}{quoted}]");
                assert!(after.starts_with(&shown), "--{name}: {after:.200}");
            }
            several => panic!("--{name}: {several:?}"),
        }
    }
}

#[test]
fn a_bad_value_is_refused_with_what_to_write_instead() {
    for (flag, sentence) in [
        (
            "--workers-max-global=many",
            "error: --workers-max-global (or GITOPS_REVERSER_WORKERS_MAX_GLOBAL): \"many\" is not a \
             whole number from 1 to 1000; write one, such as 24\n",
        ),
        (
            "--deletes-cap-per-cycle=-1",
            "error: --deletes-cap-per-cycle (or GITOPS_REVERSER_DELETES_CAP_PER_CYCLE): \"-1\" is \
             neither a whole number nor none; write none to remove all that has to go, 0 to remove \
             nothing, or a number such as 100\n",
        ),
    ] {
        let (status, output, errors) = ended(controller(&[flag]));
        assert_eq!(
            (status, output.as_str(), errors.as_str()),
            (Some(2), "", sentence)
        );
    }
    let (status, _, errors) = ended(controller(&["--no-such-flag"]));
    assert_eq!(status, Some(2));
    assert!(errors.contains("--no-such-flag"), "{errors}");
}

#[test]
#[cfg(not(feature = "otlp"))]
fn a_program_that_was_built_without_traces_says_so_and_how_to_have_them() {
    let command = controller(&["--otlp-endpoint=http://collector.observability:4318"]);
    let (code, _, told) = ended(command);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("built without traces"), "{told}");
    assert!(told.contains("`cargo build --features otlp`"), "{told}");
}

#[test]
fn variables_say_the_same_as_flags_and_flags_count_more() {
    let mut command = controller(&[]);
    command.env("GITOPS_REVERSER_DISCOVERY_REFRESH", "never");
    let (status, _, errors) = ended(command);
    assert_eq!(status, Some(2));
    assert!(errors.contains("\"never\" is not a duration"), "{errors}");

    let mut command = connected(&["--discovery-refresh=1m", "--instance-id=flag"]);
    command
        .env("GITOPS_REVERSER_DISCOVERY_REFRESH", "never")
        .env("GITOPS_REVERSER_INSTANCE_ID", "variable")
        .env("GITOPS_REVERSER_DISCOVERY_EXCLUDE", "widgets,gadgets")
        .env("GITOPS_REVERSER_WATCH_ALL", "true");
    let running = Running::start(command);
    assert_eq!(running.log.last().unwrap()["instance_id"], "flag");

    let mut command = connected(&[]);
    command.env("GITOPS_REVERSER_INSTANCE_ID", "variable");
    let running = Running::start(command);
    assert_eq!(running.log.last().unwrap()["instance_id"], "variable");
}

#[test]
fn an_address_that_is_taken_names_the_flag_to_change() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for flag in ["metrics-bind-address", "health-probe-bind-address"] {
        let mut command = controller(&[&format!("--{flag}={address}")]);
        let other = if flag.starts_with('m') {
            "GITOPS_REVERSER_HEALTH_PROBE_BIND_ADDRESS"
        } else {
            "GITOPS_REVERSER_METRICS_BIND_ADDRESS"
        };
        command.env(other, "127.0.0.1:0");
        let (status, _, errors) = ended(command);
        assert_eq!(status, Some(1));
        let line = errors.lines().last().unwrap();
        assert!(
            line.starts_with(&format!("error: cannot listen on {address}: "))
                && line.ends_with(&format!("; write another address in --{flag}")),
            "{errors}"
        );
    }
}

#[test]
fn without_a_cluster_it_says_how_to_name_one() {
    let nowhere = ["--metrics-bind-address=0", "--health-probe-bind-address=0"];
    let (status, _, errors) = ended(controller(&nowhere));
    assert_eq!(status, Some(1));
    let line = errors.lines().last().unwrap();
    assert!(line.starts_with("error: no cluster is known: "), "{errors}");
    assert!(line.contains("set --kubeconfig or KUBECONFIG"), "{errors}");

    let mut missing = controller(&nowhere);
    missing.arg("--kubeconfig=no-such-file");
    let (status, _, errors) = ended(missing);
    assert_eq!(status, Some(1));
    let line = errors.lines().last().unwrap();
    assert!(line.starts_with("error: no-such-file: "), "{errors}");
}

#[test]
fn metrics_are_prometheus_text_with_every_documented_metric() {
    let running = Running::start(connected(&[]));
    let (head, body) = get(running.metrics, "/metrics");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let families = parse_prometheus(&body);
    let page = include_str!("../../../../docs/reference/metrics.md");
    let documented: Vec<_> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
        .collect();
    assert_eq!(documented.len(), families.len());
    for (name, rest) in documented {
        let family = families.get(name.trim_end_matches("_total"));
        let family = family.unwrap_or_else(|| panic!("{name} is not in\n{body}"));
        assert!(
            rest.starts_with(&format!("{} | ", family.kind)),
            "{name}: {rest}"
        );
        assert!(
            rest.ends_with(&format!(" | {} |", family.help)),
            "{name}: {rest}"
        );
    }
    // What the design names, whatever the page says.
    for name in [
        "objects_scanned",
        "objects_written",
        "files_deleted",
        "commits",
        "commit_bytes",
        "commit_batches",
        "rebase_retries",
        "push_retries",
        "repo_branch_active_workers",
        "repo_branch_queue_depth",
        "discovery_errors",
        "events_processed",
    ] {
        assert!(
            families.contains_key(&*format!("gitopsreverser_{name}")),
            "{name}"
        );
    }
}

struct Family<'a> {
    kind: &'a str,
    help: &'a str,
}

/// Reads the text format strictly: what is no comment is a series of the family that was last
/// described, with a name that its type allows, and a number.
fn parse_prometheus(text: &str) -> BTreeMap<&str, Family<'_>> {
    let text = text.strip_suffix("# EOF\n").expect("it ends with its mark");
    let mut families = BTreeMap::new();
    let (mut family, mut help) = ("", "");
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            (family, help) = rest.split_once(' ').expect(line);
            assert!(!help.is_empty(), "{line}");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert_eq!(name, family);
            let before = families.insert(name, Family { kind, help });
            assert!(before.is_none(), "{name} is described twice");
        } else if let Some(rest) = line.strip_prefix("# UNIT ") {
            let (name, unit) = rest.split_once(' ').expect(line);
            assert!(
                name == family && name.ends_with(&format!("_{unit}")),
                "{line}"
            );
        } else {
            let (series, value) = line.rsplit_once(' ').expect(line);
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            let name = series.split('{').next().unwrap();
            let suffixes: &[&str] = match families[family].kind {
                "counter" => &["_total"],
                "gauge" => &[""],
                "histogram" => &["_bucket", "_sum", "_count"],
                other => panic!("{family} is a {other}"),
            };
            let suffix = name.strip_prefix(family).expect(line);
            assert!(suffixes.contains(&suffix), "{line}");
        }
    }
    families
}

#[test]
fn it_is_ready_and_ends_at_once_when_it_is_told_to() {
    for signal in ["TERM", "INT"] {
        let mut running = Running::start(connected(&[]));
        assert!(
            get(running.probes, "/healthz")
                .0
                .starts_with("HTTP/1.1 200")
        );
        await_ready(running.probes);
        running.signal(signal);
        assert_eq!(running.wait().code(), Some(0));
    }
}

#[test]
fn an_open_connection_does_not_keep_it_from_ending() {
    let mut running = Running::start(connected(&[]));
    let mut idle = TcpStream::connect(running.metrics).unwrap();
    idle.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    assert!(
        get(running.metrics, "/metrics")
            .0
            .starts_with("HTTP/1.1 200")
    );
    running.signal("TERM");
    assert_eq!(running.wait().code(), Some(0));
}

#[test]
fn text_logs_are_for_people_and_levels_say_how_much() {
    for (level, says) in [("info", "started instance_id="), ("error", "")] {
        let port = Port::reserve().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], port.number()));
        let mut command = connected(&["--log-format=text", "--metrics-bind-address=0"]);
        command
            .arg(format!("--log-level={level}"))
            .arg(format!("--health-probe-bind-address={address}"))
            .stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        await_ready(address);
        let pid = child.id().to_string();
        assert!(Command::new("kill").arg(&pid).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        let log = String::from_utf8(output.stderr).unwrap();
        assert!(
            log.contains(says) && log.is_empty() == says.is_empty(),
            "{log}"
        );
    }
}

#[test]
fn signals_ask_for_more_of_the_log_and_for_as_much_as_before() {
    let scratch = Scratch::create("log-level").unwrap();
    let command = connected(&[
        "--discovery-refresh=10s",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
    ]);
    let program = Path::new(command.get_program());
    let mut process = Process::new(&scratch, "controller", program, command.get_args());
    for (name, value) in command.get_envs() {
        process = process.env(name, value.unwrap());
    }
    process.start().unwrap();
    let pid = process.pid().unwrap().to_string();
    let tell = |signal: &str| {
        let kill = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(kill.unwrap().success());
    };
    let lines = || -> Vec<serde_json::Value> {
        let log = std::fs::read_to_string(process.log()).unwrap();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        lines.collect()
    };
    let await_line = |what: &str, wanted: &dyn Fn(&serde_json::Value) -> bool| {
        let look = || {
            let lines = lines();
            lines.iter().position(wanted).ok_or(format!("{lines:#?}"))
        };
        wait::until_blocking(what, SOON, look).unwrap_or_else(|error| panic!("{error}"))
    };
    let changed_to = |level: &'static str| {
        move |line: &serde_json::Value| {
            let filter = line["filter"].as_str().unwrap_or_default();
            line["message"] == "log level changed" && filter.contains(level)
        }
    };
    await_line("it started", &|line| line["message"] == "started");
    let is_more = |line: &serde_json::Value| line["level"] == "DEBUG";
    assert!(!lines().iter().any(is_more));
    tell("USR1");
    await_line("more is logged", &changed_to("debug"));
    await_line("a line of it", &is_more);
    tell("USR2");
    let since = await_line("less is logged", &changed_to("info"));
    tell("TERM");
    let ended = || process.ended().unwrap().ok_or("it runs");
    let status = wait::until_blocking("it ends", PROMPT, ended).unwrap();
    assert_eq!(status.code(), Some(0));
    let after = lines().split_off(since);
    assert!(!after.iter().any(is_more), "{after:#?}");
}
