//! The Helm chart, rendered by Helm without a cluster: generated files are up to date, every value
//! has an effect or is rejected with its name and the reason, and the rendered objects are
//! consistent.

mod dashboards;
mod generated;
mod geoip;
mod helm;
mod ingress_nginx;
mod notes;
mod objectives;
mod panels;
mod prometheus;
mod promtool;
mod refusals;
mod rendered;
mod replica_limits;
mod rights;
mod rules;
mod streams;
mod values;
mod waf;
mod webhook;
