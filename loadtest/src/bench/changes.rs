//! Endpoint changes while Sluice is under load: an endpoint that is the same origin comes and goes.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tokio::time::interval;

use super::peer::ENDPOINTS;
use super::setup::Setup;
use crate::manifest::slice;

/// Makes so many changes a second for a while.
///
/// # Errors
/// The file system refuses.
pub async fn make(setup: &Setup, rate: u32, duration: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut ticks = interval(Duration::from_secs(1) / rate);
    for number in 0_u8.. {
        ticks.tick().await;
        if started.elapsed() >= duration {
            break;
        }
        // The origin listens on all addresses of the loopback network: each of these is one of its own.
        let fresh = IpAddr::V4(Ipv4Addr::new(127, 64, 0, number % 200 + 1));
        setup
            .manifests
            .try_write(ENDPOINTS, slice("origin", &[setup.origin.ip(), fresh], setup.origin.port()))?;
    }
    Ok(())
}
