//! The stage that queries an authorisation service and applies its reply.

use std::sync::Arc;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue, SET_COOKIE, WWW_AUTHENTICATE};

use super::admission::CheckDecision;
use super::ask::target;
use super::auth_service::{AuthService, service};
use super::exchange::{Exchange, Verdict};
use super::question::{Question, Reply};
use super::satisfy_any::ClientRefusal;
use super::stages::StageInput;
use super::subrequest::{CallFailure, Subrequest};
use crate::io::failure::FailureKind;
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName};
use crate::message::fields::FieldsMut;
use crate::policy::auth_reply::AuthReply;
use crate::policy::call_destination::ResolvedDestination;
use crate::policy::external_auth::{CacheKey, keep, kept};
use crate::policy::{ExternalAuth, forwarded};
use crate::route::Route;
use crate::upstream::attempt::KeepAlive;

static X_AUTH_REQUEST_REDIRECT: HeaderName = HeaderName::from_static("x-auth-request-redirect");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_ORIGINAL_METHOD: HeaderName = HeaderName::from_static("x-original-method");
static X_ORIGINAL_URI: HeaderName = HeaderName::from_static("x-original-uri");
static X_ORIGINAL_URL: HeaderName = HeaderName::from_static("x-original-url");
static X_SCHEME: HeaderName = HeaderName::from_static("x-scheme");
static X_SENT_FROM: HeaderName = HeaderName::from_static("x-sent-from");

/// Value of `X-Sent-From`, which services written for ingress-nginx check.
const SENT_FROM: HeaderValue = HeaderValue::from_static("nginx-ingress-controller");

/// Bytes of a response body that are read, to keep the connection. The content is ignored.
const MOST_BODY: usize = 16 * 1024;

impl Exchange {
    /// Queries the service, unless the reply is cached or another check has admitted the client.
    pub(super) fn authorise(&mut self, route: &Route, input: &StageInput<'_>) -> CheckDecision {
        let auth = match service(route, input.compiled_settings) {
            AuthService::None => return CheckDecision::Nothing,
            AuthService::Closed => return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE)),
            AuthService::Usable(auth) => auth.clone(),
        };
        if self.is_admitted() {
            self.authorised = Some(auth.not_queried.clone());
            return CheckDecision::Nothing;
        }
        if let Some(reply) = self.cache_key(&auth, route, input).and_then(kept) {
            return self.apply_reply(&auth, reply, route, input);
        }
        if let Some(status) = self.loop_detected() {
            return CheckDecision::Stop(self.refused(status));
        }
        match self.question(&auth, route, input) {
            Some(subrequest) => CheckDecision::Stop(Verdict::Ask(Question::Call(Box::new(subrequest)))),
            None => CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR)),
        }
    }

    /// Applies the reply of the service.
    pub(super) fn authorised(
        &mut self,
        reply: Reply,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        let AuthService::Usable(auth) = service(route, input.compiled_settings) else {
            // Not reached: the snapshot is the one with which the question was made.
            return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE));
        };
        let auth = auth.clone();
        let auth_reply = match reply {
            Reply::Response(response) => auth.reply(response.status, &response.fields),
            // A local shortage, which does not count as a failure of the service.
            Reply::NoResponse(CallFailure::Attempt(FailureKind::Memory | FailureKind::Shortage)) => {
                return CheckDecision::Stop(self.refused(StatusCode::SERVICE_UNAVAILABLE));
            }
            _ => None,
        };
        let Some(reply) = auth_reply.map(Arc::new) else {
            self.state().telemetry.authorisation_failed();
            return CheckDecision::Stop(self.refused(StatusCode::INTERNAL_SERVER_ERROR));
        };
        if let Some(key) = self.cache_key(&auth, route, input) {
            keep(key, &reply);
        }
        self.apply_reply(&auth, reply, route, input)
    }

    /// Admits the client with the service's fields, or refuses it.
    fn apply_reply(
        &mut self,
        auth: &ExternalAuth,
        reply: Arc<AuthReply>,
        route: &Route,
        input: &StageInput<'_>,
    ) -> CheckDecision {
        if reply.status.is_success() {
            self.authorised = Some(reply);
            self.fill_directives(route, input);
            return CheckDecision::Yes;
        }
        let can_retry = reply.status == StatusCode::UNAUTHORIZED;
        if let Some(sign_in) = auth.sign_in.as_ref().filter(|_| can_retry) {
            return self.redirect_to_sign_in(sign_in, &reply.cookies, route, input);
        }
        // nginx sets the variables before it looks at the status. The other fields of a refusal are
        // not for the endpoint.
        self.authorised = Some(reply.clone());
        self.fill_directives(route, input);
        self.authorised = None;
        let mut answer = Answer::page(reply.status);
        let challenges = reply.challenges.iter();
        answer.fields.extend(challenges.map(|challenge| (WWW_AUTHENTICATE, challenge.clone())));
        let cookies = reply.cookies(reply.status);
        answer.fields.extend(cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
        CheckDecision::No(ClientRefusal { can_retry, answer: self.with_response_headers(answer) })
    }

    fn question(&self, auth: &ExternalAuth, route: &Route, input: &StageInput<'_>) -> Option<Subrequest> {
        let StageInput { head, compiled_settings, .. } = input;
        let context = self.template_context(Some(route), input);
        let target = target(auth.target.fill(&context))?;
        let ResolvedDestination { to, host, server_name } = auth.to.resolve(&context)?;
        let mut fields = self.fields_of_question(head, Some(&host));
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
            // A target may contain bytes that are not ASCII.
            fields.set(&X_ORIGINAL_URI, &HeaderValue::from_bytes(head.target.as_bytes()).ok()?);
            let scheme = forwarded::access_scheme(&self.connection, head.headers, self.client);
            fields.set(&X_SCHEME, &HeaderValue::from_bytes(scheme).ok()?);
        }
        if let Some(slot) = &auth.set_headers {
            // While its ConfigMap is not usable the service is not queried: it would decide on an
            // incomplete request.
            let headers = slot.load();
            headers.as_ref()?.fill(&context).apply(&mut Edit::new(&mut fields));
        }
        let filled = auth.fields.fill(&context);
        auth.fields.apply(filled.as_ref(), &mut Edit::new(&mut fields));
        Some(Subrequest {
            to,
            method: auth.method.clone(),
            target,
            fields,
            server_name,
            keep_alive: auth.keep_alive.map(|own| KeepAlive {
                idle: own.idle,
                requests: own.requests,
                ..KeepAlive::of(&compiled_settings.settings)
            }),
            most_body: MOST_BODY,
            needs_body: false,
            is_copy: false,
            is_single: true,
            route: self.route.clone(),
            settings: compiled_settings.settings.clone(),
        })
    }

    /// Returns the key under which the reply is cached. Two rules never share a key, and neither do
    /// two services, whatever clients send.
    fn cache_key(&self, auth: &ExternalAuth, route: &Route, input: &StageInput<'_>) -> Option<CacheKey> {
        let cache = auth.cache.as_ref()?;
        let context = self.template_context(Some(route), input);
        let (own, host) = (cache.key.fill(&context), auth.to.host_of_request(&context));
        let origin = &route.origin;
        let identity = auth.identity.to_le_bytes();
        let mut parts: Vec<&[u8]> = vec![
            &identity,
            route.host().as_bytes(),
            origin.object.name.namespace.as_bytes(),
            origin.object.name.name.as_bytes(),
            origin.path.as_bytes(),
            &host,
            &own,
        ];
        // The key has what the client sent, and the service gets what directives make of it.
        let changed = self.changed_client_fields(input.head);
        parts.extend(changed.iter().map(|part| &part[..]));
        Some(CacheKey::of(&parts))
    }

    /// Returns the service's fields for the endpoint, which replace the client's.
    pub(super) fn authorised_fields(&self) -> &[(EditableName, Option<HeaderValue>)] {
        self.authorised.as_ref().map_or(&[], |reply| &reply.fields)
    }

    /// Returns the service's cookies for the client.
    pub(super) fn authorised_cookies(&self, status: StatusCode) -> &[HeaderValue] {
        self.authorised.as_ref().map_or(&[], |reply| reply.cookies(status))
    }
}
