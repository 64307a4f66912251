//! The profiles in use.

use std::sync::Arc;

use imbl::HashMap;
use rustls::DistinguishedName;
use rustls::server::ResolvesServerCert;
use sluice_config::{Resource, ResourceKey};

use super::authorities::Authorities;
use super::client_verifier::ClientVerifier;
use super::error::TlsError;
use super::profile::{Profile, ProfileKey, ProfileSettings};
use super::sessions::{SessionSpace, Sessions};

/// All profiles that hosts use, and the default one. Clones share everything.
#[derive(Clone, Debug)]
pub(super) struct Profiles {
    default: Arc<Profile>,
    others: HashMap<Arc<ProfileKey>, Profile>,
    /// Names of the authorities of each resource: what clients choose their certificates by.
    authorities: HashMap<ResourceKey, Arc<[DistinguishedName]>>,
    settings: ProfileSettings,
    sessions: Sessions,
    /// What a configuration has in place of a certificate.
    resolver: Arc<dyn ResolvesServerCert>,
}

impl Profiles {
    pub(super) fn new(
        settings: ProfileSettings,
        resolver: Arc<dyn ResolvesServerCert>,
    ) -> Result<Self, TlsError> {
        let sessions = Sessions::new(&settings.tls.sessions);
        let space = (&sessions, SessionSpace::new());
        let default = Profile::new(&ProfileKey::default(), &settings, space, None, resolver.clone())?;
        Ok(Self {
            default: Arc::new(default),
            others: HashMap::new(),
            authorities: HashMap::new(),
            settings,
            sessions,
            resolver,
        })
    }

    /// The profile of a key; of `None`, the default one.
    pub(super) fn get(&self, key: Option<&ProfileKey>) -> &Profile {
        key.and_then(|key| self.others.get(key)).unwrap_or(&self.default)
    }

    /// Counts a host that uses a profile. Returns the key under which it refers to it.
    pub(super) fn take(&mut self, key: ProfileKey) -> Result<Option<Arc<ProfileKey>>, TlsError> {
        if key.is_default() {
            return Ok(None);
        }
        let (key, mut profile) = match self.others.get_key_value(&key) {
            Some((known, profile)) => (known.clone(), profile.clone()),
            None => {
                let profile = self.build(&key, SessionSpace::new())?;
                (Arc::new(key), profile)
            }
        };
        profile.hosts += 1;
        self.others.insert(key.clone(), profile);
        Ok(Some(key))
    }

    /// Counts a host that uses a profile no more. Without hosts it is dropped, with its sessions.
    pub(super) fn release(&mut self, key: &ProfileKey) {
        let Some(profile) = self.others.get_mut(key) else { return };
        profile.hosts = profile.hosts.saturating_sub(1);
        if profile.hosts == 0 {
            self.others.remove(key);
        }
    }

    /// Sets the content of a resource, or `None`. Profiles that name it request certificates of its
    /// authorities from then on; connections that are open are verified anew by their requests.
    pub(super) fn set_authorities(
        &mut self,
        key: &ResourceKey,
        content: Option<&Resource>,
    ) -> Result<(), TlsError> {
        let authorities = match content {
            Some(Resource::ClientAuthorities(content)) => Authorities::compile(&content.authorities).ok(),
            _ => None,
        };
        match authorities {
            Some(authorities) => {
                self.authorities.insert(key.clone(), authorities.subjects().into());
            }
            // A content that cannot be used is refused where it is compiled.
            None => {
                self.authorities.remove(key);
            }
        }
        self.rebuild(|profile| profile.verification.as_ref().is_some_and(|one| one.authorities == *key))
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.others.len()
    }

    /// Returns the number of authority names of one resource that are sent to clients.
    #[cfg(test)]
    pub(super) fn authorities(&self, key: &ResourceKey) -> usize {
        self.authorities.get(key).map_or(0, |names| names.len())
    }

    /// Puts settings in force. They concern every profile.
    pub(super) fn set(&mut self, settings: ProfileSettings) -> Result<(), TlsError> {
        if self.settings == settings {
            return Ok(());
        }
        self.sessions.set(&settings.tls.sessions);
        self.settings = settings;
        self.default = Arc::new(self.build(&ProfileKey::default(), self.default.space.clone())?);
        self.rebuild(|_| true)
    }

    fn rebuild(&mut self, concerned: impl Fn(&ProfileKey) -> bool) -> Result<(), TlsError> {
        let concerned: Vec<_> = self
            .others
            .iter()
            .filter(|(key, _)| concerned(key))
            .map(|(key, profile)| (key.clone(), profile.hosts, profile.space.clone()))
            .collect();
        for (key, hosts, space) in concerned {
            let mut profile = self.build(&key, space)?;
            profile.hosts = hosts;
            self.others.insert(key, profile);
        }
        Ok(())
    }

    fn build(&self, key: &ProfileKey, space: SessionSpace) -> Result<Profile, TlsError> {
        let verifier = key.verification.as_ref().map(|verification| {
            let authorities = self.authorities.get(&verification.authorities);
            ClientVerifier::new(authorities.into_iter().flat_map(|names| names.iter().cloned()))
        });
        Profile::new(key, &self.settings, (&self.sessions, space), verifier, self.resolver.clone())
    }
}
