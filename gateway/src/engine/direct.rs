//! The direct engine: endpoints of HTTP/1.1, without Pingora's `HttpProxy`.
//!
//! That is what nearly all requests go to, and for them `HttpProxy` does much that is not needed: two tasks with a
//! channel between them, clones of every head, buffers that are cold whenever they are used. This engine writes a head
//! on where it was read; bodies pass through one buffer of the worker.
//!
//! | file | what |
//! |---|---|
//! | `attempts`, `relay` | attempts, and one attempt, both directions; `upload` and `download` are one each |
//! | `connecting` | an eye on the client while a connection is made |

mod attempts;
mod connecting;
mod download;
mod relay;
mod upload;

pub(super) use attempts::forward;
