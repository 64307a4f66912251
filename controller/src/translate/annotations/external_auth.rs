//! Authorisation by another service. `auth-url` asks it, and the others mean something beside that only.

use super::Settings;
use crate::store::Kind;
use crate::translate::setting::{Risk, Setting};
use crate::translate::value::{self, Value};

pub(super) const SET_HEADERS: &str = "auth-proxy-set-headers";

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "auth-url",
        Value::Text,
        "",
        "Service that is asked before a request passes: 2xx lets it pass, 401 and 403 are passed on, anything else and \
         silence are 500. Its host may be $host (for hosts without a wildcard), and no other variable. Services of the \
         cluster are asked at their endpoints; certificates are not verified.",
        |text, settings: &mut Settings| settings.external_auth.set_url(text),
    )
    .location(Risk::High),
    Setting::served(
        "auth-signin",
        Value::Text,
        "",
        "Where a client is redirected (302) that auth-url answers with 401.",
        |text, settings: &mut Settings| settings.external_auth.set_sign_in(text),
    )
    .location(Risk::High),
    Setting::served(
        "auth-signin-redirect-param",
        Value::Text,
        "rd",
        "Name of the parameter of auth-signin that carries the original URL.",
        |text, settings: &mut Settings| settings.external_auth.set_redirect_param(text),
    )
    .location(Risk::Medium),
    Setting::served(
        "auth-method",
        Value::Text,
        "GET",
        "Method of the question; CONNECT and TRACE are refused. With it the service also gets X-Original-URI and X-Scheme.",
        |text, settings: &mut Settings| settings.external_auth.set_method(text),
    )
    .location(Risk::Low),
    Setting::served(
        "auth-response-headers",
        Value::List,
        "",
        "Fields of the service's answer that go to the endpoint, in place of the client's.",
        |text, settings: &mut Settings| settings.external_auth.set_response_headers(text),
    )
    .location(Risk::Medium),
    Setting::served(
        "auth-request-redirect",
        Value::Text,
        "$request_uri",
        "Value of X-Auth-Request-Redirect.",
        |text, settings: &mut Settings| settings.external_auth.set_request_redirect(text),
    )
    .location(Risk::Medium),
    Setting::served(
        SET_HEADERS,
        Value::ObjectName,
        "",
        "ConfigMap with fields for the question. While it is missing or cannot be used, the routes answer 503.",
        |text, settings: &mut Settings| {
            settings.external_auth.set_set_headers(value::object(text)?);
            Ok(())
        },
    )
    .location(Risk::Medium)
    .refers_to(Kind::ConfigMap),
    Setting::served(
        "auth-always-set-cookie",
        Value::Bool,
        "false",
        "Relay Set-Cookie of the service with every status of a response.",
        |text, settings: &mut Settings| settings.external_auth.set_always_set_cookie(text),
    )
    .location(Risk::Low),
    Setting::served(
        "auth-cache-key",
        Value::Text,
        "",
        "Keep the service's word for requests with this key; it holds for one rule, on one worker, in memory.",
        |text, settings: &mut Settings| settings.external_auth.set_cache_key(text),
    )
    .location(Risk::Medium),
    Setting::served(
        "auth-cache-duration",
        Value::List,
        "200 202 401 5m",
        "How long it is kept, by status; only 2xx, 401 and 403 are. The service may ask for less (Cache-Control).",
        |text, settings: &mut Settings| settings.external_auth.set_cache_duration(text),
    )
    .location(Risk::Medium),
    Setting::served(
        "auth-keepalive",
        Value::Count,
        "0",
        "Whether auth-keepalive-requests and -timeout hold for connections to the service; 0 leaves that to \
         upstream-keepalive-*, and how many are kept is upstream-keepalive-connections in any case.",
        |text, settings: &mut Settings| settings.external_auth.set_keep_alive(text),
    )
    .location(Risk::Low),
    Setting::served(
        "auth-keepalive-requests",
        Value::Count,
        "1000",
        "Requests per kept connection to the service.",
        |text, settings: &mut Settings| settings.external_auth.set_keep_alive_requests(text),
    )
    .location(Risk::Low),
    Setting::no_effect(
        "auth-keepalive-share-vars",
        Value::Bool,
        "false",
        "there are no variables that a question could share with its request",
        "Share nginx variables between main request and subrequest.",
    )
    .location(Risk::Low),
    Setting::served(
        "auth-keepalive-timeout",
        Value::Count,
        "60",
        "Idle seconds of kept connections to the service.",
        |text, settings: &mut Settings| settings.external_auth.set_keep_alive_timeout(text),
    )
    .location(Risk::Low),
    Setting::served(
        "enable-global-auth",
        Value::Bool,
        "true",
        "Whether global-auth-url is asked.",
        |text, settings: &mut Settings| {
            settings.global_auth = value::bool(text)?;
            Ok(())
        },
    )
    .location(Risk::Low),
];
