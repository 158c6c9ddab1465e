//! The flags of an operator that is installed, as its Deployment has them.

use clap::Parser as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Container;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::command_line::{Command, CommandLine};
use crate::settings::{Settings, environment_variable};

/// The labels of the operator's Deployment.
const LABELS: &str = "app.kubernetes.io/name=gitops-reverser";

/// What the operator of a namespace is told, or why that is not known.
pub async fn installed(client: Client, namespace: &str) -> Result<Settings, String> {
    let api: Api<Deployment> = Api::namespaced(client, namespace);
    let listed = api.list(&ListParams::default().labels(LABELS)).await;
    let listed = listed.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        error => error.to_string(),
    })?;
    match &listed.items[..] {
        [one] => told(one),
        [] => Err(format!("namespace {namespace} has no Deployment of it")),
        _ => Err(format!(
            "namespace {namespace} has several Deployments of it"
        )),
    }
}

fn told(deployment: &Deployment) -> Result<Settings, String> {
    let spec = deployment.spec.as_ref();
    let pod = spec.and_then(|spec| spec.template.spec.as_ref());
    let container = pod.and_then(|pod| pod.containers.first());
    let line = container.map(line).unwrap_or_default();
    let not_understood =
        || "its Deployment has arguments that this version does not know".to_owned();
    let parsed = CommandLine::try_parse_from(line).map_err(|_| not_understood())?;
    match parsed.command {
        Command::Controller(arguments) => {
            Settings::from_arguments(*arguments).map_err(|error| error.to_string())
        }
        _ => Err(not_understood()),
    }
}

/// The command line of a container, with what its environment adds.
fn line(container: &Container) -> Vec<String> {
    let arguments = container.args.clone().unwrap_or_default();
    let flags: Vec<&str> = arguments
        .iter()
        .filter_map(|argument| argument.split('=').next())
        .collect();
    let mut line = vec!["gitops-reverser".to_owned()];
    line.extend(arguments.first().cloned());
    for variable in container.env.iter().flatten() {
        let flag = variable.name.strip_prefix(&environment_variable(""));
        let flag = flag.map(|name| format!("--{}", name.to_lowercase().replace('_', "-")));
        if let (Some(flag), Some(value)) = (flag, &variable.value)
            && !flags.contains(&&*flag)
        {
            line.push(format!("{flag}={value}"));
        }
    }
    line.extend(arguments.iter().skip(1).cloned());
    line
}

#[cfg(test)]
mod tests {
    use reverser_api::git_destination::SecretsMode;
    use serde_json::json;

    use super::*;

    fn of(arguments: &[&str], environment: &[(&str, &str)]) -> Result<Settings, String> {
        let environment: Vec<_> = environment
            .iter()
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect();
        let container = json!({"name": "controller", "args": arguments, "env": environment});
        let deployment = json!({"spec": {
            "selector": {}, "template": {"spec": {"containers": [container]}},
        }});
        told(&serde_json::from_value(deployment).unwrap())
    }

    #[test]
    fn arguments_count_more_than_the_environment_and_that_more_than_defaults() {
        let mode = |arguments: &[&str], environment: &[(&str, &str)]| {
            of(arguments, environment).unwrap().destination.secrets_mode
        };
        let skip = [("GITOPS_REVERSER_SECRETS_MODE", "Skip"), ("POD_NAME", "x")];
        assert_eq!(mode(&["controller"], &[]), SecretsMode::AsIs);
        assert_eq!(mode(&["controller"], &skip), SecretsMode::Skip);
        let redact = ["controller", "--secrets-mode=Redact"];
        assert_eq!(mode(&redact, &skip), SecretsMode::Redact);
    }

    #[test]
    fn what_another_version_was_told_is_not_guessed() {
        assert!(of(&["controller", "--of-next-year=1"], &[]).is_err());
        assert!(of(&["crds"], &[]).is_err());
        assert!(of(&[], &[]).is_err());
    }
}
