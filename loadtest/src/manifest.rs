//! The objects of load programs, in few words; [`sluice_testing::manifest`] writes them.

use std::net::IpAddr;

use sluice_testing::manifest::{self, Ingress};

/// The only EndpointSlice of a Service, of the same name.
pub fn slice(service: &str, addresses: &[IpAddr], port: u16) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    manifest::slice(service, service, &addresses, port)
}

/// An Ingress that sends all paths of some hosts to a Service; with TLS when a Secret is named, and without a redirect
/// to it.
pub fn ingress(name: &str, hosts: &[&str], service: &str, secret: Option<&str>) -> String {
    ingress_of(name, ("/", "Prefix"), hosts, service, secret).annotation("ssl-redirect", "false").text()
}

/// The same for one path and its type, and without annotations yet.
pub fn ingress_of(
    name: &str,
    (path, path_type): (&str, &str),
    hosts: &[&str],
    service: &str,
    secret: Option<&str>,
) -> Ingress {
    let ingress = hosts.iter().fold(Ingress::new(name).undated(), |ingress, host| {
        ingress.typed_path(host, path, path_type, service)
    });
    match secret {
        Some(secret) => ingress.tls(hosts, secret),
        None => ingress,
    }
}

/// The gateway's ConfigMap, `default/sluice`.
pub fn config_map(data: &[(&str, &str)]) -> String {
    manifest::config_map("default/sluice", data)
}
