//! Endpoint changes while Sluice is under load: an additional endpoint, the same origin, is added
//! and removed.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use tokio::time::interval;

use super::peer::ENDPOINTS;
use super::setup::Setup;
use crate::manifest::slice;

/// Makes `rate` changes per second for `duration`.
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
        // The origin listens on all loopback addresses, so each of these reaches it.
        let fresh = IpAddr::V4(Ipv4Addr::new(127, 64, 0, number % 200 + 1));
        setup
            .manifests
            .try_write(ENDPOINTS, slice("origin", &[setup.origin.ip(), fresh], setup.origin.port()))?;
    }
    Ok(())
}
