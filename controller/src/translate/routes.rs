//! Routes: which object has which host and path, and where its requests go.

pub(crate) mod backend;
pub(crate) mod claim;
pub(crate) mod host;
