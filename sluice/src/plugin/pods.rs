//! Selection of the gateway's Pod.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::arguments::GatewaySelection;
use super::kubectl::Kubectl;

/// The labels of a gateway's Pods in the chart.
const LABELS: &str = "app.kubernetes.io/name=sluice,app.kubernetes.io/component=controller";

/// A Pod of a gateway.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct GatewayPod {
    pub(super) namespace: String,
    pub(super) name: String,
    ready: bool,
    arguments: Vec<String>,
}

impl GatewayPod {
    fn of(pod: &Value, container: Option<&str>) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let mut containers = containers.filter(|one| container.is_none_or(|name| one["name"] == *name));
        let arguments = containers.next().map(|one| {
            let words =
                |field: &str| one[field].as_array().into_iter().flatten().map(text).collect::<Vec<_>>();
            match words("args") {
                arguments if arguments.is_empty() => words("command"),
                arguments => arguments,
            }
        });
        let ready = pod["status"]["conditions"].as_array().into_iter().flatten();
        let ready = ready.clone().any(|one| one["type"] == "Ready" && one["status"] == "True");
        Self {
            namespace: text(&pod["metadata"]["namespace"]),
            name: text(&pod["metadata"]["name"]),
            ready,
            arguments: arguments.unwrap_or_default(),
        }
    }

    /// Returns the port of its admin listener: that of its own flag, or another one.
    pub(super) fn admin_port(&self, otherwise: u16) -> u16 {
        let mut flags = self.flags();
        let mut given = None;
        while let Some(flag) = flags.next() {
            match flag.strip_prefix("--admin-address") {
                Some("") => given = flags.next(),
                Some(value) => given = value.strip_prefix('=').map(str::to_owned),
                None => {}
            }
        }
        let given = given.and_then(|address| address.parse::<SocketAddr>().ok());
        given.map_or(otherwise, |address| address.port())
    }

    /// Returns the flags of its command line.
    pub(super) fn flags(&self) -> impl Iterator<Item = String> {
        // The words before the flags are the program, or a launcher.
        let flags = self.arguments.iter().skip_while(|word| !(word.starts_with("--") && word.len() > 2));
        flags.map(|word| word.replace("$(POD_NAMESPACE)", &self.namespace).replace("$(POD_NAME)", &self.name))
    }
}

/// Returns the Pod that `target` selects, preferably a ready one.
///
/// # Errors
/// There is none, or there are Pods in several namespaces.
pub(super) fn find(kubectl: &Kubectl, target: &GatewaySelection) -> Result<GatewayPod> {
    Ok(all(kubectl, target)?.swap_remove(0))
}

/// Returns all Pods that `target` selects, at least one, ready ones first.
///
/// # Errors
/// There is none, or there are Pods in several namespaces.
pub(super) fn all(kubectl: &Kubectl, target: &GatewaySelection) -> Result<Vec<GatewayPod>> {
    let container = target.container.as_deref();
    let namespace = |namespace: &Option<String>| match namespace {
        Some(name) => vec!["--namespace".to_owned(), name.clone()],
        None => vec!["--all-namespaces".to_owned()],
    };
    let get = |arguments: &[&str]| {
        let place = namespace(&target.namespace);
        let place = place.iter().map(String::as_str);
        let arguments: Vec<&str> = arguments.iter().copied().chain(place).collect();
        let items = kubectl.json(&arguments)?;
        Ok::<_, anyhow::Error>(items["items"].as_array().cloned().unwrap_or_default())
    };
    let (what, mut pods): (String, Vec<Value>) = if let Some(name) = &target.pod {
        let field = format!("metadata.name={name}");
        (format!("Pod {name}"), get(&["get", "pods", "--field-selector", &field])?)
    } else if let Some(name) = &target.deployment {
        let field = format!("metadata.name={name}");
        let mut pods = Vec::new();
        for deployment in get(&["get", "deployments", "--field-selector", &field])? {
            let selector = selector(&deployment["spec"]["selector"]).with_context(|| {
                format!("Deployment {name} has a selector that is none of labels; use --selector")
            })?;
            let of = deployment["metadata"]["namespace"].clone();
            let found = get(&["get", "pods", "--selector", &selector])?;
            pods.extend(found.into_iter().filter(|pod| pod["metadata"]["namespace"] == of));
        }
        (format!("Pod of a Deployment {name}"), pods)
    } else {
        let selector = target.selector.as_deref().unwrap_or(LABELS);
        (format!("Pod with the labels {selector}"), get(&["get", "pods", "--selector", selector])?)
    };
    // Pods that have ended or are ending do not have the current state.
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null() && pod["status"]["phase"] == "Running");
    checked(pods.iter().map(|pod| GatewayPod::of(pod, container)).collect(), &what, target)
}

/// Sorts the Pods of one gateway.
fn checked(mut pods: Vec<GatewayPod>, what: &str, target: &GatewaySelection) -> Result<Vec<GatewayPod>> {
    pods.sort_by(|a, b| (!a.ready, &a.namespace, &a.name).cmp(&(!b.ready, &b.namespace, &b.name)));
    let mut namespaces: Vec<&str> = pods.iter().map(|pod| pod.namespace.as_str()).collect();
    namespaces.sort_unstable();
    namespaces.dedup();
    if namespaces.len() > 1 {
        bail!(
            "there is more than one gateway, in the namespaces {}; name one with -n",
            namespaces.join(", ")
        );
    }
    if pods.is_empty() {
        let place = target.namespace.as_ref().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        bail!("there is no running {what}{place}; name one with -n and --deployment, --pod or --selector");
    }
    Ok(pods)
}

/// Converts `matchLabels` to kubectl's syntax.
fn selector(selector: &Value) -> Option<String> {
    let labels = selector["matchLabels"].as_object().filter(|_| selector["matchExpressions"].is_null())?;
    let labels = labels.iter().map(|(name, value)| Some(format!("{name}={}", value.as_str()?)));
    Some(labels.collect::<Option<Vec<_>>>()?.join(","))
}
