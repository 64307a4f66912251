//! The control plane of Sluice: sources of Kubernetes objects, the store that keeps them, and the memoised
//! translation into what the data plane understands.

pub mod options;

pub use options::Options;
