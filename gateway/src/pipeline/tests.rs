//! The pipeline without sockets: a state made from a delta, heads in, decisions out.

pub(crate) mod fixture;
mod headers;
mod logging;
mod retries;
mod routing;
mod sessions;
