//! All tests in a real cluster, as one program that is linked once and whose tests share one lab.
//!
//! Tests start in the order of their names, a few at a time. Tests that inject faults into a whole
//! cluster have their own lab and run one after the other (`own`), concurrently with those that
//! share one.

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
mod plugin;
mod provider;
mod replica_limits;
mod requests;
mod rights;
mod secrets;
mod snapshot;
mod source;
