//! The direct engine: endpoints without Pingora's `HttpProxy`.
//!
//! `HttpProxy` does much that a request does not need: two tasks with a channel between them, clones of every head,
//! buffers that are cold whenever they are used. With HTTP/1.1 this engine writes a head on where it was read, and bodies
//! pass through one buffer of the worker; with HTTP/2 on both sides they pass as pieces that nobody copies.
//!
//! | file | what |
//! |---|---|
//! | `attempts` | attempts, endpoint after endpoint |
//! | `sides`, `download`, `replay` | what they have in common, whatever the endpoint speaks |
//! | `http1`, `http2` | one attempt each, both directions; with an `upload` each |
//! | `connecting` | an eye on the client while a connection is made |

mod attempt_io;
mod attempts;
mod connecting;
mod download;
mod http1;
mod http2;
mod replay;

pub(super) use attempts::forward;
