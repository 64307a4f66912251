//! The clients for watches and for the controller's duties. Built by hand, because the library's
//! defaults do not suit a gateway: they retry by themselves for minutes, detect dead peers late,
//! and wait for responses without a limit.

use std::time::Duration;

use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ConfigExt};
use kube::{Client, Config};
use tower::{BoxError, ServiceBuilder, ServiceExt};
use tower_http::timeout::ResponseBodyTimeoutLayer;

use super::access::AccessError;
use super::api_health::ApiHealth;
use super::pacer::PacerLayer;
use super::postponed;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time between two parts of a response. Longer than the lifetime of a watch, which may
/// have no event at all.
const SILENCE: Duration = Duration::from_secs(420);
/// Time after which the kernel detects a dead peer.
const DEAD_PEER: Duration = Duration::from_secs(30);
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum bytes of a response that are read at a time. Without the limit each watch would keep a
/// buffer as large as its longest list, hundreds of KiB.
const READ: usize = 32 * 1024;

/// Creates the client for the controller's duties. Must be called within a runtime. The duties
/// retry by themselves, and their requests do not count for the API health.
pub(crate) fn of_duties(config: &Config) -> Result<Client, AccessError> {
    client(config, None)
}

/// Creates the client for watches. Must be called within a runtime.
pub(super) fn of_watches(config: &Config, api_health: &ApiHealth) -> Result<Client, AccessError> {
    client(config, Some(api_health))
}

fn client(config: &Config, api_health: Option<&ApiHealth>) -> Result<Client, AccessError> {
    // Without a default, rustls cannot choose between the linked providers. Fails if another caller
    // was first.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let refused = |error| AccessError::Client(Box::new(error));
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(DEAD_PEER));
    let connector = config.rustls_https_connector_with_connector(connector).map_err(refused)?;
    let http: legacy::Client<_, Body> = legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(DEAD_PEER)
        .http1_max_buf_size(READ)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(refused)?)
        .layer(config.extra_headers_layer().map_err(refused)?)
        .map_err(BoxError::from)
        .layer(ResponseBodyTimeoutLayer::new(SILENCE));
    let http = http.map_err(BoxError::from);
    let namespace = config.default_namespace.clone();
    Ok(match api_health {
        Some(api_health) => {
            Client::new(service.layer(PacerLayer::new(api_health.clone())).service(http), namespace)
        }
        None => {
            let postponed = |result: Result<_, BoxError>| result.and_then(postponed::refuse);
            Client::new(service.map_result(postponed).service(http), namespace)
        }
    })
}
