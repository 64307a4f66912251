//! Connections to endpoints: made (`connect`), kept (`pool`), what can be told about them
//! (`connection`), and which of them are exchangeable (`trust`).

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod pool;
pub(crate) mod trust;
