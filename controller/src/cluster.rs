//! What all tasks that write to the cluster share: their flags, requests with time limits, and the
//! channel of their problems to the control loop.

pub(crate) mod api;
mod findings;

use std::time::Duration;

use sluice_config::NamespacedName;

pub(crate) use findings::{Findings, refusal};

/// Flags of the duties. Names, formats and defaults are those of ingress-nginx, except the name of
/// the election.
#[derive(Clone, Debug)]
pub struct DutyOptions {
    /// `--update-status`.
    pub update_status: bool,
    /// `--update-status-on-shutdown`.
    pub update_status_on_shutdown: bool,
    /// `--status-update-interval`.
    pub status_update_interval: Duration,
    /// `--publish-service`.
    pub publish_service: Option<NamespacedName>,
    /// `--publish-status-address`.
    pub publish_status_address: Vec<String>,
    /// `--report-node-internal-ip-address`.
    pub report_node_internal_ip_address: bool,
    /// `--election-id`.
    pub election_id: String,
    /// `--election-ttl`.
    pub election_ttl: Duration,
    /// `--disable-leader-election`.
    pub disable_leader_election: bool,
    /// `--disable-sync-events`.
    pub disable_sync_events: bool,
}

impl Default for DutyOptions {
    fn default() -> Self {
        Self {
            update_status: true,
            update_status_on_shutdown: true,
            status_update_interval: Duration::from_secs(60),
            publish_service: None,
            publish_status_address: Vec::new(),
            report_node_internal_ip_address: false,
            election_id: "sluice-leader".into(),
            election_ttl: Duration::from_secs(30),
            disable_leader_election: false,
            disable_sync_events: false,
        }
    }
}

/// The Pod of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPod {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
}
