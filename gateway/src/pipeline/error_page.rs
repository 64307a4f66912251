//! Error pages from another service (`custom-http-errors`): responses of endpoints and the
//! gateway's own answers with a listed status are replaced by the response of the error backend.
//! The decision on the request does not change: a refused request stays refused.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, DATE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};

use super::exchange::Exchange;
use super::question::{Question, Reply};
use super::stages::StageInput;
use super::subrequest::Subrequest;
use crate::message::answer::Answer;
use crate::message::edit::{Edit, RequestTarget};
use crate::message::fields::{Fields, FieldsMut};
use crate::message::head::content_length;
use crate::message::hop_by_hop;
use crate::message::request_head::RequestHead;
use crate::message::target;
use crate::policy::call_destination::CallTarget;
use crate::registry::Pool;
use crate::route::Route;
use crate::route::{ErrorPages, error_pages};

static X_CODE: HeaderName = HeaderName::from_static("x-code");
static X_FORMAT: HeaderName = HeaderName::from_static("x-format");
static X_INGRESS_NAME: HeaderName = HeaderName::from_static("x-ingress-name");
static X_NAMESPACE: HeaderName = HeaderName::from_static("x-namespace");
static X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
static X_SERVICE_NAME: HeaderName = HeaderName::from_static("x-service-name");
static X_SERVICE_PORT: HeaderName = HeaderName::from_static("x-service-port");

/// Maximum bytes of a page, which is held in memory. Larger responses are not used.
const MOST_BODY: usize = 1024 * 1024;

impl Exchange {
    /// Returns the plain answer if the response of an endpoint is replaced. Keeps the endpoint's
    /// challenge, without which no client could authenticate.
    ///
    /// Responses of gRPC endpoints are never replaced: `proxy_intercept_errors`, which
    /// ingress-nginx sets, does not apply to nginx's `grpc_pass`.
    ///
    /// A redirect is replaced only if there is a page. If that fails, the client gets 502, because
    /// a redirect without its fields is no answer.
    pub(super) fn intercept(&mut self, status: StatusCode, fields: &impl Fields) -> Option<Answer> {
        if status.as_u16() < 300 {
            return None;
        }
        let own = pages(self.route.as_deref()?);
        let settings = &self.compiled_settings().settings;
        // The response of the default backend is never replaced: a page would come from there, too.
        if self.fallback.is_some()
            || !error_pages::replaces(own, settings, status)
            || self.pool().is_some_and(|pool| pool.protocol().is_http2())
            || !error_pages::intercepts(own, settings)
        {
            return None;
        }
        if status.is_redirection() {
            if status == StatusCode::NOT_MODIFIED && self.has_cache() {
                // It confirms the stored response, which is sent.
                return None;
            }
            self.page_pool()?;
            self.call.in_flight = None;
            self.extras.get_or_insert_default().replaced_redirect = Some(status);
            return Some(self.answer(StatusCode::BAD_GATEWAY));
        }
        self.call.in_flight = None;
        let mut answer = self.answer(status);
        if status == StatusCode::UNAUTHORIZED {
            let challenges = fields.lines(&WWW_AUTHENTICATE);
            let challenges = challenges.filter_map(|line| HeaderValue::from_bytes(line).ok());
            answer.fields.extend(challenges.map(|challenge| (WWW_AUTHENTICATE, challenge)));
        }
        Some(answer)
    }

    /// Returns the request for a page, if the gateway's own answer gets one.
    pub fn ask_for_page(&self, answer: &Answer, head: &RequestHead<'_>) -> Option<Question> {
        let replaced = self.extras.as_ref().and_then(|extras| extras.replaced_redirect);
        let status = replaced.unwrap_or(answer.status);
        // The gateway's own redirects are no errors.
        if answer.is_final || status.as_u16() < 400 && replaced.is_none() {
            return None;
        }
        let route = self.route.as_deref()?;
        let compiled_settings = self.compiled_settings();
        if !error_pages::replaces(pages(route), &compiled_settings.settings, status) {
            return None;
        }
        let pool = self.page_pool()?;
        let mut fields = self.fields_of_question(head, None);
        self.set_error_fields(status, head, &mut fields);
        // As in nginx, the client's query stays.
        let query = target::split(head.target).1.filter(|query| !query.is_empty());
        let target = query.and_then(|query| RequestTarget::new(format!("/?{query}")));
        let target = target.unwrap_or_else(RequestTarget::root);
        Some(Question::Call(Box::new(Subrequest {
            to: CallTarget::Pool(pool.clone()),
            method: head.method.clone(),
            target,
            fields,
            server_name: None,
            keep_alive: None,
            most_body: MOST_BODY,
            needs_body: true,
            is_copy: false,
            is_single: false,
            route: self.route.clone(),
            settings: compiled_settings.settings.clone(),
        })))
    }

    /// Returns the pool that pages come from; `None` if there is none, or if the request has passed
    /// too many gateways.
    fn page_pool(&self) -> Option<&Arc<Pool>> {
        let own = pages(self.route.as_deref()?);
        let of_all = || self.compiled_settings().default_backend.as_ref()?.pool();
        error_pages::pool(own).or_else(of_all).filter(|_| self.loop_detected().is_none())
    }

    /// Returns the answer with the page from `reply`; unchanged without one.
    pub fn with_page(&self, answer: Answer, reply: Reply) -> Answer {
        let response = match reply {
            Reply::Response(response) if response.whole && !response.status.is_informational() => response,
            _ => return answer,
        };
        let mut head = response.fields;
        hop_by_hop::response(&mut head, response.status);
        self.hide_accel_fields(&mut Edit::new(&mut head));
        self.hide_headers(&mut Edit::new(&mut head));
        // The length of a page that was left out is known only to the error backend. RFC 9110 §8.6
        // allows none with 204.
        let omits_body = self.method == Method::HEAD;
        let states_length = omits_body && response.status != StatusCode::NO_CONTENT;
        let length = head.first(&CONTENT_LENGTH).and_then(content_length).filter(|_| states_length);
        // They describe the error backend's message.
        for name in [&CONTENT_LENGTH, &DATE, &http::header::TRANSFER_ENCODING, &http::header::TRAILER] {
            FieldsMut::remove(&mut head, name);
        }
        let mut fields: Vec<(HeaderName, HeaderValue)> =
            head.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let challenges = answer.fields.iter().filter(|(name, _)| *name == WWW_AUTHENTICATE);
        fields.extend(challenges.cloned());
        fields.extend(length.map(|length| (CONTENT_LENGTH, HeaderValue::from(length))));
        self.with_response_headers(Answer {
            fields,
            body: response.body,
            close: answer.close,
            omits_body,
            ..Answer::empty(response.status)
        })
    }

    /// Sets the fields that an error backend gets.
    fn set_error_fields(&self, status: StatusCode, head: &RequestHead<'_>, fields: &mut impl FieldsMut) {
        let accept = head.headers.first(&http::header::ACCEPT).unwrap_or_default().to_vec();
        let rule = self.named_rule();
        let name = rule.map(|rule| &rule.origin.object.name);
        let service = rule.and_then(|rule| self.service(rule));
        for (field, value) in [
            (&X_CODE, status.as_str().as_bytes()),
            (&X_FORMAT, &accept[..]),
            (&X_ORIGINAL_URI, head.target.as_bytes()),
            (&X_NAMESPACE, name.map_or("", |name| &name.namespace).as_bytes()),
            (&X_INGRESS_NAME, name.map_or("", |name| &name.name).as_bytes()),
            (&X_SERVICE_NAME, service.map_or("", |service| &service.name).as_bytes()),
            (&X_SERVICE_PORT, service.map_or("", |service| &service.port).as_bytes()),
        ] {
            match HeaderValue::from_bytes(value) {
                // nginx sends no field with an empty value.
                Ok(value) if !value.is_empty() => fields.set(field, &value),
                _ => fields.remove(field),
            }
        }
    }

    /// Sends the request to the rule's own default backend, if it has one with an endpoint: the
    /// rule's Service has none. As in ingress-nginx, only the backend is another one, and the rule
    /// changes the request as for its own.
    pub(super) fn fall_back(&mut self, input: &StageInput<'_>) -> bool {
        let backend = self.route.as_ref().and_then(|route| route.part(Route::fallback));
        let Some(backend) = backend else { return false };
        let mut fields = Vec::with_capacity(7);
        self.set_error_fields(StatusCode::SERVICE_UNAVAILABLE, input.head, &mut fields);
        self.fallback = Some(fields.into());
        self.backend = Some(backend);
        true
    }
}

fn pages(route: &Route) -> Option<&ErrorPages> {
    route.compiled.as_deref()?.error_pages.as_ref()
}
