//! What would be wrong if one object were another: the verdict of an admission review, by the code that translates.
//!
//! A review looks at everything as it is, with one object replaced and with the values of the nodes that this changes
//! (`Overlay`). Nothing that is in force is touched, and the cost is that of the object, however many others there are.
//!
//! Of Secrets and ConfigMaps only those are known that something refers to already: that one is missing may only mean
//! that nobody has asked for it yet. So a missing reference is no reason to turn an object away.

use std::collections::{BTreeSet, HashMap};
use std::mem::take;
use std::sync::Arc;

use sluice_config::{HostKey, NamespacedName, ObjectRef, Problem, ResourceKey, Uid};

use super::backend::Uses;
use super::claim::{self, Claim};
use super::global_settings::{self, ConfigMapSettings};
use super::ingress_model::IngressModel;
use super::view::View;
use super::{Dirty, Stats, Translation, certificate, endpoints, flags, host, ingress_model, resource};
use crate::graph::Key;
use crate::store::{Kind, Object, ObjectKey};

/// The verdict on an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// What would be wrong with it, and with others because of it. Sorted.
    pub problems: Vec<Problem>,
    /// Whether it is an Ingress that would be served, or rejected, by us.
    pub is_ours: bool,
    /// What finding that out cost.
    pub stats: Stats,
}

/// What a review assumes to differ from the current state.
pub(crate) struct Overlay {
    /// The object.
    pub(crate) object: Object,
    pub(crate) key: ObjectKey,
    pub(crate) config_map: Option<ConfigMapSettings>,
    pub(crate) models: HashMap<NamespacedName, Option<Arc<IngressModel>>>,
    pub(crate) claims: HashMap<HostKey, Vec<Claim>>,
    pub(crate) certificates: HashMap<NamespacedName, certificate::CertificateState>,
    pub(crate) resources: HashMap<ResourceKey, resource::ResourceState>,
}

/// A review at work.
struct Review<'a> {
    base: &'a Translation,
    overlay: Overlay,
    dirty: Dirty,
    found: BTreeSet<Problem>,
    stats: Stats,
}

impl Translation {
    /// Reviews an object that may or may not be there already.
    pub fn review(&self, object: Object) -> Verdict {
        let key = object.key();
        let old = self.store.get(&key);
        let overlay = Overlay {
            object,
            key,
            config_map: None,
            models: HashMap::new(),
            claims: HashMap::new(),
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
        self.add_readers(&Key::Object(review.overlay.key.clone()), &mut review.dirty);
        review.run()
    }
}

impl Review<'_> {
    fn run(mut self) -> Verdict {
        self.config_map();
        self.ingresses();
        self.certificates();
        self.resources();
        self.flags();
        self.hosts();
        self.endpoints();
        let is_ours = self.overlay.models.get(&self.overlay.key.name).is_some_and(Option::is_some);
        Verdict { problems: self.found.into_iter().collect(), is_ours, stats: self.stats }
    }

    fn view(&self) -> View<'_> {
        View::supposing(&self.base.store, &self.base.values, &self.base.options, &self.overlay)
    }

    fn stale(&mut self, key: &Key) {
        self.base.add_readers(key, &mut self.dirty);
    }

    /// What a node would find. What stands today already is no news, unless it is about the object.
    fn find(&mut self, mut problems: Vec<Problem>) {
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

    fn config_map(&mut self) {
        if !take(&mut self.dirty.config_map) {
            return;
        }
        let (new, problems) = global_settings::read(self.view().own_config_map().map(|map| &**map));
        self.stats.settings += 1;
        self.find(problems);
        let old = &self.base.values.config_map;
        let (annotation_limits, closed) =
            (old.annotation_limits != new.annotation_limits, old.closed != new.closed);
        let service_upstream = old.service_upstream != new.service_upstream;
        let tls_per_location = old.endpoint_tls_per_location != new.endpoint_tls_per_location;
        let ipv4_names = old.ipv4_names != new.ipv4_names;
        let auth_of_hosts = old.auth_of_hosts() != new.auth_of_hosts();
        self.dirty.flags |= *old != new;
        let resources = &self.base.values.resources;
        let named = new.resources().map(|(_, key)| key).filter(|key| !resources.contains_key(key));
        self.dirty.resources.extend(named);
        self.overlay.config_map = Some(new);
        if annotation_limits {
            self.stale(&Key::AnnotationLimits);
        }
        if closed {
            self.stale(&Key::Closed);
        }
        if service_upstream {
            self.stale(&Key::ServiceUpstream);
        }
        if tls_per_location {
            self.stale(&Key::EndpointTlsPerLocation);
        }
        if ipv4_names {
            self.stale(&Key::Ipv4Names);
        }
        if auth_of_hosts {
            self.stale(&Key::AuthOfHosts);
        }
    }

    fn ingresses(&mut self) {
        for name in take(&mut self.dirty.ingresses) {
            let (new, problems) = ingress_model::compute(&self.view(), &name);
            let new = new.map(Arc::new);
            self.stats.ingresses += 1;
            self.find(problems);
            let old = self.base.values.models.get(&name);
            let mut touched = BTreeSet::new();
            // What it wants is looked at in any case: that is what the review is about.
            if new.as_ref() != old {
                self.stale(&Key::IngressModel(name.clone()));
            }
            let object = ObjectKey { kind: Kind::Ingress, name: name.clone() };
            for (host, _) in old.iter().flat_map(|model| model.claims()) {
                claim::withdraw(self.claims_of(&host), &object);
                touched.insert(host);
            }
            for model in new.as_slice() {
                for (host, kind) in model.claims() {
                    let claim = Claim::new(kind, &model.ingress);
                    claim::add(self.claims_of(&host), claim);
                    touched.insert(host);
                }
                let certificates = &self.base.values.certificates;
                let secrets = model.secrets().into_iter();
                self.dirty.certificates.extend(secrets.filter(|secret| !certificates.contains_key(secret)));
                let resources = &self.base.values.resources;
                let named = model.resources().filter(|key| !resources.contains_key(key)).cloned();
                self.dirty.resources.extend(named);
            }
            self.overlay.models.insert(name, new);
            for host in touched {
                // Other hosts look at who claims this one: those that are names for it.
                if self.overlay.claims.get(&host) != self.base.values.claims.get(&host) {
                    self.stale(&Key::Claims(host.clone()));
                }
                self.dirty.hosts.insert(host);
            }
        }
    }

    fn claims_of(&mut self, host: &HostKey) -> &mut Vec<Claim> {
        let claims = &self.base.values.claims;
        let known = || claims.get(host).cloned().unwrap_or_default();
        self.overlay.claims.entry(host.clone()).or_insert_with(known)
    }

    fn certificates(&mut self) {
        for name in take(&mut self.dirty.certificates) {
            let (new, problems) = certificate::compute(&self.view(), &name);
            self.stats.certificates += 1;
            self.find(problems);
            if self.base.values.certificates.get(&name) != Some(&new) {
                self.stale(&Key::Certificate(name.clone()));
            }
            self.overlay.certificates.insert(name, new);
        }
    }

    fn resources(&mut self) {
        for key in take(&mut self.dirty.resources) {
            let (new, problems) = resource::compute(&self.view(), &key);
            self.stats.resources += 1;
            self.find(problems);
            if self.base.values.resources.get(&key).is_none_or(|old| !old.is_told_as(&new)) {
                self.stale(&Key::Resource(key.clone()));
            }
            self.overlay.resources.insert(key, new);
        }
    }

    fn flags(&mut self) {
        if take(&mut self.dirty.flags) {
            let config_map = self.overlay.config_map.as_ref().unwrap_or(&self.base.values.config_map);
            let output = flags::compute(&self.view(), config_map);
            self.stats.settings += 1;
            self.find(output.problems);
            self.look_at_endpoints(&output.uses);
        }
    }

    fn hosts(&mut self) {
        for key in take(&mut self.dirty.hosts) {
            let output = host::compute(&self.view(), &key);
            self.stats.hosts += 1;
            self.find(output.problems);
            self.look_at_endpoints(&output.uses);
        }
    }

    /// Looks at the endpoints of pools that nobody has used yet.
    fn look_at_endpoints(&mut self, uses: &Uses) {
        let sets = uses.pools.iter().map(|pool| &pool.key.endpoints);
        let new = sets.filter(|set| self.base.endpoints.get(*set).is_none()).cloned();
        self.dirty.endpoints.extend(new);
    }

    fn endpoints(&mut self) {
        for key in take(&mut self.dirty.endpoints) {
            let (_, problems, _) = endpoints::compute(&self.view(), &key);
            self.stats.endpoints += 1;
            self.find(problems);
        }
    }
}
