//! Paths that the gateway answers itself for every host that no Ingress names, as the catch-all
//! server of ingress-nginx does: with everything that begins like them, because they are prefix
//! locations there. A rule whose path names one takes it over.

use bytes::Bytes;
use http::header::HeaderValue;
use http::{Method, StatusCode};

use super::exchange::{Exchange, Verdict};
use crate::message::answer::Answer;
use crate::message::request_head::RequestHead;
use crate::route::Route;
use crate::state::State;

/// One of these paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnPath {
    /// Answered with 200, because load balancers send health checks to addresses.
    Health,
    /// The page of nginx's `stub_status`, for the clients of `nginx-status-ipv4-whitelist` and
    /// `nginx-status-ipv6-whitelist`.
    Status,
}

impl OwnPath {
    /// Returns the own path that a normalised path begins with, the longest one. nginx refuses `/`,
    /// which would take every request.
    pub(super) fn of(path: &str, state: &State) -> Option<Self> {
        let is_begin = |own: &Self| own.path(state) != "/" && path.starts_with(own.path(state));
        [Self::Health, Self::Status].into_iter().filter(is_begin).max_by_key(|own| own.path(state).len())
    }

    /// Whether the path of a rule names this path.
    pub(super) fn is_named_by(self, route: &Route, state: &State) -> bool {
        let name = self.path(state)[1..].to_ascii_lowercase();
        route.origin.path.to_ascii_lowercase().contains(&name)
    }

    fn path(self, state: &State) -> &str {
        match self {
            Self::Health => state.health_path(),
            Self::Status => "/nginx_status",
        }
    }
}

impl Exchange {
    /// Answers a request for an own path. It is not logged.
    pub(super) fn answer_own_path(&self, own: OwnPath, head: &RequestHead<'_>) -> Verdict {
        if let Some(blocked) = self.check_blocked(head, self.compiled_settings()).break_value() {
            return blocked;
        }
        let answer = match own {
            OwnPath::Health => Answer::empty(StatusCode::OK),
            OwnPath::Status if !self.compiled_settings().status_readers.contains(self.client.address) => {
                return self.refused(StatusCode::FORBIDDEN);
            }
            OwnPath::Status if !matches!(*head.method, Method::GET | Method::HEAD) => {
                return self.refused(StatusCode::METHOD_NOT_ALLOWED);
            }
            OwnPath::Status => {
                let page = Bytes::from(self.state().telemetry.status_page());
                Answer::text(StatusCode::OK, Some(HeaderValue::from_static("text/plain")), page)
            }
        };
        Verdict::Answer(self.with_response_headers(answer))
    }
}
