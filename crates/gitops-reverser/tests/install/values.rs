//! The values of the chart: each described, each of effect, each flag of the program among them.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::{CommandFactory as _, Parser as _};
use gitops_reverser::command_line::{Command, CommandLine};
use gitops_reverser::settings::{BadValue, Settings, SettingsError};
use reverser_core::noise::NOISE_RULES;
use reverser_testkit::command;
use serde_json::Value;

use crate::chart::Helm;
use crate::repository;

/// Flags that have no value, and why.
const NOT_IN_THE_CHART: &[(&str, &str)] = &[
    ("help", "a pod asks nobody for help"),
    ("kubeconfig", "a pod knows its cluster"),
    ("health-probe-bind-address", "the probes of the pod know it"),
    (
        "metrics-bind-address",
        "metrics.enabled decides, the Service knows the port",
    ),
];

/// A value, the words about it, and what it is unless told otherwise.
struct Described {
    path: String,
    words: String,
    default: Value,
}

fn described() -> Vec<Described> {
    let text = repository::read("charts/gitops-reverser/values.yaml");
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut words: Option<String> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        let content = line.trim_start();
        if let Some(begun) = content.strip_prefix("# -- ") {
            words = Some(begun.to_owned());
        } else if let Some(more) = content.strip_prefix("# ") {
            if let Some(words) = &mut words {
                let _infallible = write!(words, " {more}");
            }
        } else if let Some((key, _)) = content
            .split_once(':')
            .filter(|_| !content.starts_with('-'))
        {
            let indent = line.len() - content.len();
            above.retain(|(other, _)| *other < indent);
            above.push((indent, key.to_owned()));
            let path: Vec<&str> = above.iter().map(|(_, key)| key.as_str()).collect();
            if let Some(words) = words.take() {
                let default = values.pointer(&format!("/{}", path.join("/"))).unwrap();
                found.push(Described {
                    path: path.join("."),
                    words,
                    default: default.clone(),
                });
            }
        }
    }
    found
}

/// The values that have no further ones below them, or only such as the user names.
fn leaves(above: &str, values: &Value, described: &BTreeSet<String>) -> Vec<String> {
    let Value::Object(map) = values else {
        return vec![above.to_owned()];
    };
    if described.contains(above) {
        return vec![above.to_owned()];
    }
    let below = map.iter().flat_map(|(key, value)| {
        let path = if above.is_empty() {
            key.clone()
        } else {
            format!("{above}.{key}")
        };
        leaves(&path, value, described)
    });
    below.collect()
}

#[test]
fn every_value_is_described_in_the_table_of_the_chart() {
    let described = described();
    let text = repository::read("charts/gitops-reverser/values.yaml");
    let values: Value = serde_saphyr::from_str(&text).unwrap();
    let paths: BTreeSet<String> = described.iter().map(|one| one.path.clone()).collect();
    let leaves: BTreeSet<String> = leaves("", &values, &paths).into_iter().collect();
    let silent: Vec<_> = leaves.difference(&paths).collect();
    assert!(
        silent.is_empty(),
        "values without a comment that begins with `# -- `: {silent:?}"
    );

    let mut page = repository::read("charts/gitops-reverser/README.md");
    let (before, _) = page.split_once("<!-- values -->\n").unwrap();
    page = format!(
        "{before}<!-- values -->\n<!-- Written from values.yaml: `make docs` writes it again. -->\n\n\
         | value | default | meaning |\n|---|---|---|\n"
    );
    for one in described {
        let default = one.default.to_string().replace('|', "\\|");
        let words = one.words.replace('|', "\\|");
        let _infallible = writeln!(page, "| `{}` | `{default}` | {words} |", one.path);
    }
    repository::assert_current("charts/gitops-reverser/README.md", &page);
}

#[test]
fn the_schema_knows_every_value_and_no_other() {
    fn compare(path: &str, values: &Value, schema: &Value) {
        let Some(known) = schema["properties"].as_object() else {
            return;
        };
        if schema["additionalProperties"] != false {
            return;
        }
        let values = values.as_object().unwrap();
        let keys: BTreeSet<_> = values.keys().collect();
        let known_keys: BTreeSet<_> = known.keys().filter(|key| *key != "global").collect();
        assert_eq!(keys, known_keys, "{path}");
        for (key, value) in values {
            compare(&format!("{path}.{key}"), value, &known[key]);
        }
    }
    let values = repository::read("charts/gitops-reverser/values.yaml");
    let schema = repository::read("charts/gitops-reverser/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    compare("values", &serde_saphyr::from_str(&values).unwrap(), &schema);
}

fn arguments(helm: &Helm, values: &[&str]) -> Vec<String> {
    let objects = helm.render(values);
    let deployment = repository::one(&objects, "Deployment/gitops-reverser");
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array().unwrap().iter();
    arguments
        .map(|one| one.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn every_flag_has_a_value_and_the_program_takes_what_the_chart_says() {
    let helm = Helm::new();
    let mut rendered = arguments(
        &helm,
        &[
            "webhook.url=https://127.0.0.1/process-validating-webhook",
            "webhook.clientCaConfigMap=api-server",
            "controller.discovery.exclusions={widgets.example.com}",
            "controller.discovery.disableNoiseRules={helm-releases}",
            "controller.allowedRepoUrls={https://git.example.com/**}",
            "controller.leases.namespace=shared",
            "controller.attribution.authorMap=people",
            "controller.attribution.storeSecret=redis",
            "controller.otlpEndpoint=http://collector:4318",
        ],
    );
    // Certificates are made by the operator or by somebody else.
    let by_cert_manager = [
        "webhook.certManager.enabled=true",
        "webhook.certManager.issuerRef.name=internal",
    ];
    rendered.extend(arguments(&helm, &by_cert_manager));
    let given: BTreeSet<String> = rendered
        .iter()
        .filter_map(|argument| Some(argument.strip_prefix("--")?.split_once('=')?.0.to_owned()))
        .collect();
    let program = CommandLine::command();
    let controller = program.find_subcommand("controller").unwrap();
    let excused: Vec<&str> = NOT_IN_THE_CHART.iter().map(|(flag, _)| *flag).collect();
    let flags: BTreeSet<String> = controller
        .get_arguments()
        .filter_map(|argument| Some(argument.get_long()?.to_owned()))
        .collect();
    let without_value: Vec<_> = flags
        .difference(&given)
        .filter(|flag| !excused.contains(&flag.as_str()))
        .collect();
    assert!(
        without_value.is_empty(),
        "flags without a value in the chart: {without_value:?}"
    );
    let unknown: Vec<_> = given.difference(&flags).collect();
    assert!(
        unknown.is_empty(),
        "the program has no such flags: {unknown:?}"
    );

    for values in [
        &[][..],
        &["rbac.secrets=false", "metrics.enabled=false"][..],
    ] {
        read(arguments(&helm, values)).unwrap();
    }
}

#[test]
fn an_argument_that_is_added_counts_more_than_that_of_the_chart() {
    let helm = Helm::new();
    let mut values = vec![
        "controller.allowedRepoUrls={https://git.example.com/**}".to_owned(),
        "controller.discovery.exclusions={widgets.example.com}".to_owned(),
    ];
    let usual: Vec<&str> = values.iter().map(String::as_str).collect();
    let usual = arguments(&helm, &usual);
    // Everything a second time, and some of it otherwise.
    for (number, argument) in usual.iter().skip(1).enumerate() {
        let argument = match argument.split('=').next().unwrap() {
            "--log-level" => "--log-level=debug",
            "--workers-max-global" => "--workers-max-global=7",
            "--watch-all" => "--watch-all",
            "--discovery-exclude" => "--discovery-exclude=gadgets.example.com",
            _ => argument,
        };
        let argument = argument.replace(',', "\\,");
        values.push(format!("controller.extraArgs[{number}]={argument}"));
    }
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    let settings = read(arguments(&helm, &values)).unwrap();
    assert_eq!(settings.work.workers_max_global, 7);
    assert!(settings.discovery.watch_all);
    assert_eq!(settings.discovery.exclude.len(), 2);
    let debug = read(vec![
        "controller".to_owned(),
        "--log-level=debug".to_owned(),
    ]);
    assert_eq!(
        settings.telemetry.log_filter,
        debug.unwrap().telemetry.log_filter
    );
}

#[test]
fn defaults_of_the_chart_are_those_of_the_program() {
    let rendered = arguments(&Helm::new(), &[]);
    let program = CommandLine::command();
    let controller = program.find_subcommand("controller").unwrap();
    for argument in controller.get_arguments() {
        let Some(flag) = argument.get_long() else {
            continue;
        };
        let [default] = argument.get_default_values() else {
            continue;
        };
        let default = format!("--{flag}={}", default.to_string_lossy());
        assert!(
            rendered.contains(&default),
            "{default} is not among {rendered:#?}"
        );
    }
}

#[test]
fn every_value_of_the_controller_has_an_effect() {
    let helm = Helm::new();
    let before = helm.render(&[]);
    for one in described() {
        let path = &one.path;
        if !path.starts_with("controller.") {
            continue;
        }
        let value = match &one.default {
            // Refused with two pods, which has an effect too.
            Value::Bool(_) if path.ends_with("leaderElect") => continue,
            Value::Bool(on) => format!("{path}={}", !on),
            Value::Number(number) => format!("{path}={}", number.as_u64().unwrap() + 1),
            Value::Array(_) if path.ends_with("extraEnv") => format!("{path}[0].name=A"),
            Value::Array(_) if path.ends_with("extraArgs") => format!("{path}={{--watch-all}}"),
            Value::Array(_) if path.ends_with("Schemes") => format!("{path}={{ssh}}"),
            Value::Array(_) if path.ends_with("NoiseRules") => format!("{path}={{helm-releases}}"),
            Value::Array(_) => format!("{path}={{other}}"),
            _ => {
                let other = match path.rsplit('.').next().unwrap() {
                    "refresh" => "7m",
                    "takeOverAfter" => "never",
                    "store" => "redis://redis",
                    "otlpEndpoint" => "http://collector:4318",
                    "capPerCycle" => "7",
                    "secretsMode" => "Skip",
                    "email" => "else@example.com",
                    "workDir" => "/work",
                    "logFormat" => "text",
                    "logLevel" => "debug",
                    _ => "other",
                };
                format!("{path}={other}")
            }
        };
        assert!(helm.render(&[&value]) != before, "{value} changes nothing");
    }
}

#[test]
fn values_that_people_have_written_down_keep_their_names() {
    let values = repository::read("charts/gitops-reverser/values.yaml");
    let values: Value = serde_saphyr::from_str(&values).unwrap();
    for name in [
        "enableWatchIngestion",
        "discovery.refresh",
        "discovery.watchAll",
        "discovery.exclusions",
        "discovery.maxTypes",
        "workers.maxGlobal",
        "workers.maxPerRepo",
        "git.batch.maxFiles",
        "git.batch.maxBytesMiB",
        "git.batch.maxWaitSec",
        "git.batch.quietMs",
        "deletes.capPerCycle",
        "leases.renewSec",
        "leases.leaseSec",
        "workDir",
        "committer.name",
        "committer.email",
    ] {
        let pointer = format!("/controller/{}", name.replace('.', "/"));
        assert!(values.pointer(&pointer).is_some(), "controller.{name}");
    }
}

/// Reads arguments as the program does.
fn read(arguments: Vec<String>) -> Result<Settings, SettingsError> {
    let line = std::iter::once("gitops-reverser".to_owned()).chain(arguments);
    let parsed = CommandLine::try_parse_from(line).unwrap();
    let Command::Controller(parsed) = parsed.command else {
        panic!("not the controller");
    };
    Settings::from_arguments(*parsed)
}

#[test]
fn helm_refuses_the_numbers_and_names_that_the_program_would_refuse() {
    let schema = repository::read("charts/gitops-reverser/values.schema.json");
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let of = |path: &str| {
        let words = path.split('.');
        words.fold(&schema, |schema, word| &schema["properties"][word])
    };
    // The flag with another value than the chart's own is the value's.
    let usual = arguments(&Helm::new(), &[]);
    let mut numbers = 0;
    for one in described() {
        let (path, Value::Number(default)) = (&one.path, &one.default) else {
            continue;
        };
        if !path.starts_with("controller.") {
            continue;
        }
        numbers += 1;
        let (lowest, highest) = (&of(path)["minimum"], &of(path)["maximum"]);
        let (lowest, highest) = (lowest.as_i64().unwrap(), highest.as_i64().unwrap());
        let mut other = default.as_i64().unwrap() + 1;
        if path.ends_with("renewSec") {
            // Twice as much has to fit into a Lease.
            other = default.as_i64().unwrap() - 1;
        }
        let changed = arguments(&Helm::new(), &[&format!("{path}={other}")]);
        let at = (0..usual.len())
            .find(|at| usual[*at] != changed[*at])
            .unwrap();
        let (flag, _) = usual[at].split_once('=').unwrap();
        let told = |number: i64| {
            let mut line = usual.clone();
            line[at] = format!("{flag}={number}");
            read(line).err().map(|refusal| refusal.problem)
        };
        let is_range = |problem: &Option<BadValue>| matches!(problem, Some(BadValue::Count { .. }));
        for good in [lowest, highest] {
            assert!(!is_range(&told(good)), "{flag} refuses {good}");
        }
        for bad in [lowest - 1, highest + 1] {
            assert!(is_range(&told(bad)), "{flag} takes {bad}");
        }
    }
    assert!(numbers > 10, "{numbers}");
    let rules = &of("controller.discovery.disableNoiseRules")["items"]["enum"];
    let rules: Vec<&str> = rules
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one.as_str().unwrap())
        .collect();
    let known: Vec<&str> = NOISE_RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(
        rules.iter().collect::<BTreeSet<_>>(),
        known.iter().collect::<BTreeSet<_>>()
    );
}

#[test]
fn the_version_is_in_one_place() {
    let version = env!("CARGO_PKG_VERSION");
    let chart: Value =
        serde_saphyr::from_str(&repository::read("charts/gitops-reverser/Chart.yaml")).unwrap();
    assert_eq!(chart["version"], version);
    assert_eq!(chart["appVersion"], version);
    let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
    let told = command::run(std::process::Command::new(program).arg("--version")).stdout;
    assert_eq!(told, format!("gitops-reverser {version}\n"));
    let script = repository::path("hack/version.sh");
    let printed = command::run(&mut std::process::Command::new(script)).stdout;
    assert_eq!(printed.trim(), version);
    let changes = repository::read("CHANGELOG.md");
    assert!(changes.contains("## Unreleased") || changes.contains(&format!("## {version}")));
}
