//! Sources of Kubernetes objects. Every source emits the same events: typed, pruned objects that
//! are new or changed, and the keys of deleted ones. Unchanged objects cause no event.

pub mod files;
pub mod kube;
mod yaml;
