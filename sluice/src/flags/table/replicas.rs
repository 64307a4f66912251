//! Limits that apply to all replicas together.

use super::super::value::Destination::To;
use super::super::value::Value::{Listen, Object};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "replica-service",
        Object(To(|f| &mut f.controller.replica_service)),
        "",
        "Service whose endpoints are all replicas of the gateway, for limit-across-replicas (docs/limits.md)",
    ),
    flag(
        "replica-secret",
        Object(To(|f| &mut f.controller.replica_secret)),
        "",
        "Secret with the certificate of all replicas (tls.crt, tls.key) and its authority (ca.crt)",
    ),
    flag(
        "replica-address",
        Listen(To(|f| &mut f.controller.replica_address)),
        ":10253",
        "Address on which this replica reports its use of limits to the others, while limit-across-replicas is set",
    ),
];
