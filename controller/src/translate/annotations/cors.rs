//! Answers to pages of other origins.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

/// The default of ingress-nginx.
const ALLOWED_HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,\
                               Content-Type,Range,Authorization";

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "enable-cors",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Switches the CORS block on.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "cors-allow-credentials",
            value::bool(),
            "true",
            NotYet::Harmless,
            "Access-Control-Allow-Credentials of the answer.",
        )
        .ingress(Risk::Low),
        Annotation::not_yet(
            "cors-allow-headers",
            value::list(),
            ALLOWED_HEADERS,
            NotYet::Harmless,
            "Access-Control-Allow-Headers of the answer.",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "cors-allow-methods",
            value::list(),
            "GET, PUT, POST, DELETE, PATCH, OPTIONS",
            NotYet::Harmless,
            "Access-Control-Allow-Methods of the answer.",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "cors-allow-origin",
            value::list(),
            "*",
            NotYet::Harmless,
            "Origins that may read answers, or * for all.",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "cors-expose-headers",
            value::list(),
            "",
            NotYet::Harmless,
            "Access-Control-Expose-Headers of the answer.",
        )
        .ingress(Risk::Medium),
        Annotation::not_yet(
            "cors-max-age",
            value::int(),
            "1728000",
            NotYet::Harmless,
            "Access-Control-Max-Age on preflight.",
        )
        .ingress(Risk::Low),
    ]
}
