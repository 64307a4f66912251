//! Sockets and time: streams of clients and endpoints, write buffers, the read buffer of a worker,
//! the memory budget, one timer for all limits of a request, a filter for frames of HTTP/2, limits
//! on rates, and the ways in which an attempt fails.

pub(crate) mod alarm;
pub(crate) mod bind;
pub(crate) mod budget;
pub(crate) mod counted;
pub(crate) mod deadlines;
pub mod early_tls;
pub mod failure;
pub(crate) mod flow;
pub(crate) mod frames;
pub(crate) mod joined;
pub(crate) mod rate;
pub(crate) mod scratch;
pub(crate) mod transport;
pub(crate) mod wire;
pub(crate) mod write_buffer;
