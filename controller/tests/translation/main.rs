//! Objects in, configuration and problems out: the translation from its outside.

mod at_once;
mod canaries;
mod classes;
mod closed;
mod counters;
mod endpoint_tls;
mod gates;
mod hosts;
mod owners;
mod properties;
mod references;
mod refusals;
mod review;
mod rewrites;
mod services;
mod support;
mod tls;
mod topology;
