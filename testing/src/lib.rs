//! What tests, load programs and the lab share: the backend that says who it is and what it was asked.
//!
//! A crate of its own because they are three crates, and the gateway must not carry any of it.

pub mod echo;
