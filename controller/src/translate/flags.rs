//! The combined result of flags and ConfigMap: global settings, default backend and certificate,
//! and listeners.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use sluice_config::{
    Bind, BindProtocol, Code, GlobalSettings, GroupId, HostPattern, Listener, ListenerGroup, ListenerId,
    NamespacedName, ObjectRef, Problem, UpstreamProtocol,
};

use super::backend::{self, Uses};
use super::certificate::CertificateState;
use super::firewall::{self, FirewallSettings, WITHOUT_AGENT};
use super::replicas;
use super::routes::host::firewall::REMEDY;
use super::snippet_servers::{self, SnippetServer};
use super::topology;
use super::unmatched;
use super::view::View;
use crate::options::Options;
use crate::problem::{error, warning};

/// The result of the node.
#[derive(Clone, Debug)]
pub(crate) struct FlagsOutput {
    /// Global settings, including those from flags.
    pub(crate) settings: Arc<GlobalSettings>,
    /// The sockets of all Ingresses.
    pub(crate) group: Arc<ListenerGroup>,
    /// The servers of `http-snippet`.
    pub(crate) servers: BTreeMap<GroupId, SnippetServer>,
    /// Pool and certificate that flags name.
    pub(crate) uses: Uses,
}

/// Computes the node.
pub(crate) fn compute(view: &View<'_>) -> (FlagsOutput, Vec<Problem>) {
    let config_map = view.config_map_settings();
    let mut settings = config_map.global.clone();
    settings.https_port = view.options.https_port;
    settings.ask_local_responders = !view.options.refuse_local_names;
    let mut uses = Uses::default();
    let mut problems: Vec<Problem> = topology::problem(view).into_iter().collect();
    problems.extend(missing_config_map(view));
    problems.extend(firewall_without_agent(view));
    if let Some(name) = &view.options.default_ssl_certificate {
        default_certificate(view, name, &mut settings, &mut uses, &mut problems);
    }
    if let Some(name) = &view.options.default_backend_service {
        default_backend(view, name, &mut settings, &mut uses, &mut problems);
    }
    settings.unmatched = unmatched::rule(view).map(Arc::new);
    settings.replicas = replicas::compute(view, &mut uses, &mut problems);
    settings.global_auth = config_map.global_auth.policy(view, &mut uses, None).map(Arc::new);
    for (key, resource) in config_map.resources() {
        let Some(fault) = view.resource(&resource).fault(&resource, view.options) else {
            uses.resource(&resource);
            continue;
        };
        let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
        let object = ObjectRef { kind: "ConfigMap".into(), name };
        let message = format!("{}; heads are as they would be without it", fault.reason);
        problems.push(error(fault.code, &object, format!("data[{key}]"), message, fault.remedy));
    }
    let group = Arc::new(group(view.options, &config_map.addresses));
    let servers = snippet_servers::compute(view, &mut problems);
    (FlagsOutput { settings: Arc::new(settings), group, servers, uses }, problems)
}

/// Reports that the ConfigMap does not exist. Its settings protect all routes, so a deletion
/// changes nothing until the program ends.
fn missing_config_map(view: &View<'_>) -> Option<Problem> {
    let name = view.options.configmap.as_ref().filter(|name| !view.has_config_map(name))?;
    let (message, remedy) = match view.own_config_map() {
        Some(_) => (
            "this ConfigMap was deleted; its last settings stay in force until this process ends, and a new \
             one uses defaults",
            "create it again with its settings, or empty for defaults; it is taken up when it appears",
        ),
        None => (
            "this ConfigMap does not exist; defaults are used",
            "create it, or remove the flag; it is taken up when it appears",
        ),
    };
    Some(error(Code::ConfigMapNotFound, &flag("--configmap"), name.to_string(), message, remedy))
}

/// Reports a firewall for all rules without an agent.
fn firewall_without_agent(view: &View<'_>) -> Option<Problem> {
    let firewall = &view.config_map_settings().snippets.firewall;
    let directives = firewall::compose(firewall, &FirewallSettings::default())?;
    if view.options.waf_agent.is_some() {
        return None;
    }
    let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
    let object = ObjectRef { kind: "ConfigMap".into(), name };
    let field = format!("data[{}]", firewall::ENABLE);
    Some(match directives.enforces {
        true => error(
            Code::FirewallWithoutAgent,
            &object,
            field,
            format!(
                "{WITHOUT_AGENT}; all routes answer 503, except where an Ingress disables it or only detects"
            ),
            REMEDY,
        ),
        false => warning(
            Code::FirewallWithoutAgent,
            &object,
            field,
            format!("{WITHOUT_AGENT}; requests are neither inspected nor logged"),
            REMEDY,
        ),
    })
}

fn default_certificate(
    view: &View<'_>,
    name: &NamespacedName,
    settings: &mut GlobalSettings,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
) {
    let object = flag("--default-ssl-certificate");
    let remedy = "correct the Secret or the flag; it is taken up when it is good";
    match view.certificate(name) {
        CertificateState::Good(_) => {
            settings.default_certificate = Some(name.clone());
            uses.certificates.push(name.clone());
        }
        CertificateState::Missing => {
            let message = "this Secret does not exist; a self-signed certificate is served";
            problems.push(warning(Code::SecretNotFound, &object, name.to_string(), message, remedy));
        }
        CertificateState::Bad(reason) => {
            let message = format!("{reason}; a self-signed certificate is served");
            problems.push(error(Code::SecretInvalid, &object, name.to_string(), message, remedy));
        }
    }
}

fn default_backend(
    view: &View<'_>,
    name: &NamespacedName,
    settings: &mut GlobalSettings,
    uses: &mut Uses,
    problems: &mut Vec<Problem>,
) {
    match backend::replacement_service(view, name, UpstreamProtocol::Http, uses) {
        Ok(backend) => settings.default_backend = Some(backend),
        Err(fault) => problems.push(warning(
            fault.code(),
            &flag("--default-backend-service"),
            name.to_string(),
            format!("{fault}; the built-in 404 is served"),
            "correct the Service or the flag; it is taken up when it is good",
        )),
    }
}

fn flag(name: &str) -> ObjectRef {
    ObjectRef::new("Flag", "", name)
}

/// Returns the listener group of all Ingresses. The TLS port is declared as 443 whatever its
/// number, as in ingress-nginx: clients are redirected to it.
fn group(options: &Options, addresses: &[IpAddr]) -> ListenerGroup {
    let bind = |port, declared_port, protocol, source: &str| Bind {
        addresses: addresses.to_vec(),
        port,
        declared_port,
        protocol,
        source: source.into(),
    };
    ListenerGroup {
        id: GroupId::ingress(),
        binds: vec![
            bind(options.http_port, options.http_port, BindProtocol::Http, "--http-port"),
            bind(options.https_port, 443, BindProtocol::Https, "--https-port"),
        ],
        listeners: vec![Listener { id: ListenerId::any(), host: HostPattern::Any }],
        required: true,
        stream: None,
    }
}
