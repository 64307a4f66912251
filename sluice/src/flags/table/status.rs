//! What is written back to a cluster: nothing yet, and from a folder of manifests there is nowhere to write to.

use super::super::value::Place::Nowhere;
use super::super::value::Value::{Bool, Duration, Int, List, Object, Text};
use super::{Flag, flag};

/// Why flags about Ingress status do nothing.
const NO_STATUS: &str =
    "Sluice writes no Ingress status yet; point DNS at the address of its Service yourself";
/// Why flags about leader election do nothing.
const NO_ELECTION: &str =
    "Sluice writes nothing to the cluster yet, so there is no leader to elect; remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag("update-status", Bool(Nowhere(NO_STATUS)), "true", "Write Ingress.status.loadBalancer"),
    flag("update-status-on-shutdown", Bool(Nowhere(NO_STATUS)), "true", "Clear the status at shutdown"),
    flag("status-update-interval", Int(Nowhere(NO_STATUS)), "60", "Seconds between two writes of the status"),
    flag("publish-service", Object(Nowhere(NO_STATUS)), "", "Service whose address goes into the status"),
    flag("publish-status-address", List(Nowhere(NO_STATUS)), "", "Addresses that go into the status"),
    flag(
        "report-node-internal-ip-address",
        Bool(Nowhere(NO_STATUS)),
        "false",
        "Internal node addresses in the status",
    ),
    flag("election-id", Text(Nowhere(NO_ELECTION)), "ingress-controller-leader", "Name of the Lease"),
    flag("election-ttl", Duration(Nowhere(NO_ELECTION)), "30s", "Duration of the Lease"),
    flag("disable-leader-election", Bool(Nowhere(NO_ELECTION)), "false", "Every replica writes"),
    flag(
        "disable-sync-events",
        Bool(Nowhere("Sluice writes no Events yet; its log and `sluice problems` have what they would say")),
        "false",
        "Write no Sync Events",
    ),
];
