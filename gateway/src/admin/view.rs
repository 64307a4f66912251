//! The representation of the configuration for introspection. It is separate from the contract
//! between the planes, so that the contract can change without breaking scripts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::Serialize;
use sluice_config::{
    Action, Backend, Balance, CertificateId, FieldMatch, GlobalSettings, Host, HostTls, ListenerGroup,
    ObjectRef, PathMatch, RedirectPath, Rule, TextMatch, UpstreamProtocol,
};

use super::format;
use crate::registry::{Health, PoolDescription};
use crate::state::State;
use crate::state::change_log::{AppliedChange, ChangedPart};
use crate::state::setting_values::SettingValue;
use crate::telemetry::configuration::Configuration;

#[derive(Debug, Serialize)]
pub(super) struct Index {
    pub(super) paths: [&'static str; 9],
    /// The pages for people.
    pub(super) page: &'static str,
}

#[derive(Debug, Serialize)]
pub(super) struct GenerationView {
    pub(super) generation: u64,
    pub(super) hash: String,
    pub(super) complete: bool,
    pub(super) ready: bool,
    /// The version of the program.
    pub(super) version: String,
    /// Namespace and name of the Pod; empty outside of a cluster.
    pub(super) replica: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HostView<'a> {
    group: &'a str,
    listener: &'a str,
    pub(super) host: String,
    tls: bool,
    certificate: Option<String>,
    /// Certificates with other types of keys, for clients that do not support the first.
    alternative_certificates: Vec<String>,
    /// Service that TLS is passed through to.
    passthrough: Option<String>,
    fall_through: bool,
    rules: Vec<RuleView<'a>>,
    /// What a TCP or UDP service has instead of rules.
    pub(super) stream: Option<StreamView>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StreamView {
    protocol: String,
    port: u16,
    pub(super) service: String,
    pub(super) pool: String,
    accepts_proxy: bool,
    sends_proxy: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RuleView<'a> {
    pub(super) path_type: &'static str,
    pub(super) path: &'a str,
    pub(super) method: Option<&'a str>,
    headers: Vec<FieldView<'a>>,
    query: Vec<FieldView<'a>>,
    action: &'static str,
    pub(super) status: Option<u16>,
    pub(super) location: Option<String>,
    pub(super) backends: Vec<BackendView<'a>>,
    pub(super) denied: Option<&'a str>,
    affinity: Option<&'a str>,
    pub(super) origin: OriginView<'a>,
}

#[derive(Debug, Serialize)]
struct FieldView<'a> {
    name: &'a str,
    r#type: &'static str,
    value: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct BackendView<'a> {
    weight: u32,
    pub(super) service: Option<String>,
    pool: Option<String>,
    pub(super) status: Option<u16>,
    pub(super) reason: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct ObjectView<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

#[derive(Debug, Serialize)]
pub(super) struct OriginView<'a> {
    #[serde(flatten)]
    object: ObjectView<'a>,
    rule: u32,
    r#match: u32,
}

#[derive(Debug, Serialize)]
pub(super) struct PoolView<'a> {
    pool: &'a str,
    protocol: &'static str,
    balance: &'static str,
    endpoints: Vec<EndpointView<'a>>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointView<'a> {
    address: String,
    zone: Option<&'a str>,
    health: Health,
    ejected_for_ms: Option<u64>,
    failures: u8,
    in_flight: u32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CertificateView<'a> {
    pub(super) secret: String,
    pub(super) names: Vec<&'a str>,
    pub(super) common_name: Option<&'a str>,
    pub(super) issuer_common_name: Option<&'a str>,
    pub(super) issuer_organization: Option<&'a str>,
    pub(super) serial_number: &'a str,
    pub(super) public_key_algorithm: &'a str,
    pub(super) not_after: i64,
    pub(super) is_default: bool,
    pub(super) hosts: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct SettingView {
    name: String,
    value: String,
    origin: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ChangeView {
    generation: u64,
    in_effect: String,
    took_micros: u64,
    refused: usize,
    parts: Vec<ChangedPartView>,
}

#[derive(Debug, Serialize)]
struct ChangedPartView {
    kind: &'static str,
    put: usize,
    removed: usize,
    /// The first names.
    names: Vec<String>,
}

/// Returns the keys of the ConfigMap, then the flags.
pub(super) fn settings(state: &State) -> Vec<SettingView> {
    let values = &state.setting_values;
    let (keys, flags) = (values.keys(), values.flags());
    let view = |setting: &SettingValue| SettingView {
        name: setting.name.clone(),
        value: setting.value.clone(),
        origin: setting.origin.as_str(),
    };
    keys.iter().chain(&**flags).map(view).collect()
}

/// Returns the last changes, newest first.
pub(super) fn changes(state: &State) -> Vec<ChangeView> {
    let mut all = state.changes.of_configuration();
    all.extend(state.changes.of_endpoints());
    all.sort_by_key(|change| Reverse(change.generation));
    let part = |ChangedPart { kind, put, removed, names }| ChangedPartView { kind, put, removed, names };
    let view = |AppliedChange { generation, at, took, parts, refused }| ChangeView {
        generation,
        in_effect: format::moment(at),
        took_micros: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        refused,
        parts: parts.into_iter().map(part).collect(),
    };
    all.into_iter().map(view).collect()
}

/// Returns a host with its rules in evaluation order.
pub(super) fn host(host: &Host) -> HostView<'_> {
    let mut certificates = host.tls.iter().flat_map(HostTls::certificates).map(ToString::to_string);
    HostView {
        group: &host.key.group.0,
        listener: &host.key.listener.0,
        host: host.key.pattern.to_string(),
        tls: host.tls.is_some(),
        certificate: certificates.next(),
        alternative_certificates: certificates.collect(),
        passthrough: host.passthrough.as_ref().map(|stream| stream.service.to_string()),
        fall_through: host.fall_through,
        rules: host.rules.iter().map(rule).collect(),
        stream: None,
    }
}

/// A TCP or UDP service, in the form of a host without rules; `None` for other listener groups.
pub(super) fn stream(group: &ListenerGroup) -> Option<HostView<'_>> {
    let (stream, bind) = (group.stream.as_ref()?, group.binds.first()?);
    Some(HostView {
        group: &group.id.0,
        listener: "",
        host: group.id.to_string(),
        tls: false,
        certificate: None,
        alternative_certificates: Vec::new(),
        passthrough: None,
        fall_through: false,
        rules: Vec::new(),
        stream: Some(StreamView {
            protocol: bind.protocol.transport().to_string(),
            port: bind.port,
            service: stream.service.to_string(),
            pool: stream.pool.to_string(),
            accepts_proxy: stream.accepts_proxy,
            sends_proxy: stream.sends_proxy,
        }),
    })
}

/// Returns a rule.
pub(super) fn rule(rule: &Rule) -> RuleView<'_> {
    let (path_type, path) = match &rule.matches.path {
        PathMatch::Exact(path) => ("Exact", path),
        PathMatch::Prefix(path) => ("Prefix", path),
        PathMatch::Regex(path) => ("Regex", path),
        PathMatch::Extended(regex) => ("Regex", &regex.text),
    };
    let (action, status, location, backends) = match &rule.action {
        Action::Forward(backends) => ("forward", None, None, &backends[..]),
        Action::Redirect(redirect) => {
            ("redirect", Some(redirect.status), Some(location(redirect, path)), &[][..])
        }
        Action::RedirectToHost(host) => {
            ("redirect", None, Some(format!("<scheme>://{host}:<port><path>")), &[][..])
        }
        Action::Answer(status) => ("answer", Some(*status), None, &[][..]),
    };
    let policies = &rule.policies;
    RuleView {
        path_type,
        path,
        method: rule.matches.method.as_deref(),
        headers: rule.matches.headers.iter().map(field).collect(),
        query: rule.matches.query.iter().map(field).collect(),
        action,
        status: policies.deny.as_ref().map(|deny| deny.status).or(status),
        location,
        backends: backends.iter().map(|weighted| backend(weighted.weight, &weighted.backend)).collect(),
        denied: policies.deny.as_ref().map(|deny| &*deny.reason),
        affinity: policies.affinity.as_ref().map(|affinity| &*affinity.name),
        origin: OriginView {
            object: object(&rule.origin.object),
            rule: rule.origin.rule,
            r#match: rule.origin.match_index,
        },
    }
}

impl RuleView<'_> {
    /// Describes where requests go: Services, a redirect, or a status.
    pub(super) fn destination(&self) -> String {
        if self.backends.is_empty() {
            let status = self.status.map(|status| status.to_string());
            return status.into_iter().chain(self.location.clone()).collect::<Vec<_>>().join(" ");
        }
        let one = |backend: &BackendView<'_>| match (&backend.service, backend.status, backend.reason) {
            (Some(service), None, _) => service.clone(),
            (None, None, reason) => reason.unwrap_or("-").to_owned(),
            (_, Some(status), reason) => format!("{status}: {}", reason.unwrap_or("-")),
        };
        self.backends.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

fn field(field: &FieldMatch) -> FieldView<'_> {
    let (r#type, value) = match &field.value {
        TextMatch::Exact(value) => ("Exact", value),
        TextMatch::Regex(value) => ("Regex", value),
    };
    FieldView { name: &field.name, r#type, value }
}

/// Returns the Location; parts that come from the request are in angle brackets.
fn location(redirect: &sluice_config::Redirect, rule_path: &str) -> String {
    let scheme = redirect.scheme.as_deref().unwrap_or("<scheme>");
    let host = redirect.host.as_deref().unwrap_or("<host>");
    let port = redirect.port.map(|port| format!(":{port}")).unwrap_or_default();
    let path = match &redirect.path {
        RedirectPath::Keep => "<path>",
        RedirectPath::AppendSlash => {
            return format!("{scheme}://{host}{port}{}/", rule_path.trim_end_matches('/'));
        }
        RedirectPath::Replace(path) | RedirectPath::ReplaceAll(path) | RedirectPath::Root(path) => path,
        RedirectPath::Url(url) => return url.to_string(),
        RedirectPath::UrlTemplate(_) => return "a URL with variables".to_owned(),
    };
    format!("{scheme}://{host}{port}{path}")
}

fn backend(weight: u32, backend: &Backend) -> BackendView<'_> {
    let empty = BackendView { weight, service: None, pool: None, status: None, reason: None };
    match backend {
        Backend::Pool { pool, service } => {
            BackendView { service: Some(service.to_string()), pool: Some(pool.to_string()), ..empty }
        }
        Backend::Default => BackendView { reason: Some("the program's default backend"), ..empty },
        Backend::Invalid { status, service, reason } => BackendView {
            service: service.as_ref().map(ToString::to_string),
            status: Some(*status),
            reason: Some(reason),
            ..empty
        },
    }
}

fn object(object: &ObjectRef) -> ObjectView<'_> {
    ObjectView { kind: &object.kind, namespace: &object.name.namespace, name: &object.name.name }
}

pub(super) fn protocol(protocol: UpstreamProtocol) -> &'static str {
    match protocol {
        UpstreamProtocol::Http => "http",
        UpstreamProtocol::HttpsUnverified => "https",
        UpstreamProtocol::Grpc => "grpc",
        UpstreamProtocol::GrpcsUnverified => "grpcs",
        UpstreamProtocol::FastCgi => "fastcgi",
        UpstreamProtocol::Tcp => "tcp",
        UpstreamProtocol::Udp => "udp",
    }
}

pub(super) fn balance(balance: Balance) -> &'static str {
    match balance {
        Balance::Inherit | Balance::RoundRobin => "roundRobin",
        Balance::Ewma => "ewma",
        Balance::LeastConnections => "leastConnections",
        Balance::Ring => "ring",
    }
}

pub(super) fn pool(pool: &PoolDescription) -> PoolView<'_> {
    PoolView {
        pool: &pool.pool,
        protocol: protocol(pool.protocol),
        balance: balance(pool.balance),
        endpoints: pool
            .endpoints
            .iter()
            .map(|endpoint| EndpointView {
                address: endpoint.address.to_string(),
                zone: endpoint.zone.as_deref(),
                health: endpoint.health,
                ejected_for_ms: endpoint.ejected_for_ms,
                failures: endpoint.failures,
                in_flight: endpoint.in_flight,
            })
            .collect(),
    }
}

/// Returns all certificates with the hosts that serve them, without keys.
pub(super) fn certificates<'a>(
    configuration: &'a Configuration,
    settings: &GlobalSettings,
) -> Vec<CertificateView<'a>> {
    let mut hosts: BTreeMap<&CertificateId, Vec<String>> = BTreeMap::new();
    for (key, certificate) in configuration.served_certificates(settings.default_certificate.as_ref()) {
        hosts.entry(&certificate.id).or_default().push(key.pattern.to_string());
    }
    hosts.values_mut().for_each(|hosts| hosts.sort());
    let view = |(id, certificate): (&'a CertificateId, &'a std::sync::Arc<sluice_config::Certificate>)| {
        let facts = &certificate.facts;
        let mut names: Vec<&str> = facts.names.iter().map(String::as_str).collect();
        names.sort_unstable();
        CertificateView {
            secret: id.to_string(),
            names,
            common_name: facts.common_name.as_deref(),
            issuer_common_name: facts.issuer_common_name.as_deref(),
            issuer_organization: facts.issuer_organization.as_deref(),
            serial_number: &facts.serial_number,
            public_key_algorithm: &facts.public_key_algorithm,
            not_after: facts.not_after,
            is_default: settings.default_certificate.as_ref() == Some(id),
            hosts: hosts.remove(id).unwrap_or_default(),
        }
    };
    configuration.certificates.iter().map(view).collect()
}
