//! What is reported of annotations that close nothing.

use sluice_config::Code;

use super::AnnotationReader;
use crate::problem::{error, warning};
use crate::translate::ingress::annotations::{Annotation, TABLE};
use crate::translate::setting::{ReferenceTreatment, annotation_field};

/// Removed or commonly mistaken annotation names, each with the current one.
const FORMER: [(&str, &str); 9] = [
    ("secure-backends", "set backend-protocol to HTTPS: without it endpoints receive plain HTTP"),
    ("secure-verify-ca-secret", "set proxy-ssl-secret and proxy-ssl-verify"),
    ("grpc-backend", "set backend-protocol to GRPC: without it endpoints receive plain HTTP"),
    ("add-base-url", "remove it, and configure the base path in the application; see x-forwarded-prefix"),
    ("base-url-scheme", "remove it, and configure the base path in the application; see x-forwarded-prefix"),
    ("client-max-body-size", "write proxy-body-size"),
    ("session-cookie-hash", "remove it: cookies need no hash any more"),
    ("upstream-fail-timeout", "remove it: ingress-nginx ignores it too"),
    ("upstream-max-fails", "remove it: ingress-nginx ignores it too"),
];

impl AnnotationReader<'_> {
    /// Reports an annotation without the one that it requires.
    pub(super) fn alone(&mut self, name: &str, text: &str, entry: &Annotation, main: &str) {
        let as_there = match entry.leniency.reference {
            ReferenceTreatment::Absent => "",
            _ => ", as in ingress-nginx",
        };
        let message = format!("{text:?} has no effect without {main}{as_there}");
        let remedy = format!("set {main}, or remove the annotation");
        self.warn(Code::AnnotationWithoutEffect, name, message, &remedy);
    }

    pub(super) fn unknown(&mut self, name: &str) {
        let former = FORMER.iter().find(|(former, _)| *former == name);
        let remedy = match (former, TABLE.nearest(name)) {
            (Some((_, instead)), _) => (*instead).to_owned(),
            (None, Some(near)) if near.contains('/') => format!("did you mean {near}?"),
            (None, Some(near)) => format!("did you mean {}/{near}?", self.prefix),
            (None, None) => "remove it, or look its name up in docs/annotations.md".to_owned(),
        };
        self.warn(Code::AnnotationUnknown, name, "is unknown to Sluice and is ignored".to_owned(), &remedy);
    }

    pub(super) fn superseded(&mut self, alias: &str, entry: &Annotation) {
        let message = format!("is ignored, because {}/{} is given too", self.prefix, entry.name);
        self.warn(Code::AnnotationSuperseded, alias, message, "remove the older name");
    }

    /// Reports a value that is ignored; the Ingress is served. ingress-nginx serves it too, unless
    /// the annotation is Sluice's own.
    pub(super) fn ignored(&mut self, name: &str, message: String, entry: &Annotation) {
        let make = if entry.leniency.reference == ReferenceTreatment::Absent { error } else { warning };
        let field = self.field(name);
        self.parsed.problems.push(make(
            Code::AnnotationInvalid,
            self.object,
            &field,
            &message,
            "correct the value",
        ));
    }

    pub(super) fn warn(&mut self, code: Code, name: &str, message: String, remedy: &str) {
        self.parsed.problems.push(warning(code, self.object, self.field(name), message, remedy));
    }

    pub(super) fn field(&self, name: &str) -> String {
        annotation_field(self.prefix, name)
    }
}
