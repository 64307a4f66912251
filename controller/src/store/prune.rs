//! From whole Kubernetes objects to the small ones that are kept. Both sources go through here, so that they
//! cannot differ in what they know.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::{DeserializeSeed, Deserializer};
use sluice_config::NamespacedName;
use sluice_config::text::one_line;

use super::names::Names;
use super::object::{Kind, Object, ObjectKey, ObjectSeed};
use super::reference::{Fields, Needs};
use super::{ConfigMap, EndpointSlice, Ingress, IngressClass, Namespace, Node, Secret, Service};
use crate::options::Options;

/// What is worth keeping, which depends on the flags.
#[derive(Clone, Debug)]
pub struct Prune {
    pub(super) annotation_prefix: Box<str>,
    pub(super) names: Arc<Names>,
    /// Whether somebody asks for hints of EndpointSlices.
    pub(super) hints: bool,
    /// The program's own.
    config_map: Option<NamespacedName>,
    needs: Needs,
}

/// Types of Secrets that never hold anything for a gateway, and that are most of the bytes in a cluster with Helm. A
/// watch leaves them to the API server.
const BULK: [&str; 2] = ["helm.sh/release.v1", "kubernetes.io/service-account-token"];

/// Why an object cannot be taken in at all.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// It has no name.
    #[error("metadata.name is missing: give the object a name")]
    NoName,
    /// It has one that no API server takes.
    #[error("{field} \"{text}\" is no name that Kubernetes takes: {rule}")]
    BadName {
        /// `metadata.name` or `metadata.namespace`.
        field: &'static str,
        /// Its value, as one line.
        text: Box<str>,
        /// What it must be.
        rule: &'static str,
    },
}

/// A type of the API of which pruning makes a small object.
pub(crate) trait Prunable: Sized {
    /// Its kind.
    const KIND: Kind;

    /// Makes it; `None` when nothing of it is needed.
    fn prune(self, prune: &Prune) -> Result<Option<Object>, PruneError>;
}

macro_rules! prunable {
    ($($api:ty, $kind:ident, |$name:ident, $object:ident, $prune:ident| $pruned:expr;)*) => {
        $(impl Prunable for $api {
            const KIND: Kind = Kind::$kind;

            fn prune(self, $prune: &Prune) -> Result<Option<Object>, PruneError> {
                let $name = $prune.name_of(&self.metadata, Self::KIND.is_namespaced())?;
                let $object = self;
                let pruned: Option<$kind> = $pruned;
                Ok(pruned.map(|pruned| Object::$kind(Arc::new(pruned))))
            }
        })*
    };
}

prunable! {
    networking::Ingress, Ingress, |name, object, prune| Some(Ingress::pruned(name, object, prune));
    networking::IngressClass, IngressClass, |name, object, prune| Some(IngressClass::pruned(name, object));
    core::Service, Service, |name, object, prune| Some(Service::pruned(name, object, &prune.names));
    discovery::EndpointSlice, EndpointSlice, |name, object, prune| {
        Some(EndpointSlice::pruned(name, object, prune))
    };
    // Of these, nothing when nothing refers to it.
    core::Secret, Secret, |name, object, prune| {
        let is_bulk = object.type_.as_deref().is_some_and(|kind| BULK.contains(&kind));
        let fields = prune.needs_of(Kind::Secret, &name).filter(|_| !is_bulk);
        fields.map(|fields| Secret::pruned(name, object, fields))
    };
    core::ConfigMap, ConfigMap, |name, object, prune| {
        prune.needs_of(Kind::ConfigMap, &name).map(|fields| ConfigMap::pruned(name, object, fields))
    };
    core::Namespace, Namespace, |name, object, prune| Some(Namespace::pruned(name, object));
    core::Node, Node, |name, object, prune| Some(Node::pruned(name, object));
}

impl Prune {
    /// What these flags make worth keeping: annotations under `--annotations-prefix`. Secrets and ConfigMaps are all
    /// kept.
    pub fn new(options: &Options) -> Self {
        Self::with(options, Needs::Everything)
    }

    /// The same, and of Secrets and ConfigMaps only what is needed, and the ConfigMap that a flag names.
    pub fn with(options: &Options, needs: Needs) -> Self {
        Self {
            annotation_prefix: format!("{}/", options.annotations_prefix).into(),
            names: Arc::default(),
            hints: options.enable_topology_aware_routing,
            config_map: options.configmap.clone(),
            needs,
        }
    }

    /// Decodes an object of a known kind and prunes it in the same step, from whatever format; `None` when nothing of it
    /// is needed.
    ///
    /// # Errors
    /// When it is none of its kind, or has no name that Kubernetes takes.
    pub fn read<'de, D: Deserializer<'de>>(&self, kind: Kind, input: D) -> Result<Option<Object>, D::Error> {
        ObjectSeed { kind, prune: self }.deserialize(input)
    }

    /// Something else is needed of this object from now on; none is nothing.
    pub(crate) fn need(&self, object: &ObjectKey, fields: Option<Fields>) {
        self.needs.set(object, fields);
    }

    /// What is needed of a Secret or ConfigMap, if anything.
    pub(crate) fn needs_of(&self, kind: Kind, name: &NamespacedName) -> Option<Fields> {
        if kind == Kind::ConfigMap && self.config_map.as_ref() == Some(name) {
            return Some(Fields::All);
        }
        self.needs.of(&ObjectKey { kind, name: name.clone() })
    }

    /// The name of an object, as pruning gives it.
    ///
    /// # Errors
    /// When it has none, or one that no API server takes.
    pub(crate) fn name_of(&self, meta: &ObjectMeta, namespaced: bool) -> Result<NamespacedName, PruneError> {
        let name = meta.name.as_deref().filter(|name| !name.is_empty()).ok_or(PruneError::NoName)?;
        let namespace = match meta.namespace.as_deref() {
            _ if !namespaced => "",
            None | Some("") => "default",
            Some(namespace) => namespace,
        };
        valid("metadata.name", name, SUBDOMAIN, 253, true)?;
        if !namespace.is_empty() {
            valid("metadata.namespace", namespace, LABEL, 63, false)?;
        }
        Ok(NamespacedName { namespace: self.names.share(namespace), name: name.into() })
    }
}

const SUBDOMAIN: &str =
    "write at most 253 lower-case letters, digits, - and ., with a letter or digit at both ends of each part";
const LABEL: &str = "write at most 63 lower-case letters, digits and -, with a letter or digit at both ends";

/// Holds a name against Kubernetes' rule. An API server has done so already; a folder takes what is written in it, and
/// a name with a line break in it would forge lines in every log that the object is named in.
fn valid(
    field: &'static str,
    text: &str,
    rule: &'static str,
    longest: usize,
    dots: bool,
) -> Result<(), PruneError> {
    let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let part = |part: &[u8]| {
        part.first().is_some_and(alphanumeric)
            && part.last().is_some_and(alphanumeric)
            && part.iter().all(|b| alphanumeric(b) || *b == b'-')
    };
    let good = text.len() <= longest && text.as_bytes().split(|b| dots && *b == b'.').all(part);
    let text = || one_line(text, 300).into();
    if good { Ok(()) } else { Err(PruneError::BadName { field, text: text(), rule }) }
}

/// Creation time in Unix seconds, as Kubernetes records it.
pub(super) fn created(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_that_are_never_for_a_gateway_are_not_kept() {
        let prune = Prune::new(&Options::default());
        let kept = |kind: Option<&str>| {
            let metadata = ObjectMeta { name: Some("a".to_owned()), ..ObjectMeta::default() };
            let secret = core::Secret { metadata, type_: kind.map(str::to_owned), ..core::Secret::default() };
            secret.prune(&prune).unwrap().is_some()
        };
        assert!(kept(None) && kept(Some("Opaque")) && kept(Some("kubernetes.io/tls")));
        assert!(BULK.iter().all(|kind| !kept(Some(kind))));
    }

    #[test]
    fn names_are_those_that_an_api_server_takes() {
        let prune = Prune::new(&Options::default());
        let named = |namespace: &str, name: &str| {
            let (name, namespace) = (Some(name.to_owned()), Some(namespace.to_owned()));
            prune.name_of(&ObjectMeta { name, namespace, ..ObjectMeta::default() }, true)
        };
        for good in ["a", "a-b.c-1", "0", &"a".repeat(253)] {
            assert!(named("shop", good).is_ok(), "{good}");
        }
        for bad in ["A", "a_b", "-a", "a-", "a..b", ".a", "a b", "a\nb", "a/b", "\u{e4}", &"a".repeat(254)] {
            assert!(named("shop", bad).is_err(), "{bad:?}");
        }
        for bad in ["a.b", "a\nERROR", "Shop", &"a".repeat(64)] {
            let error = named(bad, "a").unwrap_err().to_string();
            assert!(error.starts_with("metadata.namespace ") && !error.contains('\n'), "{error}");
        }
        assert!(named("shop", &"\n".repeat(1 << 20)).unwrap_err().to_string().len() < 1000);
    }
}
