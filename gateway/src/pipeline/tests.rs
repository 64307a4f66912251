//! The pipeline without sockets: a state made from a delta, heads in, decisions out.

mod admission;
mod authorisation;
mod canaries;
mod certificate_pages;
mod client_certificates;
mod credentials;
mod directives;
mod error_pages;
pub(crate) mod fixture;
mod headers;
mod locations;
mod logging;
mod observed;
mod redirects;
mod retries;
mod routing;
mod sessions;
mod tracing;
