//! Sockets and time: the stream of a client or an endpoint, unsent output, the worker's shared read
//! buffer, the memory budget, and one timer for all deadlines of a request.

pub(crate) mod alarm;
pub(crate) mod budget;
pub(crate) mod counted;
pub(crate) mod deadlines;
pub(crate) mod joined;
pub(crate) mod scratch;
pub(crate) mod transport;
pub(crate) mod wire;
pub(crate) mod write_buffer;
