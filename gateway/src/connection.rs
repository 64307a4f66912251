//! Connections of clients: what is known about each, which are idle, and how they end during a
//! shutdown.

pub mod drain;
pub(crate) mod idle;
pub mod info;
