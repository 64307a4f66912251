//! Redirects that are decided before a request goes anywhere.

use super::Annotation;
use crate::translate::setting::{NotYet, Risk};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::not_yet(
            "permanent-redirect",
            value::text(),
            "",
            NotYet::ChangesAnswers,
            "Answer with a redirect (301) to this URL, whatever the path.",
        )
        .location(Risk::Medium),
        Annotation::not_yet(
            "permanent-redirect-code",
            value::within(300, 308),
            "301",
            NotYet::Harmless,
            "Code of permanent-redirect, 300 to 308.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "temporal-redirect",
            value::text(),
            "",
            NotYet::ChangesAnswers,
            "Answer with a redirect (302) to this URL, whatever the path; wins over permanent-redirect.",
        )
        .location(Risk::Medium),
        Annotation::not_yet(
            "temporal-redirect-code",
            value::within(300, 307),
            "302",
            NotYet::Harmless,
            "Code of temporal-redirect, 300 to 307.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "from-to-www-redirect",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Creates the missing www./bare sibling host and redirects it with 308.",
        )
        .location(Risk::Low),
        Annotation::not_yet(
            "preserve-trailing-slash",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Keep the final slash in the https redirect.",
        )
        .location(Risk::Medium)
        .falls_back_to("preserve-trailing-slash"),
        Annotation::not_yet(
            "relative-redirects",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Location header relative instead of absolute.",
        )
        .location(Risk::Low)
        .falls_back_to("relative-redirects"),
        Annotation::not_yet(
            "use-port-in-redirects",
            value::bool(),
            "false",
            NotYet::ChangesAnswers,
            "Add the listening port to redirects.",
        )
        .location(Risk::Low)
        .falls_back_to("use-port-in-redirects"),
    ]
}
