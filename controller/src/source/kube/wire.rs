//! Decoding of received objects: only the fields that pruning reads. Managed fields, the annotation
//! of `kubectl apply`, most of status, and all unreferenced Secrets and ConfigMaps are skipped as
//! text and never stored.
//!
//! Lists and watches are first split into the texts of single objects, which are decoded
//! separately: a malformed object is unreadable itself but does not fail its list.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;
use sluice_config::NamespacedName;

use super::failure::WatchFailure;
use super::known::Version;
use crate::store::{DataFields, Object, Prunable, Prune};

/// A decoded object.
#[derive(Debug)]
pub(super) enum Item {
    /// An object of this version.
    Object(Object, Version),
    /// Nothing of it is needed.
    Skipped,
    /// The object is unreadable. With its name, if that is readable.
    Unreadable(Option<NamespacedName>),
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// An object was added or modified.
    Put(&'a RawValue),
    /// An object was deleted.
    Gone(&'a RawValue),
    /// A bookmark: the current version of the watch, and whether its initial list is complete.
    Bookmark(String, bool),
    /// An error of the API server.
    Error(Box<kube::core::Status>),
}

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    metadata: PageHead,
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PageHead {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    rest: Option<String>,
}

/// Name and version of an object, decoded even if the rest is malformed.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Stub {
    metadata: StubHead,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StubHead {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A kind that is watched.
pub(super) trait Watched: Prunable + kube::Resource<DynamicType = ()> + Send + 'static {
    /// Decodes the fields that pruning reads.
    fn decode<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error>;
}

macro_rules! watched {
    ($($object:ty { $($field:ident: $type:ty),* };)*) => {
        $(impl Watched for $object {
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
        })*
    };
}

watched! {
    networking::Ingress { spec: Option<networking::IngressSpec>, status: Option<networking::IngressStatus> };
    networking::IngressClass { spec: Option<networking::IngressClassSpec> };
    core::Service { spec: Option<core::ServiceSpec> };
    discovery::EndpointSlice {
        address_type: String,
        endpoints: Option<Vec<discovery::Endpoint>>,
        ports: Option<Vec<discovery::EndpointPort>>
    };
    core::Secret { data: SecretData };
    core::ConfigMap { data: Option<BTreeMap<String, String>> };
    core::Namespace {};
    core::Node {};
}

impl Item {
    /// Returns the fields that were kept, for kinds where they depend on references.
    pub(super) fn fields(&self) -> Option<&DataFields> {
        match self {
            Self::Object(Object::Secret(secret), _) => Some(&secret.fields),
            Self::Object(Object::ConfigMap(config_map), _) => Some(&config_map.fields),
            _ => None,
        }
    }

    /// Returns the name of the object, if known.
    pub(super) fn name(&self) -> Option<&NamespacedName> {
        match self {
            Self::Object(object, _) => Some(object.name()),
            Self::Unreadable(name) => name.as_ref(),
            Self::Skipped => None,
        }
    }
}

/// Decodes one object.
pub(super) fn read<K: Watched>(text: &RawValue, prune: &Prune) -> Item {
    // Of an unreferenced object only the name is decoded.
    if K::KIND.is_referred()
        && let Some(name) = name::<K>(text, prune)
        && prune.needs_of(K::KIND, &name).is_none()
    {
        return Item::Skipped;
    }
    let mut input = serde_json::Deserializer::from_str(text.get());
    let Ok(object) = K::decode(&mut input) else { return Item::Unreadable(name::<K>(text, prune)) };
    let version = Version::of(object.meta().resource_version.as_deref().unwrap_or_default());
    match object.prune(prune) {
        Ok(Some(object)) => Item::Object(object, version),
        Ok(None) => Item::Skipped,
        // The name is missing or invalid.
        Err(_) => Item::Unreadable(None),
    }
}

/// Returns the name of an object, whatever else it contains.
pub(super) fn name<K: Watched>(text: &RawValue, prune: &Prune) -> Option<NamespacedName> {
    let Stub { metadata: StubHead { name, namespace, .. } } = serde_json::from_str(text.get()).ok()?;
    let meta = ObjectMeta { name, namespace, ..ObjectMeta::default() };
    prune.name_of(&meta, K::KIND.is_namespaced()).ok()
}

/// Returns the resource version of an object.
pub(super) fn version(text: &RawValue) -> Option<String> {
    let stub: Stub = serde_json::from_str(text.get()).ok()?;
    stub.metadata.resource_version.filter(|version| !version.is_empty())
}

/// Parses a line of a watch. Errors omit the reason, because the line may contain a Secret.
pub(super) fn line(text: &[u8]) -> Result<Line<'_>, WatchFailure> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Bookmark {
        metadata: BookmarkHead,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BookmarkHead {
        resource_version: String,
        annotations: Option<BTreeMap<String, String>>,
    }
    let odd = |_| WatchFailure::Refused("a watch with a line that is not an event".into());
    let event: Event<'_> = match serde_json::from_slice(text) {
        Ok(event) => event,
        Err(error) => {
            // A proxy in front of the API server may respond in a format of its own.
            let status = serde_json::from_slice(text).map_err(|_: serde_json::Error| odd(error))?;
            return Ok(Line::Error(Box::new(status)));
        }
    };
    match &*event.kind {
        "ADDED" | "MODIFIED" => Ok(Line::Put(event.object)),
        "DELETED" => Ok(Line::Gone(event.object)),
        "BOOKMARK" => {
            let bookmark: Bookmark = serde_json::from_str(event.object.get()).map_err(odd)?;
            let notes = bookmark.metadata.annotations.unwrap_or_default();
            let is_end = notes.contains_key("k8s.io/initial-events-end");
            Ok(Line::Bookmark(bookmark.metadata.resource_version, is_end))
        }
        "ERROR" => Ok(Line::Error(Box::new(serde_json::from_str(event.object.get()).map_err(odd)?))),
        _ => Err(WatchFailure::Refused("a watch with an event of an unknown type".into())),
    }
}

impl<'a> Page<'a> {
    /// Parses a page.
    pub(super) fn read(text: &'a str) -> Result<Self, WatchFailure> {
        // Omits the reason, because the response may contain Secrets.
        serde_json::from_str(text).map_err(|_| WatchFailure::Refused("an answer that is not a list".into()))
    }

    /// Returns the texts of its objects.
    pub(super) fn items(&self) -> impl Iterator<Item = &'a RawValue> {
        self.items.iter().flatten().copied()
    }

    /// Returns the version of the whole list.
    pub(super) fn version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref().filter(|version| !version.is_empty())
    }

    /// Returns the token for the next page, or `None` for the last one.
    pub(super) fn rest(&self) -> Option<&str> {
        self.metadata.rest.as_deref().filter(|rest| !rest.is_empty())
    }
}

/// `metadata`.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    generation: Option<i64>,
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
            uid: head.uid,
            generation: head.generation,
            resource_version: head.resource_version,
            creation_timestamp: head.creation_timestamp,
            labels: head.labels,
            annotations: Some(head.annotations.0),
            ..Self::default()
        }
    }
}

/// Annotations except the copy of the object.
#[derive(Default)]
struct Annotations(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Filtered { wanted: |key| key != LAST_APPLIED, map: BTreeMap::new() }).map(Self)
    }
}

/// `data` of a Secret. A value that cannot be decoded counts as absent and does not affect others.
#[derive(Default, Deserialize)]
struct SecretData(Option<BTreeMap<String, String>>);

impl From<SecretData> for Option<BTreeMap<String, ByteString>> {
    fn from(data: SecretData) -> Self {
        let decoded = |(key, text): (String, String)| Some((key, ByteString(STANDARD.decode(text).ok()?)));
        Some(data.0.unwrap_or_default().into_iter().filter_map(decoded).collect())
    }
}

/// Decodes those entries of a map whose key is `wanted`. `null` is an empty map.
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
    use crate::store::Kind;
    use crate::store::{Needs, ObjectKey};

    fn decoded<K: Watched>(object: &serde_json::Value) -> K {
        K::decode(object).unwrap()
    }

    fn raw(object: &serde_json::Value) -> Box<RawValue> {
        RawValue::from_string(object.to_string()).unwrap()
    }

    #[test]
    fn the_bulk_of_an_object_is_left_out() {
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {
                "name": "a", "namespace": "n", "resourceVersion": "7", "labels": {"l": "1"},
                "annotations": {LAST_APPLIED: "{}", "other": "x"},
                "managedFields": [{"manager": "kubectl", "operation": "Apply"}],
            },
            "data": {"tls.crt": "YQ==", "other": "no base64", "tls.key": "Yg=="},
        });
        let secret: core::Secret = decoded(&object);
        assert_eq!(secret.name_any(), "a");
        assert_eq!(secret.resource_version().as_deref(), Some("7"));
        assert_eq!(secret.annotations().keys().collect::<Vec<_>>(), ["other"]);
        assert!(secret.managed_fields().is_empty());
        let data = secret.data.as_ref().unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), ["tls.crt", "tls.key"]);
        let empty: core::Secret =
            decoded(&json!({"metadata": {"name": "b", "annotations": null}, "data": null}));
        assert_eq!(empty.data, Some(BTreeMap::new()));
    }

    #[test]
    fn only_needed_objects_and_fields_are_decoded() {
        let needs = Needs::nothing();
        let prune = Prune::with(&crate::Options::default(), needs.clone());
        let secret = raw(&json!({
            "metadata": {"name": "a", "namespace": "n"}, "data": {"auth": "YQ==", "tls.key": "Yg=="},
        }));
        let broken = raw(&json!({"metadata": {"name": "a", "namespace": "n"}, "data": 7}));
        for text in [&secret, &broken] {
            assert!(matches!(read::<core::Secret>(text, &prune), Item::Skipped));
        }
        let key = ObjectKey { kind: Kind::Secret, name: NamespacedName::new("n", "a") };
        needs.set(&key, Some(DataFields::named(&["auth"])));
        let Item::Object(Object::Secret(kept), _) = read::<core::Secret>(&secret, &prune) else { panic!() };
        assert_eq!((kept.get("auth"), kept.data.len()), (Some(&b"a"[..]), 1));
        assert!(matches!(read::<core::Secret>(&broken, &prune), Item::Unreadable(Some(_))));
        needs.set(&key, None);
        assert!(matches!(read::<core::Secret>(&secret, &prune), Item::Skipped));
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
        let slim: discovery::EndpointSlice = decoded(&object);
        let whole: discovery::EndpointSlice = serde_json::from_value(object).unwrap();
        assert_eq!(slim.prune(&prune).unwrap(), whole.prune(&prune).unwrap());
    }

    #[test]
    fn an_object_that_cannot_be_read_still_has_a_name() {
        let prune = Prune::new(&crate::Options::default());
        let unreadable = |object: serde_json::Value| match read::<core::Service>(&raw(&object), &prune) {
            Item::Unreadable(name) => name.map(|name| name.to_string()),
            other => panic!("{other:?}"),
        };
        let meta = json!({"name": "a", "namespace": "n", "labels": 7});
        assert_eq!(unreadable(json!({"metadata": meta})).as_deref(), Some("n/a"));
        let spec = json!({"ports": "many"});
        assert_eq!(
            unreadable(json!({"metadata": {"name": "a", "namespace": "n"}, "spec": spec})).as_deref(),
            Some("n/a")
        );
        assert_eq!(unreadable(json!({"metadata": {"name": 7}})), None);
        assert_eq!(unreadable(json!({"metadata": {}})), None);
        assert_eq!(unreadable(json!(["a"])), None);
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let text = format!("{{\"metadata\":{{\"name\":\"a\"}},\"spec\":{deep}}}");
        let text = RawValue::from_string(text).unwrap();
        assert_eq!(name::<core::Service>(&text, &prune), Some(NamespacedName::new("default", "a")));
        assert!(matches!(read::<core::Service>(&text, &prune), Item::Unreadable(Some(_))));
    }

    #[test]
    fn pages_and_lines_of_every_form() {
        let text = r#"{"kind":"List","metadata":{"resourceVersion":"9","continue":"x"},"items":[{"a":1},7]}"#;
        let page = Page::read(text).unwrap();
        assert_eq!(page.items().map(RawValue::get).collect::<Vec<_>>(), ["{\"a\":1}", "7"]);
        assert_eq!((page.version(), page.rest()), (Some("9"), Some("x")));
        let page = Page::read(r#"{"metadata":{"continue":""},"items":null}"#).unwrap();
        assert_eq!((page.items().count(), page.version(), page.rest()), (0, None, None));
        assert!(Page::read("<html>").is_err());

        assert!(matches!(line(br#"{"type":"ADDED","object":{}}"#), Ok(Line::Put(_))));
        assert!(matches!(line(br#"{"object":{},"type":"DELETED"}"#), Ok(Line::Gone(_))));
        let bookmark = |notes: &str| {
            format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{{"resourceVersion":"5"{notes}}}}}}}"#)
        };
        let end = bookmark(r#","annotations":{"k8s.io/initial-events-end":"true"}"#);
        assert!(matches!(line(end.as_bytes()), Ok(Line::Bookmark(version, true)) if version == "5"));
        assert!(matches!(line(bookmark("").as_bytes()), Ok(Line::Bookmark(_, false))));
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","message":"old","code":410}"#;
        for text in [format!(r#"{{"type":"ERROR","object":{status}}}"#), status.to_owned()] {
            assert!(matches!(line(text.as_bytes()), Ok(Line::Error(status)) if status.code == 410), "{text}");
        }
        for odd in ["", "{", "<html>", r#"{"type":"ODD","object":{}}"#, r#"{"type":"BOOKMARK","object":{}}"#]
        {
            assert!(line(odd.as_bytes()).is_err(), "{odd}");
        }
    }
}
