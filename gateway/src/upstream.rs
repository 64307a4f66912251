//! Connections to endpoints: made (`connect`), kept (`pool`), and what can be told about them (`connection`).

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod pool;
