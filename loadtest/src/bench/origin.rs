//! The origin, a separate process `bench-origin`, so that its CPU time is not counted for other
//! processes.

pub mod grpc;
pub mod server;
pub mod streams;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use sluice_testing::ports;

use super::setup::HOST;
use crate::client::GatewayTarget;

/// The origin. Killed when dropped. It listens on all loopback addresses, each of which can be an
/// endpoint.
#[derive(Debug)]
pub struct Origin {
    /// One of its addresses.
    pub address: SocketAddr,
    child: Child,
}

impl Origin {
    /// Starts it on the core of this process.
    ///
    /// # Errors
    /// The program is not next to this one, or it exits.
    pub async fn start() -> anyhow::Result<Self> {
        let [address] = ports::addresses();
        let program = std::env::current_exe()?.with_file_name("bench-origin");
        let child = Command::new(&program)
            .arg(SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port())).to_string())
            .stdin(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let mut origin = Self { address, child };
        let target = GatewayTarget::plain(address, HOST);
        while target.get_once("/").await.is_err() {
            let ended = origin.child.try_wait()?;
            anyhow::ensure!(ended.is_none(), "the origin ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(origin)
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // An error means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
