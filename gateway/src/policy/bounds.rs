//! The values with which the data plane reckons, whatever the contract carries.
//!
//! Translation refuses what makes no sense and says so. Here it is only made sure that no value can end a worker: a
//! clock that is moved on by the longest time that can be written panics, and a pool that reserves room for as many
//! connections as a number can say takes all memory.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::GlobalSettings;

/// The longest time that anything is waited for.
pub(crate) const LONGEST: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The settings with every time within bounds. Nearly always the same ones.
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
