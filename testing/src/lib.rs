//! What tests, load programs and the lab share: the backend that says who it is and what it was asked, and the TLS
//! client that takes any certificate.
//!
//! A crate of its own because they are several crates, and the gateway must not carry any of it.

pub mod echo;
pub mod trust;
