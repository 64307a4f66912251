//! What an Ingress replaces in the cookies and redirects of its endpoints.

use super::Annotation;
use crate::translate::replacement;
use crate::translate::setting::Risk;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "proxy-cookie-domain",
            replacement::cookie_domain(),
            "off",
            "The domain of cookies of endpoints that is replaced, and by what; after ~ an expression, whose groups the \
             second may name.",
            |settings, value| settings.replacements.cookie_domain = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-cookie-domain"),
        Annotation::served(
            "proxy-cookie-path",
            replacement::cookie_path(),
            "off",
            "The beginning of the path of cookies of endpoints that is replaced, and by what; after ~ (or ~* for any \
             case) an expression, for which the whole path gives way.",
            |settings, value| settings.replacements.cookie_path = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-cookie-path"),
        Annotation::served(
            "proxy-redirect-from",
            replacement::redirect_from(),
            "off",
            "The beginning of Location and Refresh of endpoints that is replaced, or an expression after ~; nothing \
             where proxy-redirect-to is off. default is off: no endpoint names what nginx would replace then.",
            |settings, value| settings.replacements.redirect_from = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-redirect-from"),
        Annotation::served(
            "proxy-redirect-to",
            replacement::redirect_to(),
            "off",
            "What replaces it. A Location that is a path then becomes a URL of the host, unless relative-redirects \
             says otherwise.",
            |settings, value| settings.replacements.redirect_to = value,
        )
        .location(Risk::Medium)
        .falls_back_to("proxy-redirect-to"),
    ]
}
