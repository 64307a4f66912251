//! What readers receive of a request.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use sluice_config::{GroupId, ObjectRef, redaction};

use crate::message::fields::Fields;

/// A request that has ended. It holds no header field, and no value of a secret parameter.
#[derive(Debug)]
pub(crate) struct TappedRequest {
    pub(crate) began: SystemTime,
    pub(crate) client: IpAddr,
    /// Empty if no head was read.
    pub(crate) method: String,
    /// Host as the client sent it.
    pub(crate) host: String,
    /// Path and query, without the values of secret parameters.
    pub(crate) target: String,
    /// 499 if the client left before it got a status, as in the access log.
    pub(crate) status: u16,
    pub(crate) time: Duration,
    /// The endpoint of the last attempt.
    pub(crate) endpoint: Option<SocketAddr>,
    /// The backend of the attempts, as `namespace-service-port`.
    pub(crate) backend: Option<String>,
    /// Number of attempts.
    pub(crate) attempts: usize,
    pub(crate) rule: Option<TappedRule>,
    /// `None` if no reader wants them.
    pub(crate) steps: Option<Box<RequestSteps>>,
}

/// The rule that a request has matched.
#[derive(Clone, Debug)]
pub(crate) struct TappedRule {
    pub(crate) object: ObjectRef,
    /// The host as written in the object.
    pub(crate) host: String,
    /// The path as written in the object.
    pub(crate) path: String,
}

/// The steps of a request.
#[derive(Debug)]
pub(crate) struct RequestSteps {
    pub(crate) received: ReceivedHead,
    /// Path and query of the error page that took the place of the request.
    pub(crate) page: Option<String>,
    /// The stages that ran, in their order.
    pub(crate) checks: Vec<CheckStep>,
    /// The head for the endpoint of the last attempt.
    pub(crate) sent: Option<SentHead>,
    pub(crate) attempts: Vec<AttemptStep>,
    /// Fields of the response to the client.
    pub(crate) response: FieldLines,
    /// Bytes sent to the client.
    pub(crate) bytes_sent: u64,
}

/// The head of a request, with its secrets, which are needed to find its rule.
#[derive(Clone)]
pub(crate) struct ReceivedHead {
    /// The listener group.
    pub(crate) group: GroupId,
    pub(crate) https: bool,
    pub(crate) version: http::Version,
    /// Path and query as the client sent them.
    pub(crate) target: String,
    pub(crate) fields: HeaderMap,
}

/// A stage that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CheckStep {
    /// The index of the stage in the order of the pipeline.
    pub(crate) stage: usize,
    pub(crate) result: CheckResult,
    /// How long the reply to its question took.
    pub(crate) waited: Option<Duration>,
}

/// The result of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckResult {
    /// The request continues.
    Passed,
    /// The check refused the client; with `satisfy: any`, another one may admit it.
    Refused,
    /// The request was answered with this status.
    Answered(u16),
    /// The reply to its question never came.
    Unanswered,
}

/// The head for an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct SentHead {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) fields: FieldLines,
}

/// Fields without the values of secrets.
#[derive(Clone, Debug, Default)]
pub(crate) struct FieldLines(pub(crate) Vec<(String, String)>);

/// An attempt at an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct AttemptStep {
    pub(crate) address: SocketAddr,
    /// Time from the start of the request to that of the attempt.
    pub(crate) after: Duration,
    /// Time until it had a connection; zero for one from the pool.
    pub(crate) connected: Option<Duration>,
    /// Time until the head of the response.
    pub(crate) head: Option<Duration>,
    pub(crate) time: Duration,
    pub(crate) status: Option<u16>,
    /// How it failed.
    pub(crate) failure: Option<&'static str>,
}

impl FieldLines {
    /// Returns all fields of a head.
    pub(crate) fn of(fields: &impl Fields) -> Self {
        let mut lines = Self::default();
        fields.each(|name, value| lines.push(name, value));
        lines
    }

    /// Adds a field; hides its value if it is secret.
    fn push(&mut self, name: &[u8], value: &[u8]) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = text(name);
        let value =
            if redaction::is_secret(&name) { redaction::HIDDEN.to_owned() } else { shown(&text(value)) };
        self.0.push((name, value));
    }
}

/// Returns a value of a field, which may be a URL, without secret parameters and users.
fn shown(value: &str) -> String {
    redaction::without_user(&redaction::target(value))
}

/// Not derived, because it has secrets.
impl std::fmt::Debug for ReceivedHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceivedHead").field("group", &self.group).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A request that took 20 ms.
    pub(crate) fn request(status: u16) -> TappedRequest {
        TappedRequest {
            began: SystemTime::UNIX_EPOCH,
            client: "192.0.2.7".parse().unwrap(),
            method: "GET".to_owned(),
            host: "shop.example".to_owned(),
            target: "/".to_owned(),
            status,
            time: Duration::from_millis(20),
            endpoint: None,
            backend: None,
            attempts: 0,
            rule: None,
            steps: None,
        }
    }

    #[test]
    fn secrets_of_fields_are_hidden() {
        let mut lines = FieldLines::default();
        for (name, value) in [
            ("Authorization", "Basic x"),
            ("Set-Cookie", "a=x"),
            ("Referer", "https://u:x@a.example/cb?token=x&page=1"),
            ("X-Own", "shown"),
        ] {
            lines.push(name.as_bytes(), value.as_bytes());
        }
        let values: Vec<&str> = lines.0.iter().map(|(_, value)| &**value).collect();
        let url = "https://(hidden)@a.example/cb?token=(hidden)&page=1";
        assert_eq!(values, ["(hidden)", "(hidden)", url, "shown"]);
    }
}
