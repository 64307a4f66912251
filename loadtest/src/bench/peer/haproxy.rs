//! HAProxy: one thread, connections to the origin shared by all clients, the fields of
//! ingress-nginx's log.
//!
//! In HAProxy's favour: its log goes through a ring buffer and then over one TCP connection, many
//! lines at a time. With a file or a syslog socket it would make a system call per line.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Command;
use std::thread;

use anyhow::Context;

use crate::bench::feature::Feature;
use crate::bench::setup::{ACCESS_LOG, Setup, hosts};
use crate::bench::tool;

const LOG_FORMAT: &str = r#""%ci - - [%t] \"%r\" %ST %B \"%[capture.req.hdr(0)]\" \"%[capture.req.hdr(1)]\" %U %Ta [%b] [] %si:%sp %Tr %ID""#;

/// The fields of ingress-nginx's log of TCP.
const STREAM_LOG_FORMAT: &str = r#""[%ci] [%t] TCP 200 %B %U %Tt""#;

/// Returns the command that runs it.
pub(super) fn command(setup: &Setup) -> anyhow::Result<Command> {
    let program = tool::find("haproxy", "haproxy")?;
    let log = if setup.setting.access_log { Some(collect_log(setup)?) } else { None };
    setup.folder.try_write("haproxy.cfg", configuration(setup, log))?;
    let map: String = hosts(setup.setting.routes).iter().map(|host| format!("{host} origin\n")).collect();
    setup.folder.try_write("hosts.map", map)?;
    let mut command = Command::new(program);
    command.args(["-db", "-f", &setup.path("haproxy.cfg")]);
    Ok(command)
}

/// Returns its version.
pub(super) fn version() -> anyhow::Result<String> {
    let program = tool::find("haproxy", "haproxy")?;
    let text = tool::output(&program.display().to_string(), &["-v"]).context("haproxy does not run")?;
    let version = text.split(' ').nth(2).unwrap_or_default();
    Ok(version.split('-').next().unwrap_or_default().to_owned())
}

/// Copies the log lines from one connection to the access log file until it closes.
fn collect_log(setup: &Setup) -> anyhow::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen for HAProxy's log")?;
    let address = listener.local_addr()?;
    let path = setup.file(ACCESS_LOG);
    let mut file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    thread::spawn(move || {
        // Lost lines show when lines are counted.
        listener.accept().and_then(|(mut stream, _)| io::copy(&mut stream, &mut file))
    });
    Ok(address)
}

fn configuration(setup: &Setup, log: Option<SocketAddr>) -> String {
    let (ring, log) = match log {
        Some(address) => (
            format!(
                "ring access\n  format raw\n  maxlen 1024\n  size 16777216\n  timeout connect 5s\n  \
                 timeout server 3600s\n  server file {address}\n"
            ),
            format!("log ring@access format raw local0\n  log-format {LOG_FORMAT}"),
        ),
        None => (String::new(), "no log".to_owned()),
    };
    let streams = if setup.setting.streams { streams(setup) } else { String::new() };
    let status = match setup.setting.metrics {
        true => "http-request use-service prometheus-exporter if { path /metrics }\n  stats enable",
        false => "",
    };
    format!(
        "global
  nbthread 1
  maxconn 9900
  ssl-default-bind-options no-tls-tickets
  tune.ssl.cachesize {sessions}
  tune.h2.max-concurrent-streams 128
{ring}defaults
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
{streams}",
        // The default of HAProxy, if sessions are kept.
        sessions = if setup.setting.sessions { 20_000 } else { 0 },
        http = setup.http,
        https = setup.https,
        pem = setup.path("tls.pem"),
        map = setup.path("hosts.map"),
        origin = setup.origin,
        protocol = if setup.setting.feature == Some(Feature::Grpc) { " proto h2" } else { "" },
        status_address = setup.status,
    )
}

/// Returns the frontend for TCP. HAProxy 2.6 has none for UDP.
fn streams(setup: &Setup) -> String {
    let Setup { stream, origin, .. } = setup;
    format!(
        "frontend streams
  mode tcp
  bind {stream}
  log-format {STREAM_LOG_FORMAT}
  default_backend streams
backend streams
  mode tcp
  server origin {origin}
"
    )
}
