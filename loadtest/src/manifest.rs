//! Short constructors for the objects of load programs, based on [`sluice_testing::manifest`].

use std::net::IpAddr;

use sluice_testing::manifest::{self, Ingress};

/// Returns the only EndpointSlice of a Service, with the same name.
pub fn slice(service: &str, addresses: &[IpAddr], port: u16) -> String {
    let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    manifest::slice(service, service, &addresses, port)
}

/// Returns an Ingress that routes all paths of `hosts` to a Service. With a Secret it serves TLS,
/// without a redirect to HTTPS.
pub fn ingress(name: &str, hosts: &[&str], service: &str, secret: Option<&str>) -> String {
    ingress_of(name, ("/", "Prefix"), hosts, service, secret).annotation("ssl-redirect", "false").text()
}

/// Like [`ingress`], for one path and type, without annotations.
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

/// Returns the gateway's ConfigMap, `default/sluice`.
pub fn config_map(data: &[(&str, &str)]) -> String {
    manifest::config_map("default/sluice", data)
}
