//! Objects that are written to the cluster, and leader election. With a manifest folder, nothing is
//! written.

use super::super::value::Destination::To;
use super::super::value::Value::{Bool, List, Object, PositiveDuration, Seconds, Text};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "update-status",
        Bool(To(|f| &mut f.duties.update_status)),
        "true",
        "Write the gateway's addresses to Ingress.status.loadBalancer; only the leader does, and only in a \
         Pod",
    ),
    flag(
        "update-status-on-shutdown",
        Bool(To(|f| &mut f.duties.update_status_on_shutdown)),
        "true",
        "Clear the status when the last replica ends, unless there is more than one address",
    ),
    flag(
        "status-update-interval",
        Seconds(To(|f| &mut f.duties.status_update_interval)),
        "60",
        "Time between two checks of the addresses, at least 5; Ingresses and --publish-service are also \
         watched",
    ),
    flag(
        "publish-service",
        Object(To(|f| &mut f.duties.publish_service)),
        "",
        "Service whose addresses are written to the status",
    ),
    flag(
        "publish-status-address",
        List(To(|f| &mut f.duties.publish_status_address)),
        "",
        "Addresses for the status; without these and --publish-service, those of the nodes of ready replicas",
    ),
    flag(
        "report-node-internal-ip-address",
        Bool(To(|f| &mut f.duties.report_node_internal_ip_address)),
        "false",
        "Use internal addresses of nodes instead of external ones",
    ),
    // Differs from the default of ingress-nginx: both may run in one namespace, and each needs its
    // own leader.
    flag(
        "election-id",
        Text(To(|f| &mut f.duties.election_id)),
        "sluice-leader",
        "Name of the Lease, in the Pod's namespace",
    ),
    flag(
        "election-ttl",
        // As in ingress-nginx, whose default this is.
        PositiveDuration(To(|f| &mut f.duties.election_ttl), std::time::Duration::from_secs(30)),
        "30s",
        "Duration of the Lease; 0 and less are the default. A replica that ends releases it, so another one leads at once",
    ),
    flag(
        "disable-leader-election",
        Bool(To(|f| &mut f.duties.disable_leader_election)),
        "false",
        "Every replica writes status and Events",
    ),
    flag(
        "disable-sync-events",
        Bool(To(|f| &mut f.duties.disable_sync_events)),
        "false",
        "Write no Sync Events",
    ),
];
