//! nginx: one worker, kept upstream connections, the log format and forwarded fields of
//! ingress-nginx.
//!
//! In nginx's favour: the log is buffered (by default it makes a system call per line), request
//! bodies are streamed as in all other peers (by default they go to a file first), and responses
//! are buffered, which is its default, in buffers that suit a response of 1 MiB.

use std::fmt::Write;
use std::process::Command;

use anyhow::Context;

use crate::bench::feature::{Feature, HTPASSWD};
use crate::bench::nginx_module::NginxModule;
use crate::bench::setup::{ACCESS_LOG, Setup, hosts};
use crate::bench::tool;

/// The log format of TCP and UDP in ingress-nginx.
const STREAM_LOG_FORMAT: &str =
    "[$remote_addr] [$time_local] $protocol $status $bytes_sent $bytes_received $session_time";
const LOG_FORMAT: &str = r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [origin] [] $upstream_addr $upstream_response_length $upstream_response_time $upstream_status $request_id"#;

/// Returns the command that runs it.
pub(super) fn command(setup: &Setup) -> anyhow::Result<Command> {
    let program = tool::find("nginx", "nginx")?;
    setup.folder.try_write("htpasswd", HTPASSWD)?;
    setup.folder.try_write("nginx.conf", configuration(setup)?)?;
    let mut command = Command::new(program);
    command.args(["-p", &setup.folder.path().display().to_string()]);
    command.args(["-e", &setup.path("error.log"), "-c", &setup.path("nginx.conf")]);
    Ok(command)
}

/// Returns its version.
pub(super) fn version() -> anyhow::Result<String> {
    let program = tool::find("nginx", "nginx")?;
    let text = tool::output(&program.display().to_string(), &["-v"]).context("nginx does not run")?;
    Ok(text.rsplit('/').next().unwrap_or_default().to_owned())
}

fn configuration(setup: &Setup) -> anyhow::Result<String> {
    let access_log = match setup.setting.access_log {
        true => format!("access_log {} line buffer=64k flush=1s;", setup.path(ACCESS_LOG)),
        false => "access_log off;".to_owned(),
    };
    let feature = setup.setting.feature;
    let modules = feature.and_then(Feature::nginx_module);
    let modules = modules.into_iter().chain(setup.setting.streams.then_some(NginxModule::STREAM));
    let modules = modules.map(NginxModule::directive).collect::<anyhow::Result<String>>()?;
    let mut text = format!(
        r#"{modules}{user}worker_processes 1;
daemon off;
pid nginx.pid;
worker_rlimit_nofile 20000;
error_log error.log warn;
events {{ worker_connections 19000; multi_accept on; }}
http {{
  log_format line '{LOG_FORMAT}';
  {access_log}
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  tcp_nopush on;
  keepalive_timeout 3600;
  keepalive_requests 100000000;
  client_header_timeout 3600;
  server_names_hash_max_size 65536;
  server_names_hash_bucket_size 128;
  proxy_http_version 1.1;
  proxy_request_buffering off;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}
  proxy_set_header Host $http_host;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $connection_upgrade;
  proxy_set_header X-Request-ID $request_id;
  proxy_set_header X-Real-IP $remote_addr;
  proxy_set_header X-Forwarded-For $remote_addr;
  proxy_set_header X-Forwarded-Host $http_host;
  proxy_set_header X-Forwarded-Port $server_port;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_set_header X-Forwarded-Scheme $scheme;
  proxy_set_header X-Scheme $scheme;
  ssl_certificate {certificate};
  ssl_certificate_key {key};
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_tickets off;
  ssl_session_cache {sessions};
  # A response of 1 MiB passes in few steps and without a file.
  proxy_buffer_size 16k;
  proxy_buffers 16 64k;
  proxy_busy_buffers_size 256k;
  proxy_max_temp_file_size 0;
  upstream origin {{ server {origin}; keepalive 320; keepalive_requests 100000000; }}
  upstream canary {{ server {origin}; keepalive 320; keepalive_requests 100000000; }}
{shared}"#,
        user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" },
        certificate = setup.path("tls.crt"),
        key = setup.path("tls.key"),
        sessions = if setup.setting.sessions { "shared:SSL:10m" } else { "off" },
        origin = setup.origin,
        shared = feature.map(Feature::shared_directives).unwrap_or_default(),
    );
    let locations = match feature {
        Some(feature) => feature.locations(&setup.path("htpasswd")),
        None => "location / { proxy_pass http://origin; }".to_owned(),
    };
    for host in hosts(setup.setting.routes) {
        write!(
            text,
            "  server {{\n    listen {};\n    listen {} ssl http2;\n    server_name {host};\n    \
             {locations}\n  }}\n",
            setup.http, setup.https
        )?;
    }
    let status = if setup.setting.metrics { "stub_status;" } else { "return 200;" };
    write!(
        text,
        "  server {{\n    listen {};\n    access_log off;\n    location / {{ {status} }}\n  }}\n}}\n",
        setup.status
    )?;
    if setup.setting.streams {
        text.push_str(&streams(setup));
    }
    Ok(text)
}

/// Returns the servers for TCP and UDP. As in ingress-nginx, a UDP session ends with the last
/// expected response (`proxy-stream-responses`, 1).
fn streams(setup: &Setup) -> String {
    let Setup { stream, origin, .. } = setup;
    format!(
        "stream {{
  log_format line '{STREAM_LOG_FORMAT}';
  access_log {log} line buffer=64k flush=1s;
  proxy_timeout 3600;
  server {{ listen {stream}; proxy_pass {origin}; }}
  server {{ listen {stream} udp; proxy_pass {origin}; proxy_responses 1; }}
}}
",
        log = setup.path(ACCESS_LOG),
    )
}
