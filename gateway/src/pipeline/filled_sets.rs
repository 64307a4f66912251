//! Header fields from settings and rules, with the values for one request.

use http::header::HeaderValue;

use crate::message::authority::is_authority;
use crate::policy::header_set::FilledHeaders;
use crate::policy::replacements::Replacements;
use crate::policy::template::{Template, TemplateContext};

/// Values that depend on the request.
#[derive(Debug, Default)]
pub(super) struct FilledSets {
    /// Path and query as the client sent them.
    pub(super) original_uri: Option<HeaderValue>,
    /// For all requests to endpoints.
    pub(super) request: Option<FilledHeaders>,
    /// For all responses.
    pub(super) response: Option<FilledHeaders>,
    /// For responses of the rule.
    pub(super) own: Option<FilledHeaders>,
    /// `Host` for the endpoint.
    pub(super) host: HostForEndpoint,
    /// Replacements in responses of endpoints, for the rule and for all rules. Boxed, because they
    /// are large and rarely filled in.
    pub(super) replacements: [Option<Box<Replacements>>; 2],
}

impl FilledSets {
    pub(super) fn of_responses(&self) -> impl Iterator<Item = &FilledHeaders> {
        self.response.iter().chain(&self.own)
    }

    pub(super) fn is_needed(&self) -> bool {
        let Self { original_uri, request, response, own, host, replacements } = self;
        original_uri.is_some()
            || request.is_some()
            || response.is_some()
            || own.is_some()
            || *host != HostForEndpoint::Unchanged
            || replacements.iter().any(Option::is_some)
    }
}

/// `Host` for the endpoint (`upstream-vhost`).
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) enum HostForEndpoint {
    /// That of the request, or one without variables.
    #[default]
    Unchanged,
    /// This one.
    Filled(HeaderValue),
    /// The variables of the request have no value that is a host.
    Invalid,
}

impl HostForEndpoint {
    /// Evaluates the template. A request of HTTP/1.0 may have no host, and then has none for the
    /// endpoint either.
    pub(super) fn fill(template: &Template, context: &TemplateContext<'_>, authority: &str) -> Self {
        let value = template.fill(context);
        if value.is_empty() && authority.is_empty() {
            return Self::Unchanged;
        }
        let value = Some(value).filter(|value| is_authority(value));
        value.and_then(|value| HeaderValue::try_from(value).ok()).map_or(Self::Invalid, Self::Filled)
    }
}
