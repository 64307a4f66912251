//! The life of a client connection: sockets, the handshake, the choice of protocol, the keep-alive loop with the
//! request head under one deadline, and the end.
//!
//! Ours because Pingora's listener cannot add listeners, bound a request head, choose TLS by SNI freely or hide
//! its own error page.

pub(crate) mod accept;
pub mod bind;
mod chunks;
mod head;
mod http1;
mod http2;
pub mod info;
pub(crate) mod io;
mod refusal;

pub use bind::{BoundSocket, BoundSockets, Sockets};
pub use info::{ConnectionInfo, TlsInfo};
