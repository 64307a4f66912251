//! Annotations with an empty value. They count as absent, except for lists of client addresses.

use sluice_config::Code;

use super::AnnotationReader;
use crate::store::Ingress;
use crate::translate::ingress::annotations::{Annotation, TABLE};
use crate::translate::routes::UNABLE;

const REMEDY: &str = "give it a value, or remove it";

impl AnnotationReader<'_> {
    /// Reports empty protecting annotations: their author, or a template, may rely on them. Those
    /// that ingress-nginx refuses close the routes.
    pub(super) fn empty(&mut self, ingress: &Ingress) {
        for (name, _) in ingress.annotations.iter().filter(|(_, text)| text.trim().is_empty()) {
            let Some(entry) = TABLE.get(name) else { continue };
            match name_in_use(entry, ingress) {
                Some(used) if entry.closes_if_empty && used == &**name => {
                    let reason = "is empty".to_owned();
                    self.close(entry, name, Code::AnnotationInvalid, UNABLE, reason, REMEDY);
                }
                Some(_) if entry.closes_if_empty => {}
                _ if entry.closes_if_empty || entry.is_protection() => {
                    let message =
                        "is empty, which counts as if it were not there, and protects nothing".to_owned();
                    self.warn(Code::AnnotationWithoutEffect, name, message, REMEDY);
                }
                _ => {}
            }
        }
    }
}

/// Returns the name of the setting whose value ingress-nginx reads: the first one whose value is
/// not empty, blanks included, or else the current name, if it is given.
fn name_in_use(entry: &Annotation, ingress: &Ingress) -> Option<&'static str> {
    let value = |name: &str| ingress.annotations.iter().find(|(key, _)| **key == *name).map(|(_, text)| text);
    let filled = entry.names().find(|name| value(name).is_some_and(|text| !text.is_empty()));
    filled.or_else(|| value(entry.name).map(|_| entry.name))
}
