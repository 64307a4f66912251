//! Limits per client.

use std::sync::Arc;

use sluice_config::{Limits, NamespacedName, Network};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limiting {
    connections: u32,
    per_second: u32,
    per_minute: u32,
    burst: Option<u32>,
    fields: bool,
    exempt: Option<Arc<[Network]>>,
}

impl Limiting {
    /// Returns the policy, if anything is limited. All paths of an Ingress share the usage of a
    /// client.
    fn policy(self, zone: &NamespacedName) -> Option<Arc<Limits>> {
        let Self { connections, per_second, per_minute, burst, fields, exempt } = self;
        let limits = || Limits {
            zone: zone.clone(),
            connections,
            per_second,
            per_minute,
            burst: burst.unwrap_or(5),
            fields,
            exempt: exempt.unwrap_or_default(),
        };
        (connections > 0 || per_second > 0 || per_minute > 0).then(limits).map(Arc::new)
    }
}

/// Computes the policy.
pub(super) fn finish(settings: &mut Settings, ingress: &NamespacedName) {
    settings.policies.limits = settings.limiting.clone().policy(ingress);
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "limit-connections",
            value::count_or_none(),
            "0",
            "Concurrent requests of one client, over all paths of the Ingress; more get 503 \
             (limit-conn-status-code). 0 or less: no limit.",
            |settings, value| settings.limiting.connections = value,
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Low),
        Annotation::served(
            "limit-rps",
            value::count_or_none(),
            "0",
            "Requests of one client per second, over all paths of the Ingress; more get 503 \
             (limit-req-status-code). 0 or less: no limit.",
            |settings, value| settings.limiting.per_second = value,
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Low),
        Annotation::served(
            "limit-rpm",
            value::count_or_none(),
            "0",
            "Requests of one client per minute; see limit-rps.",
            |settings, value| settings.limiting.per_minute = value,
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Low),
        Annotation::served(
            "limit-rate",
            value::kibibytes(),
            "0",
            "KiB per second of one response of an endpoint; 0: no limit.",
            |settings, value| settings.policies.bodies.rate = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("limit-rate"),
        Annotation::served(
            "limit-rate-after",
            value::kibibytes(),
            "0",
            "KiB of a response that are sent before limit-rate applies.",
            |settings, value| settings.policies.bodies.rate_after = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("limit-rate-after"),
        Annotation::served(
            "limit-burst-multiplier",
            value::count(),
            "5",
            "Burst size as a multiple of limit-rps, and of limit-rpm.",
            |settings, value| settings.limiting.burst = Some(value),
        )
        .location(Risk::Low),
        Annotation::served(
            "sluice.dev/rate-limit-fields",
            value::bool(),
            "false",
            "Describe limit-rps and limit-rpm to clients in the response fields RateLimit-Policy and RateLimit; see \
             docs/limits.md.",
            |settings, value| settings.limiting.fields = value,
        )
        .location(Risk::Low)
        .absent_in_reference(),
        Annotation::served(
            "limit-allowlist",
            value::networks(),
            "",
            "Clients from these networks are not limited.",
            |settings, value| settings.limiting.exempt = Some(value),
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::Reject, "clients of a skipped entry are limited")
        .location(Risk::Low)
        .also(&["limit-whitelist"]),
    ]
}
