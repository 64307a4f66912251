//! Resources that rules name by key: users from a Secret, header fields from a ConfigMap,
//! certificate authorities from a Secret.
//!
//! A host reads whether a resource is usable, and not its content. An edited Secret therefore
//! recomputes its resource, which is a separate entry of the delta; hosts are recomputed only if
//! its usability changes.

mod authorities;
mod client_authorities;
mod digests;
mod fastcgi;
mod headers;
mod identity;
mod password_hash;
mod passwords;
mod users;

use std::sync::Arc;

use sluice_config::{Code, Moment, Problem, Resource, ResourceKey, ResourceKind};

use super::value::Author;
use super::view::View;
use crate::options::Options;
use crate::store::DataFields;

/// The state of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ResourceState {
    /// Its object does not exist.
    Missing,
    /// The object has no usable content.
    Bad(Bad),
    /// It is usable.
    Good(Arc<Resource>),
}

/// Why an object is unusable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    /// Completes "Secret shop/users ...".
    pub(crate) reason: String,
    /// How to fix it.
    pub(crate) remedy: &'static str,
}

/// Why rules that name a resource cannot be served, for problems.
pub(crate) struct Unusable {
    /// The code of the problem.
    pub(crate) code: Code,
    /// The fault.
    pub(crate) reason: String,
    /// How to fix it.
    pub(crate) remedy: String,
}

/// Computes the node. Problems concern parts that can be left out; an unusable resource is reported
/// by the hosts that name it.
pub(crate) fn compute(view: &View<'_>, key: &ResourceKey) -> (ResourceState, Vec<Problem>) {
    let mut problems = Vec::new();
    let author = || Author { http: view.http_declarations(), ..Author::OPERATOR };
    let found = match key.kind {
        ResourceKind::PasswordFile => {
            let secret = view.secret(&key.name, DataFields::named(&[users::FILE]));
            secret.map(|secret| passwords::file(secret, &mut problems).map(Resource::Credentials))
        }
        ResourceKind::PasswordMap => {
            let secret = view.secret(&key.name, DataFields::All);
            secret.map(|secret| passwords::map(secret, &mut problems).map(Resource::Credentials))
        }
        ResourceKind::DigestFile => {
            let secret = view.secret(&key.name, DataFields::named(&[users::FILE]));
            secret.map(|secret| digests::file(secret, &mut problems).map(Resource::Digests))
        }
        ResourceKind::DigestMap => {
            let secret = view.secret(&key.name, DataFields::All);
            secret.map(|secret| digests::map(secret, &mut problems).map(Resource::Digests))
        }
        ResourceKind::Headers => {
            let config_map = view.config_map(&key.name, DataFields::All);
            config_map.map(|config_map| {
                headers::strict(config_map, &author(), &mut problems).map(Resource::Headers)
            })
        }
        ResourceKind::GlobalHeaders | ResourceKind::GlobalResponseHeaders => {
            let moment = match key.kind {
                ResourceKind::GlobalHeaders => Moment::Request,
                _ => Moment::Response,
            };
            let config_map = view.config_map(&key.name, DataFields::All);
            config_map.map(|config_map| {
                Ok(Resource::Headers(headers::lenient(config_map, moment, &author(), &mut problems)))
            })
        }
        ResourceKind::ResponseHeaders => {
            let config_map = view.config_map(&key.name, DataFields::All);
            let allowed = &view.annotation_limits().response_headers;
            config_map.map(|config_map| headers::response(config_map, allowed).map(Resource::Headers))
        }
        ResourceKind::FastCgiParams => {
            let config_map = view.config_map(&key.name, DataFields::All);
            config_map.map(|config_map| fastcgi::read(config_map).map(Resource::FastCgiParams))
        }
        ResourceKind::EndpointIdentity | ResourceKind::EndpointTrust => {
            let trusts = key.kind == ResourceKind::EndpointTrust;
            let secret = view.secret(&key.name, DataFields::named(&identity::FIELDS));
            secret.map(|secret| identity::read(secret, trusts).map(Resource::EndpointIdentity))
        }
        ResourceKind::ClientAuthorities => {
            let secret = view.secret(&key.name, DataFields::named(&client_authorities::FIELDS));
            secret.map(|secret| client_authorities::read(secret).map(Resource::ClientAuthorities))
        }
        ResourceKind::CertificateAuthorities => {
            let secret = view.secret(&key.name, DataFields::named(&[authorities::KEY]));
            secret.map(|secret| authorities::read(secret).map(Resource::CertificateAuthorities))
        }
    };
    let outcome = match found {
        None => ResourceState::Missing,
        Some(Ok(resource)) => ResourceState::Good(Arc::new(resource)),
        Some(Err(bad)) => ResourceState::Bad(bad),
    };
    (outcome, problems)
}

impl ResourceState {
    /// Returns the resource, if it is usable.
    pub(crate) fn good(&self) -> Option<&Arc<Resource>> {
        match self {
            Self::Good(resource) => Some(resource),
            Self::Missing | Self::Bad(_) => None,
        }
    }

    /// Returns whether hosts would report the same for both.
    pub(crate) fn has_same_reports(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Good(one), Self::Good(other)) => {
                digests::have_same_realms(one, other) && identity::have_same_parts(one, other)
            }
            _ => self == other,
        }
    }

    /// Returns why no user can be authenticated for this realm.
    pub(crate) fn lacks_realm(&self, key: &ResourceKey, realm: &str) -> Option<Unusable> {
        let Resource::Digests(digests) = &**self.good()? else { return None };
        if digests.realm(realm).is_some() {
            return None;
        }
        let known: Vec<String> = digests.realms.iter().map(|known| format!("{:?}", known.name)).collect();
        Some(Unusable {
            code: Code::SecretInvalid,
            reason: format!(
                "{} {} has no user of realm {realm:?}, which auth-realm asks for: its digests are for {}",
                key.kind.object(),
                key.name,
                known.join(", ")
            ),
            remedy: "set auth-realm to the realm that the digests were made for, or recreate them with htdigest; it \
                     is picked up without a restart"
                .to_owned(),
        })
    }

    /// Returns why it is unusable.
    pub(crate) fn fault(&self, key: &ResourceKey, options: &Options) -> Option<Unusable> {
        let (object, name) = (key.kind.object(), &key.name);
        let (missing, invalid) = match key.kind {
            ResourceKind::Headers
            | ResourceKind::GlobalHeaders
            | ResourceKind::GlobalResponseHeaders
            | ResourceKind::ResponseHeaders
            | ResourceKind::FastCgiParams => (Code::ConfigMapNotFound, Code::ConfigMapInvalid),
            ResourceKind::PasswordFile
            | ResourceKind::PasswordMap
            | ResourceKind::DigestFile
            | ResourceKind::DigestMap
            | ResourceKind::CertificateAuthorities
            | ResourceKind::EndpointIdentity
            | ResourceKind::EndpointTrust
            | ResourceKind::ClientAuthorities => (Code::SecretNotFound, Code::SecretInvalid),
        };
        match self {
            Self::Good(_) => None,
            Self::Bad(Bad { reason, remedy }) => Some(Unusable {
                code: invalid,
                reason: format!("{object} {name} {reason}"),
                remedy: format!("{remedy}; it is picked up without a restart"),
            }),
            Self::Missing => {
                let watched = options.watch_namespace.as_deref();
                if let Some(watched) = watched.filter(|watched| **watched != *name.namespace) {
                    return Some(Unusable {
                        code: missing,
                        reason: format!(
                            "{object} {name} is not read, because --watch-namespace is {watched}"
                        ),
                        remedy: format!("name one in namespace {watched}, or watch all namespaces"),
                    });
                }
                let how = match key.kind {
                    ResourceKind::PasswordFile => format!(
                        "create it: htpasswd -c auth USER, then kubectl -n {} create secret generic {} --from-file=auth",
                        name.namespace, name.name
                    ),
                    ResourceKind::PasswordMap => {
                        "create it with a key for each user and a password hash as its value".to_owned()
                    }
                    ResourceKind::DigestFile => format!(
                        "create it: htdigest -c auth REALM USER, with auth-realm as REALM, then kubectl -n {} create \
                         secret generic {} --from-file=auth",
                        name.namespace, name.name
                    ),
                    ResourceKind::DigestMap => {
                        "create it with a key for each user and REALM:DIGEST as its value".to_owned()
                    }
                    ResourceKind::Headers
            | ResourceKind::GlobalHeaders
            | ResourceKind::GlobalResponseHeaders
            | ResourceKind::ResponseHeaders => {
                        "create it with a key for each header field".to_owned()
                    }
                    ResourceKind::FastCgiParams => "create it with a key for each parameter".to_owned(),
                    ResourceKind::EndpointIdentity => {
                        "create it with authorities in PEM in its key ca.crt, a certificate in tls.crt and its key in tls.key, \
                         or either of the two".to_owned()
                    }
                    ResourceKind::CertificateAuthorities
                    | ResourceKind::EndpointTrust
                    | ResourceKind::ClientAuthorities => {
                        "create it with the certificates in PEM in its key ca.crt".to_owned()
                    }
                };
                Some(Unusable {
                    code: missing,
                    reason: format!("{object} {name} does not exist"),
                    remedy: format!("{how}; it is picked up without a restart"),
                })
            }
        }
    }
}
