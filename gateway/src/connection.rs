//! The life of a client connection.

pub mod bind;
pub mod info;

pub use bind::{BoundSocket, BoundSockets, Sockets};
pub use info::{ConnectionInfo, TlsInfo};
