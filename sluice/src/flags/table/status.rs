//! What is written back to a cluster: with a folder of manifests, nothing.

use super::super::value::Place::Nowhere;
use super::super::value::Value::{Bool, Duration, Int, List, Object, Text};
use super::{Flag, flag};

/// Why flags about Ingress status do nothing.
const NO_STATUS: &str = "with --manifests no status is written; remove this flag";
/// Why flags about leader election do nothing.
const NO_ELECTION: &str = "with --manifests there is nothing to elect a leader for; remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag("update-status", Bool(Nowhere(NO_STATUS)), "true", "Write Ingress.status.loadBalancer"),
    flag("update-status-on-shutdown", Bool(Nowhere(NO_STATUS)), "true", "Clear the status at the end"),
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
        Bool(Nowhere("with --manifests no Events are written; remove this flag")),
        "false",
        "Write no Sync Events",
    ),
];
