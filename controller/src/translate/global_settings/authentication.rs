//! Keys about authorisation by another service for all rules.

use sluice_config::Moment;

use super::Key;
use crate::translate::setting::{NotYet, ReferenceTreatment, Unreadable};
use crate::translate::snippet::{self, SnippetContext};
use crate::translate::{external_auth, remote, template, value};

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "global-auth-url",
            remote::url(),
            "",
            "Service that authorises the requests of all rules; see auth-url.",
            |settings, value| settings.global_auth.url = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Drop, "requests would pass unasked")
        .protects()
        .of_rules_only(),
        Key::served(
            "global-auth-method",
            external_auth::method(),
            "",
            "Method of requests to global-auth-url.",
            |settings, value| settings.global_auth.method = Some(value),
        ),
        Key::served(
            "global-auth-signin",
            external_auth::sign_in_url(),
            "",
            "URL to which a client is redirected (302) if the service, or the check of a password, answers 401.",
            |settings, value| settings.global_auth.sign_in = Some(value),
        ),
        Key::served(
            "global-auth-signin-redirect-param",
            external_auth::parameter(),
            "rd",
            "Name of the parameter that carries the original URL.",
            |settings, value| settings.global_auth.redirect_param = value,
        ),
        Key::served(
            "global-auth-response-headers",
            external_auth::response_headers(),
            "",
            "Fields of the service's response that are sent to endpoints, in place of the client's.",
            |settings, value| settings.global_auth.response_headers = value,
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::SkipEntries, ""),
        Key::served(
            "global-auth-request-redirect",
            template::field(Moment::Request),
            "",
            "Value of X-Auth-Request-Redirect.",
            |settings, value| settings.global_auth.request_redirect = Some(value),
        )
        .unchecked_by_reference(),
        Key::served(
            "global-auth-cache-key",
            template::field(Moment::Request),
            "",
            "Cache the service's decision for requests of a rule with this key.",
            |settings, value| settings.global_auth.cache_key = Some(value),
        )
        .unchecked_by_reference(),
        Key::served(
            "global-auth-cache-duration",
            external_auth::cache_duration().empty_as("200 202 401 5m"),
            "",
            "Cache duration by status, which the service may shorten; see auth-cache-duration. Without this key, a reply is \
             cached only for the time that it states (X-Accel-Expires, Cache-Control, Expires). An empty value is \
             200 202 401 5m.",
            |settings, value| settings.global_auth.cache_valid = Some(value),
        )
        .fallback("no answer is kept", |settings| settings.global_auth.cache_valid = Some(Vec::new())),
        Key::served(
            "global-auth-always-set-cookie",
            value::bool(),
            "false",
            "Relay the service's Set-Cookie with every response status.",
            |settings, value| settings.global_auth.always_set_cookie = value,
        ),
        Key::served(
            "global-auth-snippet",
            snippet::directives(SnippetContext::Authorisation),
            "",
            "Directives of the location that asks the service, translated into typed policies (docs/snippets.md).",
            |settings, value| settings.snippets.authorisation = Some(value),
        )
        .snippet(NotYet::Protects)
        .except("a text with other directives closes all routes with 503")
        .unchecked_by_reference()
        .of_rules_only(),
        Key::served(
            "no-auth-locations",
            value::paths(),
            "/.well-known/acme-challenge",
            "Rules whose path begins with one of these have no authentication: no global-auth-url, \
             auth-url or passwords.",
            |settings, value| settings.global.no_auth_locations = value,
        )
        .unreadable(
            Unreadable::Default,
            ReferenceTreatment::SkipEntries,
            "an entry that is read otherwise could exempt other rules",
        )
        .fallback("no rule is exempt", |settings| settings.global.no_auth_locations.clear()),
    ]
}
