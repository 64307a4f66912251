//! Everything that is tested in a real cluster, as one program: one is linked, and its tests share one lab.
//!
//! Tests begin in the order of their names, a few at a time. Those that inject faults into a whole cluster have a lab of their
//! own and follow each other (`own`), beside tests that share one.

mod accounts;
mod api_away;
mod cert_manager;
mod chart;
mod duties;
mod example;
mod faults;
mod gateway;
mod gateway_api;
mod k6;
mod lab;
mod migration;
mod provider;
mod requests;
mod rights;
mod secrets;
mod snapshot;
mod source;
