//! The gateway's own endpoints for operators and the cluster: health and metrics on one port, and
//! introspection (JSON, and pages for people) on another one, which listens on loopback only.
//! Everything is read-only, except that stored responses can be removed there.
//!
//! Both run on the program's main runtime, separate from the workers, so that scrapes and requests
//! do not delay each other. Documents are rendered on a separate thread, so that no probe waits for
//! one.

mod explain;
pub mod format;
mod health;
mod introspection;
mod live;
mod own_names;
mod pages;
mod purge;
mod server;
mod single_flight;
mod slots;
mod traffic;
mod view;
mod web;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::TcpListener;

pub use explain::explain;
use health::HealthPages;
use introspection::Introspection;
pub use traffic::{RuleLabels, RuleSample, TargetSample, TrafficSample};

use crate::process::critical_task;
use crate::registry::OwnListener;
use crate::state::State;

/// Addresses of the two servers.
#[derive(Clone, Debug)]
pub struct AdminOptions {
    /// Address for health and metrics (`--healthz-host`); `None` listens on all addresses.
    pub health_host: Option<IpAddr>,
    /// Port for health and metrics (`--healthz-port`).
    pub health_port: u16,
    /// Address and port for introspection (`--admin-address`).
    pub admin: SocketAddr,
}

/// The bound addresses of the two servers.
#[derive(Clone, Copy, Debug)]
pub struct AdminAddresses {
    /// Health and metrics.
    pub health: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
}

/// Reason why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum AdminError {
    /// Another process uses the port.
    #[error("port {port} is already in use; free it or choose another with {flag}")]
    InUse {
        /// The port.
        port: u16,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// The address cannot be bound for another reason.
    #[error("cannot listen on {address} ({error}); choose another address with {flag}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        error: io::Error,
        /// The flag that sets it.
        flag: &'static str,
    },
    /// Introspection discloses the names of all objects, so its address must be loopback.
    #[error(
        "{0} is not a loopback address; introspection is for this machine only: give one with --admin-address"
    )]
    NotLoopback(SocketAddr),
}

/// Binds both listeners and serves them until the runtime ends. Must be called on a Tokio runtime.
///
/// # Errors
/// The admin address is not a loopback address, or an address cannot be bound.
pub async fn serve(state: Arc<State>, options: AdminOptions) -> Result<AdminAddresses, AdminError> {
    if !options.admin.ip().is_loopback() {
        return Err(AdminError::NotLoopback(options.admin));
    }
    let health = bind_health(&options).await?;
    let admin = bind(options.admin, "--admin-address").await?;
    let addresses = AdminAddresses {
        health: local(&health, "--healthz-port")?,
        admin: local(&admin, "--admin-address")?,
    };
    let own = |address, name: &str| OwnListener { address, name: name.into(), is_public: false };
    state.set_admin_listeners(vec![
        own(addresses.health, "the health listener (--healthz-port)"),
        own(addresses.admin, "the admin listener (--admin-address)"),
    ]);
    let report = state.reporter.clone();
    let site = HealthPages { state: state.clone() };
    critical_task::spawn(&report, "health and metrics", server::run(health, site));
    critical_task::spawn(&report, "introspection", server::run(admin, Introspection::new(state)));
    Ok(addresses)
}

async fn bind_health(options: &AdminOptions) -> Result<TcpListener, AdminError> {
    let flag = "--healthz-port";
    if let Some(host) = options.health_host {
        return bind(SocketAddr::new(host, options.health_port), flag).await;
    }
    let all = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), options.health_port);
    bind(all, flag).await
}

async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, AdminError> {
    crate::io::bind::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => AdminError::InUse { port: address.port(), flag },
        _ => AdminError::Bind { address, error, flag },
    })
}

fn local(listener: &TcpListener, flag: &'static str) -> Result<SocketAddr, AdminError> {
    let unknown = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
    listener.local_addr().map_err(|error| AdminError::Bind { address: unknown, error, flag })
}

#[cfg(test)]
mod tests;
