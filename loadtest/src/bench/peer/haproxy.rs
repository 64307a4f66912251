//! HAProxy: one thread, connections to the origin shared by all clients, the fields of ingress-nginx's log.
//!
//! HAProxy writes its log a line per system call, here to a file as to a syslog socket in production; it has no
//! buffered way.

use std::process::Command;

use anyhow::Context;

use crate::bench::feature::Feature;
use crate::bench::setup::{Setup, hosts};
use crate::bench::tool;

const LOG_FORMAT: &str = r#""%ci - - [%t] \"%r\" %ST %B \"%[capture.req.hdr(0)]\" \"%[capture.req.hdr(1)]\" %U %Ta [%b] [] %si:%sp %Tr %ID""#;

/// The command that runs it.
pub(super) fn command(setup: &Setup) -> anyhow::Result<Command> {
    let program = tool::find("haproxy", "haproxy")?;
    setup.folder.try_write("haproxy.cfg", configuration(setup))?;
    let map: String = hosts(setup.setting.routes).iter().map(|host| format!("{host} origin\n")).collect();
    setup.folder.try_write("hosts.map", map)?;
    let mut command = Command::new(program);
    command.args(["-db", "-f", &setup.path("haproxy.cfg")]);
    Ok(command)
}

/// Its version.
pub(super) fn version() -> anyhow::Result<String> {
    let program = tool::find("haproxy", "haproxy")?;
    let text = tool::output(&program.display().to_string(), &["-v"]).context("haproxy does not run")?;
    let version = text.split(' ').nth(2).unwrap_or_default();
    Ok(version.split('-').next().unwrap_or_default().to_owned())
}

fn configuration(setup: &Setup) -> String {
    let (global, log) = match setup.setting.access_log {
        true => ("log stdout format raw local0 info", format!("log global\n  log-format {LOG_FORMAT}")),
        false => ("", "no log".to_owned()),
    };
    let status = match setup.setting.metrics {
        true => "http-request use-service prometheus-exporter if { path /metrics }\n  stats enable",
        false => "",
    };
    format!(
        "global
  nbthread 1
  maxconn 9900
  {global}
  ssl-default-bind-options no-tls-tickets
  tune.ssl.cachesize 0
  tune.h2.max-concurrent-streams 128
defaults
  mode http
  {log}
  timeout connect 5s
  timeout client 3600s
  timeout server 3600s
  timeout http-keep-alive 3600s
  timeout http-request 3600s
  timeout tunnel 3600s
  http-reuse always
frontend main
  bind {http}
  bind {https} ssl crt {pem} alpn h2,http/1.1
  maxconn 9900
  capture request header referer len 64
  capture request header user-agent len 64
  unique-id-format %[uuid()]
  unique-id-header X-Request-ID
  http-request set-header X-Real-IP %[src]
  http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Host %[req.hdr(host)]
  http-request set-header X-Forwarded-Port %[dst_port]
  http-request set-header X-Forwarded-Proto http if !{{ ssl_fc }}
  http-request set-header X-Forwarded-Proto https if {{ ssl_fc }}
  use_backend %[req.hdr(host),field(1,:),lower,map({map},none)]
backend origin
  server origin {origin}{protocol}
backend none
  http-request return status 404
frontend status
  bind {status_address}
  no log
  {status}
  http-request return status 200
",
        http = setup.http,
        https = setup.https,
        pem = setup.path("tls.pem"),
        map = setup.path("hosts.map"),
        origin = setup.origin,
        protocol = if setup.setting.feature == Some(Feature::Grpc) { " proto h2" } else { "" },
        status_address = setup.status,
    )
}
