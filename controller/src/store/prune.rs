//! The rules for what is kept of Kubernetes objects.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use sluice_config::NamespacedName;
use sluice_config::text::one_line;

use super::kind::{Kind, ObjectKey};
use super::names::InternedNames;
use super::reference::{DataFields, Needs};
use crate::options::Options;

/// The rules for what is kept, which depend on flags.
#[derive(Clone, Debug)]
pub struct Prune {
    pub(super) annotation_prefix: Box<str>,
    pub(super) names: Arc<InternedNames>,
    /// Whether hints of EndpointSlices are kept.
    pub(super) hints: bool,
    /// The program's own ConfigMap (`--configmap`).
    config_map: Option<NamespacedName>,
    needs: Needs,
}

/// Why an object cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PruneError {
    /// The name is missing.
    #[error("metadata.name is missing: give the object a name")]
    NoName,
    /// The name or namespace violates the rules of Kubernetes.
    #[error("{field} \"{text}\" is not a name allowed by Kubernetes: {rule}")]
    BadName {
        /// `metadata.name` or `metadata.namespace`.
        field: &'static str,
        /// The value, as one line.
        text: Box<str>,
        /// The rule.
        rule: &'static str,
    },
}

impl Prune {
    /// Creates rules that keep annotations under `--annotations-prefix`, and all Secrets and
    /// ConfigMaps.
    pub fn new(options: &Options) -> Self {
        Self::with(options, Needs::Everything)
    }

    /// Like [`new`](Self::new), but keeps only `needs` of Secrets and ConfigMaps, and the ConfigMap
    /// of `--configmap`.
    pub fn with(options: &Options, needs: Needs) -> Self {
        Self {
            annotation_prefix: format!("{}/", options.annotations_prefix).into(),
            names: Arc::default(),
            hints: options.enable_topology_aware_routing,
            config_map: options.configmap.clone(),
            needs,
        }
    }

    /// Sets the fields that are needed of this object. `None`: the object is not needed.
    pub(crate) fn need(&self, object: &ObjectKey, fields: Option<DataFields>) {
        self.needs.set(object, fields);
    }

    /// Returns the fields that are needed of a Secret or ConfigMap, or `None`.
    pub(crate) fn needs_of(&self, kind: Kind, name: &NamespacedName) -> Option<DataFields> {
        if kind == Kind::ConfigMap && self.config_map.as_ref() == Some(name) {
            return Some(DataFields::All);
        }
        self.needs.of(&ObjectKey { kind, name: name.clone() })
    }

    /// Returns the name of an object.
    ///
    /// # Errors
    /// The name is missing or invalid.
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

/// Validates a name by the rules of Kubernetes. API servers have already done so, but manifests in
/// a folder may contain anything: a name with a line break would forge lines in every log that
/// names the object.
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

/// Returns a creation time in Unix seconds.
pub(super) fn created(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_valid_for_an_api_server() {
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
