//! What can go wrong with one watch, in words for an operator. That the API is away is not among it: see
//! [`contact`](super::contact).

use sluice_config::{ObjectRef, Problem};

use super::plan::{Scope, resource};
use crate::problem::{error, warning};
use crate::store::Kind;

/// Why a watch does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The API server does not know streaming lists.
    NoStreaming,
    /// We may not.
    Forbidden(String),
    /// It does not know who we are.
    Unauthorized,
    /// It does not have such objects.
    NoKind,
    /// It says something else.
    Refused(String),
    /// An object that cannot be read. What is wrong with it is not said: it may be a Secret.
    Unreadable,
    /// The connection, or the server. The record of contact says it.
    Away,
    /// Nothing is wrong: the past is gone, and the list begins anew.
    Expired,
}

impl Fault {
    pub(super) fn of_watch(error: &kube::runtime::watcher::Error) -> Self {
        use kube::runtime::watcher::Error;
        match error {
            Error::InitialListFailed(error) | Error::WatchStartFailed(error) | Error::WatchFailed(error) => {
                Self::of_request(error)
            }
            Error::WatchError(status) => Self::of_status(status),
            Error::NoResourceVersion => Self::Refused("an answer without resourceVersion".into()),
        }
    }

    pub(super) fn of_request(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::of_status(status),
            kube::Error::SerdeError(_) => Self::Unreadable,
            _ => Self::Away,
        }
    }

    fn of_status(status: &kube::core::Status) -> Self {
        let message = || status.message.clone();
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

    /// As a problem, if it is one.
    pub(super) fn problem(&self, scope: &Scope) -> Option<Problem> {
        let object = ObjectRef::new("KubernetesApi", "", &scope.to_string());
        let field = "list, watch";
        let resource = resource(scope.kind);
        let problem = match self {
            Self::NoStreaming | Self::Away | Self::Expired => return None,
            Self::Forbidden(message) if scope.kind == Kind::IngressClass => warning(
                &object,
                field,
                format!(
                    "no right to list and watch IngressClasses ({message}); Ingresses are taken by the annotation \
                     kubernetes.io/ingress.class, and by spec.ingressClassName only with --ingress-class-by-name"
                ),
                self.remedy(scope),
            ),
            Self::Forbidden(message) => error(
                &object,
                field,
                format!("no right to list and watch {scope} ({message})"),
                self.remedy(scope),
            ),
            Self::Unauthorized => error(
                &object,
                field,
                "the API server does not accept our credentials (401)",
                "renew the token or the client certificate; it is tried again all the time",
            ),
            Self::NoKind => error(
                &object,
                field,
                format!("the API server has no {resource} (404)"),
                "use Kubernetes 1.21 or newer, and look whether --apiserver-host or the kubeconfig leads to it",
            ),
            Self::Refused(message) => error(
                &object,
                field,
                format!("the API server refuses to list and watch: {message}"),
                "see the message; it is tried again all the time",
            ),
            Self::Unreadable => error(
                &object,
                field,
                format!("an object among {scope} cannot be read and is left out"),
                "look for one that differs from the kind's schema",
            ),
        };
        Some(problem)
    }

    fn remedy(&self, scope: &Scope) -> String {
        let group =
            Kind::ALL.into_iter().find(|(kind, _)| *kind == scope.kind).map_or("", |(_, group)| group);
        let role = match &scope.namespace {
            Some(namespace) => format!("a Role in namespace {namespace}"),
            None => "a ClusterRole".into(),
        };
        format!(
            "give the ServiceAccount {role} with the rule {{apiGroups: [{group:?}], resources: [{:?}], verbs: [\"list\", \
             \"watch\"]}}; it is taken up by itself",
            resource(scope.kind)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::kube::plan::plan;
    use sluice_config::Severity;

    fn status(code: u16, message: &str) -> kube::core::Status {
        kube::core::Status { code, message: message.into(), ..Default::default() }
    }

    #[test]
    fn a_missing_right_names_verb_resource_and_rule() {
        let options = crate::Options { watch_namespace: Some("shop".into()), ..Default::default() };
        let scopes = plan(&options);
        let fault = Fault::of_status(&status(403, "services is forbidden"));
        let problem = fault.problem(&scopes[2]).unwrap();
        assert_eq!(problem.severity, Severity::Error);
        let text = problem.to_string();
        for part in
            ["services", "Role in namespace shop", "apiGroups: [\"\"]", "verbs: [\"list\", \"watch\"]"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let problem = fault.problem(&scopes[1]).unwrap();
        assert_eq!(problem.severity, Severity::Warning);
        assert!(
            problem.to_string().contains("a ClusterRole with the rule {apiGroups: [\"networking.k8s.io\"]")
        );
    }

    #[test]
    fn refused_streaming_is_no_problem_but_another_bad_request_is() {
        let refused = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList \
                       feature gate is enabled";
        assert_eq!(Fault::of_status(&status(422, refused)), Fault::NoStreaming);
        assert_eq!(Fault::of_status(&status(422, "odd")), Fault::Refused("odd".into()));
        assert_eq!(Fault::of_status(&status(503, "starting")), Fault::Away);
        assert_eq!(Fault::of_status(&status(410, "too old")), Fault::Expired);
    }
}
