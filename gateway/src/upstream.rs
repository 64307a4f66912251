//! Connections to endpoints: made (`connect`), kept (`pool`), what can be told about them
//! (`connection`), what an attempt needs to know (`attempt`), which of them are exchangeable (`trust`), and TLS as rules want it (`tls`, `verifier`). Those of
//! HTTP/2, which many requests share, are in `http2`.

pub(crate) mod attempt;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod http2;
pub(crate) mod pool;
pub(crate) mod tls;
pub(crate) mod trust;
mod verifier;
