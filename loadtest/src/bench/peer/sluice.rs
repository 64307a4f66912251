//! Sluice on a folder of manifests, optionally in several builds to be compared.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use anyhow::Context;
use serde_json::json;
use sluice_testing::gateway::{Addresses, Source};
use sluice_testing::manifest::{self, document, nginx_class, opaque_secret, service};

use crate::bench::feature::{Feature, HTPASSWD};
use crate::bench::setup::{HOST, Setup, hosts};
use crate::bench::tool;
use crate::manifest::{config_map, ingress_of, slice};
use crate::process::serve_command;

/// A build of Sluice: `[NAME=]PATH[:FLAG FLAG...]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// The name in tables.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// Additional flags.
    pub flags: Vec<String>,
}

impl FromStr for Build {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, rest) = text.split_once('=').unwrap_or(("sluice", text));
        let (path, flags) = rest.split_once(':').unwrap_or((rest, ""));
        anyhow::ensure!(!name.is_empty() && !path.is_empty(), "write [NAME=]PATH[:FLAG FLAG...]");
        let flags = flags.split_whitespace().map(str::to_owned).collect();
        Ok(Self { name: name.to_owned(), program: PathBuf::from(path), flags })
    }
}

impl Build {
    /// Returns the build next to this program.
    ///
    /// # Errors
    /// The path of this program cannot be determined.
    pub fn beside() -> anyhow::Result<Self> {
        let program = std::env::current_exe()?.with_file_name("sluice");
        Ok(Self { name: "sluice".to_owned(), program, flags: Vec::new() })
    }
}

/// The file with the endpoints, in a setup's folder of manifests.
pub const ENDPOINTS: &str = "slice.yaml";

/// The ConfigMaps of TCP and UDP services.
const TCP: &str = "default/tcp";
const UDP: &str = "default/udp";

/// Returns the command that runs it.
pub(super) fn command(build: &Build, setup: &Setup) -> anyhow::Result<Command> {
    let folder = &setup.manifests;
    folder.try_write("class.yaml", nginx_class())?;
    let log = if setup.setting.access_log { "false" } else { "true" };
    let mut keys = vec![
        ("keep-alive", "3600"),
        ("client-header-timeout", "3600"),
        ("keep-alive-requests", "100000000"),
        ("upstream-keepalive-requests", "100000000"),
        ("disable-access-log", log),
        ("hsts", "false"),
        ("ssl-session-cache", if setup.setting.sessions { "true" } else { "false" }),
        // Bodies are streamed, as in all other peers.
        ("proxy-request-buffering", "off"),
    ];
    let feature = setup.setting.feature;
    keys.extend(feature.iter().flat_map(|feature| feature.keys()));
    let collector = feature.and_then(|feature| feature.collector(setup.origin));
    keys.extend(collector.as_deref().map(|url| ("otlp-collector-host", url)));
    folder.try_write("config.yaml", config_map(&keys))?;
    folder.try_write("users.yaml", opaque_secret("users", &[("auth", HTPASSWD)]))?;
    folder.try_write("service.yaml", service("origin"))?;
    folder.try_write(ENDPOINTS, slice("origin", &[setup.origin.ip()], setup.origin.port()))?;
    folder.try_write("secret.yaml", setup.certificate.secret("tls"))?;
    let objects = feature.map(|feature| feature.objects(HOST, setup.origin));
    folder.try_write("objects.yaml", objects.unwrap_or_default())?;
    let annotations = feature.map(|feature| feature.annotations(setup.origin));
    let route = feature.map_or(("/", "Prefix"), Feature::route);
    let mut text = String::new();
    for (number, host) in hosts(setup.setting.routes).iter().enumerate() {
        let tls = (number == 0).then_some("tls");
        let ingress = ingress_of(&format!("route-{number}"), route, &[host], "origin", tls)
            .annotation("ssl-redirect", "false");
        let ingress =
            annotations.iter().flatten().fold(ingress, |ingress, (name, value)| match name.contains('/') {
                true => ingress.raw_annotation(name, value),
                false => ingress.annotation(name, value),
            });
        write!(text, "{ingress}")?;
    }
    folder.try_write("ingress.yaml", text)?;
    if setup.setting.streams {
        folder.try_write("streams.yaml", streams(setup))?;
    }
    let Setup { http, https, status: healthz, admin, .. } = *setup;
    let addresses = Addresses { http, https, healthz, admin };
    let mut command = serve_command(&build.program, Source::Manifests(folder.path()), &addresses);
    if setup.setting.metrics {
        command.arg("--enable-metrics");
    }
    if feature.is_some_and(Feature::needs_agent) {
        command.arg(format!("--waf-agent={}", setup.agent));
    }
    if setup.setting.streams {
        command.args(["--tcp-services-configmap", TCP, "--udp-services-configmap", UDP]);
    }
    command.args(&build.flags);
    Ok(command)
}

/// Returns the Service for datagrams and the ConfigMaps of TCP and UDP services.
fn streams(setup: &Setup) -> String {
    let port = setup.stream.port().to_string();
    let service = document(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "datagrams", "namespace": "default"},
        "spec": {"ports": [{"name": "udp", "port": 80, "protocol": "UDP"}]},
    }));
    let slice = document(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "datagrams", "namespace": "default", "labels": {"kubernetes.io/service-name": "datagrams"},
        },
        "ports": [{"name": "udp", "port": setup.origin.port(), "protocol": "UDP"}],
        "endpoints": [{"addresses": [setup.origin.ip().to_string()]}],
    }));
    let tcp = manifest::config_map(TCP, &[(&port, "default/origin:80")]);
    let udp = manifest::config_map(UDP, &[(&port, "default/datagrams:80")]);
    service + &slice + &tcp + &udp
}

/// Returns the version that it prints.
pub(super) fn version(build: &Build) -> anyhow::Result<String> {
    let program = build.program.display().to_string();
    anyhow::ensure!(build.program.is_file(), "{program} is not there; build it or name it with --sluice");
    let text = tool::output(&program, &["--version"]).with_context(|| format!("{program} does not run"))?;
    Ok(text.trim_start_matches("sluice ").to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_has_a_name_a_path_and_flags() {
        let build: Build = "after=/tmp/sluice:--driver direct".parse().unwrap();
        assert_eq!((build.name.as_str(), build.flags.len()), ("after", 2));
        assert_eq!(build.program, PathBuf::from("/tmp/sluice"));
        let build: Build = "target/quick/sluice".parse().unwrap();
        assert_eq!((build.name.as_str(), build.flags.len()), ("sluice", 0));
        assert!("=x".parse::<Build>().is_err());
    }
}
