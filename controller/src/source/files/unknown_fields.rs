//! Fields of a manifest that its kind does not have.
//!
//! An API server refuses or reports them. Without one they must not be ignored silently: a misspelt
//! `metadata.annotations` serves an Ingress without the protections that it requests.

use serde::de::{DeserializeSeed, Deserializer};
use serde_ignored::Path;
use sluice_config::{Code, Problem};

use crate::nearest::nearest;
use crate::problem::error;
use crate::store::{Object, ObjectSeed};

/// Written by the API server and not read from a manifest. Newer versions add fields to it.
const STATUS: &str = "status";

/// The fields that authors write, for suggestions.
const KNOWN: [&str; 43] = [
    "addressType",
    "addresses",
    "annotations",
    "apiVersion",
    "appProtocol",
    "backend",
    "binaryData",
    "clusterIP",
    "conditions",
    "controller",
    "data",
    "defaultBackend",
    "endpoints",
    "externalName",
    "host",
    "hosts",
    "http",
    "ingressClassName",
    "kind",
    "labels",
    "metadata",
    "name",
    "namespace",
    "nodeName",
    "number",
    "parameters",
    "path",
    "pathType",
    "paths",
    "port",
    "ports",
    "protocol",
    "resource",
    "rules",
    "secretName",
    "selector",
    "service",
    "spec",
    "stringData",
    "targetPort",
    "tls",
    "type",
    "zone",
];

/// An object with the paths of the fields that its kind does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InexactObject {
    /// The object without them.
    pub(super) object: Object,
    /// Their paths, such as `metadata.annotation`.
    pub(super) unknown: Vec<Box<str>>,
}

/// A decoded and pruned object.
pub(super) struct Decoded {
    /// `None` if nothing of the object is needed.
    pub(super) object: Option<Object>,
    /// The paths of unknown fields.
    pub(super) unknown: Vec<Box<str>>,
}

/// Decodes and prunes an object, and notes unknown fields.
pub(super) fn decode<'de, D: Deserializer<'de>>(input: D, seed: ObjectSeed<'_>) -> Result<Decoded, D::Error> {
    let mut unknown = Vec::new();
    let mut see = |path: Path<'_>| {
        if !is_in_status(&path) {
            unknown.push(text(&path).into());
        }
    };
    let object = seed.deserialize(serde_ignored::Deserializer::new(input, &mut see))?;
    Ok(Decoded { object, unknown })
}

impl InexactObject {
    /// Returns a problem for each unknown field. `place` names the file and line of the object.
    pub(super) fn problems(&self, place: &str) -> impl Iterator<Item = Problem> {
        let object = self.object.key().object_ref();
        self.unknown.iter().map(move |path| {
            let message = format!("{} has no such field, so it is ignored ({place})", object.kind);
            error(Code::ManifestFieldUnknown, &object, &**path, message, remedy(path))
        })
    }
}

fn remedy(path: &str) -> String {
    if path.starts_with("metadata.") && path.contains('/') {
        return "indent it as an entry of metadata.annotations".to_owned();
    }
    let name = path.rsplit('.').next().unwrap_or_default();
    match nearest(KNOWN.into_iter(), name) {
        Some(known) if known == name => {
            "indent it as part of the object that has it, or remove it".to_owned()
        }
        Some(known) => format!("did you mean {known}?"),
        None => "correct its name, or remove it".to_owned(),
    }
}

fn is_in_status(path: &Path<'_>) -> bool {
    match path {
        Path::Root => false,
        Path::Map { parent: Path::Root, key } => key == STATUS,
        Path::Seq { parent, .. }
        | Path::Map { parent, .. }
        | Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => is_in_status(parent),
    }
}

/// Returns a path as problems write it, such as `spec.rules[0].host`.
fn text(path: &Path<'_>) -> String {
    match path {
        Path::Root => String::new(),
        Path::Seq { parent, index } => format!("{}[{index}]", text(parent)),
        Path::Map { parent, key } => match text(parent) {
            parent if parent.is_empty() => key.clone(),
            parent => format!("{parent}.{key}"),
        },
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            text(parent)
        }
    }
}
