//! Authorisation by another service, for all rules.

use super::Settings;
use crate::translate::setting::{Fault, NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "global-auth-url",
        Value::Text,
        "",
        "Service that is asked before a request of any rule passes, as auth-url has it, but without $host as its host.",
        |text, settings: &mut Settings| {
            settings.global_auth.set_url(text)?;
            match settings.global_auth.url.as_ref().is_some_and(|url| url.needs_host()) {
                true => Err(Fault::Invalid("must name the host of the service: $host is another for each rule".into())),
                false => Ok(()),
            }
        },
    )
    .protects(),
    Setting::served(
        "global-auth-method",
        Value::Text,
        "",
        "Method of its questions.",
        |text, settings: &mut Settings| settings.global_auth.set_method(text),
    ),
    Setting::served(
        "global-auth-signin",
        Value::Text,
        "",
        "Where a client is redirected (302) that it answers with 401.",
        |text, settings: &mut Settings| settings.global_auth.set_sign_in(text),
    ),
    Setting::served(
        "global-auth-signin-redirect-param",
        Value::Text,
        "rd",
        "Name of the parameter that carries the original URL.",
        |text, settings: &mut Settings| settings.global_auth.set_redirect_param(text),
    ),
    Setting::served(
        "global-auth-response-headers",
        Value::List,
        "",
        "Fields of its answer that go to endpoints, in place of the client's.",
        |text, settings: &mut Settings| settings.global_auth.set_response_headers(text),
    ),
    Setting::served(
        "global-auth-request-redirect",
        Value::Text,
        "",
        "Value of X-Auth-Request-Redirect.",
        |text, settings: &mut Settings| settings.global_auth.set_request_redirect(text),
    ),
    Setting::served(
        "global-auth-cache-key",
        Value::Text,
        "",
        "Keep its word for requests of a rule with this key.",
        |text, settings: &mut Settings| settings.global_auth.set_cache_key(text),
    ),
    Setting::served(
        "global-auth-cache-duration",
        Value::List,
        "200 202 401 5m",
        "How long it is kept, by status.",
        |text, settings: &mut Settings| settings.global_auth.set_cache_duration(text),
    ),
    Setting::served(
        "global-auth-always-set-cookie",
        Value::Bool,
        "false",
        "Relay its Set-Cookie with every status of a response.",
        |text, settings: &mut Settings| settings.global_auth.set_always_set_cookie(text),
    ),
    Setting::not_yet(
        "global-auth-snippet",
        Value::Text,
        "",
        NotYet::Protects,
        "Raw text in the location of the authorisation.",
    ),
    Setting::served(
        "no-auth-locations",
        Value::List,
        "/.well-known/acme-challenge",
        "Rules whose path begins with one of these do not ask it.",
        |text, settings: &mut Settings| {
            settings.tuning.no_auth_locations = value::list(text).map(Into::into).collect();
            Ok(())
        },
    ),
];
