//! Sockets and time, for whoever moves bytes: the stream of a client or an endpoint, what waits to be written, one
//! buffer of the worker to read into, the memory that all of it may take, and one timer for all limits of a request.

pub(crate) mod alarm;
pub(crate) mod budget;
pub(crate) mod counted;
pub(crate) mod deadlines;
pub(crate) mod joined;
pub(crate) mod scratch;
pub(crate) mod transport;
pub(crate) mod wire;
pub(crate) mod write_buffer;
