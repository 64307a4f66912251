//! The stage that asks an authorisation service, and what its word does to a request.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, SET_COOKIE, WWW_AUTHENTICATE};
use sluice_config::Authorisation;

use super::admission::{CheckDecision, Refusal, is_exempt};
use super::ask::target;
use super::exchange::{Exchange, Verdict};
use super::question::{Question, Reply};
use super::stages::StageInput;
use super::subrequest::{CallFailure, Subrequest};
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName};
use crate::message::fields::FieldsMut;
use crate::policy::external_auth::{self, CacheKey, keep, kept};
use crate::policy::{ExternalAuth, forwarded};
use crate::route::Route;
use crate::state::compiled_settings::{CompiledSettings, GlobalAuth};
use crate::upstream::attempt::KeepAlive;

static X_AUTH_REQUEST_REDIRECT: HeaderName = HeaderName::from_static("x-auth-request-redirect");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
static X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
static X_ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");
static X_SCHEME: HeaderName = HeaderName::from_static("x-scheme");
static X_SENT_FROM: HeaderName = HeaderName::from_static("x-sent-from");

/// Who we say we are. Authorisation services that were written for ingress-nginx look at it.
const SENT_FROM: HeaderValue = HeaderValue::from_static("nginx-ingress-controller");

/// Bytes of the body of an answer that are read to keep the connection. Nobody looks at it.
const MOST_BODY: usize = 16 * 1024;

impl Exchange {
    /// Asks, unless the answer is known, or the client is in already.
    pub(super) fn authorise(&mut self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        let auth = match service(route, input.compiled_settings) {
            Service::None => return CheckDecision::Nothing,
            Service::Closed => return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            Service::Asks(auth) => auth.clone(),
        };
        if self.is_admitted() {
            self.authorised = Some(auth.unasked.clone());
            return CheckDecision::Nothing;
        }
        if let Some(word) = self.cache_key(&auth, route, input).and_then(kept) {
            return self.heed(&auth, word, route, input);
        }
        if let Some(status) = self.goes_round() {
            return CheckDecision::Stop(self.refused(status));
        }
        match self.question(&auth, route, input) {
            Some(subrequest) => CheckDecision::Stop(Verdict::Ask(Question::Call(Box::new(subrequest)))),
            None => CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    /// The service has answered, or not.
    pub(super) fn authorised(
        &mut self,
        reply: Reply,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        let Service::Asks(auth) = service(route, input.compiled_settings) else {
            // Nobody was to be asked: the snapshot is still the one that the request began with.
            return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE));
        };
        let auth = auth.clone();
        let word = match reply {
            Reply::Response(response) => auth.word(response.status, &response.fields),
            // A fault of the gateway's own, which says nothing about the service.
            Reply::NoResponse(CallFailure::Attempt(FailureKind::Memory | FailureKind::Shortage)) => {
                return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE));
            }
            _ => None,
        };
        let Some(word) = word.map(Arc::new) else {
            self.state().telemetry.authorisation_failed();
            return CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR));
        };
        if let Some(key) = self.cache_key(&auth, route, input) {
            keep(key, &word);
        }
        self.heed(&auth, word, route, input)
    }

    /// Does what was said.
    fn heed(
        &mut self,
        auth: &ExternalAuth,
        word: Arc<external_auth::AuthReply>,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        if word.status.is_success() {
            self.authorised = Some(word);
            self.fill_directives(route, input);
            return CheckDecision::Yes;
        }
        let can_retry = word.status == StatusCode::UNAUTHORIZED;
        let answer = match auth.sign_in.as_ref().filter(|_| can_retry) {
            Some(sign_in) => {
                let Ok(location) =
                    HeaderValue::try_from(sign_in.fill(&self.template_context(Some(route), input)))
                else {
                    return CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR));
                };
                let mut answer = Answer::redirect(StatusCode::FOUND, location);
                answer.fields.extend(word.cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
                answer
            }
            None => {
                let mut answer = Answer::page(word.status);
                let challenges = word.challenges.iter();
                answer.fields.extend(challenges.map(|challenge| (WWW_AUTHENTICATE, challenge.clone())));
                let cookies = word.cookies(word.status);
                answer.fields.extend(cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
                answer
            }
        };
        CheckDecision::No(Refusal { can_retry, answer: self.with_response_headers(answer) })
    }

    fn question(&self, auth: &ExternalAuth, route: &Route, input: &StageInput<'_>) -> Option<Subrequest> {
        let StageInput { head, compiled_settings, .. } = input;
        let context = self.template_context(Some(route), input);
        let target = target(auth.target.fill(&context))?;
        let mut fields = self.fields_of_question(head, Some(&auth.host));
        let url = [self.connection.scheme(), "://", head.authority, head.target].concat();
        let redirect = match &auth.request_redirect {
            Some(template) => template.fill(&context),
            None => head.target.as_bytes().to_vec(),
        };
        FieldsMut::remove(&mut fields, &X_FORWARDED_PROTO);
        fields.set(&X_ORIGINAL_URL, &HeaderValue::try_from(url).ok()?);
        fields.set(&X_ORIGINAL_METHOD, &HeaderValue::from_str(head.method.as_str()).ok()?);
        fields.set(&X_SENT_FROM, &SENT_FROM);
        fields.set(&X_AUTH_REQUEST_REDIRECT, &HeaderValue::try_from(redirect).ok()?);
        if auth.has_method {
            // Not every byte of a target is ASCII.
            fields.set(&X_ORIGINAL_URI, &HeaderValue::from_bytes(head.target.as_bytes()).ok()?);
            let scheme = forwarded::access_scheme(&self.connection, head.headers, self.client);
            fields.set(&X_SCHEME, &HeaderValue::from_bytes(scheme).ok()?);
        }
        if let Some(slot) = &auth.set_headers {
            // While its ConfigMap cannot be used, the service would be asked something else than
            // was meant.
            let headers = slot.load();
            headers.as_ref()?.fill(&context).apply(&mut Edit::new(&mut fields));
        }
        let filled = auth.fields.fill(&context);
        auth.fields.apply(filled.as_ref(), &mut Edit::new(&mut fields));
        Some(Subrequest {
            pool: auth.pool.clone(),
            method: auth.method.clone(),
            target,
            fields,
            server_name: auth.server_name.clone(),
            keep_alive: auth.keep_alive.map(|own| KeepAlive {
                idle: own.idle,
                requests: own.requests,
                ..KeepAlive::of(&compiled_settings.settings)
            }),
            most_body: MOST_BODY,
            wants_body: false,
            is_copy: false,
            is_single: true,
            route: self.route.clone(),
            settings: compiled_settings.settings.clone(),
        })
    }

    /// Under what the word of the service is kept. Two rules never share one, whatever clients
    /// send.
    fn cache_key(&self, auth: &ExternalAuth, route: &Route, input: &StageInput<'_>) -> Option<CacheKey> {
        let cache = auth.cache.as_ref()?;
        let own = cache.key.fill(&self.template_context(Some(route), input));
        let origin = &route.origin;
        Some(CacheKey::of(&[
            &auth.identity.to_le_bytes(),
            route.host().as_bytes(),
            origin.object.name.namespace.as_bytes(),
            origin.object.name.name.as_bytes(),
            origin.path.as_bytes(),
            &own,
        ]))
    }

    /// What the service has said for the endpoint: its fields in place of the client's.
    pub(super) fn authorised_fields(&self) -> &[(EditableName, Option<HeaderValue>)] {
        self.authorised.as_ref().map_or(&[], |word| &word.fields)
    }

    /// The cookies of the service for the client.
    pub(super) fn authorised_cookies(&self, status: StatusCode) -> &[HeaderValue] {
        self.authorised.as_ref().map_or(&[], |word| word.cookies(status))
    }
}

/// Who says whether a request gets in.
pub(crate) enum Service<'r> {
    /// Nobody.
    None,
    /// It cannot be asked.
    Closed,
    /// This service.
    Asks(&'r Arc<ExternalAuth>),
}

/// Whom the requests of a rule are asked about.
pub(crate) fn service<'r>(route: &'r Route, compiled_settings: &'r CompiledSettings) -> Service<'r> {
    if is_exempt(route, compiled_settings) {
        return Service::None;
    }
    let compiled = route.compiled.as_deref();
    if let Some(own) = compiled.and_then(|compiled| compiled.external_auth.as_ref()) {
        return Service::Asks(own);
    }
    match &compiled_settings.auth {
        GlobalAuth::None => Service::None,
        _ if route.policies.authorisation == Authorisation::Off => Service::None,
        GlobalAuth::Closed => Service::Closed,
        GlobalAuth::Asks(auth) => Service::Asks(auth),
    }
}
