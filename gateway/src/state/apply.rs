//! Applies deltas, the only way in which the configuration changes.
//!
//! The order keeps references valid at every moment: certificates, resources, endpoint sets and
//! pools are applied before the hosts that name them, and removals last. Each host changes as a
//! whole, by one swap of a table that shares all unchanged hosts, so the cost depends on the size
//! of the change. An unusable part is refused with a reason, and the rest of the delta is applied.
//! A refused certificate keeps its previous version. A refused host does not, because that would
//! lack the new version's protection and use pools that are gone: it is closed as a whole.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use sluice_config::{
    Action, CallDestination, Change, Delta, Deny, GlobalSettings, Host, ListenerGroup, Match, ObjectRef,
    Origin, PathMatch, Policies, PoolKey, Refusal, Report, Rule, Subject,
};

use crate::policy::ExternalAuth;
use crate::policy::bounds::bounded;
use crate::route::{Compiler, RouteBackend};
use crate::state::compiled_settings::{CompiledSettings, GlobalAuth, UnmatchedRule};
use crate::state::{Published, State};
use crate::telemetry::configuration::Configuration;
use crate::tls::Certificates;

/// Applies a delta and returns the report. There must be one caller, which applies deltas in order.
pub fn apply(state: &State, delta: &Delta, certificates: &dyn Certificates) -> Report {
    let began = Instant::now();
    let mut refused = certificates.apply(delta);
    refused.extend(state.resources.apply(delta));
    refused.extend(state.registry.apply(delta));
    let mut configuration = Configuration::clone(&state.configuration.load());
    let mut published = Published::clone(&state.published.load());
    apply_settings(state, delta, &mut published, &mut configuration);
    apply_hosts(state, delta, &mut published, &mut configuration, &mut refused);
    state.put_in_force(published);
    apply_certificates(delta, &mut configuration, &refused);
    configuration.generation = delta.generation;
    let hash = configuration.hash();
    state.configuration.store(Arc::new(configuration));
    let accepted = state.registry.remove(delta);
    refused.retain(|refusal| !accepted.contains(&refusal.subject));
    state.resources.remove(delta);
    if changes_named_pools(state, delta, |change| matches!(change, Change::Remove(_))) {
        let mut published = Published::clone(&state.published.load());
        published.compiled_settings = compiled_settings(state, published.compiled_settings.settings.clone());
        state.put_in_force(published);
    }
    certificates.remove(delta);
    state.problems.registry_changed(&state.registry);
    if delta.complete {
        state.readiness.set_complete();
    }
    let took = began.elapsed();
    state.telemetry.applied(delta.generation, took, refused.is_empty(), hash);
    state.changes.record(delta, took, &refused);
    Report::Applied { generation: delta.generation, took, refused, accepted }
}

fn apply_settings(
    state: &State,
    delta: &Delta,
    published: &mut Published,
    configuration: &mut Configuration,
) {
    if delta.settings.is_some() || !delta.hosts.is_empty() {
        state.step_limits.forget();
    }
    if let Some(settings) = &delta.settings {
        configuration.settings_hash = digest(&"settings", &**settings);
        state.set_room(settings);
        state.locations.switch(settings.use_geoip2);
        if published.compiled_settings.settings.forwarded != settings.forwarded {
            state.distrusted.forget();
        }
        let before = &published.compiled_settings.settings.access_log.output;
        if *before != settings.access_log.output {
            state.telemetry.access_log.turn_to(settings.access_log.output.clone());
        }
        let before = &published.compiled_settings.settings.stream.log.output;
        if *before != settings.stream.log.output {
            state.telemetry.stream_log.turn_to(settings.stream.log.output.clone());
        }
    }
    let put = |change: &Change<PoolKey, _>| matches!(change, Change::Put(..));
    let settings = delta.settings.as_ref().map(bounded);
    if settings.is_some() || changes_named_pools(state, delta, put) {
        published.compiled_settings = compiled_settings(
            state,
            settings.unwrap_or_else(|| published.compiled_settings.settings.clone()),
        );
    }
}

/// Returns whether the delta changes a pool that global settings name in this way.
fn changes_named_pools(
    state: &State,
    delta: &Delta,
    wanted: impl Fn(&Change<PoolKey, Arc<sluice_config::Pool>>) -> bool,
) -> bool {
    let settings = state.settings();
    let named = [
        settings.default_backend.as_ref().map(|(key, _)| key),
        settings.global_auth.as_ref().and_then(|auth| match &auth.to {
            CallDestination::Fixed { pool, .. } => Some(pool),
            CallDestination::PerRequest { .. } => None,
        }),
    ];
    let is_named = |key: &PoolKey| named.iter().flatten().any(|named| *named == key);
    delta.pools.iter().any(|change| is_named(change.key()) && wanted(change))
}

/// Compiles the global settings.
fn compiled_settings(state: &State, settings: Arc<GlobalSettings>) -> Arc<CompiledSettings> {
    let pool = settings.default_backend.as_ref().and_then(|(key, _)| state.registry.pool(key));
    let default_backend = pool.map(|pool| RouteBackend::substitute(pool, None, None));
    let auth = match &settings.global_auth {
        None => GlobalAuth::None,
        Some(auth) => match ExternalAuth::compile(auth, &state.registry, &state.resources) {
            Ok(auth) => GlobalAuth::Usable(Arc::new(auth)),
            Err(error) => {
                tracing::error!(%error, "global-auth-url cannot be applied: all routes that it protects answer 503");
                GlobalAuth::Closed
            }
        },
    };
    let unmatched = match settings.unmatched.as_deref().map(|rule| compiler(state).unmatched(rule)) {
        None => UnmatchedRule::None,
        Some(Ok(route)) => UnmatchedRule::Applies(Box::new(route)),
        Some(Err(error)) => {
            tracing::error!(%error, "settings for all servers cannot be applied: requests without a rule answer 503");
            UnmatchedRule::Closed
        }
    };
    Arc::new(CompiledSettings::new(settings, default_backend, unmatched, auth, &state.resources))
}

fn compiler(state: &State) -> Compiler<'_> {
    Compiler {
        registry: &state.registry,
        resources: &state.resources,
        limiter: &state.limiter,
        configurations: &state.firewall_configurations,
        meters: state.telemetry.requests(),
    }
}

fn apply_hosts(
    state: &State,
    delta: &Delta,
    published: &mut Published,
    configuration: &mut Configuration,
    refused: &mut Vec<Refusal>,
) {
    if delta.hosts.is_empty() && delta.groups.is_empty() {
        return;
    }
    let compiler = compiler(state);
    let (table, streams) = (&mut published.routes, &mut published.streams);
    let (registry, telemetry) = (&state.registry, &*state.telemetry);
    let replace = |key, host: Option<&Arc<Host>>, configuration: &mut Configuration| {
        let old = match host {
            Some(host) => configuration.hosts.insert(Clone::clone(key), host.clone()),
            None => configuration.hosts.remove(key),
        };
        for host in old.iter().chain(host) {
            configuration.hosts_hash ^= digest(key, &**host);
        }
    };
    let replace_group = |id, group: Option<&Arc<ListenerGroup>>, configuration: &mut Configuration| {
        let old = match group {
            Some(group) => configuration.groups.insert(Clone::clone(id), group.clone()),
            None => configuration.groups.remove(id),
        };
        for group in old.iter().chain(group) {
            configuration.groups_hash ^= group_digest(group);
        }
    };
    for change in &delta.hosts {
        if let Change::Put(key, host) = change {
            match compiler.host(host) {
                Ok(compiled) => {
                    table.put_host(key, Arc::new(compiled));
                    refused.extend(
                        streams.set_host(key, host.passthrough.as_deref(), registry, telemetry).err(),
                    );
                    replace(key, Some(host), configuration);
                }
                Err(error) => {
                    refused.extend(streams.set_host(key, None, registry, telemetry).err());
                    let reason = error.to_string();
                    let closed = Arc::new(closed(host, &reason));
                    match compiler.host(&closed) {
                        Ok(compiled) => table.put_host(key, Arc::new(compiled)),
                        // A fixed status on one path always compiles; without it the host is
                        // unknown.
                        Err(_) => {
                            table.remove_host(key);
                        }
                    }
                    replace(key, Some(&closed), configuration);
                    refused.push(Refusal {
                        subject: Subject::Host(key.clone()),
                        origin: error.origin().cloned().map(Box::new),
                        code: error.code(),
                        reason,
                    });
                }
            }
        }
    }
    for change in &delta.groups {
        if let Change::Put(id, group) = change {
            table.set_listeners(id, &group.listeners);
            refused.extend(streams.set_service(id, Some(group), registry, telemetry).err());
            replace_group(id, Some(group), configuration);
        }
    }
    for change in &delta.hosts {
        if let Change::Remove(key) = change {
            table.remove_host(key);
            refused.extend(streams.set_host(key, None, registry, telemetry).err());
            replace(key, None, configuration);
        }
    }
    for change in &delta.groups {
        if let Change::Remove(id) = change {
            table.set_listeners(id, &[]);
            refused.extend(streams.set_service(id, None, registry, telemetry).err());
            replace_group(id, None, configuration);
        }
    }
}

/// Returns a replacement for an unusable host: every path answers 503. Keeps its TLS.
fn closed(host: &Host, reason: &str) -> Host {
    let origin = host.rules.first().map(|rule| Origin { path: "/".into(), ..(*rule.origin).clone() });
    let origin = origin.unwrap_or_else(|| Origin {
        object: ObjectRef::new("Host", "", &host.key.pattern.to_string()),
        rule: 0,
        match_index: 0,
        rule_name: None,
        path: "/".into(),
    });
    let deny = Some(Deny { status: CLOSED, reason: reason.into() });
    let rule = Rule {
        matches: Match::path(PathMatch::Prefix("/".into())),
        action: Action::Answer(CLOSED),
        policies: Arc::new(Policies { deny, ..Policies::default() }),
        origin: Arc::new(origin),
    };
    Host {
        key: host.key.clone(),
        alias_of: host.alias_of.clone(),
        tls: host.tls.clone(),
        has_https: host.has_https,
        passthrough: None,
        client_certificates: None,
        cipher_suites: None,
        rules: vec![rule],
        fall_through: false,
    }
}

/// Status of every path of a host that cannot be used.
const CLOSED: u16 = 503;

/// Records the certificates in force. A refused one leaves its previous version in force.
fn apply_certificates(delta: &Delta, configuration: &mut Configuration, refused: &[Refusal]) {
    for change in &delta.certificates {
        match change {
            Change::Put(id, certificate) => {
                let subject = |refusal: &Refusal| refusal.subject == Subject::Certificate(id.clone());
                if !refused.iter().any(subject) {
                    configuration.certificates.insert(id.clone(), certificate.clone());
                }
            }
            Change::Remove(id) => {
                configuration.certificates.remove(id);
            }
        }
    }
}

/// Returns the hash of a listener group without its sockets: flags determine these, and replicas
/// with other addresses have the same configuration.
fn group_digest(group: &ListenerGroup) -> u64 {
    digest(&group.id, &(&group.listeners, &group.stream))
}

/// Returns the hash of one entry of the configuration. Entries are combined by exclusive or, so
/// that the hash of the whole is updated at the cost of the change.
fn digest(key: &impl Hash, value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use sluice_config::{Bind, BindProtocol, GroupId, Stream, StreamKey, TransportProtocol};

    use super::*;
    use crate::pipeline::tests::fixture::{Plane, pool_key, service};

    /// The group of a TCP service that leads to this pool, with sockets on so many addresses.
    fn group(pool: &str, addresses: usize) -> ListenerGroup {
        let key = StreamKey { transport: TransportProtocol::Tcp, port: 5432 };
        let bind = Bind {
            addresses: vec![[127, 0, 0, 1].into(); addresses],
            port: key.port,
            declared_port: key.port,
            protocol: BindProtocol::Tcp,
            source: "test".into(),
        };
        ListenerGroup {
            id: GroupId::stream(key),
            binds: vec![bind],
            listeners: Vec::new(),
            required: false,
            stream: Some(Arc::new(Stream {
                pool: pool_key(pool),
                service: service(pool),
                accepts_proxy: false,
                sends_proxy: false,
            })),
        }
    }

    #[test]
    fn a_changed_stream_changes_the_hash() {
        let mut plane = Plane::simple(&[1]);
        let mut hash = |change: Option<Change<GroupId, Arc<ListenerGroup>>>| {
            plane.apply(Delta { groups: change.into_iter().collect(), ..Delta::default() });
            plane.state.configuration.load().hash()
        };
        let put = |group: ListenerGroup| Some(Change::Put(group.id.clone(), Arc::new(group)));
        let none = hash(None);
        let one = hash(put(group("one", 1)));
        let two = hash(put(group("two", 1)));
        assert!(one != none && two != none && one != two);
        assert_eq!(hash(put(group("one", 1))), one);
        assert_eq!(hash(put(group("one", 2))), one, "replicas listen on addresses of their own");
        assert_eq!(hash(Some(Change::Remove(group("one", 1).id))), none);
    }
}
