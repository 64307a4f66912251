//! Resources: the content of other objects that rules refer to by a key, such as users, header sets
//! and certificate authorities.
//!
//! A compiled route holds the [`ResourceSlot`] of a resource, not its content. An edit of a Secret
//! replaces the content of one slot and leaves all routes untouched. A slot is created by the first
//! route or delta that refers to it. While it is empty, its policy cannot work, and the code that
//! reads it must close the route.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::{ArcSwapOption, Guard};
use sluice_config::{
    CaBundle, Change, Code, Credentials, Delta, DigestCredentials, Refusal, Resource, ResourceKey,
    ResourceKind, Subject,
};

use super::error::PolicyError;
use super::fastcgi_params::FastCgiParams;
use super::header_set::HeaderSet;
use crate::tls::{ClientAuthorities, Identity};

/// Holder of the current content of one resource.
pub struct ResourceSlot<T> {
    content: ArcSwapOption<T>,
}

/// All resources that a delta contained or a route refers to. Only
/// [`apply`](crate::state::apply::apply) changes them; requests read slots and never this map.
#[derive(Debug, Default)]
pub struct Resources {
    slots: Mutex<HashMap<ResourceKey, AnySlot>>,
}

#[derive(Clone, Debug)]
enum AnySlot {
    Credentials(Arc<ResourceSlot<Credentials>>),
    Digests(Arc<ResourceSlot<DigestCredentials>>),
    Headers(Arc<ResourceSlot<HeaderSet>>),
    FastCgiParams(Arc<ResourceSlot<FastCgiParams>>),
    Authorities(Arc<ResourceSlot<CaBundle>>),
    Identity(Arc<ResourceSlot<Identity>>),
    ClientAuthorities(Arc<ResourceSlot<ClientAuthorities>>),
}

impl<T> ResourceSlot<T> {
    /// Returns the current content, without taking a lock.
    pub fn load(&self) -> Guard<Option<Arc<T>>> {
        self.content.load()
    }

    /// Returns the current content as an `Arc` that can be kept.
    pub fn load_full(&self) -> Option<Arc<T>> {
        self.content.load_full()
    }

    fn put(&self, content: T) {
        self.content.store(Some(Arc::new(content)));
    }
}

impl<T> Default for ResourceSlot<T> {
    fn default() -> Self {
        Self { content: ArcSwapOption::const_empty() }
    }
}

/// Omits the content, which may be secret.
impl<T> fmt::Debug for ResourceSlot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResourceSlot").field("is_filled", &self.content.load().is_some()).finish()
    }
}

impl Resources {
    /// Returns the slot of the users with this key.
    ///
    /// # Errors
    /// The key does not refer to users.
    pub fn credentials(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<Credentials>>, PolicyError> {
        match self.slot(key) {
            AnySlot::Credentials(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the users with digests of their passwords with this key.
    ///
    /// # Errors
    /// The key does not refer to such users.
    pub fn digests(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<DigestCredentials>>, PolicyError> {
        match self.slot(key) {
            AnySlot::Digests(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the header set with this key.
    ///
    /// # Errors
    /// The key does not refer to a header set.
    pub fn headers(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<HeaderSet>>, PolicyError> {
        match self.slot(key) {
            AnySlot::Headers(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the FastCGI parameters with this key.
    ///
    /// # Errors
    /// The key does not refer to such parameters.
    pub fn fastcgi_params(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<FastCgiParams>>, PolicyError> {
        match self.slot(key) {
            AnySlot::FastCgiParams(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the certificate authorities with this key.
    ///
    /// # Errors
    /// The key does not refer to certificate authorities.
    pub fn authorities(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<CaBundle>>, PolicyError> {
        match self.slot(key) {
            AnySlot::Authorities(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the client authorities with this key.
    ///
    /// # Errors
    /// The key does not refer to client authorities.
    pub fn client_authorities(
        &self,
        key: &ResourceKey,
    ) -> Result<Arc<ResourceSlot<ClientAuthorities>>, PolicyError> {
        match self.slot(key) {
            AnySlot::ClientAuthorities(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Returns the slot of the identity with this key: the authorities that verify endpoints, and
    /// the client certificate for them.
    ///
    /// # Errors
    /// The key does not refer to an identity.
    pub fn endpoint_identity(&self, key: &ResourceKey) -> Result<Arc<ResourceSlot<Identity>>, PolicyError> {
        match self.slot(key) {
            AnySlot::Identity(slot) => Ok(slot),
            _ => Err(PolicyError::Resource(key.to_string())),
        }
    }

    /// Stores new contents. An unusable content leaves its slot empty, because the previous content
    /// may be the one that was revoked.
    pub(crate) fn apply(&self, delta: &Delta) -> Vec<Refusal> {
        let mut refused = Vec::new();
        for change in &delta.resources {
            if let Change::Put(key, resource) = change
                && let Err(error) = self.slot(key).put(key, resource)
            {
                refused.push(Refusal {
                    subject: Subject::Resource(key.clone()),
                    origin: None,
                    code: Code::ResourceRefused,
                    reason: error.to_string(),
                });
            }
        }
        refused
    }

    /// Applies the removals of the delta, and drops the empty slots that nothing refers to.
    pub(crate) fn remove(&self, delta: &Delta) {
        let removed = delta.resources.iter().filter(|change| matches!(change, Change::Remove(_)));
        let mut slots = self.slots();
        for change in removed {
            // A route or global settings that still refer to the resource must find their slot
            // empty, and find the content there if the resource is created again.
            if let Some(slot) = slots.get(change.key()) {
                slot.clear();
            }
        }
        if !delta.resources.is_empty() {
            slots.retain(|_, slot| slot.is_needed());
        }
    }

    fn slot(&self, key: &ResourceKey) -> AnySlot {
        self.slots().entry(key.clone()).or_insert_with(|| AnySlot::of(key.kind)).clone()
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<ResourceKey, AnySlot>> {
        // Poisoning can be ignored: each change of the map is a single step, so a panic leaves it
        // consistent.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnySlot {
    fn of(kind: ResourceKind) -> Self {
        match kind {
            ResourceKind::PasswordFile | ResourceKind::PasswordMap => Self::Credentials(Arc::default()),
            ResourceKind::DigestFile | ResourceKind::DigestMap => Self::Digests(Arc::default()),
            ResourceKind::Headers
            | ResourceKind::GlobalHeaders
            | ResourceKind::GlobalResponseHeaders
            | ResourceKind::ResponseHeaders => Self::Headers(Arc::default()),
            ResourceKind::FastCgiParams => Self::FastCgiParams(Arc::default()),
            ResourceKind::CertificateAuthorities => Self::Authorities(Arc::default()),
            ResourceKind::EndpointIdentity | ResourceKind::EndpointTrust => Self::Identity(Arc::default()),
            ResourceKind::ClientAuthorities => Self::ClientAuthorities(Arc::default()),
        }
    }

    fn put(&self, key: &ResourceKey, resource: &Resource) -> Result<(), PolicyError> {
        match (self, resource) {
            (Self::Credentials(slot), Resource::Credentials(users)) => slot.put(users.clone()),
            (Self::Digests(slot), Resource::Digests(users)) => slot.put(users.clone()),
            (Self::Headers(slot), Resource::Headers(set)) => match HeaderSet::compile(set) {
                Ok(fields) => slot.put(fields),
                Err(error) => {
                    self.clear();
                    return Err(error);
                }
            },
            (Self::FastCgiParams(slot), Resource::FastCgiParams(params)) => {
                match FastCgiParams::compile(params) {
                    Ok(params) => slot.put(params),
                    Err(error) => {
                        self.clear();
                        return Err(error);
                    }
                }
            }
            (Self::Identity(slot), Resource::EndpointIdentity(identity)) => match Identity::compile(identity)
            {
                Ok(identity) => slot.put(identity),
                Err(error) => {
                    self.clear();
                    return Err(PolicyError::Certificate(error.to_string()));
                }
            },
            (Self::ClientAuthorities(slot), Resource::ClientAuthorities(content)) => {
                match ClientAuthorities::compile(content) {
                    Ok(authorities) => slot.put(authorities),
                    Err(error) => {
                        self.clear();
                        return Err(PolicyError::ClientAuthorities(error.to_string()));
                    }
                }
            }
            (Self::Authorities(slot), Resource::CertificateAuthorities(bundle)) => slot.put(bundle.clone()),
            _ => {
                self.clear();
                return Err(PolicyError::Resource(key.to_string()));
            }
        }
        Ok(())
    }

    fn clear(&self) {
        match self {
            Self::Credentials(slot) => slot.content.store(None),
            Self::Digests(slot) => slot.content.store(None),
            Self::Headers(slot) => slot.content.store(None),
            Self::FastCgiParams(slot) => slot.content.store(None),
            Self::Authorities(slot) => slot.content.store(None),
            Self::Identity(slot) => slot.content.store(None),
            Self::ClientAuthorities(slot) => slot.content.store(None),
        }
    }

    /// Returns whether the slot has content or is referred to outside of this map.
    fn is_needed(&self) -> bool {
        match self {
            Self::Credentials(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::Digests(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::Headers(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::FastCgiParams(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::Authorities(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::Identity(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
            Self::ClientAuthorities(slot) => slot.load().is_some() || Arc::strong_count(slot) > 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{NamespacedName, PasswordHash, Template};

    use super::*;

    fn key(kind: ResourceKind) -> ResourceKey {
        ResourceKey { kind, name: NamespacedName::new("shop", "users") }
    }

    fn put(key: ResourceKey, resource: Resource) -> Delta {
        Delta { resources: vec![Change::Put(key, Arc::new(resource))], ..Delta::default() }
    }

    fn users(names: &[&str]) -> Resource {
        let users = names.iter().map(|name| ((*name).into(), PasswordHash::Plain("x".into())));
        Resource::Credentials(Credentials { users: users.collect() })
    }

    #[test]
    fn a_referenced_slot_gets_every_new_content_also_after_a_removal() {
        let resources = Resources::default();
        let key = key(ResourceKind::PasswordFile);
        let slot = resources.credentials(&key).unwrap();
        assert!(slot.load().is_none(), "there before its content");
        for names in [&["ann"][..], &["ann", "bob"]] {
            assert_eq!(resources.apply(&put(key.clone(), users(names))), []);
            assert_eq!(slot.load().as_ref().unwrap().users.len(), names.len());
        }
        let removal = Delta { resources: vec![Change::Remove(key.clone())], ..Delta::default() };
        resources.remove(&removal);
        assert!(slot.load().is_none());
        assert_eq!(resources.apply(&put(key.clone(), users(&["ann"]))), []);
        assert!(slot.load().is_some(), "created again");
        drop(slot);
        resources.remove(&removal);
        assert!(resources.slots().is_empty());
    }

    #[test]
    fn a_content_that_cannot_be_used_empties_its_slot() {
        let resources = Resources::default();
        let key = key(ResourceKind::Headers);
        let set = |value: &str| {
            let fields = vec![("x-a".into(), Template::plain(value))];
            Resource::Headers(sluice_config::HeaderSet { fields })
        };
        let slot = resources.headers(&key).unwrap();
        assert_eq!(resources.apply(&put(key.clone(), set("good"))), []);
        assert!(slot.load().is_some());
        let refused = resources.apply(&put(key.clone(), set("b\nad")));
        assert_eq!(refused[0].subject, Subject::Resource(key.clone()));
        assert!(slot.load().is_none());
        assert_eq!(resources.apply(&put(key.clone(), users(&["ann"]))).len(), 1, "of another kind");
        assert!(resources.credentials(&key).is_err());
    }

    #[test]
    fn unreferenced_slots_are_removed() {
        let resources = Resources::default();
        let kept = resources.credentials(&key(ResourceKind::PasswordMap)).unwrap();
        drop(resources.credentials(&key(ResourceKind::PasswordFile)));
        resources.remove(&put(key(ResourceKind::Headers), Resource::Headers(Default::default())));
        assert_eq!(resources.slots().len(), 1);
        drop(kept);
    }
}
