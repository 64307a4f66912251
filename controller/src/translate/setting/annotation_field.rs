//! Fields of annotations in problems.

/// Returns the field of an annotation for problems. Sluice's own annotations have their own prefix.
pub(crate) fn annotation_field(prefix: &str, name: &str) -> String {
    match name.contains('/') {
        true => format!("metadata.annotations[{name}]"),
        false => format!("metadata.annotations[{prefix}/{name}]"),
    }
}
