//! The stages of the translation, one per kind of node, in the order in which they read each other.

use std::collections::hash_map::Entry;
use std::mem::take;
use std::sync::Arc;

use sluice_config::{Change, Delta, EndpointSetKey, HostKey, NamespacedName, ResourceKey};

use super::claim::{self, Claim};
use super::ingress_model::IngressModel;
use super::view::View;
use super::{
    HostNode, Stats, Translation, certificate, endpoints, flags, global_settings, host, ingress_model,
    resource,
};
use crate::graph::{Key, Node};
use crate::store::{IngressChange, Kind, ObjectKey};

impl Translation {
    pub(super) fn run_config_map(&mut self, stats: &mut Stats) {
        if !take(&mut self.dirty.config_map) {
            return;
        }
        let view = View::new(&self.store, &self.values, &self.options);
        let config_map = view.own_config_map();
        let (new, problems) = global_settings::read(config_map.map(|map| &**map));
        let reads = view.into_reads();
        self.record(Node::ConfigMap, reads, problems);
        stats.settings += 1;
        let old = std::mem::replace(&mut self.values.config_map, new);
        if old == self.values.config_map {
            return;
        }
        self.dirty.flags = true;
        let named: Vec<ResourceKey> = self.values.config_map.resources().map(|(_, key)| key).collect();
        named.iter().for_each(|key| self.name_resource(key));
        old.resources().for_each(|(_, key)| self.unname_resource(&key));
        if old.annotation_limits != self.values.config_map.annotation_limits {
            self.stale(&Key::AnnotationLimits);
        }
        if old.closed != self.values.config_map.closed {
            self.stale(&Key::Closed);
        }
        if old.service_upstream != self.values.config_map.service_upstream {
            self.stale(&Key::ServiceUpstream);
        }
        if old.endpoint_tls_per_location != self.values.config_map.endpoint_tls_per_location {
            self.stale(&Key::EndpointTlsPerLocation);
        }
        if old.ipv4_names != self.values.config_map.ipv4_names {
            self.stale(&Key::Ipv4Names);
        }
        if old.auth_of_hosts() != self.values.config_map.auth_of_hosts() {
            self.stale(&Key::AuthOfHosts);
        }
    }

    pub(super) fn run_facts(&mut self, stats: &mut Stats) {
        for name in take(&mut self.dirty.ingresses) {
            let view = View::new(&self.store, &self.values, &self.options);
            let (new, problems) = ingress_model::compute(&view, &name);
            let reads = view.into_reads();
            let new = new.map(|mut model| {
                model.share(&mut self.policies);
                Arc::new(model)
            });
            if self.store.ingress(&name).is_some() {
                self.record(Node::Ingress(name.clone()), reads, problems);
            } else {
                self.forget(Node::Ingress(name.clone()));
            }
            stats.ingresses += 1;
            if self.values.models.get(&name) == new.as_ref() {
                continue;
            }
            self.stale(&Key::IngressModel(name.clone()));
            let served = |model: Option<&Arc<IngressModel>>| model.is_some_and(|model| model.is_admitted());
            let (before, now) = (served(self.values.models.get(&name)), served(new.as_ref()));
            if before != now {
                self.ingresses.push(IngressChange::Served(name.clone(), now));
            }
            let old = match new.clone() {
                Some(new) => self.values.models.insert(new),
                None => self.values.models.remove(&name),
            };
            if let Some(model) = &new {
                for (host, kind) in model.claims() {
                    self.claim(host, Claim::new(kind, &model.ingress));
                }
            }
            let object = ObjectKey { kind: Kind::Ingress, name: name.clone() };
            for (host, _) in old.iter().flat_map(|model| model.claims()) {
                let kept = new.iter().flat_map(|model| model.claims()).any(|(other, _)| other == host);
                if !kept {
                    self.unclaim(host, &object);
                }
            }
            // New names first, so that a certificate that stays named is not forgotten in between.
            for secret in new.iter().flat_map(|model| model.secrets()) {
                self.name_certificate(secret);
            }
            for secret in old.iter().flat_map(|model| model.secrets()) {
                self.unname_certificate(secret);
            }
            for key in new.iter().flat_map(|model| model.resources()) {
                self.name_resource(key);
            }
            for key in old.iter().flat_map(|model| model.resources()) {
                self.unname_resource(key);
            }
        }
    }

    /// An object has one claim of a host, which may become another.
    fn claim(&mut self, host: HostKey, claim: Claim) {
        let claims = self.values.claims.entry(host.clone()).or_default();
        if !claim::add(claims, claim) {
            return;
        }
        self.stale(&Key::Claims(host.clone()));
        self.dirty.hosts.insert(host);
    }

    fn unclaim(&mut self, host: HostKey, object: &ObjectKey) {
        if let Entry::Occupied(mut claims) = self.values.claims.entry(host.clone()) {
            claim::withdraw(claims.get_mut(), object);
            if claims.get().is_empty() {
                claims.remove();
            }
            self.stale(&Key::Claims(host));
        }
    }

    fn name_certificate(&mut self, secret: NamespacedName) {
        let count = self.named_certificates.entry(secret.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.dirty.certificates.insert(secret);
        }
    }

    fn unname_certificate(&mut self, secret: NamespacedName) {
        if let Entry::Occupied(mut count) = self.named_certificates.entry(secret) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                let (secret, _) = count.remove_entry();
                self.dirty.certificates.insert(secret);
            }
        }
    }

    fn name_resource(&mut self, key: &ResourceKey) {
        let count = self.named_resources.entry(key.clone()).or_default();
        *count += 1;
        if *count == 1 {
            self.dirty.resources.insert(key.clone());
        }
    }

    fn unname_resource(&mut self, key: &ResourceKey) {
        if let Entry::Occupied(mut count) = self.named_resources.entry(key.clone()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
                self.dirty.resources.insert(key.clone());
            }
        }
    }

    pub(super) fn run_resources(&mut self, stats: &mut Stats) {
        for key in take(&mut self.dirty.resources) {
            let node = Node::Resource(key.clone());
            let old = self.values.resources.get(&key).cloned();
            self.ref_counts.resource_changes(&key);
            if self.named_resources.contains_key(&key) {
                let view = View::new(&self.store, &self.values, &self.options);
                let (new, problems) = resource::compute(&view, &key);
                let reads = view.into_reads();
                self.record(node, reads, problems);
                stats.resources += 1;
                self.values.resources.insert(key.clone(), new);
            } else {
                self.forget(node);
                self.values.resources.remove(&key);
            }
            // Those who name a resource learn whether it can be used. Its content goes to the data plane by itself.
            let told = match (&old, self.values.resources.get(&key)) {
                (Some(old), Some(new)) => old.is_told_as(new),
                (old, new) => old.is_none() && new.is_none(),
            };
            if !told {
                self.stale(&Key::Resource(key));
            }
        }
    }

    pub(super) fn run_certificates(&mut self, stats: &mut Stats) {
        for name in take(&mut self.dirty.certificates) {
            let node = Node::Certificate(name.clone());
            let old = self.values.certificates.get(&name).cloned();
            self.ref_counts.certificate_changes(&name);
            if self.named_certificates.contains_key(&name) {
                let view = View::new(&self.store, &self.values, &self.options);
                let (new, problems) = certificate::compute(&view, &name);
                let reads = view.into_reads();
                self.record(node, reads, problems);
                stats.certificates += 1;
                self.values.certificates.insert(name.clone(), new);
            } else {
                self.forget(node);
                self.values.certificates.remove(&name);
            }
            if old.as_ref() != self.values.certificates.get(&name) {
                self.stale(&Key::Certificate(name));
            }
        }
    }

    pub(super) fn run_flags(&mut self, delta: &mut Delta, stats: &mut Stats) {
        if !take(&mut self.dirty.flags) {
            return;
        }
        let view = View::new(&self.store, &self.values, &self.options);
        let mut new = flags::compute(&view, &self.values.config_map);
        let reads = view.into_reads();
        self.record(Node::Flags, reads, take(&mut new.problems));
        stats.settings += 1;
        if *new.settings != *self.flags.settings {
            delta.settings = Some(new.settings.clone());
        }
        if *new.group != *self.flags.group {
            delta.groups.push(Change::Put(new.group.id.clone(), new.group.clone()));
        }
        let old = std::mem::replace(&mut self.flags, new);
        self.ref_counts.exchange(&old.uses, &self.flags.uses);
    }

    pub(super) fn run_hosts(&mut self, delta: &mut Delta, stats: &mut Stats) {
        let mut removals = Vec::new();
        for key in take(&mut self.dirty.hosts) {
            let view = View::new(&self.store, &self.values, &self.options);
            let new = host::compute(&view, &key);
            let reads = view.into_reads();
            stats.hosts += 1;
            let node = Node::Host(key.clone());
            let old = match new.host {
                Some(host) => {
                    self.record(node, reads, new.problems);
                    let uses = Box::new(new.uses.clone());
                    let old = self.hosts.insert(HostNode { host: host.clone(), uses });
                    if old.as_ref().is_none_or(|old| *old.host != *host) {
                        delta.hosts.push(Change::Put(key, host));
                    }
                    old
                }
                None => {
                    // A canary without a main Ingress has something to tell, but makes no host.
                    match new.problems.is_empty() {
                        true => self.forget(node),
                        false => self.record(node, reads, new.problems),
                    }
                    let old = self.hosts.remove(&key);
                    removals.extend(old.is_some().then_some(Change::Remove(key)));
                    old
                }
            };
            let uses = old.map(|old| old.uses).unwrap_or_default();
            self.ref_counts.exchange(&uses, &new.uses);
        }
        delta.hosts.append(&mut removals);
    }

    pub(super) fn run_endpoints(&mut self, stats: &mut Stats) {
        let (fresh, idle) = self.ref_counts.sets();
        self.dirty.endpoints.extend(fresh);
        for key in idle {
            if let Some(old) = self.endpoints.remove(&key) {
                self.ref_counts.set_changes(&key, Some(old));
                self.forget(Node::Endpoints(key.clone()));
                self.name(&key, None);
            }
            self.dirty.endpoints.remove(&key);
        }
        for key in take(&mut self.dirty.endpoints) {
            let view = View::new(&self.store, &self.values, &self.options);
            let (new, problems, name) = endpoints::compute(&view, &key);
            let reads = view.into_reads();
            self.record(Node::Endpoints(key.clone()), reads, problems);
            stats.endpoints += 1;
            let old = self.endpoints.get(&key);
            if old.is_none_or(|old| **old != *new) {
                self.ref_counts.set_changes(&key, old.cloned());
                self.endpoints.insert(new);
            }
            self.name(&key, name);
        }
    }

    /// An endpoint set needs this name to be looked up, and no other.
    fn name(&mut self, key: &EndpointSetKey, name: Option<Arc<str>>) {
        if self.named_sets.get(key) == name.as_ref() {
            return;
        }
        if let Some(name) = &name {
            let count = self.names.entry(name.clone()).or_default();
            *count += 1;
            self.names_changed |= *count == 1;
        }
        let old = match name {
            Some(name) => self.named_sets.insert(key.clone(), name),
            None => self.named_sets.remove(key),
        };
        if let Some(old) = old
            && let Some(count) = self.names.get_mut(&old)
        {
            *count -= 1;
            if *count == 0 {
                self.names.remove(&old);
                self.values.names.remove(&old);
                self.names_changed = true;
            }
        }
    }
}
