//! Connections to endpoints: establishing them (`connect`), keeping them (`pool`), their state
//! (`connection`), the parameters of an attempt (`attempt`), which of them are interchangeable
//! (`trust`), and TLS as rules specify it (`tls`, `verifier`). HTTP/2 connections, which many
//! requests share, are in `http2`; `obtain_http2` opens them.

pub(crate) mod attempt;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod http2;
pub(crate) mod obtain_http2;
pub(crate) mod pool;
pub(crate) mod tls;
pub(crate) mod trust;
mod verifier;
