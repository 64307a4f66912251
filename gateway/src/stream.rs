//! Streams: TCP connections and UDP datagrams that are forwarded without being interpreted.
//!
//! A stream is a kind of session of its own: it shares endpoint selection, passive health, limits
//! and deadlines with requests, but has no exchange. Three listeners lead here: TCP services, UDP
//! services, and TLS that is passed through by server name.
//!
//! | module | purpose |
//! |---|---|
//! | `session` | the account of one stream: log line and metrics |
//! | `connection` | one TCP connection and its relay |
//! | `connect` | a connection to an endpoint, with retries |
//! | `proxy_line` | PROXY protocol headers for endpoints |
//! | `udp` | sessions of datagrams |

mod connect;
mod connection;
mod proxy_line;
mod session;
pub(crate) mod udp;

pub(crate) use connection::{AcceptedConnection, StreamConnection};
