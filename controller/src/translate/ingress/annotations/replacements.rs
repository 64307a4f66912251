//! Replacements in the cookies and redirects of endpoints.

use sluice_config::{NamespacedName, Replacements};

use super::{Annotation, Settings};
use crate::translate::replacement;
use crate::translate::setting::Risk;

/// Drops replacements without effect.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let replacements = &mut settings.policies.replacements;
    replacements.take_if(|replacements| **replacements == Replacements::default());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-cookie-domain",
            replacement::cookie_domain(),
            "off",
            "Domain of endpoints' cookies to replace, and its replacement; after ~ a regular expression, \
             whose groups the replacement may use.",
            |settings, value| settings.replacements().cookie_domain = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-cookie-domain"),
        Annotation::served(
            "proxy-cookie-path",
            replacement::cookie_path(),
            "off",
            "Prefix of the path of endpoints' cookies to replace, and its replacement; after ~ (or ~* for \
             any case) a regular expression, which replaces the whole path.",
            |settings, value| settings.replacements().cookie_path = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-cookie-path"),
        Annotation::served(
            "proxy-redirect-from",
            replacement::redirect_from(),
            "off",
            "Prefix of endpoints' Location and Refresh to replace, or a regular expression after ~; no \
             effect if proxy-redirect-to is off. default is the same as off, because no endpoint sends the \
             text that nginx would replace.",
            |settings, value| settings.replacements().redirect_from = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-redirect-from"),
        Annotation::served(
            "proxy-redirect-to",
            replacement::redirect_to(),
            "off",
            "Replacement for proxy-redirect-from. A Location that is a path becomes a URL of the host, \
             unless relative-redirects is on.",
            |settings, value| settings.replacements().redirect_to = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-redirect-to"),
    ]
}
