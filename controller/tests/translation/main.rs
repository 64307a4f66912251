//! Objects in, configuration and problems out: the translation from its outside.

mod classes;
mod counters;
mod gates;
mod hosts;
mod properties;
mod services;
mod support;
mod tls;
