//! Stages on bodies: code that inspects, holds or changes the bytes of a request or response body.
//!
//! A stage wraps the client side of a request and implements the same interface ([`staged`]). It is
//! therefore written once for every client protocol and for both engines. The stages of a request
//! are chosen from its head, just before it is forwarded. Most requests need none, and then nothing
//! is wrapped.
//!
//! | file | contents |
//! |---|---|
//! | `downstream`, `pieces` | the client side of a request; bodies without the coding of HTTP/1 |
//! | `piece_queue` | pieces of an HTTP/2 response that wait for the client |
//! | `plan`, `staged` | the stages that a request needs; the wrapper around the client side |
//! | `buffer`, `spill`, `disk` | buffering of a whole request body, first in memory, then on disk |
//! | `whole` | a small request body that has already arrived |
//! | `rate` | the rate limit of a response |
//! | `hold` | a response that waits for the decision of the firewall |
//! | `substitution` | texts that are replaced in responses |
//! | `tee` | a copy of a request body for a mirror |
//! | `compression`, `coding`, `compressor`, `encoder` | which responses are compressed, and how |

mod buffer;
mod coding;
pub(crate) mod compression;
mod compressor;
pub(crate) mod disk;
pub(crate) mod downstream;
mod encoder;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod hold;
pub(crate) mod piece_queue;
pub(crate) mod pieces;
pub(crate) mod plan;
mod rate;
mod response_buffer;
mod spill;
pub(crate) mod staged;
pub(crate) mod substitution;
pub(crate) mod tee;
pub(crate) mod whole;
