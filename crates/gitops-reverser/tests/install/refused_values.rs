//! Values that helm refuses, each with what is wrong and what to write.

use reverser_testkit::command;

use crate::chart::Helm;

/// What somebody might write, and what helm says about it.
const REFUSED: &[(&str, &str)] = &[
    ("replicas=3", "additional properties 'replicas' not allowed"),
    (
        "rbac.mode=some",
        "'/rbac/mode': value must be one of 'preset', 'all', 'custom'",
    ),
    (
        "rbac.mode=custom",
        "rbac.mode is custom: write the rules into rbac.customRules",
    ),
    (
        "rbac.customRules[0].verbs={create}",
        "'/rbac/customRules/0/verbs/0': value must be one of 'get', 'list', 'watch'",
    ),
    (
        "webhook.url=http://plain",
        "webhook.url: \"http://plain\" cannot be used; write a URL that begins with https://",
    ),
    (
        "webhook.certManager.enabled=true",
        "name an Issuer in webhook.certManager.issuerRef",
    ),
    (
        "controller.leaderElect=false",
        "set replicaCount to 1, because every pod would write",
    ),
    (
        "serviceAccount.create=false",
        "write the name of an existing ServiceAccount into serviceAccount.name",
    ),
    (
        "controller.workers.maxGlobal=0",
        "'/controller/workers/maxGlobal': minimum: got 0, want 1",
    ),
    (
        "controller.git.batch.maxFiles=many",
        "'/controller/git/batch/maxFiles': got string, want integer",
    ),
    (
        "controller.deletes.capPerCycle=-1",
        "'/controller/deletes/capPerCycle': minimum: got -1, want 0",
    ),
    (
        "controller.discovery.refresh=soon",
        "controller.discovery.refresh: \"soon\" cannot be used; write a time such as 5m",
    ),
    (
        "controller.secretsMode=Hide",
        "'/controller/secretsMode': value must be one of",
    ),
    (
        "controller.committer.email=nobody",
        "controller.committer.email: \"nobody\" cannot be used; write an address such as",
    ),
    (
        "controller.allowUrlSchemes={ftp}",
        "'/controller/allowUrlSchemes/0': value must be one of 'https', 'ssh', 'http', 'file'",
    ),
    (
        "controller.logLevel=loud",
        "controller.logLevel: \"loud\" cannot be used; write error, warn, info, debug or trace",
    ),
    (
        "controller.workDir=relative",
        "controller.workDir: \"relative\" cannot be used; write an absolute path",
    ),
    (
        "controller.discovery.maxTypes=9999",
        "'/controller/discovery/maxTypes': maximum: got 9,999, want 5,000",
    ),
    (
        "controller.discovery.disableNoiseRules={helm}",
        "'/controller/discovery/disableNoiseRules/0': value must be one of",
    ),
    (
        "controller.leases.renewSec=20",
        "controller.leases.leaseSec must be at least twice controller.leases.renewSec",
    ),
    (
        "controller.git.batch.quietMs=30000",
        "quietMs is longer than controller.git.batch.maxWaitSec",
    ),
    (
        "controller.otlpEndpoint=collector:4318",
        "controller.otlpEndpoint: \"collector:4318\" cannot be used; write a URL such as http://",
    ),
    (
        "image.digest=latest",
        "image.digest: \"latest\" cannot be used; write sha256: and 64 hexadecimal digits",
    ),
    (
        "controller.instanceId=-prod-",
        "controller.instanceId: \"-prod-\" cannot be used; write at most 63 letters",
    ),
    (
        "controller.leases.takeOverAfter=later",
        "controller.leases.takeOverAfter: \"later\" cannot be used; write a time such as 168h, or never",
    ),
    (
        "controller.attribution.store=redis://me:x@redis",
        "credentials in controller.attribution.storeSecret",
    ),
    (
        "metrics.enabled=false,metrics.serviceMonitor.enabled=true",
        "metrics.serviceMonitor.enabled needs metrics: set metrics.enabled to true",
    ),
    (
        "metrics.enabled=false,metrics.prometheusRule.enabled=true",
        "metrics.prometheusRule.enabled needs metrics: set metrics.enabled to true",
    ),
    (
        "metrics.port=70000",
        "'/metrics/port': maximum: got 70,000, want 65,535",
    ),
];

#[test]
fn values_that_cannot_be_used_are_refused_with_what_is_wrong() {
    let helm = Helm::new();
    for (value, said) in REFUSED {
        let refused = command::run_to_fail(&mut helm.template(&[value], &[])).stderr;
        assert!(refused.contains(said), "{value}: {refused}");
    }
}
