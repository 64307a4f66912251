//! The head of the gateway's own requests: the parts of the client's head that they contain.

use http::header::{
    CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_RANGE, IF_UNMODIFIED_SINCE, RANGE, TRAILER, TRANSFER_ENCODING,
};
use http::{StatusCode, Version};
use sluice_config::{Satisfy, ServiceRef};

use super::auth_service::is_exempt;
use super::exchange::Exchange;
use super::stages::StageInput;
use crate::message::edit::{Edit, RequestTarget};
use crate::message::fields::FieldsMut;
use crate::message::hop_by_hop;
use crate::message::request_head::RequestHead;
use crate::policy::template::TemplateContext;
use crate::policy::{digest_auth, hops};
use crate::route::Route;
use crate::variable::HeadValues;

/// Fields about the client's request body, which is not sent, and conditions on the resource that
/// the client requested.
static OF_THE_REQUEST_ALONE: [HeaderName; 10] = [
    CONTENT_LENGTH,
    EXPECT,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_RANGE,
    IF_UNMODIFIED_SINCE,
    RANGE,
    TRAILER,
    TRANSFER_ENCODING,
];

impl Exchange {
    /// Returns the client's fields for a request of the gateway's own, as directives change them,
    /// with the forwarding fields that every endpoint gets. `Host` is `host`, or that of the
    /// client's request.
    pub(super) fn fields_of_question(
        &self,
        head: &RequestHead<'_>,
        host: Option<&HeaderValue>,
    ) -> Vec<(HeaderName, HeaderValue)> {
        // The forwarding fields replace those of the client, or are added.
        let mut fields = Vec::with_capacity(head.headers.iter().count() + 8);
        fields.extend(head.headers.parsed());
        // HTTP/1.0 removes upgrades, which these requests do not support.
        hop_by_hop::request(&mut fields, Version::HTTP_10);
        self.change_client_fields(&mut Edit::new(&mut fields));
        for name in &OF_THE_REQUEST_ALONE {
            FieldsMut::remove(&mut fields, name);
        }
        self.set_forwarding_headers(&mut fields);
        self.set_context(&mut fields);
        if let Some(host) = host {
            fields.set(&HOST, host);
        }
        fields
    }

    /// Returns the values for templates of the rule. Checks and targets are made of them, so
    /// `$request_uri` is that of an error page, not the path that the client chose.
    pub(super) fn template_context<'f>(
        &'f self,
        route: Option<&'f Route>,
        input: &'f StageInput<'f>,
    ) -> TemplateContext<'f> {
        let head = input.head;
        let checks_digest = |route: &Route| {
            // Otherwise another check may have admitted the client, without a check of the
            // credentials.
            route.digest_auth().is_some()
                && route.policies.satisfy == Satisfy::All
                && !is_exempt(route, input.compiled_settings)
        };
        let exact = self.extras.as_ref().and_then(|extras| extras.exact_path.as_deref());
        let path = exact.unwrap_or(input.path.as_bytes());
        let mut values = HeadValues { received: None, ..self.head_values(head, Some(path)) };
        if let Some(uri) = self.assigned().and_then(|assigned| assigned.uri.as_ref()) {
            values.path = Some(uri.path.as_bytes());
            values.query = uri.query();
        }
        if route.is_some_and(checks_digest) {
            values.user = digest_auth::user;
        }
        TemplateContext {
            record: self.facts_of_line(&[]),
            head: values,
            computed: &self.compiled_settings().computed,
            assigned: self.assigned(),
            authorised: self.authorised.as_deref(),
        }
    }

    /// Returns the Service of the rule, as in ingress-nginx: also while a canary or a default
    /// backend serves the request.
    pub(super) fn service<'f>(&'f self, route: &'f Route) -> Option<&'f ServiceRef> {
        route.first_backend().or(self.backend.as_deref())?.service.as_ref()
    }

    /// Returns 508 if the request has passed too many gateways: gateways must not query each other
    /// endlessly.
    pub(super) fn loop_detected(&self) -> Option<StatusCode> {
        (self.hops >= hops::MAX).then_some(StatusCode::LOOP_DETECTED)
    }
}

/// Converts a filled template to a request target, if it is a valid one.
pub(super) fn target(text: Vec<u8>) -> Option<RequestTarget> {
    RequestTarget::new(String::from_utf8(text).ok()?)
}
