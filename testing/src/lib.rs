//! What tests, load programs and the lab share: gateways as child processes, backends, clients, certificates, manifests
//! and ports.
//!
//! A crate of its own because they are several crates, and the gateway must not carry any of it. What is written for
//! tests blocks and panics, so that a test reads from top to bottom and says at which line it failed; nothing waits for
//! a fixed time ([`wait`]).
//!
//! | module | is |
//! |---|---|
//! | [`gateway`] | the real program as a child process, on a [`folder`] of [`manifest`]s |
//! | [`backend`], [`echo`] | a backend that does as a test says; one that does as the request says |
//! | [`client`], [`http2`], [`trust`] | clients that send exactly the given bytes; a TLS client that takes any certificate |
//! | [`dns`] | a DNS server with the records that a test gives it |
//! | [`browser`] | headless Chromium, where a machine has it |
//! | [`module_cycles`] | the check that the modules of a crate form no cycle |
//! | [`wire`] | HTTP/1.1 messages as bytes |
//! | [`certificate`], [`ports`], [`program`], [`wait`] | what the others are built on |

pub mod backend;
pub mod browser;
pub mod certificate;
pub mod client;
pub mod dns;
pub mod echo;
pub mod folder;
pub mod gateway;
pub mod grpc;
pub mod http2;
pub mod manifest;
pub mod memory;
pub mod module_cycles;
pub mod ports;
pub mod program;
pub mod trust;
pub mod wait;
pub mod wire;
