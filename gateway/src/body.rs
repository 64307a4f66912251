//! Stages on bodies: what looks at the bytes of a request or response, holds them or changes them.
//!
//! A stage wraps the client's side of a request and is one itself ([`staged`]), so that it is written once, for every
//! protocol of clients and for both engines. What a request needs is decided from its head when it is about to be
//! forwarded; most need nothing, and nothing is wrapped then.
//!
//! | file | what |
//! |---|---|
//! | `downstream`, `pieces` | the client's side of a request, and bodies free of their coding |
//! | `plan`, `staged` | what one request needs; the wrapping |
//! | `buffer`, `spill`, `disk` | a request body that waits until it is whole: in memory, then on disk |
//! | `whole` | a small request body that has arrived already |
//! | `rate` | how fast a response goes out |
//! | `tee` | a copy of a request body for somebody else |
//! | `compression`, `coding`, `compressor`, `encoder` | which responses are compressed, how, and the work |

mod buffer;
mod coding;
pub(crate) mod compression;
mod compressor;
pub(crate) mod disk;
pub(crate) mod downstream;
mod encoder;
#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod pieces;
pub(crate) mod plan;
mod rate;
mod spill;
pub(crate) mod staged;
pub(crate) mod tee;
pub(crate) mod whole;
