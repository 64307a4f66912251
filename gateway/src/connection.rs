//! The life of a client connection.

pub mod info;

pub use info::{ConnectionInfo, TlsInfo};
