//! Shared code of tests, load programs and the lab: gateways as child processes, backends, clients,
//! certificates, manifests and ports.
//!
//! This is a separate crate because several crates use it, and the gateway must not contain any of
//! it. The functions for tests block and panic, so that a test reads from top to bottom and reports
//! the line of its failure. Nothing waits for a fixed time ([`wait`]).
//!
//! | module | content |
//! |---|---|
//! | [`gateway`] | the real program as a child process, on a [`folder`] of [`manifest`]s |
//! | [`backend`], [`echo`] | a backend controlled by a test; one controlled by the request |
//! | [`client`], [`http2`], [`trust`] | clients that send given bytes; TLS with any certificate |
//! | [`stream`] | servers of TCP and UDP that send everything back |
//! | [`nginx`] | a real nginx, if the machine has it |
//! | [`collector`] | an OTLP collector |
//! | [`dns`] | a DNS server with records that a test defines |
//! | [`browser`] | headless Chromium, if the machine has it |
//! | [`mmdb`] | GeoIP2 databases |
//! | [`epoll`], [`memory`] | what a process waits for, and its memory (Linux) |
//! | [`module_cycles`] | the check that the modules of a crate form no cycle |
//! | `source_rules` | the check of the width of comments and the length of the names of tests |
//! | [`websocket`] | an endpoint of HTTP/1.1 and a client of HTTP/2 |
//! | [`wire`] | HTTP/1.1 messages as bytes |
//! | [`certificate`], [`ports`], [`program`], [`wait`] | the basis of the others |

pub mod backend;
pub mod browser;
pub mod certificate;
pub mod client;
pub mod collector;
pub mod dns;
pub mod echo;
pub mod epoll;
pub mod folder;
pub mod gateway;
pub mod grpc;
pub mod http2;
pub mod manifest;
pub mod memory;
pub mod mmdb;
pub mod module_cycles;
pub mod nginx;
pub mod ocsp;
pub mod ports;
pub mod program;
#[cfg(test)]
mod source_rules;
pub mod stream;
pub mod trust;
pub mod wait;
pub mod websocket;
pub mod wire;
