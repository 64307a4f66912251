//! Paths as regular expressions, rewriting of paths, and other changes of requests and responses.

use std::sync::Arc;

use sluice_config::Moment;

use super::Annotation;
use crate::translate::routes::{GroupText, RewriteTarget};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, Wrong};

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "rewrite-target",
            value::capture_path()
                .and_then(|text| match RewriteTarget::read(&text) {
                    Ok(target) => Ok((text, target)),
                    // ingress-nginx takes it: without it, requests would go to other paths.
                    Err(reason) => Err(Wrong::Refused { reason, remedy: "correct the target" }),
                })
                .evaluated_at(Moment::Request),
            "",
            "Path sent to the endpoint; may contain $1 to $9 and named groups of the path, which becomes a \
             regular expression, and variables such as $host. A URL redirects to it (302). Another name, which nginx \
             would refuse, closes the path with 503.",
            |settings, value| settings.routes.rewriting.target = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "use-regex",
            value::bool(),
            "false",
            "All paths of the host, in all its Ingresses, are case-insensitive regular expressions \
             anchored at the start of the path. Syntax of PCRE that needs backtracking (look-behind, \
             back-references, atomic groups) is searched within a step limit; a request that reaches it gets 500.",
            |settings, value| settings.routes.rewriting.use_regex = value,
        )
        .location(Risk::Low),
        Annotation::served(
            "app-root",
            value::capture_path().and_then(app_root).called("letters, digits and - . _ ~ / :"),
            "",
            "Path that / of the host is redirected to with 302, behind the directives of server-snippet. Of \
             several on a host, that of the longest path applies.",
            |settings, value| settings.routes.rewriting.app_root = Some(value),
        )
        .location(Risk::Medium),
        Annotation::served(
            "x-forwarded-prefix",
            value::capture_path().and_then(|text| GroupText::read(&text)).evaluated_at(Moment::Request),
            "",
            "X-Forwarded-Prefix sent to the endpoint, with groups of the path, if rewrite-target changes \
             the path.",
            |settings, value| settings.routes.rewriting.forwarded_prefix = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "requests go to the same path")
        .location(Risk::Medium),
    ]
}

fn app_root(text: Arc<str>) -> Result<Arc<str>, &'static str> {
    let good = |b: u8| b.is_ascii_graphic() && !b"$#\"<>\\^`{|}".contains(&b);
    match text.starts_with('/') && !text.starts_with("//") && text.bytes().all(good) {
        true => Ok(text),
        false => Err("must be a path from the root, without $"),
    }
}
