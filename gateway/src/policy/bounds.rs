//! Limits of setting values, whatever the control plane sends.
//!
//! Translation rejects unreasonable values with a problem. These limits only ensure that no value
//! stops a worker: adding the longest representable time to a clock panics, and a pool that
//! allocates for the largest representable number of connections exhausts memory.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::GlobalSettings;

/// The longest timeout.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Returns the settings with every time within bounds; usually the same object.
pub(crate) fn bounded(settings: &Arc<GlobalSettings>) -> Arc<GlobalSettings> {
    let mut bounded = GlobalSettings::clone(settings);
    for time in [
        &mut bounded.client_header_timeout,
        &mut bounded.client_body_timeout,
        &mut bounded.keep_alive,
        &mut bounded.proxy_connect_timeout,
        &mut bounded.proxy_read_timeout,
        &mut bounded.proxy_send_timeout,
        &mut bounded.upstream_keepalive_timeout,
        &mut bounded.upstream_keepalive_time,
        &mut bounded.worker_shutdown_timeout,
        &mut bounded.forwarded.proxy_protocol_timeout,
        &mut bounded.tls.sessions.timeout,
        &mut bounded.trace.delay,
    ]
    .into_iter()
    .chain(&mut bounded.next_upstream_timeout)
    {
        *time = (*time).min(LONGEST);
    }
    match bounded == **settings {
        true => settings.clone(),
        false => Arc::new(bounded),
    }
}
