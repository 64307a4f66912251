//! The destination of a call of the gateway's own (`auth-url`, `mirror-target`), for a request.

use std::sync::Arc;

use http::HeaderValue;
use sluice_config::{self as config, PoolKey, UpstreamProtocol};

use super::error::PolicyError;
use super::template::{Template, TemplateContext};
use crate::registry::{Pool, Registry, RequestHost};

/// The compiled destination of calls.
#[derive(Debug)]
pub enum CallDestination {
    /// The same for all requests.
    Fixed {
        /// The pool of the host.
        pool: Arc<Pool>,
        /// The host, without a port.
        host: HeaderValue,
        /// Server name for TLS (SNI).
        server_name: Option<Arc<str>>,
    },
    /// A host that each request determines.
    PerRequest {
        /// The host.
        host: Template,
        /// The port.
        port: u16,
        /// The protocol.
        protocol: UpstreamProtocol,
    },
}

/// Where a call goes.
#[derive(Clone, Debug)]
pub enum CallTarget {
    /// A pool.
    Pool(Arc<Pool>),
    /// A host whose pool is looked up before the call.
    Host(RequestHost),
}

/// The destination of one call.
#[derive(Debug)]
pub struct ResolvedDestination {
    /// Where the call goes.
    pub to: CallTarget,
    /// The host for its `Host` field.
    pub host: HeaderValue,
    /// Server name for TLS (SNI).
    pub server_name: Option<Arc<str>>,
}

impl CallTarget {
    /// Returns the pool; `None` while the host is not looked up.
    pub fn pool(&self) -> Option<&Arc<Pool>> {
        match self {
            Self::Pool(pool) => Some(pool),
            Self::Host(_) => None,
        }
    }
}

impl CallDestination {
    /// Compiles the destination.
    ///
    /// # Errors
    /// The pool is missing, or the host is invalid.
    pub fn compile(to: &config::CallDestination, registry: &Registry) -> Result<Self, PolicyError> {
        Ok(match to {
            config::CallDestination::Fixed { pool: key, host, server_name } => Self::Fixed {
                pool: pool(key, registry)?,
                host: HeaderValue::from_str(host).map_err(|_| PolicyError::HeaderValue("Host".to_owned()))?,
                server_name: server_name.clone(),
            },
            config::CallDestination::PerRequest { host, port, protocol } => {
                Self::PerRequest { host: Template::compile(host)?, port: *port, protocol: *protocol }
            }
        })
    }

    /// Returns the destination for a request; `None` if its values are no host.
    pub fn resolve(&self, context: &TemplateContext<'_>) -> Option<ResolvedDestination> {
        match self {
            Self::Fixed { pool, host, server_name } => Some(ResolvedDestination {
                to: CallTarget::Pool(pool.clone()),
                host: host.clone(),
                server_name: server_name.clone(),
            }),
            Self::PerRequest { host, port, protocol } => {
                let text = host.fill(context);
                let host = RequestHost::new(&text, *port, *protocol)?;
                let server_name = host.server_name();
                let to = CallTarget::Host(host);
                Some(ResolvedDestination { to, host: HeaderValue::try_from(text).ok()?, server_name })
            }
        }
    }

    /// Returns the host in words.
    pub fn describe(&self) -> String {
        match self {
            Self::Fixed { host, .. } => String::from_utf8_lossy(host.as_bytes()).into_owned(),
            Self::PerRequest { .. } => "the service at the host of the request".to_owned(),
        }
    }

    /// Returns the host if the request determines it; otherwise it is empty.
    pub fn host_of_request(&self, context: &TemplateContext<'_>) -> Vec<u8> {
        match self {
            Self::Fixed { .. } => Vec::new(),
            Self::PerRequest { host, .. } => host.fill(context),
        }
    }
}

/// Returns the pool of `key`. Translation sends pools before the rules that refer to them.
///
/// # Errors
/// The registry has no such pool.
pub fn pool(key: &PoolKey, registry: &Registry) -> Result<Arc<Pool>, PolicyError> {
    registry.pool(key).ok_or_else(|| PolicyError::Pool(key.to_string()))
}
