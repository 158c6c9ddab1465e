use std::net::Ipv6Addr;

use clap::Parser as _;

use super::*;

use crate::command_line::{Command, CommandLine};

fn read(flags: &[&str]) -> Result<Settings, SettingsError> {
    let words = ["gitops-reverser", "controller"].iter().chain(flags);
    match CommandLine::try_parse_from(words).unwrap().command {
        Command::Controller(arguments) => Settings::from_arguments(*arguments),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn settings(flags: &[&str]) -> Settings {
    read(flags).unwrap()
}

#[test]
fn without_flags_everything_is_as_documented() {
    let defaults = Settings {
        enable_watch_ingestion: true,
        kubeconfig: None,
        instance_id: "gitops-reverser".into(),
        owner_cluster_role: None,
        discovery: DiscoverySettings {
            refresh: Duration::from_mins(5),
            watch_all: false,
            exclude: BTreeSet::new(),
            default_exclusions: true,
            max_types: 300,
            max_concurrent_lists: 50,
            noise: NoiseFilter::without([]).unwrap(),
        },
        ownership: OwnershipSettings {
            leader_elect: true,
            leases: LeaseSettings {
                renew: Duration::from_secs(8),
                length: Duration::from_secs(24),
            },
            leases_namespace: None,
            take_over_after: Some(Duration::from_hours(168)),
        },
        work: WorkSettings {
            workers_max_global: 24,
            workers_max_per_repo: 5,
            folder: "/var/cache/gitops-reverser".into(),
        },
        batch: BatchSettings {
            max_files: 200,
            max_bytes: 1_048_576,
            max_wait: Duration::from_secs(20),
            quiet: Duration::from_millis(300),
            poll: Duration::from_mins(1),
        },
        destination: DestinationSettings {
            deletes_cap: DeletesCap::None,
            allowed_schemes: vec![Scheme::Https, Scheme::Ssh],
            allowed_repo_urls: AllowedRepoUrls::default(),
            secrets_mode: SecretsMode::AsIs,
        },
        committer: Person::new("GitOps Reverser", "noreply@configbutler.ai").unwrap(),
        attribution: AttributionSettings {
            grace: Duration::from_millis(250),
            ttl: Duration::from_mins(1),
            max_entries: 10_000,
            author_map: None,
            store: None,
        },
        webhook: WebhookSettings {
            address: Some((Ipv6Addr::UNSPECIFIED, 9443).into()),
            url: None,
            service_name: "gitops-reverser-webhook".into(),
            service_namespace: None,
            configuration_name: "gitops-reverser".into(),
            certificates: CertificateSource::Own {
                secret: "gitops-reverser-webhook-certificate".into(),
            },
            client_authority: None,
        },
        telemetry: TelemetrySettings {
            metrics_address: Some((Ipv6Addr::UNSPECIFIED, 8080).into()),
            probe_address: Some((Ipv6Addr::UNSPECIFIED, 8081).into()),
            log_format: LogFormat::Json,
            log_filter: LogFilter::parse("info").unwrap(),
            collector: None,
        },
    };
    assert_eq!(settings(&[]), defaults);
}

#[test]
fn a_default_that_is_written_out_changes_nothing() {
    use clap::CommandFactory as _;
    let defaults = settings(&[]);
    let command = CommandLine::command();
    let controller = command.find_subcommand("controller").unwrap();
    for flag in controller.get_arguments() {
        for default in flag.get_default_values() {
            let name = flag.get_long().unwrap();
            let written = format!("--{name}={}", default.to_str().unwrap());
            assert_eq!(settings(&[&written]), defaults, "{written}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "two lines for each flag")]
fn every_flag_is_read() {
    let changed = settings(&[
        "--enable-watch-ingestion=false",
        "--kubeconfig=/etc/kubeconfig",
        "--instance-id=prod.eu",
        "--owner-cluster-role=system:hook",
        "--discovery-refresh=1h30m",
        "--watch-all",
        "--discovery-exclude=widgets, gadgets.example.com,",
        "--discovery-exclude=pods",
        "--discovery-no-default-exclusions",
        "--discovery-max-types=10",
        "--watch-max-concurrent-lists=1",
        "--disable-noise-rule=helm-releases,ignore-label",
        "--leader-elect=false",
        "--leases-renew-sec=1",
        "--leases-lease-sec=3",
        "--leases-namespace=shared",
        "--leases-take-over-after=never",
        "--workers-max-global=3",
        "--workers-max-per-repo=4",
        "--work-dir=/tmp/clones",
        "--git-batch-max-files=2",
        "--git-batch-max-bytes-mib=3",
        "--git-batch-max-wait-sec=4",
        "--git-batch-quiet-ms=0",
        "--git-poll-sec=7",
        "--deletes-cap-per-cycle=0",
        "--allow-url-schemes=https,http,https",
        "--allowed-repo-urls=https://git.example.com/**",
        "--secrets-mode=Skip",
        "--committer-name=Bot",
        "--committer-email=bot@example.com",
        "--attribution-grace-ms=0",
        "--attribution-ttl-sec=5",
        "--attribution-max-entries=6",
        "--attribution-store=rediss://redis:7000/1",
        "--attribution-store-credentials-dir=/redis",
        "--author-map-configmap=ops/authors",
        "--webhook-bind-address=0",
        "--webhook-url=https://h:1/a",
        "--webhook-service-name=hook",
        "--webhook-service-namespace=there",
        "--webhook-configuration-name=my.hook",
        "--webhook-certificate-secret=unused",
        "--webhook-cert-dir=/certs",
        "--webhook-inject-ca-from=there/cert",
        "--webhook-client-ca=/ca.crt",
        "--metrics-bind-address=127.0.0.1:1",
        "--health-probe-bind-address=0",
        "--log-format=text",
        "--log-level=debug,kube=warn",
        "--otlp-endpoint=http://collector:4318",
    ]);
    let excluded = ["widgets", "gadgets.example.com", "pods"];
    let schemes = [Scheme::Https, Scheme::Http];
    let expected = Settings {
        enable_watch_ingestion: false,
        kubeconfig: Some("/etc/kubeconfig".into()),
        instance_id: "prod.eu".into(),
        owner_cluster_role: Some("system:hook".into()),
        discovery: DiscoverySettings {
            refresh: Duration::from_mins(90),
            watch_all: true,
            exclude: excluded.map(|t| ExcludedType::parse(t).unwrap()).into(),
            default_exclusions: false,
            max_types: 10,
            max_concurrent_lists: 1,
            noise: NoiseFilter::without(["helm-releases", "ignore-label"]).unwrap(),
        },
        ownership: OwnershipSettings {
            leader_elect: false,
            leases: LeaseSettings {
                renew: Duration::from_secs(1),
                length: Duration::from_secs(3),
            },
            leases_namespace: Some("shared".into()),
            take_over_after: None,
        },
        work: WorkSettings {
            workers_max_global: 3,
            workers_max_per_repo: 4,
            folder: "/tmp/clones".into(),
        },
        batch: BatchSettings {
            max_files: 2,
            max_bytes: 3 << 20,
            max_wait: Duration::from_secs(4),
            quiet: Duration::ZERO,
            poll: Duration::from_secs(7),
        },
        destination: DestinationSettings {
            deletes_cap: DeletesCap::AtMost(0),
            allowed_schemes: schemes.into(),
            allowed_repo_urls: AllowedRepoUrls::parse(["https://git.example.com/**"], &schemes)
                .unwrap(),
            secrets_mode: SecretsMode::Skip,
        },
        committer: Person::new("Bot", "bot@example.com").unwrap(),
        attribution: AttributionSettings {
            grace: Duration::ZERO,
            ttl: Duration::from_secs(5),
            max_entries: 6,
            author_map: Some(AuthorMapName {
                namespace: "ops".into(),
                name: "authors".into(),
            }),
            store: StoreAddress::parse("rediss://redis:7000/1", Some("/redis".into())).ok(),
        },
        webhook: WebhookSettings {
            address: None,
            url: Some("https://h:1/a".into()),
            service_name: "hook".into(),
            service_namespace: Some("there".into()),
            configuration_name: "my.hook".into(),
            certificates: CertificateSource::Folder {
                folder: "/certs".into(),
                inject_from: Some("there/cert".into()),
            },
            client_authority: Some("/ca.crt".into()),
        },
        telemetry: TelemetrySettings {
            metrics_address: Some(([127, 0, 0, 1], 1).into()),
            probe_address: None,
            log_format: LogFormat::Text,
            log_filter: LogFilter::parse("debug,kube=warn").unwrap(),
            collector: Some("http://collector:4318/v1/traces".into()),
        },
    };
    assert_eq!(changed, expected);
}

/// Flag, value, and what the refusal says beside the flag.
const REFUSALS: &[(&str, &str, &str)] = &[
    (
        "enable-watch-ingestion",
        "yes",
        r#""yes" is neither true nor false; write one of them"#,
    ),
    ("watch-all", "TRUE", "neither true nor false"),
    (
        "discovery-no-default-exclusions",
        "1",
        "neither true nor false",
    ),
    (
        "kubeconfig",
        "",
        "the path is empty; write that of a kubeconfig file",
    ),
    ("instance-id", "", "is not a name of at most 63 letters"),
    ("instance-id", "a b", r#""a b" is not a name"#),
    (
        "instance-id",
        "-a",
        "begins and ends with a letter or digit; write one, such as prod-eu",
    ),
    (
        "discovery-refresh",
        "5",
        r#""5" is not a duration; write whole numbers with h, m, s or ms"#,
    ),
    ("discovery-refresh", "soon", "is not a duration"),
    ("discovery-refresh", "-5m", "is not a duration"),
    (
        "discovery-refresh",
        "1s",
        "is shorter than 10s or longer than 24h; write a duration between",
    ),
    (
        "discovery-refresh",
        "25h",
        "is shorter than 10s or longer than 24h",
    ),
    (
        "discovery-exclude",
        "Pods",
        r#""Pods" is not a type; write its plural in lower case"#,
    ),
    ("discovery-exclude", "pods,*", r#""*" is not a type"#),
    (
        "discovery-max-types",
        "0",
        r#""0" is not a whole number from 1 to 5000; write one, such as 300"#,
    ),
    (
        "watch-max-concurrent-lists",
        "1001",
        "from 1 to 1000; write one, such as 50",
    ),
    (
        "disable-noise-rule",
        "pods",
        r#"there is no noise rule "pods": write one of ignore-label, "#,
    ),
    (
        "workers-max-global",
        "many",
        r#""many" is not a whole number from 1 to 1000"#,
    ),
    (
        "workers-max-per-repo",
        "-1",
        r#""-1" is not a whole number from 1 to 1000"#,
    ),
    (
        "work-dir",
        "clones",
        r#""clones" is not the absolute path of a folder of its own"#,
    ),
    (
        "work-dir",
        "/",
        r#""/" is not the absolute path of a folder of its own"#,
    ),
    (
        "work-dir",
        "/var/../etc",
        "write one, such as /var/cache/gitops-reverser",
    ),
    ("work-dir", "", "is not the absolute path"),
    (
        "git-batch-max-files",
        "+5",
        r#""+5" is not a whole number from 1 to 100000"#,
    ),
    (
        "git-batch-max-bytes-mib",
        "1.5",
        "is not a whole number from 1 to 1024",
    ),
    (
        "git-batch-max-wait-sec",
        "20s",
        "is not a whole number from 1 to 3600; write one, such as 20",
    ),
    (
        "leases-renew-sec",
        "0",
        "is not a whole number from 1 to 3600; write one, such as 8",
    ),
    (
        "leases-lease-sec",
        "15",
        "a Lease of 15s that is renewed every 8s would be lost with one renewal that fails; write \
         at least 16",
    ),
    (
        "leases-namespace",
        "Shared",
        "\"Shared\" is not the name of a namespace",
    ),
    (
        "leases-take-over-after",
        "1s",
        "\"1s\" is shorter than 24s or longer than 10000h",
    ),
    ("leader-elect", "maybe", "neither true nor false"),
    (
        "git-batch-quiet-ms",
        "99999999999999999999",
        "from 0 to 60000",
    ),
    (
        "git-batch-quiet-ms",
        "20001",
        "20001ms of quiet are longer than the longest wait of 20s",
    ),
    (
        "git-poll-sec",
        "",
        r#""" is not a whole number from 1 to 86400"#,
    ),
    (
        "deletes-cap-per-cycle",
        "all",
        r#""all" is neither a whole number nor none; write none"#,
    ),
    (
        "deletes-cap-per-cycle",
        "-1",
        r#""-1" is neither a whole number nor none"#,
    ),
    (
        "allow-url-schemes",
        "https,ftp",
        r#""ftp" is not a kind of repository URL; write some of https"#,
    ),
    (
        "allow-url-schemes",
        "git",
        r#""git" is not a kind of repository URL"#,
    ),
    (
        "allow-url-schemes",
        "",
        "no kind of repository URL is left; write at least one of https",
    ),
    (
        "allowed-repo-urls",
        "github.com/*",
        "is not a pattern of repository URLs; write for instance",
    ),
    (
        "allowed-repo-urls",
        "http://h/**",
        "`http` is not in --allow-url-schemes; add it there",
    ),
    (
        "allowed-repo-urls",
        "https://u:p@h/**",
        "a pattern holds a user or password; leave them out",
    ),
    (
        "secrets-mode",
        "asis",
        r#""asis" is not a way to write Secrets; write AsIs, Redact or Skip"#,
    ),
    ("secrets-mode", "Encrypt", "write AsIs, Redact or Skip"),
    (
        "committer-name",
        "",
        "cannot stand in a commit: it is empty; write a name such as",
    ),
    ("committer-name", "a<b", "angle bracket"),
    (
        "committer-email",
        "a@b>",
        "angle bracket; write a name such as GitOps Reverser, and an address",
    ),
    ("attribution-grace-ms", "10001", "from 0 to 10000"),
    ("attribution-ttl-sec", "0", "from 1 to 3600"),
    ("attribution-max-entries", "many", "from 1 to 1000000"),
    ("attribution-store", "disk", "neither memory nor the URL"),
    (
        "attribution-store",
        "redis://:hunter2@redis",
        "the URL holds a user or a password",
    ),
    (
        "attribution-store",
        "redis://redis:none",
        "a port that is none",
    ),
    (
        "attribution-store-credentials-dir",
        "secret",
        "not the absolute path of a folder",
    ),
    (
        "author-map-configmap",
        "authors",
        r#""authors" is not where a ConfigMap is; write its namespace and name"#,
    ),
    (
        "author-map-configmap",
        "ops/Authors",
        "is not where a ConfigMap is",
    ),
    (
        "webhook-bind-address",
        "9443",
        r#""9443" is not an address to listen on"#,
    ),
    (
        "webhook-url",
        "http://127.0.0.1:9443/process-validating-webhook",
        "is not a URL that an API server can call; write https, a host and a path",
    ),
    (
        "webhook-url",
        "https://127.0.0.1:9443",
        "such as https://127.0.0.1:9443/process-validating-webhook",
    ),
    (
        "webhook-url",
        "https://u:p@h/a",
        "is not a URL that an API server can call",
    ),
    (
        "webhook-service-name",
        "Hook",
        r#""Hook" is not the name of an object in Kubernetes; write lower-case"#,
    ),
    (
        "webhook-service-namespace",
        "a.b",
        r#""a.b" is not the name of an object"#,
    ),
    (
        "webhook-configuration-name",
        "",
        "is not the name of an object",
    ),
    (
        "webhook-certificate-secret",
        "a..b",
        "is not the name of an object",
    ),
    (
        "webhook-cert-dir",
        "certs",
        r#""certs" is not the absolute path of a folder"#,
    ),
    (
        "webhook-inject-ca-from",
        "webhook",
        "is not the namespace and name of a Certificate; write one, such as gitops/webhook",
    ),
    (
        "webhook-inject-ca-from",
        "gitops/webhook",
        "name the folder in --webhook-cert-dir too",
    ),
    (
        "webhook-client-ca",
        "ca.crt",
        r#""ca.crt" is not the absolute path of a file"#,
    ),
    (
        "owner-cluster-role",
        "a/b",
        r#""a/b" is not the name of a ClusterRole"#,
    ),
    (
        "metrics-bind-address",
        "8080",
        r#""8080" is not an address to listen on; write :8080 for every"#,
    ),
    (
        "metrics-bind-address",
        ":65536",
        "is not an address to listen on",
    ),
    (
        "metrics-bind-address",
        ":8081",
        "[::]:8081 is the address of --metrics-bind-address too",
    ),
    (
        "health-probe-bind-address",
        "localhost:8081",
        "127.0.0.1:8080 or [::1]:8080 for one",
    ),
    (
        "log-format",
        "yaml",
        r#""yaml" is not a form of log lines; write json or text"#,
    ),
    (
        "log-level",
        "verbose",
        r#""verbose" says not what to log; write error, warn, info, debug or trace"#,
    ),
    ("log-level", "info,kube", "such as info,kube_runtime=warn"),
    (
        "otlp-endpoint",
        "https://collector:4318",
        "is not the address of a collector that is reached over plain HTTP",
    ),
    (
        "otlp-endpoint",
        "collector:4318",
        "write one, such as http://collector.observability:4318",
    ),
    (
        "otlp-endpoint",
        "http://user:word@collector",
        "is not the address of a collector",
    ),
];

#[test]
fn every_bad_value_is_refused_with_the_flag_and_what_to_write() {
    for (flag, value, says) in REFUSALS {
        let refusal = read(&[&format!("--{flag}={value}")]).unwrap_err();
        let sentence = refusal.to_string();
        assert!(sentence.contains(says), "{sentence}");
        // The one that is named is the one to change; here two are equal.
        if !says.contains("is the address of") {
            let begins = format!("--{flag} (or {}): ", environment_variable(flag));
            assert!(sentence.starts_with(&begins), "{sentence}");
        }
    }
}

#[test]
fn no_flag_accepts_everything() {
    use clap::CommandFactory as _;
    let command = CommandLine::command();
    for flag in command
        .find_subcommand("controller")
        .unwrap()
        .get_arguments()
    {
        let name = flag.get_long().unwrap();
        let refused = REFUSALS.iter().any(|(refused, ..)| *refused == name);
        assert!(refused, "no value of --{name} is known to be refused");
    }
}

#[test]
fn spans_go_to_the_usual_path_of_a_collector_however_its_address_ends() {
    for (written, meant) in [
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("http://c:4318/v1/traces", "http://c:4318/v1/traces"),
        ("http://c/otlp", "http://c/otlp/v1/traces"),
    ] {
        let flag = format!("--otlp-endpoint={written}");
        let telemetry = settings(&[&flag]).telemetry;
        assert_eq!(telemetry.collector.as_deref(), Some(meant));
    }
}

#[test]
fn empty_lists_are_what_a_template_leaves_behind() {
    let lists = [
        "--discovery-exclude=",
        "--disable-noise-rule=",
        "--allowed-repo-urls=",
    ];
    assert_eq!(settings(&lists), settings(&[]));
}
