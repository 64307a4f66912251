//! nginx configuration. Snippets whose directives are all known become typed
//! policies; no text is executed. Their risk is Critical, which `annotations-risk-level` refuses by
//! default.

use super::{Annotation, nginx_text};
use crate::translate::setting::{NotYet, ReferenceTreatment, Risk, Unreadable};
use crate::translate::snippet::{self, AUTHORISATION, CONFIGURATION, SERVER, SnippetContext};
use crate::translate::value;

const TEXT: &str = "replace the snippet by annotations where they exist (docs/annotations.md), or do it in the \
                    application; remove the snippet when the routes may be served without it, and if it protects \
                    them, only when something else does";
const EXCEPT: &str = "with allow-snippet-annotations; other directives close the routes with 503";

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            CONFIGURATION,
            snippet::directives(SnippetContext::Location),
            "",
            "Directives of each location of the Ingress, translated into typed policies.",
            |settings, value| settings.routes.snippets.location = Some(value),
        )
        .snippet(NotYet::ChangesAnswers)
        .except(EXCEPT)
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .location(Risk::Critical),
        Annotation::served(
            SERVER,
            snippet::directives(SnippetContext::Server),
            "",
            "Directives of the server of each host, translated into typed policies for the Ingresses of the same \
             namespace. If several of them have one, all apply.",
            |settings, value| settings.routes.snippets.server = Some(value),
        )
        .snippet(NotYet::ChangesAnswers)
        .except(EXCEPT)
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .for_namespace_of_host()
        .restricting(nginx_text::restricts_access)
        .ingress(Risk::Critical),
        Annotation::not_yet(
            "stream-snippet",
            value::any(),
            "",
            NotYet::ChangesAnswers,
            "Text in the stream block.",
        )
        .ingress(Risk::Critical)
        .never(TEXT),
        Annotation::served(
            AUTHORISATION,
            snippet::directives(SnippetContext::Authorisation),
            "",
            "Directives of the request to the authorisation service: proxy_set_header.",
            |settings, value| settings.routes.snippets.authorisation = Some(value),
        )
        .snippet(NotYet::Protects)
        .except(EXCEPT)
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .beside("auth-url")
        .location(Risk::Critical)
        .protects(),
    ]
}
