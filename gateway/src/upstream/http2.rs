//! Connections of HTTP/2 to endpoints, each shared by many requests of one worker.
//!
//! | file | what |
//! |---|---|
//! | `connection` | one connection: its settings, the task that moves it, what is known about it |
//! | `stream` | its bytes |
//! | `group` | the connections to one endpoint, and who waits for one |
//! | `pool` | all groups of a worker: which connection a request gets, and when one ends |
//! | `obtain` | a new connection where there is none with room |
//! | `broke` | what an error of a stream means for its request |
//!
//! A connection carries up to [`STREAMS`](connection::STREAMS) requests, or as many as the endpoint allows; for more there are more
//! connections. It ends when it is not used any more, and never while a request is on it: who takes it out of the pool
//! lets go of it, and `h2` closes it behind the last stream.

mod connection;
mod group;
mod obtain;
mod pool;
mod stream;
mod stream_error;

pub(crate) use connection::StreamPermit;
pub(crate) use obtain::obtain;
pub(crate) use pool::{let_go, take};
pub(crate) use stream_error::{Progress, StreamError};

#[cfg(test)]
mod tests;
