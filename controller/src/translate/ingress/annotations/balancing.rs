//! How an endpoint is chosen where no session decides, and what counts as one.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{Balance, HashBy, Template};

use super::Annotation;
use crate::translate::setting::{Reference, Risk, Unreadable};
use crate::translate::template;
use crate::translate::value::{self, Type};

/// Endpoints of a group where nothing else is said.
const SUBSET_SIZE: NonZeroU32 = NonZeroU32::new(3).expect("three is not zero");

/// The values of `load-balance`, here and in the ConfigMap. The last is Sluice's own, by the name that nginx has for it.
pub(crate) const BALANCES: &[(&str, Balance)] = &[
    ("round_robin", Balance::RoundRobin),
    ("ewma", Balance::Ewma),
    ("least_conn", Balance::LeastConnections),
];

/// What the annotations of this family say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Balancing {
    /// `load-balance`; the GlobalSettings's without it.
    pub balance: Balance,
    hash_by: Option<Template>,
    subset: bool,
    subset_size: NonZeroU32,
    /// `service-upstream`; the ConfigMap's without it.
    pub service_upstream: Option<bool>,
    /// `slow-start`.
    pub slow_start: Option<Duration>,
}

impl Default for Balancing {
    fn default() -> Self {
        Self {
            balance: Balance::Inherit,
            hash_by: None,
            subset: false,
            subset_size: SUBSET_SIZE,
            service_upstream: None,
            slow_start: None,
        }
    }
}

impl Balancing {
    /// Which requests go to the same endpoint.
    pub fn hash_by(&self) -> Option<HashBy> {
        let subset = self.subset.then_some(self.subset_size);
        self.hash_by.clone().map(|key| HashBy { key, subset })
    }
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "load-balance",
            value::one_of(BALANCES),
            "round_robin",
            "How an endpoint is chosen without a session or upstream-hash-by: in turn (round_robin), the \
             faster of two random ones (ewma, a peak-sensitive moving average of the time to the response \
             head, times the requests in progress), or the one with the fewest requests in progress \
             (least_conn, not available in ingress-nginx).",
            |settings, value| settings.balancing.balance = value,
        )
        .unreadable(Unreadable::Default, Reference::Reject, "no request goes anywhere else")
        .location(Risk::Low)
        .falls_back_to("load-balance"),
        Annotation::served(
            "upstream-hash-by",
            key(),
            "",
            "Requests with the same value of this text go to the same endpoint, by consistent hashing. The \
             text may contain nginx variables; if it is empty, the request is balanced normally.",
            |settings, value| settings.balancing.hash_by = Some(value),
        )
        .unreadable(Unreadable::Default, Reference::Reject, "no request goes to another Service")
        .except("a value with an unknown variable is ignored")
        .location(Risk::High),
        Annotation::served(
            "upstream-hash-by-subset",
            value::bool(),
            "false",
            "upstream-hash-by chooses a group of endpoints, one of which gets the request.",
            |settings, value| settings.balancing.subset = value,
        )
        .unreadable(Unreadable::Default, Reference::Reject, "no request goes to another Service")
        .location(Risk::Low),
        Annotation::served(
            "upstream-hash-by-subset-size",
            value::positive(),
            "3",
            "Endpoints of such a group.",
            |settings, value| {
                settings.balancing.subset_size = NonZeroU32::new(value).unwrap_or(SUBSET_SIZE);
            },
        )
        .unreadable(Unreadable::Default, Reference::Reject, "no request goes to another Service")
        .location(Risk::Low),
        Annotation::served(
            "service-upstream",
            value::bool(),
            "false",
            "Requests go to the address of the Service (clusterIP), and kube-proxy chooses the endpoint; \
             sessions and retries then have a single endpoint. For a Service without an address, its \
             endpoints are used.",
            |settings, value| settings.balancing.service_upstream = Some(value),
        )
        .ingress(Risk::Low)
        .falls_back_to("service-upstream"),
        Annotation::served(
            "sluice.dev/slow-start",
            value::time_within(1, 3600),
            "",
            "Time in which an endpoint that is new, or was ejected or unhealthy, reaches its full share of \
             requests without a session or key; it starts with a tenth.",
            |settings, value| settings.balancing.slow_start = Some(value),
        )
        .absent_in_reference()
        .ingress(Risk::Low),
    ]
}

/// A text with variables, of the characters that ingress-nginx takes.
fn key() -> Type<Template> {
    value::text()
        .called("letters, digits, - and _, with variables such as $http_x_user or ${arg_id}")
        .allowing(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_${}".contains(&byte)))
        .and_then(|text: Arc<str>| template::parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn a_key_is_text_with_variables_that_are_served() {
        for good in ["$request_uri", "${remote_addr}-$http_x_user", "$cookie_id$arg_x", "fixed"] {
            assert!(key().parse(good, &Author::OPERATOR).is_ok(), "{good}");
        }
        for bad in ["$geoip_country", "$remote_addr:80", "$", "${host"] {
            assert!(key().parse(bad, &Author::OPERATOR).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_size_of_a_group_counts_only_where_groups_are_asked_for() {
        let template = key().parse("$host", &Author::OPERATOR).unwrap();
        let plain = Balancing { hash_by: Some(template), ..Balancing::default() };
        assert_eq!(plain.hash_by().unwrap().subset, None);
        let grouped = Balancing { subset: true, ..plain };
        assert_eq!(grouped.hash_by().unwrap().subset, Some(SUBSET_SIZE));
        assert_eq!(Balancing { hash_by: None, ..grouped }.hash_by(), None);
    }
}
