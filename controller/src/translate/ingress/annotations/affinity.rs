//! Sticky sessions by cookie. An invalid setting is ignored with a problem, as in ingress-nginx:
//! the Ingress stays served with the default.

use std::sync::Arc;

use sluice_config::{AffinityMode, NamespacedName, SameSite};

use super::{Annotation, Settings};
use crate::translate::routes::{Affinity, can_be_attribute};
use crate::translate::setting::Risk;
use crate::translate::value::{self, Type};

const SAME_SITE: &[(&str, SameSite)] =
    &[("None", SameSite::None), ("Lax", SameSite::Lax), ("Strict", SameSite::Strict)];
const MODES: &[(&str, AffinityMode)] =
    &[("balanced", AffinityMode::Balanced), ("persistent", AffinityMode::Persistent)];

/// Computes the policy of a rule with the path `/`; the routes keep the parts that depend on the
/// path.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let Some(affinity) = settings.routes.affinity.take() else { return };
    settings.policies.affinity = affinity.for_path("/");
    settings.routes.affinity = Some(affinity).filter(Affinity::depends_on_path);
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "affinity",
            value::exactly_one_of(&[("cookie", ())]),
            "",
            "Sticky sessions; the only kind is cookie.",
            |settings, ()| settings.affinity().enabled = true,
        )
        .ingress(Risk::Low),
        Annotation::served(
            "affinity-mode",
            value::exactly_one_of(MODES),
            "balanced",
            "balanced redistributes sessions when endpoints change; persistent keeps a session while its \
             endpoint exists.",
            |settings, value| settings.affinity().cookie.mode = value,
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "affinity-canary-behavior",
            value::exactly_one_of(&[("sticky", false), ("legacy", true)]),
            "sticky",
            "On a canary: sticky keeps a client on the side that it first reached; legacy chooses the side \
             for each request.",
            |settings, value| settings.canary().legacy = value,
        )
        .ingress(Risk::Low)
        .on_canary(),
        Annotation::served(
            "session-cookie-name",
            value::token("a cookie name: letters, digits, - and _"),
            "INGRESSCOOKIE",
            "Name of the cookie.",
            |settings, value| settings.affinity().cookie.name = value,
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "session-cookie-path",
            attribute(),
            "",
            "Path attribute of the cookie; the path of the rule by default.",
            |settings, value| settings.affinity().path = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "session-cookie-domain",
            attribute(),
            "",
            "Domain attribute of the cookie.",
            |settings, value| settings.affinity().cookie.domain = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "session-cookie-secure",
            value::bool(),
            "false",
            "Secure attribute of the cookie on responses over http too; over https it is always set.",
            |settings, value| settings.affinity().cookie.secure = value,
        )
        .ingress(Risk::Low),
        Annotation::served(
            "session-cookie-samesite",
            value::one_of(SAME_SITE),
            "",
            "SameSite attribute of the cookie.",
            |settings, value| settings.affinity().cookie.same_site = Some(value),
        )
        .ingress(Risk::Low),
        Annotation::served(
            "session-cookie-conditional-samesite-none",
            value::bool(),
            "false",
            "Omit SameSite=None for browsers known to mishandle it.",
            |settings, value| settings.affinity().cookie.conditional_same_site_none = value,
        )
        .ingress(Risk::Low),
        Annotation::served(
            "session-cookie-expires",
            value::int(),
            "",
            "Expires attribute of the cookie, seconds from now.",
            |settings, value| settings.affinity().cookie.expires = Some(value.into()),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "session-cookie-max-age",
            value::int(),
            "",
            "Max-Age attribute of the cookie, seconds.",
            |settings, value| settings.affinity().cookie.max_age = Some(value.into()),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "session-cookie-change-on-failure",
            value::bool(),
            "false",
            "Pick another endpoint and set a new cookie after a failed attempt.",
            |settings, value| settings.affinity().cookie.change_on_failure = value,
        )
        .ingress(Risk::Low),
    ]
}

/// A text that cannot end its cookie attribute.
fn attribute() -> Type<Arc<str>> {
    Type::of("text without spaces, commas and semicolons", |text| can_be_attribute(text).then(|| text.into()))
}
