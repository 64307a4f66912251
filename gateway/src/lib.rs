//! The data plane of Sluice: everything between a client's connection and a Pod's address.
//!
//! It applies a [`sluice_config::Delta`] and answers with a [`sluice_config::Report`]. It contains
//! nothing of Kubernetes or of annotations. Its modules, from top to bottom,
//! form no cycle of imports; a test checks this.
//!
//! | module | purpose |
//! |---|---|
//! | [`data_plane`], [`admin`] | threads and their composition; health, metrics, introspection |
//! | [`listen`] | accepts connections |
//! | `downstream` | HTTP/1.1 and HTTP/2 connections of clients |
//! | `engine` | forwards requests |
//! | `stream`, `stream_table` | TCP, UDP and TLS that are forwarded unread; their targets |
//! | [`pipeline`] | the life cycle of a request, without sockets |
//! | [`worker`], [`state`] | what the connections of a worker share; what all workers share, and applying a delta |
//! | [`route`], [`router`], [`policy`] | compiled rules, their lookup, their policies |
//! | `tap` | readers of live requests |
//! | [`registry`], `upstream` | endpoints; connections to them |
//! | `body` | stages on bodies |
//! | [`cache`] | stored responses |
//! | [`telemetry`] | metrics and logs |
//! | [`variable`] | values of nginx's variables |
//! | `firewall` | the inspection of requests by an agent, and sending directives to it |
//! | `otel` | the context of traces, and sending spans to a collector |
//! | [`location`] | GeoIP2 databases |
//! | [`tls`] | certificates |
//! | [`connection`], [`process`] | connections that are open; limits and tasks of the process |
//! | [`io`], [`message`], `expression` | streams, deadlines, memory; HTTP messages; regular expressions |

// The state of an exchange reaches the caches of both regex engines, deeper than the default.
#![recursion_limit = "256"]

pub mod admin;
pub(crate) mod body;
pub mod cache;
pub mod connection;
pub mod data_plane;
mod downstream;
mod engine;
mod expression;
mod firewall;
pub mod io;
pub mod listen;
pub mod location;
pub mod message;
#[cfg(test)]
mod module_cycles;
mod otel;
pub mod pipeline;
pub mod policy;
pub mod process;
pub mod registry;
mod replicas;
pub mod route;
pub mod router;
pub mod state;
mod stream;
mod stream_table;
mod tap;
pub mod telemetry;
pub mod tls;
#[cfg(any(test, feature = "fuzzing"))]
pub mod trial;
mod upstream;
pub mod variable;
pub mod worker;
