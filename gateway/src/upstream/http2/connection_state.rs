//! The state of a connection that its task publishes.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// State of a connection that its task publishes.
#[derive(Debug, Default)]
pub(super) struct ConnectionState {
    /// The connection has ended.
    pub(super) ended: AtomicBool,
    /// Bytes written to the socket, and bytes received.
    pub(super) written: AtomicU64,
    pub(super) heard: AtomicU64,
    /// Received frames that only show that the endpoint is alive.
    pub(super) signs_of_life: AtomicU64,
    /// Number of final bytes that the endpoint has certainly not received. Valid once the endpoint
    /// has closed the connection in order.
    pub(super) undelivered: AtomicU64,
    /// Bytes read in this turn of the task.
    pub(super) turn: AtomicUsize,
}
