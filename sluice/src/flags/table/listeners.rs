//! Ports, and TLS settings other than certificates.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, Int, Ip, Port, Text, UrlPath};
use super::{Flag, flag};

/// Reason why the flags about nginx's internal servers have no effect.
const NO_INTERNAL: &str = "there is no internal server behind the proxy; remove this flag";
/// Reason why the flags about the profiler have no effect.
const NO_PROFILER: &str = "there is no profiler listener; profile the process with perf and remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag("http-port", Port(To(|f| &mut f.controller.http_port)), "80", "Port for HTTP"),
    flag("https-port", Port(To(|f| &mut f.controller.https_port)), "443", "Port for HTTPS"),
    flag(
        "healthz-port",
        Port(To(|f| &mut f.gateway.healthz_port)),
        "10254",
        "Port for /healthz, /livez and /metrics",
    ),
    flag(
        "healthz-host",
        Ip(To(|f| &mut f.gateway.healthz_host)),
        "",
        "Address for --healthz-port; empty for all",
    ),
    flag(
        "health-check-path",
        UrlPath(To(|f| &mut f.gateway.health_check_path)),
        "/healthz",
        "Path of the readiness endpoint, and of the page for load balancers on --http-port and --https-port",
    ),
    flag(
        "health-check-timeout",
        Int(Nowhere("readiness is computed in memory and cannot time out; remove this flag")),
        "10",
        "Seconds for the internal health check",
    ),
    flag("default-server-port", Port(Nowhere(NO_INTERNAL)), "8181", "Port of the internal catch-all server"),
    flag(
        "status-port",
        Port(Nowhere("the admin listener is set by --admin-address; use that flag")),
        "10246",
        "Port of the internal status server",
    ),
    flag("stream-port", Port(Nowhere(NO_INTERNAL)), "10247", "Port of the internal stream server"),
    flag(
        "enable-ssl-passthrough",
        Bool(To(|f| &mut f.controller.enable_ssl_passthrough)),
        "false",
        "Pass TLS of hosts with the annotation ssl-passthrough through by SNI",
    ),
    flag(
        "ssl-passthrough-proxy-port",
        Port(Nowhere("server names are read on --https-port itself; remove this flag")),
        "442",
        "Internal port when TLS is passed through",
    ),
    flag(
        "enable-ssl-chain-completion",
        Bool(Nowhere("certificates are never fetched; put the whole chain into tls.crt of the Secret")),
        "false",
        "Fetch missing intermediate certificates",
    ),
    flag("profiling", Bool(Nowhere(NO_PROFILER)), "true", "Serve Go's profiler"),
    flag("profiler-port", Port(Nowhere(NO_PROFILER)), "10245", "Port of the profiler"),
    flag("profiler-address", Ip(Nowhere(NO_PROFILER)), "127.0.0.1", "Address of the profiler"),
    flag(
        "internal-logger-address",
        Text(Nowhere("the access log goes to standard output without a syslog in between; remove this flag")),
        "127.0.0.1:11514",
        "Address of the internal syslog receiver",
    ),
];
