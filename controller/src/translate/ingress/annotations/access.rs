//! Access control by client address: allow and deny lists.

use sluice_config::Satisfy;

use super::Annotation;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "allowlist-source-range",
            value::networks(),
            "",
            "Only clients from these networks are served; others get 403.",
            |settings, value| settings.policies.sources.allow = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .closed_if_empty()
        .location(Risk::Medium)
        .falls_back_to("whitelist-source-range")
        .also(&["whitelist-source-range"]),
        Annotation::served(
            "denylist-source-range",
            value::networks(),
            "",
            "Clients from these networks get 403, even if allowlist-source-range contains them.",
            |settings, value| settings.policies.sources.deny = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Close, "")
        .closed_if_empty()
        .location(Risk::Medium)
        .falls_back_to("denylist-source-range"),
        Annotation::served(
            "sluice.dev/allow-countries",
            value::countries(),
            "",
            "Only clients from these countries are served; others get 403, and so do clients whose country is not \
             known. Needs use-geoip2 with GeoLite2-Country or GeoLite2-City; without a database, all clients get 403. \
             Address lists apply too: each list must admit the client.",
            |settings, value| settings.policies.countries.allow = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Absent, "")
        .location(Risk::Medium)
        .absent_in_reference(),
        Annotation::served(
            "sluice.dev/deny-countries",
            value::countries(),
            "",
            "Clients from these countries get 403. Needs use-geoip2 as sluice.dev/allow-countries does; without a \
             database, all clients get 403.",
            |settings, value| settings.policies.countries.deny = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::Absent, "")
        .location(Risk::Medium)
        .absent_in_reference(),
        Annotation::served(
            "satisfy",
            value::exactly_one_of(&[("all", Satisfy::All), ("any", Satisfy::Any)]),
            "all",
            "Whether a request must pass all of address lists, auth-type and auth-url, or any one of them.",
            |settings, value| settings.policies.satisfy = value,
        )
        .location(Risk::Low),
    ]
}
