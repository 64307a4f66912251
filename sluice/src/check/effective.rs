//! The effective response to a request: what answers it, and which rule and check decide so.

use super::http_client::NoResponse;
use super::rehearsal::{Explanation, Rehearsed};

/// What a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ResponseKind {
    /// An endpoint of a Service.
    Backend,
    /// A redirect by the gateway.
    Redirect,
    /// A refusal by a check.
    Denied,
    /// A response of a rule, without an endpoint.
    Fixed,
    /// The response for requests that no rule takes.
    NoRule,
    /// 503, because the Service has no endpoints.
    NoEndpoints,
    /// TLS that is passed through to an endpoint.
    PassedThrough,
    /// An endpoint that does not respond. Only in comparisons, with real endpoints.
    Unreachable,
    /// No response at all.
    NoResponse,
}

impl ResponseKind {
    /// All kinds in the order of reports.
    pub(super) const ALL: [Self; 9] = [
        Self::Backend,
        Self::Redirect,
        Self::Denied,
        Self::Fixed,
        Self::NoRule,
        Self::NoEndpoints,
        Self::PassedThrough,
        Self::Unreachable,
        Self::NoResponse,
    ];

    /// Returns its name in reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Redirect => "redirect",
            Self::Denied => "denied",
            Self::Fixed => "fixed response",
            Self::NoRule => "no rule",
            Self::NoEndpoints => "no endpoints",
            Self::PassedThrough => "passed through",
            Self::Unreachable => "unreachable",
            Self::NoResponse => "no response",
        }
    }
}

/// The effective response to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct EffectiveResponse {
    pub(super) kind: ResponseKind,
    /// The status, if the gateway decides it; that of an endpoint is its own.
    pub(super) status: Option<u16>,
    /// The `Location` of a redirect.
    pub(super) location: Option<String>,
    /// The Service that answers, as `namespace-service-port`.
    pub(super) backend: Option<String>,
    /// The Service of the rule: without the canary that answers.
    pub(super) main_backend: Option<String>,
    /// The rule, and the check that decides.
    pub(super) explanation: Explanation,
    /// Why there is no response.
    pub(super) error: Option<String>,
}

/// Checks that refuse requests.
const REFUSALS: [&str; 8] = [
    "block lists",
    "client certificate",
    "closed rule",
    "address lists",
    "password",
    "authorisation",
    "satisfy",
    "loop",
];

impl EffectiveResponse {
    /// Combines the response of the rehearsal with the explanation.
    pub(super) fn new(rehearsed: &Result<Rehearsed, NoResponse>, explanation: Explanation) -> Self {
        let rehearsed = match rehearsed {
            Ok(rehearsed) => rehearsed,
            Err(error) => {
                return Self {
                    error: Some(error.to_string()),
                    ..Self::of(ResponseKind::NoResponse, explanation)
                };
            }
        };
        let record = rehearsed.record.clone().unwrap_or_default();
        let status = rehearsed.head.status;
        let stop = explanation.stop.as_ref().map_or("", |(check, _)| check);
        let kind = match () {
            () if record.answered_by().is_some() => ResponseKind::Backend,
            () if record.unreachable().is_some() => ResponseKind::Unreachable,
            () if (300..400).contains(&status) => ResponseKind::Redirect,
            () if explanation.object.is_none() && record.ingress.is_empty() => ResponseKind::NoRule,
            () if stop == "backend" && status == 503 => ResponseKind::NoEndpoints,
            () if REFUSALS.contains(&stop) || matches!(status, 400 | 401 | 403 | 429) => ResponseKind::Denied,
            () => ResponseKind::Fixed,
        };
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        Self {
            status: (kind != ResponseKind::Backend).then_some(status),
            location: rehearsed.head.field("location").filter(|_| kind == ResponseKind::Redirect),
            backend: record.answered_by().or(record.unreachable().map(|_| &*record.upstream)).and_then(name),
            main_backend: name(&record.upstream),
            ..Self::of(kind, explanation)
        }
    }

    /// Returns the response for a host whose TLS connections are passed through to `service`.
    pub(super) fn passed_through(service: String, explanation: Explanation) -> Self {
        let backend = Some(service);
        let main_backend = backend.clone();
        Self { backend, main_backend, ..Self::of(ResponseKind::PassedThrough, explanation) }
    }

    fn of(kind: ResponseKind, explanation: Explanation) -> Self {
        Self {
            kind,
            status: None,
            location: None,
            backend: None,
            main_backend: None,
            explanation,
            error: None,
        }
    }

    /// Describes the response in a few words.
    pub(super) fn summary(&self) -> String {
        let mut words = vec![self.kind.name().to_owned()];
        words.extend(self.status.map(|status| status.to_string()));
        words.extend(self.location.iter().map(|location| format!("to {location}")));
        words.extend(self.backend.clone());
        words.join(" ")
    }

    /// States the rule and the check that decide.
    pub(super) fn reason(&self) -> String {
        if let Some(error) = self.error.as_ref().or(self.explanation.error.as_ref()) {
            return error.clone();
        }
        let Some(object) = &self.explanation.object else {
            return "no rule has this host and path".to_owned();
        };
        let mut reason = format!("{object}, {}", self.explanation.path);
        let decides = !matches!(self.kind, ResponseKind::Backend | ResponseKind::PassedThrough);
        if let Some((check, says)) = self.explanation.stop.as_ref().filter(|_| decides) {
            reason += &format!("; {check}: {says}");
        }
        reason
    }
}
