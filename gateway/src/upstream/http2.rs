//! HTTP/2 connections to endpoints, each shared by many requests of one worker.
//!
//! | file | content |
//! |---|---|
//! | `connection` | one connection: its settings and the task that drives it |
//! | `connection_state` | its state, which the task publishes |
//! | `stream` | the bytes of a connection |
//! | `group` | the connections to one endpoint and the requests that wait for one |
//! | `pool` | all groups of a worker: assigns connections to requests and ends connections |
//! | `stream_error` | the meaning of a stream error for its request |
//!
//! A connection carries up to [`STREAMS`](group::STREAMS) concurrent requests, or as many as
//! the endpoint allows; further requests open further connections. An unused connection is closed,
//! but never while it carries a request: the pool only drops its handle, and `h2` closes the
//! connection after the last stream.

pub(super) mod connection;
mod connection_state;
pub(super) mod group;
pub(super) mod pool;
mod stream;
mod stream_error;

pub(crate) use connection::StreamPermit;
pub(crate) use pool::{close_longest_idle, take};
pub(crate) use stream_error::{StreamError, StreamProgress};

#[cfg(test)]
mod tests;
