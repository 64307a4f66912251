//! The response head for the client.

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, SERVER};
use sluice_config::ServerField;

use super::end::logged;
use super::exchange::Exchange;
use crate::message::accel;
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName, HeadMut, ResponseMut};
use crate::message::fields::Fields;
use crate::message::hop_by_hop;
use crate::policy::directives::ChangeLevel;
use crate::policy::template::{ResponseContext, Template};
use crate::variable::RequestRecord;

/// The `Server` field of a response without one of its endpoint.
const PRODUCT: HeaderValue = HeaderValue::from_static("sluice");
static PRODUCT_FIELD: EditableName = EditableName::from_static("server");
static HSTS: EditableName = EditableName::from_static("strict-transport-security");
static SET_COOKIE: EditableName = EditableName::from_static("set-cookie");
static RATE_LIMIT_POLICY: EditableName = EditableName::from_static("ratelimit-policy");
static RATE_LIMIT: EditableName = EditableName::from_static("ratelimit");

impl Exchange {
    /// Changes the response head of an endpoint for the client: removes hop-by-hop and hidden
    /// fields, replaces cookies and redirects, adds the cookie of a new session, which directives
    /// may change as in ingress-nginx, then adds the fields of every response.
    pub(super) fn change_response(&mut self, head: &mut impl ResponseMut) {
        let status = head.status();
        self.invalidate(status);
        self.log_upstream(head.fields());
        self.keep_upstream_fields(head.fields());
        hop_by_hop::response(head.fields(), status);
        let session = self.set_cookie.take();
        if accel::may_have_any(head.fields()) {
            if accel::stops_buffering(head.fields()) {
                head.stop_buffering();
            }
            self.hide_accel_fields(&mut Edit::new(head));
        }
        head.hide_trailers(|| self.hidden_trailers());
        let mut edit = Edit::new(head);
        self.hide_headers(&mut edit);
        self.hide_by_directives(&mut edit);
        self.replace(&mut edit);
        if let Some(cookie) = &session {
            edit.append(&SET_COOKIE, cookie);
        }
        self.add_response_headers(&mut edit, status);
        self.log_sent(head.fields());
    }

    /// Removes from an interim head of an endpoint what clients do not see in a final one.
    /// `Server` is replaced, but not added.
    pub(super) fn change_interim(&self, head: &mut impl HeadMut) {
        let mut edit = Edit::new(head);
        self.hide_accel_fields(&mut edit);
        self.hide_headers(&mut edit);
        self.hide_by_directives(&mut edit);
        if edit.fields().has(&SERVER) {
            self.name_server(&mut edit);
        }
    }

    /// Adds the fields of every response to an answer of the gateway.
    pub(super) fn with_response_headers(&self, mut answer: Answer) -> Answer {
        let status = answer.status;
        self.add_response_headers(&mut Edit::new(&mut answer.fields), status);
        answer
    }

    /// Changes that every response gets, in the order of ingress-nginx: `Server`, HSTS, the
    /// operator's fields, the directives of the location's snippets, the rule's own fields, the
    /// cookies of the authorisation service, which nginx adds when headers-more is done, limits of
    /// rates, CORS, and the directives of `if` blocks.
    fn add_response_headers(&self, head: &mut Edit<'_, impl HeadMut>, status: StatusCode) {
        self.name_server(head);
        if let Some(hsts) = self.hsts() {
            head.set(&HSTS, hsts);
        }
        self.set_operator_headers(status, head);
        self.change_response_fields(ChangeLevel::Location, status, head);
        self.set_own_headers(status, head);
        for cookie in self.authorised_cookies(status) {
            head.append(&SET_COOKIE, cookie);
        }
        self.state_rates(head);
        self.share_with_origin(head);
        self.change_response_fields(ChangeLevel::Inner, status, head);
    }

    /// Keeps the fields of an endpoint's response that values of response fields refer to.
    fn keep_upstream_fields(&mut self, fields: &impl Fields) {
        if self.extras.is_none() {
            return;
        }
        let values = self.late_headers().chain(self.late_values());
        let mut names: Vec<&HeaderName> = values.flat_map(Template::upstream_fields).collect();
        // Several values may refer to the same field.
        names.sort_unstable_by_key(|name| name.as_str());
        names.dedup();
        let kept = names.into_iter().flat_map(|name| {
            let values = fields.lines(name).filter_map(|line| HeaderValue::from_bytes(line).ok());
            values.map(|value| (name.clone(), value))
        });
        let kept: Vec<_> = kept.collect();
        if let Some(extras) = self.extras.as_mut().filter(|_| !kept.is_empty()) {
            extras.upstream_fields = kept;
        }
    }

    /// What variables say of a response with this status. Their expressions draw on the steps that
    /// the request has left.
    pub(super) fn with_response_context(&self, status: StatusCode, apply: impl FnOnce(&ResponseContext<'_>)) {
        const NONE: &Vec<(HeaderName, HeaderValue)> = &Vec::new();
        let attempts = logged(&self.call.attempts, 0);
        let context = ResponseContext {
            record: RequestRecord {
                status: status.as_u16(),
                request_time: self.began.elapsed(),
                ..self.facts_of_line(&attempts)
            },
            computed: &self.compiled_settings().computed,
            upstream: self.extras.as_ref().map_or(NONE, |extras| &extras.upstream_fields),
        };
        self.with_own_steps(|| apply(&context));
    }

    /// The HSTS value, if the client uses https.
    fn hsts(&self) -> Option<&HeaderValue> {
        self.compiled_settings().hsts.as_ref().filter(|_| self.connection.is_https())
    }

    /// Keeps, replaces or removes `Server`, as the operator has configured.
    fn name_server(&self, head: &mut Edit<'_, impl HeadMut>) {
        let ServerField { of_endpoints, own } = self.settings().server_field;
        match head.fields().has(&SERVER) {
            true if of_endpoints || own && self.passes_field(&SERVER) => {}
            _ if own => head.set(&PRODUCT_FIELD, &PRODUCT),
            true => head.remove(&PRODUCT_FIELD),
            false => {}
        }
    }

    /// Adds the fields about limits of rates. Both are lists, so those of an endpoint about its own
    /// limits stay.
    fn state_rates(&self, head: &mut Edit<'_, impl HeadMut>) {
        if let Some(fields) = self.extras.as_ref().and_then(|extras| extras.rate_fields.as_deref()) {
            head.append(&RATE_LIMIT_POLICY, &fields.policy);
            head.append(&RATE_LIMIT, &fields.state);
        }
    }

    /// Adds the CORS fields.
    fn share_with_origin(&self, head: &mut Edit<'_, impl HeadMut>) {
        let compiled = self.route.as_ref().and_then(|route| route.compiled.as_ref());
        if let Some(cors) = compiled.and_then(|compiled| compiled.cors.as_ref()) {
            let extras = self.extras.as_ref();
            cors.response(extras.and_then(|extras| extras.origin.as_ref()), head);
        }
    }
}
