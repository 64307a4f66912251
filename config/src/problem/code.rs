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
    AuthorisationByAnyHost: OwnFault = "The host of requests determines the authorisation service, on a rule for all hosts or for an expression, which is \
                                         closed: clients would choose the service.";
    AnnotationInvalid: OwnFault = "An annotation has an invalid value.";
    AnnotationForbidden: OwnFault = "An annotation is forbidden by the ConfigMap: by its risk or by a blocked word.";
    AnnotationUnknown: OwnFault = "The annotation does not exist.";
    AnnotationSuperseded: OwnFault = "The older name of an annotation is ignored because the newer one is \
                                      set too.";
    AnnotationWithoutEffect: NotServed = "An annotation is accepted but has no effect.";
    AnnotationNotServed: NotServed = "An annotation or its value is not served yet.";
    VariableWithoutValue: NotServed = "A text names a variable that has no value where it is used; it is empty there.";
    SnippetNotTranslated: NotServed = "A snippet has a directive that is not translated.";
    KeyInvalid: OwnFault = "A ConfigMap key has an invalid value.";
    KeyUnknown: OwnFault = "The ConfigMap key does not exist.";
    KeyWithoutEffect: NotServed = "A ConfigMap key is accepted but has no effect.";
    KeyNotServed: NotServed = "A ConfigMap key or its value is not served yet.";
    FlagWithoutEffect: NotServed = "A flag of the old installation is accepted but has no effect. Only sluice check \
                                    reports this.";
    ValueNotServed: NotServed = "A chart value of the old installation is refused, ignored or unknown. Only \
                                 sluice check reports this.";
    HostInvalid: OwnFault = "The host of a rule is invalid.";
    HostClosed: Conflict = "Another object on the same host closes the whole host.";
    PathInvalid: OwnFault = "A path is invalid: no request can have it.";
    ExpressionInvalid: NotServed = "A path is a regular expression that cannot be parsed.";
    RewriteInvalid: OwnFault = "A path cannot be rewritten as its Ingress specifies.";
    RewriteGroupMissing: OwnFault = "A rewrite target names a group number that the path does not contain.";
    SessionPathMissing: OwnFault = "Paths are regular expressions, and session-cookie-path is missing.";
    CanaryWithoutMain: MissingReference = "No main Ingress has the path of a canary.";
    CanaryConflict: Conflict = "A canary has the Service of its main Ingress, or the weights of a path's \
                                canaries exceed the total.";
    CanaryIdle: OwnFault = "A canary has neither a weight nor a header or cookie that selects requests.";
    CanaryAnnotationIgnored: OwnFault = "An annotation of a canary has no effect: the main Ingress decides.";
    PathUnusual: OwnFault = "A path of type Exact or Prefix has unusual characters.";
    EndpointTlsOfSibling: Conflict = "An Ingress of another namespace has proxy-ssl annotations for the \
                                      same host, which apply only to its own namespace.";
    ClientCertificatesOfSibling: Conflict = "An Ingress of another namespace requires client certificates for \
                                             the same host, which applies to all Ingresses of the host.";
    PathConflict: Conflict = "An older object has the same path of the same host.";
    AliasConflict: Conflict = "An additional name of a host (an alias, or its name with or without www.) \
                               belongs to another Ingress.";
    DefaultBackendConflict: Conflict = "An older object decides the default backend of the same host.";
    CatchAllDisabled: OwnFault = "A default backend is refused by --disable-catch-all.";
    NoIngressServed: Source = "No Ingress is read, or none of them is served. Only sluice check reports this.";
    ClassNotFound: MissingReference = "The IngressClass does not exist.";
    ClassUndecided: Source = "IngressClasses cannot be listed, so the owner of the class is unknown.";
    BackendMissing: OwnFault = "A backend names no Service.";
    BackendNotServed: NotServed = "A backend is of a kind that is not served.";
    ServiceNotFound: MissingReference = "The Service does not exist.";
    ServicePortNotFound: MissingReference = "The Service has no such port.";
    ServicePortByTarget: OwnFault = "A port is named by the Service's targetPort.";
    ServiceAddressMissing: MissingReference = "service-upstream needs the address of the Service, and the \
                                               Service has none.";
    ServiceExternal: NotServed = "The Service is of type ExternalName.";
    AppProtocolDiffers: NotServed = "The appProtocol of a Service port applies; ingress-nginx ignores it. \
                                     Only sluice check reports this.";
    SecretNotFound: MissingReference = "The Secret does not exist.";
    SecretInvalid: MissingReference = "The Secret exists but is unusable.";
    ConfigMapNotFound: MissingReference = "The ConfigMap does not exist.";
    ConfigMapInvalid: MissingReference = "The ConfigMap exists but is unusable.";
    StreamInvalid: OwnFault = "An entry of the TCP or UDP services cannot be read.";
    StreamPortReserved: Conflict = "A TCP or UDP service has a port that the gateway itself uses.";
    ReferenceForbidden: OwnFault = "A reference to an object of another namespace is not allowed.";
    CertificateInvalid: OwnFault = "A TLS Secret contains no usable certificate and key; a certificate that it had \
                                    before stays in force.";
    CertificateMismatch: OwnFault = "The certificate is not valid for the host.";
    HostWithoutCertificate: OwnFault = "No entry of spec.tls covers the host.";
    NameNotResolved: MissingReference = "The name of a service outside of the cluster cannot be resolved.";
    AddressInvalid: OwnFault = "An endpoint's address is not an IP address.";
    AddressTypeNotServed: NotServed = "An EndpointSlice has addresses of a type that is not served.";
    HostRefused: DataPlane = "The data plane cannot serve a host as specified; every path of it answers 503.";
    MatchRefused: DataPlane = "The data plane cannot use a match of a host; every path of the host answers 503.";
    PolicyRefused: DataPlane = "The data plane cannot use a policy of a host; every path of the host answers 503.";
    CertificateRefused: DataPlane = "The data plane cannot use a certificate; the previous one stays in \
                                     force.";
    ResourceRefused: DataPlane = "The data plane cannot use a resource; routes that need it answer 503.";
    HealthCheckRefused: DataPlane = "The data plane cannot make an active health check; the endpoints are served unchecked.";
    PartRefused: DataPlane = "The data plane cannot use a part of the configuration; the previous state \
                              stays in force.";
    ExpressionLimit: DataPlane = "A regular expression reached its step limit; the request got 500.";
    ListenerNotBound: DataPlane = "A socket cannot be bound.";
    LogNotOpened: DataPlane = "A log cannot be written to its destination; its lines go to the standard \
                               stream.";
    CollectorUnavailable: DataPlane = "The OpenTelemetry collector does not accept spans or log records; they are dropped \
                                       when the queue is full.";
    FirewallWithoutAgent: OwnFault = "A web application firewall is requested, and --waf-agent is not set.";
    FirewallAgentUnavailable: DataPlane = "The agent of the web application firewall does not answer; routes whose firewall \
                                           enforces its rules answer 503.";
    FirewallRefused: DataPlane = "The agent of the web application firewall cannot compile the directives; routes whose \
                                  firewall enforces its rules answer 503.";
    LimitsNotShared: OwnFault = "Limits across replicas are requested, and the replicas or their certificate are unknown.";
    ReplicaUnreachable: DataPlane = "Another replica does not report its use of limits; until it does, this one has a smaller \
                                     share of every limit.";
    LocationDatabaseUnusable: DataPlane = "A GeoIP2 database is missing, damaged or not switched on.";
    CacheFolderUnusable: DataPlane = "The folder of --cache-path cannot hold stored responses; they are stored in memory only.";
    ProxyNotTrusted: DataPlane = "Requests through an untrusted proxy are redirected to https in a loop.";
    EndpointIsGateway: DataPlane = "An endpoint is a listener of the gateway itself.";
    FileUnreadable: Source = "A file or folder of manifests cannot be read.";
    FileIgnored: Source = "A file or folder of manifests is skipped.";
    FolderNotWatched: Source = "The folder of manifests cannot be watched; it is polled instead.";
    ManifestInvalid: OwnFault = "A manifest cannot be parsed.";
    ManifestFieldUnknown: OwnFault = "A manifest has a field that its kind does not have.";
    ManifestDuplicate: Conflict = "Two manifests define the same object.";
    ApiAway: Source = "The Kubernetes API does not answer.";
    ApiForbidden: Source = "A permission to read from the Kubernetes API is missing.";
    RightMissing: Source = "A permission that one of the controller's duties needs is missing.";
    DutyFailed: Source = "The Kubernetes API refuses a request of one of the controller's duties.";
    AddressUnknown: MissingReference = "No address for the status of Ingresses is configured or found.";
    ZoneUnknown: MissingReference = "The gateway's zone is unknown, so topology hints for zones have no \
                                     effect.";
    WebhookCertificate: OwnFault = "The certificate or key of the validating webhook is unusable.";
    StatusContested: Conflict = "Another program also writes the status of the Ingress.";
    ApiUnauthorized: Source = "The Kubernetes API does not accept the gateway's credentials.";
    ApiRefused: Source = "The Kubernetes API refuses a request.";
    KindNotFound: Source = "The Kubernetes API has no such kind.";
    ObjectUnreadable: Source = "The Kubernetes API returns an object that cannot be decoded.";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
