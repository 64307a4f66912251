//! Objects in, configuration and problems out: the translation from its outside.

mod annotation_limits;
mod at_once;
mod canaries;
mod classes;
mod client_certificates;
mod closed;
mod counters;
mod endpoint_tls;
mod hosts;
mod owners;
mod properties;
mod redirects;
mod references;
mod refusals;
mod review;
mod rewrites;
mod services;
mod streams;
mod support;
mod tls;
mod topology;
