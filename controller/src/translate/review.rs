//! Reviews: the problems that would exist if one object were different, computed by the
//! translation.
//!
//! A review uses the current state with one object replaced and with new values of the nodes that
//! this changes (`Overlay`). It changes nothing, and its cost depends on the object only.
//!
//! Only referenced Secrets and ConfigMaps are known. One that is missing may exist without a
//! reference so far, so a missing reference is no reason to reject an object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sluice_config::{
    EndpointSet, EndpointSetKey, HostKey, NamespacedName, ObjectRef, Problem, ResourceKey, StreamKey,
    TransportProtocol, Uid,
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
use super::view::{Overlay, View};
use super::{Translation, flags, streams};
use crate::graph::{ReadKey, Reads, TranslationNode};
use crate::store::{Kind, Object, ObjectKey};

/// The result of a review.
#[derive(Debug, Default)]
pub struct ReviewVerdict {
    /// Problems of the object, and of others because of it. Sorted.
    pub problems: Vec<Problem>,
    /// Whether it is an Ingress that this controller would serve or reject.
    pub is_ours: bool,
    /// Cost of the review.
    pub stats: Stats,
}

/// A review in progress.
struct Review<'a> {
    base: &'a Translation,
    overlay: Overlay,
    dirty: Dirty,
    found: BTreeSet<Problem>,
    stats: Stats,
}

impl Translation {
    /// Reviews an object that is new or replaces an existing one.
    pub fn review(&self, object: Object) -> ReviewVerdict {
        let key = object.key();
        let old = self.store.get(&key);
        let overlay = Overlay {
            object,
            key,
            config_map: None,
            routes: HashMap::new(),
            claims: HashMap::new(),
            stream_services: HashMap::new(),
            certificates: HashMap::new(),
            resources: HashMap::new(),
        };
        let mut review = Review {
            base: self,
            overlay,
            dirty: Dirty::default(),
            found: BTreeSet::new(),
            stats: Stats::default(),
        };
        for key in review.dirty.object(old.as_ref(), Some(&review.overlay.object)) {
            self.add_readers(&key, &mut review.dirty);
        }
        self.add_readers(&ReadKey::Object(review.overlay.key.clone()), &mut review.dirty);
        driver::run(&mut review);
        let is_ours = review.overlay.routes.get(&review.overlay.key).is_some_and(Option::is_some);
        ReviewVerdict { problems: review.found.into_iter().collect(), is_ours, stats: review.stats }
    }
}

impl Review<'_> {
    fn claims_of(&mut self, host: &HostKey) -> &mut Vec<Claim> {
        let claims = &self.base.values.claims;
        let known = || claims.get(host).cloned().unwrap_or_default();
        self.overlay.claims.entry(host.clone()).or_insert_with(known)
    }

    /// Replaces the routes of an object. Recomputes its hosts even if the routes are unchanged,
    /// because the review includes the objects that they refer to.
    fn put_routes(&mut self, object: ObjectKey, new: Option<Arc<ObjectRoutes>>) {
        let old = self.base.values.routes.get(&object);
        let mut touched = BTreeSet::new();
        if new.as_ref() != old {
            self.stale(&ReadKey::ObjectRoutes(object.clone()));
        }
        if has_tls(old) != has_tls(new.as_ref()) {
            self.stale(&ReadKey::HasTls(object.clone()));
        }
        for (host, _) in old.iter().flat_map(|routes| routes.claims()) {
            claim::withdraw(self.claims_of(&host), &object);
            touched.insert(host);
        }
        for routes in new.as_slice() {
            for (host, kind) in routes.claims() {
                let claim = routes.claim(kind);
                claim::add(self.claims_of(&host), claim);
                touched.insert(host);
            }
            let certificates = &self.base.values.certificates;
            let secrets = routes.secrets().into_iter();
            self.dirty.certificates.extend(secrets.filter(|secret| !certificates.contains_key(secret)));
            self.look_at_resources(routes.resources().cloned());
        }
        self.overlay.routes.insert(object, new);
        for host in touched {
            // Hosts that are aliases of this one read its claims.
            if self.overlay.claims.get(&host) != self.base.values.claims.get(&host) {
                self.stale(&ReadKey::Claims(host.clone()));
            }
            self.dirty.hosts.insert(host);
        }
    }

    /// Computes the endpoints of pools that are not in use yet.
    fn look_at_endpoints(&mut self, uses: &Uses) {
        let sets = uses.pools.iter().map(|pool| &pool.key.endpoints);
        let new = sets.filter(|set| self.base.endpoints.get(*set).is_none()).cloned();
        self.dirty.endpoints.extend(new);
    }

    /// Computes the resources that are not in use yet.
    fn look_at_resources(&mut self, keys: impl Iterator<Item = ResourceKey>) {
        let known = &self.base.values.resources;
        self.dirty.resources.extend(keys.filter(|key| !known.contains_key(key)));
    }
}

impl NodeTarget for Review<'_> {
    fn view(&self) -> View<'_> {
        View::with_overlay(&self.base.store, &self.base.values, &self.base.options, &self.overlay)
    }

    fn dirty(&mut self) -> &mut Dirty {
        &mut self.dirty
    }

    fn stats(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// Keeps new problems, and those of the object.
    fn record(&mut self, _: TranslationNode, _: Reads, mut problems: Vec<Problem>) {
        let object = self.overlay.key.object_ref();
        let uid = |of: &ObjectRef| -> Option<&Uid> {
            match *of == object {
                true => self.overlay.object.identity().uid.as_ref(),
                false => self.base.store.uid(of),
            }
        };
        problems.iter_mut().for_each(|problem| problem.uid = uid(&problem.object).cloned());
        problems.retain(|problem| problem.object == object || !self.base.problem_index.has(problem));
        self.found.extend(problems);
    }

    fn forget(&mut self, _: TranslationNode) {}

    fn stale(&mut self, key: &ReadKey) {
        self.base.add_readers(key, &mut self.dirty);
    }
}

impl Sink<ConfigMapNode> for Review<'_> {
    fn put(&mut self, (): (), value: Option<ConfigMapSettings>) {
        let Some(new) = value else { return };
        let old = &self.base.values.config_map;
        let changes = new.changes(old);
        self.dirty.flags |= *old != new;
        self.look_at_resources(new.needed_resources(&self.base.options).into_iter());
        self.overlay.config_map = Some(new);
        changes.for_each(|key| self.stale(&key));
    }
}

impl Sink<IngressNode> for Review<'_> {
    fn put(&mut self, name: NamespacedName, value: Option<Option<ObjectRoutes>>) {
        self.put_routes(ObjectKey { kind: Kind::Ingress, name }, value.flatten().map(Arc::new));
    }
}

impl Sink<CertificateNode> for Review<'_> {
    fn put(&mut self, secret: NamespacedName, value: Option<CertificateState>) {
        if self.base.values.certificates.get(&secret) != value.as_ref() {
            self.stale(&ReadKey::Certificate(secret.clone()));
        }
        self.overlay.certificates.extend(value.map(|value| (secret, value)));
    }
}

impl Sink<ResourceNode> for Review<'_> {
    fn put(&mut self, key: ResourceKey, value: Option<ResourceState>) {
        let Some(new) = value else { return };
        if self.base.values.resources.get(&key).is_none_or(|old| !old.has_same_reports(&new)) {
            self.stale(&ReadKey::Resource(key.clone()));
        }
        self.overlay.resources.insert(key, new);
    }
}

impl Sink<FlagsNode> for Review<'_> {
    fn put(&mut self, (): (), value: Option<flags::FlagsOutput>) {
        self.look_at_endpoints(&value.map(|output| output.uses).unwrap_or_default());
    }
}

impl Sink<HostNode> for Review<'_> {
    fn put(&mut self, _: HostKey, value: Option<host::HostOutput>) {
        self.look_at_endpoints(&value.unwrap_or_default().uses);
    }
}

impl Sink<StreamServicesNode> for Review<'_> {
    fn put(&mut self, transport: TransportProtocol, value: Option<StreamServices>) {
        let new = value.unwrap_or_default();
        let old = self.base.values.stream_services.get(&transport).cloned().unwrap_or_default();
        self.dirty.streams.extend(streams::changed_keys(transport, &old, &new));
        // Unchanged entries may have problems, which are those of the ConfigMap.
        self.dirty.streams.extend(new.keys().map(|port| StreamKey { transport, port: *port }));
        self.overlay.stream_services.insert(transport, new);
    }
}

impl Sink<StreamNode> for Review<'_> {
    fn put(&mut self, _: StreamKey, value: Option<StreamOutput>) {
        self.look_at_endpoints(&value.unwrap_or_default().uses);
    }
}

impl Sink<EndpointsNode> for Review<'_> {
    fn put(&mut self, _: EndpointSetKey, _: Option<(Arc<EndpointSet>, Option<Arc<str>>)>) {}
}
