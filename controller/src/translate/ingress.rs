//! Ingresses as a source of routes: which of them are served, the settings of their annotations,
//! and the hosts that they claim.

pub mod annotations;
pub(crate) mod class;
mod model;
pub(crate) mod names;

pub(crate) use model::compute;
