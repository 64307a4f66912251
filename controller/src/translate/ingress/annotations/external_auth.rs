//! Authorisation by another service: `auth-url` and annotations that require it.

use std::time::Duration;

use sluice_config::{Authorisation, Moment, NamespacedName};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::{external_auth, remote, template, value};

const SET_HEADERS: &str = "auth-proxy-set-headers";
const RESPONSE_HEADERS: &str = "auth-response-headers";

/// Requires the ConfigMap for the routes. Drops settings without a service.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let Some(auth) = settings.routes.external_auth.take() else { return };
    settings.needs.extend(auth.resource().map(|key| (key, SET_HEADERS)));
    settings.left_out.extend(auth.own_fields().map(|reason| (RESPONSE_HEADERS, reason)));
    settings.routes.external_auth = Some(auth).filter(|auth| auth.url.is_some());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "auth-url",
            remote::url(),
            "",
            "Service that authorises each request: 2xx admits it, 401 and 403 are relayed, any other \
             status or no response is 500. Its host may contain $host, $namespace, $ingress_name and \
             $service_name; other variables, which clients choose freely, reject the Ingress. A host \
             that differs per request, on a wildcard, is looked up then. For Services of the cluster, their \
             endpoints are used; certificates are not verified.",
            |settings, value| settings.external_auth().url = Some(value),
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .except(
            "$host answers 503 without a host in the rule and on a server-alias that is an expression or ends with \
             .*, because clients would choose the service that admits them",
        )
        .location(Risk::High)
        .protects(),
        Annotation::served(
            "auth-signin",
            external_auth::sign_in_url(),
            "",
            "URL to which a client is redirected (302) if auth-url or auth-type answers 401.",
            |settings, value| settings.external_auth().sign_in = Some(value),
        )
        .beside("auth-url")
        .location(Risk::High),
        Annotation::served(
            "auth-signin-redirect-param",
            external_auth::parameter(),
            "rd",
            "Name of the parameter of auth-signin that carries the original URL.",
            |settings, value| settings.external_auth().redirect_param = value,
        )
        .beside("auth-url")
        .location(Risk::Medium),
        Annotation::served(
            "auth-method",
            external_auth::method(),
            "GET",
            "Method of the authorisation request. If set, the service also gets X-Original-URI and \
             X-Scheme. CONNECT and TRACE are sent with the path, as nginx sends them.",
            |settings, value| settings.external_auth().method = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            RESPONSE_HEADERS,
            external_auth::response_headers(),
            "",
            "Fields of the service's response that are sent to the endpoint, in place of the client's. \
             Fields of the gateway itself, such as Host, are skipped.",
            |settings, value| settings.external_auth().response_headers = value,
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .beside("auth-url")
        .location(Risk::Medium),
        Annotation::served(
            "auth-request-redirect",
            template::field(Moment::Request),
            "$request_uri",
            "Value of X-Auth-Request-Redirect.",
            |settings, value| settings.external_auth().request_redirect = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Drop, "the service is still queried")
        .beside("auth-url")
        .location(Risk::Medium),
        Annotation::served(
            SET_HEADERS,
            value::config_map().evaluated_at(Moment::Request),
            "",
            "ConfigMap with fields for the authorisation request. While it is missing or unusable, the \
             routes answer 503.",
            |settings, value| settings.external_auth().set_headers = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Default, "the service may decide by these fields")
        .beside("auth-url")
        .location(Risk::Medium),
        Annotation::served(
            "auth-always-set-cookie",
            value::bool(),
            "false",
            "Relay Set-Cookie of the service with every status of a response.",
            |settings, value| settings.external_auth().always_set_cookie = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Drop, "the service is still queried")
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            "auth-cache-key",
            template::field(Moment::Request),
            "",
            "Cache the service's decision for requests with this key, per rule and worker, in memory. If \
             the key contains a variable that is always empty here (variables.md), nothing is cached.",
            |settings, value| settings.external_auth().cache_key = Some(value),
        )
        .beside("auth-url")
        .location(Risk::Medium),
        Annotation::served(
            "auth-cache-duration",
            external_auth::cache_duration(),
            "200 202 401 5m",
            "Cache duration by status; only 2xx, 401 and 403 are cached. The service may shorten it \
             (X-Accel-Expires, Cache-Control, Expires). Statuses without a time, such as 200 202, are invalid.",
            |settings, value| settings.external_auth().cache_valid = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Close, "the service is then queried for each request")
        .beside("auth-url")
        .fallback("no answer is kept", |settings| settings.external_auth().cache_valid = Some(Vec::new()))
        .location(Risk::Medium),
        Annotation::served(
            "auth-keepalive",
            value::count_or_none(),
            "0",
            "If not 0, auth-keepalive-requests and -timeout apply to connections to the service; with 0, \
             upstream-keepalive-* apply. upstream-keepalive-connections always sets how many are kept.",
            |settings, value| settings.external_auth().keep_alive = value,
        )
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            "auth-keepalive-requests",
            value::count_or_none(),
            "1000",
            "Requests per kept connection to the service.",
            |settings, value| settings.external_auth().keep_alive_requests = value,
        )
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            "auth-keepalive-share-vars",
            value::bool(),
            "false",
            "Whether variables of configuration-snippet have their values in auth-snippet where auth-keepalive is not 0 \
             and use-http2 is false; elsewhere they always have them.",
            |settings, value| settings.external_auth().shares_variables = value,
        )
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            "auth-keepalive-timeout",
            value::count_or_none().map(|seconds| Duration::from_secs(seconds.into())),
            "60",
            "Idle seconds of kept connections to the service.",
            |settings, value| settings.external_auth().keep_alive_timeout = value,
        )
        .beside("auth-url")
        .location(Risk::Low),
        Annotation::served(
            "enable-global-auth",
            value::bool(),
            "true",
            "Whether global-auth-url applies.",
            |settings, value| {
                settings.policies.authorisation =
                    if value { Authorisation::Global } else { Authorisation::Off };
            },
        )
        .location(Risk::Low),
    ]
}
