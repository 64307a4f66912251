//! HTTP/2 connections to endpoints, each shared by many requests of one worker.
//!
//! | file | content |
//! |---|---|
//! | `connection` | one connection: its settings, the task that drives it, its state |
//! | `stream` | the bytes of a connection |
//! | `group` | the connections to one endpoint and the requests that wait for one |
//! | `pool` | all groups of a worker: assigns connections to requests and ends connections |
//! | `obtain` | opens a new connection if no existing one has a free stream |
//! | `stream_error` | the meaning of a stream error for its request |
//!
//! A connection carries up to [`STREAMS`](connection::STREAMS) concurrent requests, or as many as
//! the endpoint allows; further requests open further connections. An unused connection is closed,
//! but never while it carries a request: the pool only drops its handle, and `h2` closes the
//! connection after the last stream.

mod connection;
mod group;
mod obtain;
mod pool;
mod stream;
mod stream_error;

pub(crate) use connection::StreamPermit;
pub(crate) use obtain::obtain;
pub(crate) use pool::{close_longest_idle, take};
pub(crate) use stream_error::{StreamError, StreamProgress};

#[cfg(test)]
mod tests;
