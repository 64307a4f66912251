//! What is decoded of an object on its way in: the parts that pruning looks at and nothing else. Managed
//! fields, the copy that `kubectl apply` leaves in an annotation, status, and all of a Secret but the keys
//! that are used are skipped as text and never become memory.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::core::DynamicResourceScope;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};

use crate::store::{Kind, Object, Prune, PruneError, Secret};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind that is watched.
pub(super) trait Watched: kube::Resource<DynamicType = ()> + Clone + Send + 'static {
    /// Its kind.
    const KIND: Kind;

    /// Decodes what pruning looks at.
    fn decode<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error>;

    /// Prunes it.
    fn prune(self, prune: &Prune) -> Result<Option<Object>, PruneError>;
}

/// An object of a kind, decoded in part.
#[derive(Clone)]
pub(super) struct Slim<K>(pub(super) K);

macro_rules! watched {
    ($($kind:ident: $object:ty { $($field:ident: $type:ty),* }, $prune:expr;)*) => {
        $(impl Watched for $object {
            const KIND: Kind = Kind::$kind;

            #[allow(clippy::needless_update, reason = "some kinds have no fields besides these")]
            fn decode<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    #[serde(default)]
                    metadata: Head,
                    $(#[serde(default)]
                    $field: $type,)*
                }
                let wire = Wire::deserialize(input)?;
                Ok(Self { metadata: wire.metadata.into(), $($field: wire.$field.into(),)* ..Self::default() })
            }

            fn prune(self, prune: &Prune) -> Result<Option<Object>, PruneError> {
                let how: fn(&Prune, Self) -> Result<Option<Object>, PruneError> = $prune;
                how(prune, self)
            }
        })*
    };
}

watched! {
    Ingress: networking::Ingress { spec: Option<networking::IngressSpec> },
        |prune, object| prune.ingress(object).map(Some);
    IngressClass: networking::IngressClass { spec: Option<networking::IngressClassSpec> },
        |prune, object| prune.ingress_class(object).map(Some);
    Service: core::Service { spec: Option<core::ServiceSpec> },
        |prune, object| prune.service(object).map(Some);
    EndpointSlice: discovery::EndpointSlice {
        address_type: String,
        endpoints: Option<Vec<discovery::Endpoint>>,
        ports: Option<Vec<discovery::EndpointPort>>
    }, |prune, object| prune.endpoint_slice(object).map(Some);
    Secret: core::Secret { data: SecretData }, |prune, object| prune.secret(object).map(Some);
    ConfigMap: core::ConfigMap { data: Option<BTreeMap<String, String>> },
        |prune, object| prune.config_map(object);
    Namespace: core::Namespace {}, |prune, object| prune.namespace(object).map(Some);
}

impl<'de, K: Watched> Deserialize<'de> for Slim<K> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        K::decode(input).map(Slim)
    }
}

impl<K: Watched> kube::Resource for Slim<K> {
    type DynamicType = ();
    // So that one code serves kinds of the cluster and of namespaces.
    type Scope = DynamicResourceScope;

    fn kind(_: &()) -> std::borrow::Cow<'_, str> {
        K::kind(&())
    }

    fn group(_: &()) -> std::borrow::Cow<'_, str> {
        K::group(&())
    }

    fn version(_: &()) -> std::borrow::Cow<'_, str> {
        K::version(&())
    }

    fn plural(_: &()) -> std::borrow::Cow<'_, str> {
        K::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        self.0.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.0.meta_mut()
    }
}

/// Only the name: what is in a Secret must not get into a log by way of a library.
impl<K: Watched> fmt::Debug for Slim<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meta = self.0.meta();
        write!(f, "{} {:?}/{:?}", K::KIND.as_str(), meta.namespace, meta.name)
    }
}

/// `metadata`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Annotations,
}

impl From<Head> for ObjectMeta {
    fn from(head: Head) -> Self {
        Self {
            name: head.name,
            namespace: head.namespace,
            resource_version: head.resource_version,
            creation_timestamp: head.creation_timestamp,
            labels: head.labels,
            annotations: Some(head.annotations.0),
            ..Self::default()
        }
    }
}

/// Annotations but for the copy of the object.
#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Filtered { wanted: |key| key != LAST_APPLIED, map: BTreeMap::new() }).map(Self)
    }
}

/// `data` of a Secret: the keys that are used.
#[derive(Default)]
struct SecretData(BTreeMap<String, ByteString>);

impl<'de> Deserialize<'de> for SecretData {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let wanted = |key: &str| Secret::KEYS.contains(&key);
        input.deserialize_any(Filtered { wanted, map: BTreeMap::new() }).map(Self)
    }
}

impl From<SecretData> for Option<BTreeMap<String, ByteString>> {
    fn from(data: SecretData) -> Self {
        Some(data.0)
    }
}

/// Decodes those entries of a map that are wanted; `null` is an empty map.
struct Filtered<V> {
    wanted: fn(&str) -> bool,
    map: BTreeMap<String, V>,
}

impl<'de, V: DeserializeOwned> Visitor<'de> for Filtered<V> {
    type Value = BTreeMap<String, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(self.map)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut input: A) -> Result<Self::Value, A::Error> {
        while let Some(key) = input.next_key::<String>()? {
            if (self.wanted)(&key) {
                self.map.insert(key, input.next_value()?);
            } else {
                input.next_value::<IgnoredAny>()?;
            }
        }
        Ok(self.map)
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_bulk_of_an_object_is_left_out() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {
                "name": "a", "namespace": "n", "resourceVersion": "7", "labels": {"l": "1"},
                "annotations": {LAST_APPLIED: "{}", "other": "x"},
                "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
            },
            "data": {"tls.crt": "YQ==", "other": "not base64 and never looked at", "tls.key": "Yg=="},
        });
        let secret: Slim<core::Secret> = serde_json::from_value(object).unwrap();
        assert_eq!(secret.name_any(), "a");
        assert_eq!(secret.resource_version().as_deref(), Some("7"));
        assert_eq!(secret.annotations().keys().collect::<Vec<_>>(), ["other"]);
        assert!(secret.managed_fields().is_empty());
        let data = secret.0.data.as_ref().unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["tls.crt", "tls.key"]);
        assert!(!format!("{secret:?}").contains("97"), "{secret:?}");
        let empty: Slim<core::Secret> =
            serde_json::from_value(json!({"metadata": {"name": "b", "annotations": null}, "data": null}))
                .unwrap();
        assert_eq!(empty.0.data, Some(BTreeMap::new()));
    }

    #[test]
    fn pruning_gives_the_same_as_the_whole_object() {
        let object = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "namespace": "n", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "zone": "a"}],
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        });
        let prune = Prune::new(&crate::Options::default());
        let whole: discovery::EndpointSlice = serde_json::from_value(object.clone()).unwrap();
        let slim: Slim<discovery::EndpointSlice> = serde_json::from_value(object).unwrap();
        assert_eq!(slim.0.prune(&prune).unwrap(), Some(prune.endpoint_slice(whole).unwrap()));
    }
}
