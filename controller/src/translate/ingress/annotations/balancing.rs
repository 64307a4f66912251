//! Choice of an endpoint without a session, and the endpoints to choose from.

use std::num::NonZeroU32;
use std::sync::Arc;

use sluice_config::{Balance, HashBy, Moment, NamespacedName, Template, TemplatePiece, Variable};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::template;
use crate::translate::value::{self, Type};

/// Default number of endpoints in a group.
const SUBSET_SIZE: NonZeroU32 = NonZeroU32::new(3).expect("three is not zero");

/// Parsed `upstream-hash-by` annotations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hashing {
    key: Option<Template>,
    subset: bool,
    subset_size: NonZeroU32,
}

impl Default for Hashing {
    fn default() -> Self {
        Self { key: None, subset: false, subset_size: SUBSET_SIZE }
    }
}

/// Computes the hash key for the choice of an endpoint.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    // Sessions take precedence over a hash key.
    let Some(key) = settings.hashing.key.clone().filter(|_| settings.policies.affinity.is_none()) else {
        return;
    };
    if settings.routes.snippets.translations().next().is_none() {
        let unknown = key.pieces.iter().find_map(|piece| match piece {
            TemplatePiece::Variable(Variable::Assigned(name)) => Some(name),
            _ => None,
        });
        let reason =
            |name| format!("has ${name}, which is not a variable and which no snippet of this Ingress sets");
        settings.left_out.extend(unknown.map(|name| ("upstream-hash-by", reason(name))));
    }
    let subset = settings.hashing.subset.then_some(settings.hashing.subset_size);
    if subset.is_none() {
        settings.routes.usage.balance = Balance::Ring;
    }
    settings.policies.hash_by = Some(Arc::new(HashBy { key, subset }));
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "load-balance",
            value::balance(),
            "round_robin",
            "How an endpoint is chosen without a session or upstream-hash-by: in turn (round_robin), the \
             faster of two random ones (ewma, a peak-sensitive moving average of the time to the response \
             head, times the requests in progress), or the one with the fewest requests in progress \
             (least_conn, not available in ingress-nginx).",
            |settings, value| settings.routes.usage.balance = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "no request goes anywhere else")
        .location(Risk::Low)
        .on_canary_too()
        .falls_back_to("load-balance"),
        Annotation::served(
            "upstream-hash-by",
            key(),
            "",
            "Requests with the same value of this text go to the same endpoint, by consistent hashing. The \
             text may contain nginx variables, and those that a snippet sets; if it is empty, the request is balanced \
             normally.",
            |settings, value| settings.hashing.key = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "no request goes to another Service")
        .location(Risk::High)
        .on_canary_too(),
        Annotation::served(
            "upstream-hash-by-subset",
            value::bool(),
            "false",
            "upstream-hash-by chooses a group of endpoints, one of which gets the request.",
            |settings, value| settings.hashing.subset = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "no request goes to another Service")
        .location(Risk::Low)
        .on_canary_too(),
        Annotation::served(
            "upstream-hash-by-subset-size",
            value::positive(),
            "3",
            "Endpoints of such a group.",
            |settings, value| {
                settings.hashing.subset_size = NonZeroU32::new(value).unwrap_or(SUBSET_SIZE);
            },
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "no request goes to another Service")
        .location(Risk::Low)
        .on_canary_too(),
        Annotation::served(
            "service-upstream",
            value::bool(),
            "false",
            "Requests go to the address of the Service (clusterIP), and kube-proxy chooses the endpoint; \
             sessions and retries then have a single endpoint. For a Service without an address, its \
             endpoints are used.",
            |settings, value| settings.routes.service_upstream = Some(value),
        )
        .ingress(Risk::Low)
        .on_canary_too()
        .falls_back_to("service-upstream"),
        Annotation::served(
            "sluice.dev/slow-start",
            value::time_within(1, 3600),
            "",
            "Time in which an endpoint that is new, or was ejected or unhealthy, reaches its full share of \
             requests without a session or key; it starts with a tenth.",
            |settings, value| settings.routes.usage.slow_start = Some(value),
        )
        .absent_in_reference()
        .ingress(Risk::Low),
    ]
}

/// A text with variables, of the characters that ingress-nginx accepts.
fn key() -> Type<Template> {
    value::text()
        .called("letters, digits, - and _, with variables such as $http_x_user or ${arg_id}")
        .allowing(|text| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_${}".contains(&byte)))
        .and_then_for(|text: Arc<str>, author| {
            template::parse_with(&text, |name| {
                // As in ingress-nginx: the value that a snippet has set, or none.
                template::variable_for(name, Moment::Request, author)
                    .or_else(|_| Ok(Variable::Assigned(name.to_ascii_lowercase().into())))
            })
        })
        .evaluated_at(Moment::Request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn a_key_is_text_with_variables_that_are_served() {
        for good in
            ["$request_uri", "${remote_addr}-$http_x_user", "$cookie_id$arg_x", "fixed", "$of_snippet"]
        {
            assert!(key().parse(good, &Author::OPERATOR).is_ok(), "{good}");
        }
        for bad in ["$remote_addr:80", "$", "${host"] {
            assert!(key().parse(bad, &Author::OPERATOR).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_group_size_applies_only_with_groups() {
        let finished = |key: Option<Template>, subset| {
            let hashing = Hashing { key, subset, ..Hashing::default() };
            let mut settings = Settings { hashing, ..Settings::default() };
            finish(&mut settings, &NamespacedName::new("n", "a"));
            settings.policies.hash_by.map(|hash_by| hash_by.subset)
        };
        let template = key().parse("$host", &Author::OPERATOR).unwrap();
        assert_eq!(finished(Some(template.clone()), false), Some(None));
        assert_eq!(finished(Some(template), true), Some(Some(SUBSET_SIZE)));
        assert_eq!(finished(None, true), None);
    }
}
