//! What snippets were translated to, for `sluice check`.

use sluice_config::ObjectRef;

use super::Translation;
use super::setting::annotation_field;

/// The translation of one snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnippetTranslation {
    /// The object that has it.
    pub object: ObjectRef,
    /// The annotation or key.
    pub field: String,
    /// The translation, one line per directive.
    pub lines: Vec<String>,
}

impl Translation {
    /// Returns the translations of all snippets, sorted by object.
    pub(crate) fn snippet_translations(&self) -> Vec<SnippetTranslation> {
        let mut all = Vec::new();
        if let Some(name) = &self.options.configmap {
            for (key, lines) in self.values.config_map.snippets.translations() {
                all.push(SnippetTranslation {
                    object: ObjectRef { kind: "ConfigMap".into(), name: name.clone() },
                    field: format!("data[{key}]"),
                    lines: lines.to_vec(),
                });
            }
        }
        for routes in self.values.routes.values() {
            all.extend(routes.settings.snippets.translations().map(|(name, block)| SnippetTranslation {
                object: routes.object.object_ref(),
                field: annotation_field(&self.options.annotations_prefix, name),
                lines: block.lines().to_vec(),
            }));
        }
        all.sort_by(|a, b| (&a.object, &a.field).cmp(&(&b.object, &b.field)));
        all
    }
}
