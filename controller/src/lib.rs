//! The control plane of Sluice: sources of Kubernetes objects, the object store, and the memoised
//! translation into the configuration of the data plane.
//!
//! Data flows one way: a [`source`] emits events, the [`store`] keeps pruned objects, the
//! [`translate`] pipeline computes configuration nodes from them, and a [`Controller`] sends
//! changed nodes as a `Delta`. [`run()`] drives this with a data plane, [`check()`] without one.

pub mod admission;
mod backoff;
pub mod check;
pub mod cluster;
pub mod controller;
pub mod duties;
mod events;
mod graph;
pub mod input;
pub mod label_selector;
mod leader;
#[cfg(test)]
mod module_cycles;
pub mod names;
mod nearest;
pub mod options;
mod panic_guard;
mod problem;
mod refusals;
pub mod run;
mod shared;
pub mod snapshot_file;
pub mod source;
mod startup_snapshot;
mod status;
pub mod store;
mod strict_decode;
pub mod translate;
pub mod webhook_certificate;

pub use check::{CheckInput, CheckReport, ClusterCheckError, NameLookup, check, check_cluster};
pub use cluster::DutyOptions;
pub use controller::{Controller, IngressCounts, ReviewVerdict, SnippetTranslation, Stats, Update};
pub use duties::Duties;
pub use input::Input;
pub use names::NameResolver;
pub use options::Options;
pub use problem::{Duty, ProblemChanges};
pub use run::{Observe, run};
pub use source::{YamlError, parse_yaml};
