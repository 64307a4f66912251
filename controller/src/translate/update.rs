//! Updates of the state in force: the consequences of recomputed values for each kind of node.

use std::collections::hash_map::Entry;
use std::mem::replace;
use std::sync::Arc;

use sluice_config::{
    Change, Delta, EndpointSet, EndpointSetKey, GroupId, Host, HostKey, Keyed, NamespacedName, Problem,
    ResourceKey, StreamKey, TransportProtocol,
};

use super::backend::Uses;
use super::certificate::CertificateState;
use super::driver::{
    self, CertificateNode, ConfigMapNode, Dirty, EndpointsNode, FlagsNode, HostNode, IngressNode, NodeTarget,
    ResourceNode, Sink, Stats, StreamNode, StreamServicesNode,
};
use super::global_settings::ConfigMapSettings;
use super::resource::ResourceState;
use super::routes::claim::{self, Claim};
use super::routes::{ObjectRoutes, has_tls, host};
use super::streams::{StreamOutput, StreamServices};
use super::view::View;
use super::{Translation, flags, streams};
use crate::graph::{ReadKey, Reads, TranslationNode};
use crate::store::{IngressChange, Kind, ObjectKey};

/// A host in the data plane.
pub(super) struct ServedHost {
    pub(super) host: Arc<Host>,
    pub(super) uses: Box<Uses>,
}

impl Keyed for ServedHost {
    type Key = HostKey;

    fn key(&self) -> &HostKey {
        &self.host.key
    }
}

/// An update in progress.
struct Update<'t> {
    base: &'t mut Translation,
    delta: Delta,
    /// Removed hosts, which follow the added ones in the delta.
    removed_hosts: Vec<Change<HostKey, Arc<Host>>>,
    stats: Stats,
}

impl Translation {
    /// Recomputes stale nodes. The delta lacks its generation and completeness.
    pub fn run(&mut self) -> (Delta, Stats) {
        let mut update = Update::new(self);
        driver::run(&mut update);
        let Update { base, mut delta, mut removed_hosts, mut stats } = update;
        delta.hosts.append(&mut removed_hosts);
        base.forget_names();
        base.values.earlier_certificates.clear();
        let Self { ref_counts, values, endpoints, .. } = base;
        let certificate = |id: &_| values.certificates.get(id)?.good().cloned();
        let resource = |key: &_| values.resources.get(key)?.good().cloned();
        stats.pools = ref_counts.settle(&mut delta, certificate, resource, endpoints);
        (delta, stats)
    }

    /// Recomputes what determines the Secrets and ConfigMaps that are referred to, and nothing that
    /// the data plane receives.
    pub fn survey(&mut self) {
        driver::survey(&mut Update::new(self));
    }

    /// Adds a claim of a host, or replaces the one that its object has.
    fn claim(&mut self, host: HostKey, claim: Claim) {
        let claims = self.values.claims.entry(host.clone()).or_default();
        if !claim::add(claims, claim) {
            return;
        }
        self.stale(&ReadKey::Claims(host.clone()));
        self.dirty.hosts.insert(host);
    }

    fn unclaim(&mut self, host: HostKey, object: &ObjectKey) {
        if let Entry::Occupied(mut claims) = self.values.claims.entry(host.clone()) {
            claim::withdraw(claims.get_mut(), object);
            if claims.get().is_empty() {
                claims.remove();
            }
            self.stale(&ReadKey::Claims(host));
        }
    }

    /// Replaces the routes of an object. Returns whether it is admitted, if it was not, or whether
    /// it no longer is.
    fn put_routes(&mut self, object: &ObjectKey, value: Option<ObjectRoutes>) -> Option<bool> {
        let new = value.map(|mut routes| {
            routes.share(&mut self.policies);
            Arc::new(routes)
        });
        if self.values.routes.get(object) == new.as_ref() {
            return None;
        }
        self.stale(&ReadKey::ObjectRoutes(object.clone()));
        let old = match new.clone() {
            Some(new) => self.values.routes.insert(new),
            None => self.values.routes.remove(object),
        };
        if let Some(routes) = &new {
            for (host, kind) in routes.claims() {
                self.claim(host, routes.claim(kind));
            }
        }
        if has_tls(old.as_ref()) != has_tls(new.as_ref()) {
            self.stale(&ReadKey::HasTls(object.clone()));
        }
        for (host, _) in old.iter().flat_map(|routes| routes.claims()) {
            let kept = new.iter().flat_map(|routes| routes.claims()).any(|(other, _)| other == host);
            if !kept {
                self.unclaim(host, object);
            }
        }
        // New names first: a certificate that stays named must not be forgotten in between.
        new.iter().flat_map(|routes| routes.secrets()).for_each(|secret| self.name_certificate(secret));
        old.iter().flat_map(|routes| routes.secrets()).for_each(|secret| self.unname_certificate(secret));
        new.iter().flat_map(|routes| routes.resources()).for_each(|key| self.name_resource(key));
        old.iter().flat_map(|routes| routes.resources()).for_each(|key| self.unname_resource(key));
        let admitted = |routes: Option<Arc<ObjectRoutes>>| routes.is_some_and(|routes| routes.is_admitted());
        let (was_admitted, is_admitted) = (admitted(old), admitted(new));
        (was_admitted != is_admitted).then_some(is_admitted)
    }

    fn name_certificate(&mut self, secret: NamespacedName) {
        if self.named_certificates.add(&secret) {
            self.dirty.certificates.insert(secret);
        }
    }

    fn unname_certificate(&mut self, secret: NamespacedName) {
        if self.named_certificates.remove(&secret) {
            self.dirty.certificates.insert(secret);
        }
    }

    fn name_resource(&mut self, key: &ResourceKey) {
        if self.named_resources.add(key) {
            self.dirty.resources.insert(key.clone());
        }
    }

    fn unname_resource(&mut self, key: &ResourceKey) {
        if self.named_resources.remove(key) {
            self.dirty.resources.insert(key.clone());
        }
    }

    /// Replaces the name that is looked up for an endpoint set.
    fn look_up(&mut self, key: &EndpointSetKey, name: Option<Arc<str>>) {
        if self.named_sets.get(key) == name.as_ref() {
            return;
        }
        if let Some(name) = &name {
            self.names_changed |= self.names.add(name);
        }
        let old = match name {
            Some(name) => self.named_sets.insert(key.clone(), name),
            None => self.named_sets.remove(key),
        };
        if let Some(old) = old {
            self.names_changed |= self.names.remove(&old);
        }
    }

    /// Forgets the results of names that are no longer needed. Only at the end of an update: until
    /// then, another endpoint set may take over a name, such as one with another port.
    fn forget_names(&mut self) {
        if self.names_changed {
            self.values.names.retain(|name, _| self.names.contains(name));
        }
    }
}

impl<'t> Update<'t> {
    fn new(base: &'t mut Translation) -> Self {
        let (delta, removed_hosts, stats) = Default::default();
        Self { base, delta, removed_hosts, stats }
    }
}

impl NodeTarget for Update<'_> {
    fn view(&self) -> View<'_> {
        self.base.view()
    }

    fn dirty(&mut self) -> &mut Dirty {
        &mut self.base.dirty
    }

    fn stats(&mut self) -> &mut Stats {
        &mut self.stats
    }

    fn record(&mut self, node: TranslationNode, reads: Reads, problems: Vec<Problem>) {
        self.base.graph.record(&node, reads);
        self.base.put_problems(node, problems);
    }

    fn forget(&mut self, node: TranslationNode) {
        self.base.graph.forget(&node);
        self.base.put_problems(node, Vec::new());
    }

    fn stale(&mut self, key: &ReadKey) {
        self.base.stale(key);
    }
}

impl Sink<ConfigMapNode> for Update<'_> {
    fn put(&mut self, (): (), value: Option<ConfigMapSettings>) {
        let Some(new) = value.filter(|new| *new != self.base.values.config_map) else { return };
        let old = replace(&mut self.base.values.config_map, new);
        let new = &self.base.values.config_map;
        let changes = new.changes(&old);
        let [needed, before] = [new, &old].map(|settings| settings.needed_resources(&self.base.options));
        self.base.dirty.flags = true;
        needed.iter().for_each(|key| self.base.name_resource(key));
        before.iter().for_each(|key| self.base.unname_resource(key));
        changes.for_each(|key| self.base.stale(&key));
    }
}

impl Sink<IngressNode> for Update<'_> {
    fn exists(&self, name: &NamespacedName) -> bool {
        self.base.store.ingress(name).is_some()
    }

    fn put(&mut self, name: NamespacedName, value: Option<Option<ObjectRoutes>>) {
        let object = ObjectKey { kind: Kind::Ingress, name };
        if let Some(is_admitted) = self.base.put_routes(&object, value.flatten()) {
            self.base.ingresses.push(IngressChange::Served(object.name, is_admitted));
        }
    }
}

impl Sink<CertificateNode> for Update<'_> {
    fn exists(&self, secret: &NamespacedName) -> bool {
        self.base.named_certificates.contains(secret)
    }

    fn put(&mut self, secret: NamespacedName, value: Option<CertificateState>) {
        self.base.ref_counts.certificate_changes(&secret);
        let certificates = &mut self.base.values.certificates;
        let changed = certificates.get(&secret) != value.as_ref();
        match value {
            Some(value) => drop(certificates.insert(secret.clone(), value)),
            None => drop(certificates.remove(&secret)),
        }
        if changed {
            self.base.stale(&ReadKey::Certificate(secret));
        }
    }
}

impl Sink<ResourceNode> for Update<'_> {
    fn exists(&self, key: &ResourceKey) -> bool {
        self.base.named_resources.contains(key)
    }

    fn put(&mut self, key: ResourceKey, value: Option<ResourceState>) {
        self.base.ref_counts.resource_changes(&key);
        let resources = &mut self.base.values.resources;
        let old = match value {
            Some(value) => resources.insert(key.clone(), value),
            None => resources.remove(&key),
        };
        // Nodes that name a resource read whether it can be used. Its content is sent to the data
        // plane separately.
        let same = match (&old, resources.get(&key)) {
            (Some(old), Some(new)) => old.has_same_reports(new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if !same {
            self.base.stale(&ReadKey::Resource(key));
        }
    }
}

impl Sink<FlagsNode> for Update<'_> {
    fn put(&mut self, (): (), value: Option<flags::FlagsOutput>) {
        let Some(new) = value else { return };
        let old = replace(&mut self.base.flags, new);
        let new = &self.base.flags;
        if *new.settings != *old.settings {
            self.delta.settings = Some(new.settings.clone());
        }
        if *new.group != *old.group {
            self.delta.groups.push(Change::Put(new.group.id.clone(), new.group.clone()));
        }
        for (id, server) in &new.servers {
            if old.servers.get(id) != Some(server) {
                self.delta.groups.push(Change::Put(id.clone(), server.group.clone()));
                self.delta.hosts.push(Change::Put(server.host.key.clone(), server.host.clone()));
            }
        }
        for (id, server) in old.servers.iter().filter(|(id, _)| !new.servers.contains_key(*id)) {
            self.delta.groups.push(Change::Remove(id.clone()));
            self.removed_hosts.push(Change::Remove(server.host.key.clone()));
        }
        self.base.ref_counts.exchange(&old.uses, &new.uses);
    }
}

impl Sink<HostNode> for Update<'_> {
    fn put(&mut self, key: HostKey, value: Option<host::HostOutput>) {
        let host::HostOutput { host, uses } = value.unwrap_or_default();
        let old = match host {
            Some(host) => {
                let served = ServedHost { host: host.clone(), uses: Box::new(uses.clone()) };
                let old = self.base.hosts.insert(served);
                if old.as_ref().is_none_or(|old| *old.host != *host) {
                    self.delta.hosts.push(Change::Put(key, host));
                }
                old
            }
            None => {
                let old = self.base.hosts.remove(&key);
                self.removed_hosts.extend(old.is_some().then_some(Change::Remove(key)));
                old
            }
        };
        let old_uses = old.map(|old| old.uses).unwrap_or_default();
        self.base.ref_counts.exchange(&old_uses, &uses);
    }
}

impl Sink<StreamServicesNode> for Update<'_> {
    fn put(&mut self, transport: TransportProtocol, value: Option<StreamServices>) {
        let new = value.unwrap_or_default();
        let old = self.base.values.stream_services.insert(transport, new.clone()).unwrap_or_default();
        for key in streams::changed_keys(transport, &old, &new) {
            self.base.stale(&ReadKey::StreamEntry(key));
            self.base.dirty.streams.insert(key);
        }
    }
}

impl Sink<StreamNode> for Update<'_> {
    fn exists(&self, key: &StreamKey) -> bool {
        let entries = self.base.values.stream_services.get(&key.transport);
        entries.is_some_and(|entries| entries.contains_key(&key.port))
    }

    fn put(&mut self, key: StreamKey, value: Option<StreamOutput>) {
        let new = value.unwrap_or_default();
        let old = match new.group.is_some() {
            true => self.base.streams.insert(key, new.clone()),
            false => self.base.streams.remove(&key),
        };
        let old = old.unwrap_or_default();
        if old.group != new.group {
            let id = GroupId::stream(key);
            self.delta.groups.push(match new.group {
                Some(group) => Change::Put(id, group),
                None => Change::Remove(id),
            });
        }
        self.base.ref_counts.exchange(&old.uses, &new.uses);
    }
}

impl Sink<EndpointsNode> for Update<'_> {
    fn prepare(&mut self) {
        let turned = self.base.ref_counts.take_turned_sets();
        self.base.dirty.endpoints.extend(turned);
    }

    fn exists(&self, key: &EndpointSetKey) -> bool {
        self.base.ref_counts.uses_set(key)
    }

    fn put(&mut self, key: EndpointSetKey, value: Option<(Arc<EndpointSet>, Option<Arc<str>>)>) {
        let (new, name) = value.map_or((None, None), |(set, name)| (Some(set), name));
        let base = &mut *self.base;
        if base.endpoints.get(&key).map(|old| &**old) != new.as_deref() {
            base.ref_counts.set_changes(&key, base.endpoints.get(&key).cloned());
            match new {
                Some(new) => drop(base.endpoints.insert(new)),
                None => drop(base.endpoints.remove(&key)),
            }
        }
        base.look_up(&key, name);
    }
}
