//! Keys that limit annotations.

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "allow-snippet-annotations",
            value::bool(),
            "false",
            "Translate the snippets of annotations into typed directives (docs/snippets.md). \
             annotations-risk-level must be Critical, too. If false, a snippet closes its routes with 503.",
            |settings, value| settings.annotation_limits.snippets = value,
        ),
        Key::served(
            "annotations-risk-level",
            value::one_of(Risk::ALL).empty_as("Low"),
            "High",
            "Highest risk of accepted annotations.",
            |settings, value| settings.annotation_limits.risk = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Fallback, "")
        .fallback("Low is in force", |settings| settings.annotation_limits.risk = Risk::Low),
        Key::served(
            "annotation-value-word-blocklist",
            value::list(),
            "",
            "Words that no annotation value may contain.",
            |settings, value| settings.annotation_limits.blocked_words = value,
        ),
        Key::served(
            "allow-cross-namespace-resources",
            value::bool(),
            "false",
            "Annotations may name Secrets and ConfigMaps of other namespaces.",
            |settings, value| settings.annotation_limits.cross_namespace = value,
        ),
        Key::served(
            "strict-validate-path-type",
            value::bool(),
            "true",
            "Report Exact and Prefix paths with unusual characters.",
            |settings, value| settings.annotation_limits.strict_paths = value,
        ),
    ]
}
