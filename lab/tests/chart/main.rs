//! The Helm chart, by Helm itself and without a cluster: what is generated from `values.yaml` is fresh, every value has
//! an effect or is refused with its name and the reason, and what is rendered fits together.

mod generated;
mod helm;
mod ingress_nginx;
mod refusals;
mod rendered;
mod rights;
mod rules;
mod streams;
mod values;
mod webhook;
