//! The checked configuration, adapted to a rehearsal: every decision stays the same, and nothing
//! reaches the outside.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use sluice_config::{
    AccessLog, Bind, BindProtocol, Canary, Endpoint, EndpointSet, ErrorLog, Forwarded, GlobalSettings,
    GroupId, Host, ListenerGroup, Policies, Pool, Rule, Snapshot, TrustedPeers, UpstreamProtocol,
};

use super::records;

/// Returns the configuration with the listeners, the log and the endpoints of a rehearsal.
///
/// Not part of a decision, and therefore left out: health checks, copies of requests, limits of
/// rates (the rehearsal is not a client's rate), and TCP and UDP services.
pub(super) fn adapted(snapshot: &Snapshot, stub: Option<SocketAddr>) -> Snapshot {
    let mut policies = HashMap::new();
    let hosts =
        snapshot.hosts.iter().map(|(key, host)| (key.clone(), Arc::new(adapt_host(host, &mut policies))));
    let sets = snapshot.endpoint_sets.iter().map(|(key, set)| (key.clone(), adapt_endpoints(set, stub)));
    let pools =
        snapshot.pools.iter().map(|(key, pool)| (key.clone(), Arc::new(adapt_pool(pool, stub.is_some()))));
    Snapshot {
        complete: true,
        settings: Arc::new(adapt_settings(&snapshot.settings)),
        certificates: snapshot.certificates.clone(),
        resources: snapshot.resources.clone(),
        endpoint_sets: sets.collect(),
        pools: pools.collect(),
        hosts: hosts.collect(),
        groups: [(GroupId::ingress(), Arc::new(listeners(snapshot)))].into(),
    }
}

/// Returns the configuration for explanations: as it is, but without listeners and health checks.
pub(super) fn without_sockets(snapshot: &Snapshot) -> Snapshot {
    let pools = snapshot.pools.iter().map(|(key, pool)| {
        let pool = Pool { health_check: None, ..Pool::clone(pool) };
        (key.clone(), Arc::new(pool))
    });
    let groups = snapshot.groups.iter().map(|(id, group)| {
        let group = ListenerGroup { binds: Vec::new(), ..ListenerGroup::clone(group) };
        (id.clone(), Arc::new(group))
    });
    Snapshot { pools: pools.collect(), groups: groups.collect(), ..snapshot.clone() }
}

fn adapt_settings(settings: &GlobalSettings) -> GlobalSettings {
    let access_log = AccessLog { default_backend: true, format: records::format(), ..AccessLog::default() };
    let forwarded =
        Forwarded { proxy_protocol: true, peers: TrustedPeers::Any, ..settings.forwarded.clone() };
    GlobalSettings { access_log, error_log: ErrorLog::default(), forwarded, ..settings.clone() }
}

/// Returns one listener for http and one for https, in this order, on free ports of loopback. The
/// ports in redirects stay those of the configuration.
fn listeners(snapshot: &Snapshot) -> ListenerGroup {
    let group = snapshot.groups.get(&GroupId::ingress());
    let bind = |protocol, port| {
        let binds = group.iter().flat_map(|group| &group.binds);
        let declared = binds.filter(|bind| bind.protocol == protocol).map(|bind| bind.declared_port).next();
        Bind {
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            port: 0,
            declared_port: declared.unwrap_or(port),
            protocol,
            source: "the rehearsal of sluice check".into(),
        }
    };
    ListenerGroup {
        id: GroupId::ingress(),
        binds: vec![bind(BindProtocol::Http, 80), bind(BindProtocol::Https, 443)],
        listeners: group.map(|group| group.listeners.clone()).unwrap_or_default(),
        required: true,
        stream: None,
    }
}

/// Replaces endpoints by the stub. A Service without endpoints stays without.
fn adapt_endpoints(set: &Arc<EndpointSet>, stub: Option<SocketAddr>) -> Arc<EndpointSet> {
    match stub {
        Some(address) if !set.endpoints.is_empty() => {
            Arc::new(EndpointSet { key: set.key.clone(), endpoints: vec![Endpoint { address, zone: None }] })
        }
        _ => set.clone(),
    }
}

/// The stub speaks HTTP/1.1 without TLS.
fn adapt_pool(pool: &Pool, stub: bool) -> Pool {
    let protocol = match pool.protocol {
        UpstreamProtocol::HttpsUnverified | UpstreamProtocol::Grpc | UpstreamProtocol::GrpcsUnverified
            if stub =>
        {
            UpstreamProtocol::Http
        }
        protocol => protocol,
    };
    Pool { protocol, health_check: None, ..pool.clone() }
}

/// A canary that would take a part of the requests by chance takes none, so that a report is the
/// same each time. One that takes all does, and those that a header or a cookie selects.
fn without_chance(canary: &Canary) -> Canary {
    let weight = if canary.weight < canary.total { 0 } else { canary.weight };
    Canary { weight, ..canary.clone() }
}

fn adapt_host(host: &Host, adapted: &mut HashMap<*const Policies, Arc<Policies>>) -> Host {
    let rules = host.rules.iter().map(|rule| {
        // Rules share policies, and keep sharing them.
        let policies = adapted.entry(Arc::as_ptr(&rule.policies)).or_insert_with(|| {
            Arc::new(Policies {
                unlogged: false,
                mirror: None,
                limits: None,
                canaries: rule.policies.canaries.iter().map(without_chance).collect(),
                ..Policies::clone(&rule.policies)
            })
        });
        Rule { policies: policies.clone(), ..rule.clone() }
    });
    Host { rules: rules.collect(), ..host.clone() }
}
