//! The served kinds, and the key of an object of any of them.

use std::fmt;
use std::sync::{Arc, LazyLock};

use sluice_config::{NamespacedName, ObjectRef};

use super::kinds::for_each_kind;

/// Whether the program requires a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Every API server has it. If it is missing, something is wrong and the start waits.
    Required,
    /// Belongs to a CustomResourceDefinition that may not be installed. Its absence is not a
    /// problem; objects are picked up once it is installed.
    Optional,
}

macro_rules! kinds {
    ($($kind:ident: $store:ident, $api:ty, $group:literal, $resource:literal, $namespaced:literal, $need:ident,
        $doc:literal;)*) => {
        /// A kind that translation reads. Other kinds are skipped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $doc] $kind,)*
        }

        impl Kind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// Returns the name in Kubernetes' spelling.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$kind => stringify!($kind),)* }
            }

            /// Returns the API group.
            pub fn group(self) -> &'static str {
                match self { $(Self::$kind => $group,)* }
            }

            /// Returns the resource name for RBAC rules.
            pub fn resource(self) -> &'static str {
                match self { $(Self::$kind => $resource,)* }
            }

            /// Returns whether objects of this kind are namespaced.
            pub fn is_namespaced(self) -> bool {
                match self { $(Self::$kind => $namespaced,)* }
            }

            /// Returns whether the program requires the kind.
            pub fn need(self) -> Need {
                match self { $(Self::$kind => Need::$need,)* }
            }
        }
    };
}

for_each_kind!(kinds);

impl Kind {
    /// Returns the kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind of an object with this `apiVersion` and `kind`. Other versions of a served
    /// group match too, so that decoding them reports the wrong version.
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        Self::named(kind).filter(|kind| kind.group() == group)
    }

    /// Returns the RBAC rule that permits reading it.
    pub(crate) fn rule(self) -> String {
        format!(
            "{{apiGroups: [{:?}], resources: [{:?}], verbs: [\"list\", \"watch\"]}}",
            self.group(),
            self.resource()
        )
    }
}

/// The key of an object of a served kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind.
    pub kind: Kind,
    /// Name and namespace. The namespace is empty for cluster-scoped kinds.
    pub name: NamespacedName,
}

impl ObjectKey {
    /// Returns the key as a reference for problems and origins of rules.
    pub fn object_ref(&self) -> ObjectRef {
        // Thousands of rules hold the name of their kind.
        static NAMES: LazyLock<Box<[Arc<str>]>> =
            LazyLock::new(|| Kind::ALL.iter().map(|kind| kind.as_str().into()).collect());
        ObjectRef { kind: NAMES[self.kind as usize].clone(), name: self.name.clone() }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}
