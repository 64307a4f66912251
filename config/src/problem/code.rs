//! Problem codes. A code is a stable interface: alerts, dashboards and scripts refer to it, so its
//! meaning never changes. `docs/problems.md` is generated from this table.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The class of a problem, by the place of its cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Class {
    /// The object has an invalid value: correct the object.
    OwnFault,
    /// The object refers to one that is absent or unusable: create or correct that one.
    MissingReference,
    /// Two objects claim the same thing: change one of them.
    Conflict,
    /// The object is valid, but Sluice does not implement the request.
    NotServed,
    /// The data plane cannot apply its configuration, or detected a problem at run time.
    DataPlane,
    /// The source (the Kubernetes API, the folder of manifests) cannot be read correctly.
    Source,
}

impl Class {
    /// Returns the printed form.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OwnFault => "own-fault",
            Self::MissingReference => "missing-reference",
            Self::Conflict => "conflict",
            Self::NotServed => "not-served",
            Self::DataPlane => "data-plane",
            Self::Source => "source",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

macro_rules! codes {
    ($($name:ident: $class:ident = $doc:literal;)*) => {
        /// The kind of a problem. Prints as its name, in the style of Kubernetes reasons.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code {
            $(#[doc = $doc] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the printed form.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Returns the class.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class,)* }
            }

            /// Returns the meaning, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $doc,)* }
            }
        }
    };
}

codes! {
    AnnotationInvalid: OwnFault = "An annotation has a value that it cannot have.";
    AnnotationForbidden: OwnFault = "An annotation is forbidden by the ConfigMap: by its risk or by a blocked word.";
    AnnotationUnknown: OwnFault = "There is no annotation of this name.";
    AnnotationSuperseded: OwnFault = "An older name of an annotation is ignored, because the newer one is given too.";
    AnnotationWithoutEffect: NotServed = "An annotation is accepted and never has an effect.";
    AnnotationNotServed: NotServed = "An annotation, or its value, is known and not served yet.";
    KeyInvalid: OwnFault = "A ConfigMap key has a value that it cannot have.";
    KeyUnknown: OwnFault = "There is no ConfigMap key of this name.";
    KeyWithoutEffect: NotServed = "A ConfigMap key is accepted and never has an effect.";
    KeyNotServed: NotServed = "A ConfigMap key, or its value, is known and not served yet.";
    HostInvalid: OwnFault = "The host of a rule is none that an Ingress may have.";
    HostClosed: Conflict = "Another object on the same host closes all of it.";
    PathInvalid: OwnFault = "A path is none that a request can have.";
    ExpressionInvalid: NotServed = "A path is a regular expression that cannot be read.";
    RewriteInvalid: OwnFault = "A path cannot be rewritten as its Ingress asks.";
    RewriteGroupMissing: OwnFault = "A rewriting names a group by a number that the path does not have.";
    SessionPathMissing: OwnFault = "Paths are expressions, and nothing says for which path a session cookie is.";
    CanaryWithoutMain: MissingReference = "A canary has a path that no main Ingress has.";
    CanaryConflict: Conflict = "The main Ingress of a canary has the same Service, or the canaries of a path want more than all requests.";
    CanaryIdle: OwnFault = "Nothing says which requests a canary takes.";
    CanaryAnnotationIgnored: OwnFault = "An annotation of a canary has no effect: the main Ingress decides.";
    PathUnusual: OwnFault = "A path of type Exact or Prefix has unusual characters.";
    EndpointTlsOfSibling: Conflict = "Another Ingress of the namespace has proxy-ssl annotations for the same host, which count for its own paths only.";
    PathConflict: Conflict = "An older object has the same path of the same host.";
    AliasConflict: Conflict = "A further name of a host (an alias, or its name with or without www.) belongs to another Ingress.";
    DefaultBackendConflict: Conflict = "An older object has the default backend of the same host.";
    CatchAllDisabled: OwnFault = "A default backend is refused by --disable-catch-all.";
    ClassNotFound: MissingReference = "The IngressClass does not exist.";
    ClassUndecided: Source = "Nothing tells whether the class is ours: IngressClasses cannot be listed.";
    BackendMissing: OwnFault = "A backend names no Service.";
    BackendNotServed: NotServed = "A backend is of a kind that is not served.";
    ServiceNotFound: MissingReference = "The Service does not exist.";
    ServicePortNotFound: MissingReference = "The Service has no such port.";
    ServicePortByTarget: OwnFault = "A port is named by the Service's targetPort.";
    ServiceAddressMissing: MissingReference = "The Service has no address of its own, and service-upstream asks for it.";
    ServiceExternal: NotServed = "The Service is of type ExternalName.";
    AppProtocolDiffers: NotServed = "The appProtocol of a Service port is obeyed; ingress-nginx ignores it. Only sluice check reports it.";
    SecretNotFound: MissingReference = "The Secret does not exist.";
    SecretInvalid: MissingReference = "The Secret exists and cannot be used.";
    ConfigMapNotFound: MissingReference = "The ConfigMap does not exist.";
    ConfigMapInvalid: MissingReference = "The ConfigMap exists and cannot be used.";
    ReferenceForbidden: OwnFault = "An object of another namespace is named, which the rules do not allow.";
    CertificateInvalid: OwnFault = "A TLS Secret holds no certificate and key that can be used.";
    CertificateMismatch: OwnFault = "The certificate is not valid for the host.";
    HostWithoutCertificate: OwnFault = "No entry of spec.tls is for the host.";
    NameNotResolved: MissingReference = "The name of a service outside of the cluster cannot be resolved.";
    AddressInvalid: OwnFault = "An endpoint's address is no IP address.";
    AddressTypeNotServed: NotServed = "An EndpointSlice has addresses of a type that is not served.";
    HostRefused: DataPlane = "The data plane cannot serve a host as it was told; every path of it answers 503.";
    MatchRefused: DataPlane = "The data plane cannot use a match of a host; every path of the host answers 503.";
    PolicyRefused: DataPlane = "The data plane cannot use a policy of a host; every path of the host answers 503.";
    CertificateRefused: DataPlane = "The data plane cannot use a certificate; the one before it stays in force.";
    ResourceRefused: DataPlane = "The data plane cannot use a resource; routes that need it answer 503.";
    HealthCheckRefused: DataPlane = "The data plane cannot make an active health check; the endpoints are served unchecked.";
    PartRefused: DataPlane = "The data plane cannot use a part of the configuration; what it had before stays in force.";
    ListenerNotBound: DataPlane = "A socket cannot be bound.";
    LogNotOpened: DataPlane = "A log cannot be written where it should be; its lines go to the standard stream.";
    ProxyNotTrusted: DataPlane = "A proxy that is not trusted sends requests that are redirected to https endlessly.";
    EndpointIsGateway: DataPlane = "An endpoint is a listener of the gateway itself.";
    FileUnreadable: Source = "A file or folder of manifests cannot be read.";
    FileIgnored: Source = "A file or folder of manifests is left out.";
    FolderNotWatched: Source = "The folder of manifests cannot be watched and is looked through instead.";
    ManifestInvalid: OwnFault = "A manifest cannot be understood.";
    ManifestDuplicate: Conflict = "Two manifests are of the same object.";
    ApiAway: Source = "The Kubernetes API does not answer.";
    ApiForbidden: Source = "A right to read from the Kubernetes API is missing.";
    RightMissing: Source = "A right that one of the controller's duties needs is missing.";
    DutyFailed: Source = "The Kubernetes API refuses what one of the controller's duties asks for.";
    AddressUnknown: MissingReference = "Nothing says which address the status of Ingresses shall have.";
    ZoneUnknown: MissingReference = "Nothing says in which zone the gateway runs, so hints for zones have no effect.";
    WebhookCertificate: OwnFault = "The certificate or the key of the validating webhook cannot be used.";
    StatusContested: Conflict = "Somebody else writes the status of the Ingress too.";
    ApiUnauthorized: Source = "The Kubernetes API does not accept our credentials.";
    ApiRefused: Source = "The Kubernetes API refuses a request.";
    KindNotFound: Source = "The Kubernetes API has no such kind.";
    ObjectUnreadable: Source = "The Kubernetes API gives an object in a form that cannot be read.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Returns the table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    let mut text = String::from("| code | class | meaning |\n|---|---|---|\n");
    for code in Code::ALL {
        text.push_str(&format!("| `{code}` | {} | {} |\n", code.class(), code.meaning()));
    }
    text
}
