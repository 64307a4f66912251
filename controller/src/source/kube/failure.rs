//! Failures of a single watch, with their problems. An unreachable API is handled in
//! [`api_health`](super::api_health).

use sluice_config::{Code, NamespacedName, ObjectRef, Problem};

use super::plan::Scope;
use crate::problem::{error, warning};
use crate::store::{Kind, ObjectKey};

/// Maximum number of characters of an API server's message that are repeated.
const LONGEST_MESSAGE: usize = 300;

/// Why a watch does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WatchFailure {
    /// The API server does not support streaming lists.
    NoStreaming,
    /// The access right is missing.
    Forbidden(String),
    /// The credentials were rejected.
    Unauthorized,
    /// The API server does not have the kind.
    NoKind,
    /// The request was refused for another reason.
    Refused(String),
    /// The connection or the server failed. The API health record reports it.
    Away,
    /// Not a fault: the version is too old (410), and a relist follows.
    Expired,
    /// Versions are lower than before: the cluster's store was restored, and a relist follows.
    Rewound,
}

/// What a failure concerns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Of<'a> {
    /// A watch.
    Watch {
        /// Whether it has already completed a list.
        listed: bool,
    },
    /// An object that is requested by name.
    Object(&'a ObjectKey),
}

/// The effect on references.
const MISSING: &str = "what refers to one is served as if it were missing";

impl WatchFailure {
    pub(super) fn of_request(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            _ => Self::Away,
        }
    }

    pub(super) fn of_status(status: &kube::core::Status) -> Self {
        let message = || {
            let mut short: String = status.message.chars().take(LONGEST_MESSAGE).collect();
            if short.len() < status.message.len() {
                short.push_str("...");
            }
            short
        };
        match status.code {
            401 => Self::Unauthorized,
            403 => Self::Forbidden(message()),
            404 => Self::NoKind,
            410 => Self::Expired,
            400 | 422 if status.message.contains("sendInitialEvents") => Self::NoStreaming,
            400 | 422 if status.message.contains("resourceVersionMatch") => Self::NoStreaming,
            429 | 500.. => Self::Away,
            _ => Self::Refused(message()),
        }
    }

    /// Returns the problem of the failure, if it is one.
    pub(super) fn problem(&self, scope: &Scope, of: Of<'_>) -> Option<Problem> {
        let (object, field, effect) = match of {
            Of::Watch { listed } => {
                let effect = match listed {
                    true => "what was listed before stays in force, and changes are not seen",
                    false if scope.kind == Kind::Node => "endpoints of all zones are used",
                    false if scope.may_be_withheld() => MISSING,
                    false => "not ready before they are listed",
                };
                (ObjectRef::new("KubernetesApi", "", &scope.to_string()), "list, watch", effect)
            }
            Of::Object(object) => (object.object_ref(), "list", MISSING),
        };
        let resource = scope.kind.resource();
        let problem = match (self, of) {
            (Self::NoStreaming | Self::Away | Self::Expired | Self::Rewound, _) => return None,
            (Self::Forbidden(message), Of::Watch { listed: false }) if scope.kind == Kind::IngressClass => {
                warning(
                    Code::ApiForbidden,
                    &object,
                    field,
                    format!(
                        "no right to list and watch IngressClasses ({message}); Ingresses are taken by the annotation \
                     kubernetes.io/ingress.class, and by spec.ingressClassName only with --ingress-class-by-name"
                    ),
                    self.remedy(scope),
                )
            }
            (Self::Forbidden(message), _) => error(
                Code::ApiForbidden,
                &object,
                field,
                format!("no right to list and watch {scope} ({message}); {effect}"),
                self.remedy(scope),
            ),
            (Self::Unauthorized, _) => error(
                Code::ApiUnauthorized,
                &object,
                field,
                format!("the API server does not accept the gateway's credentials (401); {effect}"),
                "renew the token or the client certificate; it is tried again all the time",
            ),
            (Self::NoKind, _) => error(
                Code::KindNotFound,
                &object,
                field,
                format!("the API server has no {resource} (404); {effect}"),
                "use Kubernetes 1.21 or newer, and look whether --apiserver-host or the kubeconfig leads to it",
            ),
            (Self::Refused(message), _) => error(
                Code::ApiRefused,
                &object,
                field,
                format!("the API server refuses to list and watch: {message}; {effect}"),
                "see the message; it is tried again all the time",
            ),
        };
        Some(problem)
    }

    fn remedy(&self, scope: &Scope) -> String {
        let role = match &scope.namespace {
            Some(namespace) => format!("a Role in namespace {namespace}"),
            None => "a ClusterRole".into(),
        };
        let rule = scope.kind.rule();
        format!("give the ServiceAccount {role} with the rule {rule}; it is picked up without a restart")
    }
}

/// Returns the problem of an unreadable object. Omits the reason, because the object may be a
/// Secret.
pub(super) fn unreadable(kind: Kind, name: &NamespacedName) -> Problem {
    error(
        Code::ObjectUnreadable,
        &ObjectKey { kind, name: name.clone() }.object_ref(),
        "",
        "the API gives this object in a form that cannot be read; what was read of it before stays in force",
        "compare it with the kind's schema, and look whether a webhook or another version of Kubernetes writes it",
    )
}

/// Returns the problem of an object whose name is unreadable too.
pub(super) fn nameless(scope: &Scope) -> Problem {
    error(
        Code::ObjectUnreadable,
        &ObjectRef::new("KubernetesApi", "", &scope.to_string()),
        "list, watch",
        "there is an object without a name that can be read; until it is gone, no object is taken for gone by a list",
        "look for one that differs from the kind's schema",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kube::plan::plan;
    use sluice_config::Severity;

    const NEW: Of<'static> = Of::Watch { listed: false };

    fn status(code: u16, message: &str) -> kube::core::Status {
        kube::core::Status { code, message: message.into(), ..Default::default() }
    }

    #[test]
    fn a_missing_right_names_verb_resource_and_rule() {
        let options = crate::Options { watch_namespace: Some("shop".into()), ..Default::default() };
        let scopes = plan(&options);
        let failure = WatchFailure::of_status(&status(403, "services is forbidden"));
        let problem = failure.problem(&scopes[2], NEW).unwrap();
        assert_eq!(problem.severity, Severity::Error);
        let text = problem.to_string();
        for part in
            ["services", "Role in namespace shop", "apiGroups: [\"\"]", "verbs: [\"list\", \"watch\"]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let problem = failure.problem(&scopes[1], NEW).unwrap();
        assert_eq!(problem.severity, Severity::Warning);
        assert!(
            problem.to_string().contains("a ClusterRole with the rule {apiGroups: [\"networking.k8s.io\"]")
        );
    }

    #[test]
    fn a_lost_right_is_an_error_with_its_effect_also_for_classes() {
        let scopes = plan(&crate::Options::default());
        let failure = WatchFailure::of_status(&status(403, "forbidden"));
        let problem = failure.problem(&scopes[1], Of::Watch { listed: true }).unwrap();
        assert_eq!(problem.severity, Severity::Error);
        assert!(problem.message.contains("what was listed before stays in force"), "{problem}");
        let key = ObjectKey { kind: Kind::Secret, name: NamespacedName::new("shop", "tls") };
        let problem = failure.problem(&scopes[4], Of::Object(&key)).unwrap();
        assert_eq!(problem.object, ObjectRef::new("Secret", "shop", "tls"));
    }

    #[test]
    fn a_page_in_place_of_a_message_is_cut() {
        let WatchFailure::Forbidden(message) = WatchFailure::of_status(&status(403, &"ä".repeat(100_000)))
        else {
            panic!()
        };
        assert_eq!(message.chars().count(), 303);
    }

    #[test]
    fn refused_streaming_is_no_problem_but_another_bad_request_is() {
        let refused = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList \
                       feature gate is enabled";
        assert_eq!(WatchFailure::of_status(&status(422, refused)), WatchFailure::NoStreaming);
        assert_eq!(WatchFailure::of_status(&status(422, "odd")), WatchFailure::Refused("odd".into()));
        assert_eq!(WatchFailure::of_status(&status(503, "starting")), WatchFailure::Away);
        assert_eq!(WatchFailure::of_status(&status(410, "too old")), WatchFailure::Expired);
    }
}
