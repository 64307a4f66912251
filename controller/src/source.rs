//! Sources of Kubernetes objects. Every source emits the same events: typed, pruned objects that
//! are new or changed, and the keys of deleted ones. Unchanged objects cause no event.

pub mod files;
pub mod kube;
mod yaml;

pub use yaml::YamlError;

/// Parses a text with one YAML document of any content, such as chart values.
///
/// # Errors
/// The text is not YAML, or is nested or expands without a bound.
pub fn parse_yaml(text: &str) -> Result<serde_json::Value, YamlError> {
    yaml::any(text)
}
