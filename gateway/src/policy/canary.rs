//! Canaries: selection of the requests of a rule that another backend serves. The header decides
//! first, then the cookie, then the weight, as in ingress-nginx.
//!
//! ingress-nginx considers only one canary per rule; Sluice supports several. The headers of all
//! canaries are evaluated first, from the oldest canary to the newest, then all cookies. A single
//! draw follows, in which each canary has its weight and the rule's own backend the remainder.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderName;
use regex::bytes::Regex;
use sluice_config::CanaryValue;
use smallvec::SmallVec;

use super::error::PolicyError;
use super::traffic_split::TrafficSplit;
use crate::expression::{ExtendedMatcher, bounded_bytes_regex};
use crate::message::fields::Fields;
use crate::message::parts::cookie;

/// Compiled choice between a rule's own backend and its canaries.
#[derive(Debug)]
pub struct Canaries {
    all: Box<[Canary]>,
    split: TrafficSplit,
}

/// Compiled conditions of one canary.
#[derive(Debug)]
pub(crate) struct Canary {
    header: Option<(FieldOfVariable, Value)>,
    cookie: Option<Arc<str>>,
}

/// The field that `canary-by-header` names. ingress-nginx reads it as nginx's `$http_<name>`, which
/// does not distinguish hyphens from underscores.
#[derive(Debug)]
struct FieldOfVariable {
    name: HeaderName,
    /// The name with underscores, for clients whose fields may have them
    /// (`enable-underscores-in-headers`); `None` if it is the same.
    underscored: Option<HeaderName>,
}

#[derive(Debug)]
enum Value {
    AlwaysOrNever,
    Exact(Arc<str>),
    Regex(Regex),
    Extended(ExtendedMatcher),
    /// Always selects the rule's own backend, whatever the value is.
    Never,
}

impl Canaries {
    /// Compiles the canaries.
    ///
    /// # Errors
    /// A header name is invalid, or an expression is malformed or too large.
    pub fn compile(canaries: &[sluice_config::Canary]) -> Result<Self, PolicyError> {
        let split = TrafficSplit::new(canaries.iter().map(|canary| (canary.weight, canary.total)));
        let all = canaries.iter().map(Canary::compile).collect::<Result<_, _>>()?;
        Ok(Self { all, split })
    }

    /// Returns the index of the canary for a request; `None` selects the rule's own backend. A
    /// canary for which `is_open` is false receives no requests; its share goes to the rule's own
    /// backend.
    pub fn choose(&self, headers: &impl Fields, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let undecided = match self.decide(headers, is_open) {
            Decision::Canary(place) => return Some(place),
            Decision::Draw(undecided) => undecided,
        };
        // Canaries that a header or cookie decided do not take part in the draw, so that the shares
        // of the others remain exact.
        if !undecided.contains(&true) {
            return None;
        }
        self.split.draw().filter(|place| undecided[*place])
    }

    /// Returns the index of the canary that a header or cookie selects; `None` leaves the request
    /// to the draw, or to the rule's own backend.
    pub(crate) fn selected(&self, headers: &impl Fields, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        match self.decide(headers, is_open) {
            Decision::Canary(place) => Some(place),
            Decision::Draw(_) => None,
        }
    }

    fn decide(&self, headers: &impl Fields, is_open: impl Fn(usize) -> bool) -> Decision {
        let mut undecided = SmallVec::with_capacity(self.all.len());
        for (place, canary) in self.all.iter().enumerate() {
            let by_header = if is_open(place) { canary.by_header(headers) } else { Some(false) };
            if by_header == Some(true) {
                return Decision::Canary(place);
            }
            undecided.push(by_header.is_none());
        }
        for (place, canary) in self.all.iter().enumerate() {
            if undecided[place] {
                match canary.by_cookie(headers) {
                    Some(true) => return Decision::Canary(place),
                    by_cookie => undecided[place] = by_cookie.is_none(),
                }
            }
        }
        Decision::Draw(undecided)
    }
}

/// What the headers and cookies of a request decide.
enum Decision {
    /// The canary at this index.
    Canary(usize),
    /// None of them. The draw is among the canaries that are true.
    Draw(SmallVec<[bool; 4]>),
}

impl Canary {
    /// Compiles the conditions of a canary.
    ///
    /// # Errors
    /// The name or the pattern of its header is invalid.
    pub(crate) fn compile(canary: &sluice_config::Canary) -> Result<Self, PolicyError> {
        let header = match &canary.header {
            Some(header) => Some((FieldOfVariable::compile(&header.name)?, Value::compile(&header.value)?)),
            None => None,
        };
        Ok(Self { header, cookie: canary.cookie.clone() })
    }

    /// Returns the decision of the header or the cookie; `None` leaves it to the draw.
    pub(crate) fn decides(&self, headers: &impl Fields) -> Option<bool> {
        self.by_header(headers).or_else(|| self.by_cookie(headers))
    }

    fn by_header(&self, headers: &impl Fields) -> Option<bool> {
        let (field, value) = self.header.as_ref()?;
        value.decides(&field.value(headers)?)
    }

    fn by_cookie(&self, headers: &impl Fields) -> Option<bool> {
        always_or_never(cookie(headers, self.cookie.as_deref()?)?)
    }
}

impl FieldOfVariable {
    fn compile(name: &str) -> Result<Self, PolicyError> {
        let read =
            |name: String| HeaderName::try_from(name.as_str()).map_err(|_| PolicyError::HeaderName(name));
        let underscored = read(name.replace('-', "_"))?;
        let name = read(name.replace('_', "-"))?;
        Ok(Self { underscored: Some(underscored).filter(|other| *other != name), name })
    }

    fn value<'h>(&'h self, headers: &'h impl Fields) -> Option<Cow<'h, [u8]>> {
        headers.joined(&self.name).or_else(|| headers.joined(self.underscored.as_ref()?))
    }
}

impl Value {
    fn compile(value: &CanaryValue) -> Result<Self, PolicyError> {
        Ok(match value {
            CanaryValue::AlwaysOrNever => Self::AlwaysOrNever,
            CanaryValue::Exact(text) => Self::Exact(text.clone()),
            CanaryValue::Regex(pattern) => Self::Regex(expression(pattern)?),
            CanaryValue::Extended(regex) => {
                let bad = |error| PolicyError::Canary(format!("expression `{}`: {error}", regex.text));
                Self::Extended(ExtendedMatcher::compile(regex).map_err(bad)?)
            }
            CanaryValue::Unreadable => Self::Never,
        })
    }

    /// Returns the decision of the field's value; `None` if it is another one.
    fn decides(&self, value: &[u8]) -> Option<bool> {
        match self {
            Self::AlwaysOrNever => always_or_never(value),
            Self::Exact(text) => (value == text.as_bytes()).then_some(true),
            Self::Regex(pattern) => pattern.is_match(value).then_some(true),
            Self::Extended(regex) => regex.is_match(value).then_some(true),
            Self::Never => Some(false),
        }
    }
}

fn expression(pattern: &str) -> Result<Regex, PolicyError> {
    let bad = |error| PolicyError::Canary(format!("expression `{pattern}`: {error}"));
    bounded_bytes_regex(pattern).map_err(bad)
}

fn always_or_never(value: &[u8]) -> Option<bool> {
    match value {
        b"always" => Some(true),
        b"never" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sluice_config::{
        CanaryHeader, EndpointSetKey, ExtendedRegex, LookAhead, ObjectRef, PoolKey, ServiceRef,
    };

    use super::*;

    fn config(
        value: Option<CanaryValue>,
        cookie: Option<&str>,
        weight: u32,
        total: u32,
    ) -> sluice_config::Canary {
        let endpoints = EndpointSetKey { namespace: "n".into(), service: "s".into(), port: "p".into() };
        sluice_config::Canary {
            object: ObjectRef::new("Ingress", "n", "canary"),
            pool: PoolKey { endpoints, policy: "".into() },
            service: ServiceRef { namespace: "n".into(), name: "s".into(), port: "p".into() },
            header: value.map(|value| CanaryHeader { name: "X-Canary".into(), value }),
            cookie: cookie.map(Into::into),
            weight,
            total,
            hash_by: None,
            sticky: true,
        }
    }

    fn canary(value: Option<CanaryValue>, cookie: Option<&str>, weight: u32, total: u32) -> Canaries {
        Canaries::compile(&[config(value, cookie, weight, total)]).unwrap()
    }

    impl Canaries {
        fn takes(&self, headers: &HeaderMap) -> bool {
            self.choose(headers, |_| true).is_some()
        }
    }

    fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn the_header_decides_before_the_cookie_and_the_cookie_before_the_weight() {
        let all = canary(Some(CanaryValue::AlwaysOrNever), Some("Side"), 0, 100);
        for (fields, taken) in [
            (&[("x-canary", "always"), ("cookie", "side=never")][..], true),
            (&[("x-canary", "never"), ("cookie", "side=always")], false),
            (&[("x-canary", "Always"), ("cookie", "a=b; SIDE=always")], true),
            (&[("x-canary", "always"), ("x-canary", "always")], false),
            (&[("cookie", "side=other")], false),
            (&[("cookie", "a=b"), ("cookie", "side=always")], true),
            (&[], false),
        ] {
            assert_eq!(all.takes(&headers(fields)), taken, "{fields:?}");
        }
        let rest = canary(Some(CanaryValue::AlwaysOrNever), Some("side"), 100, 100);
        assert!(rest.takes(&headers(&[])) && !rest.takes(&headers(&[("x-canary", "never")])));
    }

    #[test]
    fn a_canary_header_with_an_underscore_is_the_field_with_a_hyphen() {
        for name in ["X_Version", "X-Version"] {
            let header = CanaryHeader { name: name.into(), value: CanaryValue::AlwaysOrNever };
            let config = sluice_config::Canary { header: Some(header), ..config(None, None, 0, 100) };
            let canary = Canaries::compile(&[config]).unwrap();
            for field in ["x-version", "x_version"] {
                assert!(canary.takes(&headers(&[(field, "always")])), "{name}: {field}");
            }
            assert!(!canary.takes(&headers(&[("xversion", "always")])), "{name}");
        }
    }

    #[test]
    fn with_an_unreadable_expression_requests_with_the_header_stay() {
        let unreadable = canary(Some(CanaryValue::Unreadable), Some("side"), 100, 100);
        assert!(unreadable.takes(&headers(&[])));
        assert!(!unreadable.takes(&headers(&[("x-canary", "x"), ("cookie", "side=always")])));
    }

    #[test]
    fn an_expression_with_look_ahead_chooses() {
        let condition = LookAhead { pattern: "^eu".into(), negative: true };
        let regex = ExtendedRegex {
            text: "^(?!eu).+".into(),
            pattern: "^.+".into(),
            conditions: vec![condition],
            backtracks: false,
        };
        let canary = canary(Some(CanaryValue::Extended(regex.into())), None, 0, 100);
        assert!(canary.takes(&headers(&[("x-canary", "us-1")])));
        assert!(!canary.takes(&headers(&[("x-canary", "eu-1")])));
    }

    #[test]
    fn other_header_values_leave_the_decision_to_the_next_condition() {
        for value in [CanaryValue::Exact("eu west".into()), CanaryValue::Regex("^eu|west$".into())] {
            let canary = canary(Some(value), Some("side"), 0, 100);
            assert!(canary.takes(&headers(&[("x-canary", "eu west")])));
            assert!(!canary.takes(&headers(&[("x-canary", "always")])));
            assert!(canary.takes(&headers(&[("x-canary", "never"), ("cookie", "side=always")])));
        }
        assert!(
            canary(Some(CanaryValue::Regex("b+".into())), None, 0, 100)
                .takes(&headers(&[("x-canary", "abc")]))
        );
    }

    #[test]
    fn shares_are_weights_over_the_total() {
        for (weight, total, expected) in
            [(0, 100, 0), (100, 100, 10_000), (150, 100, 10_000), (50, 1_000, 500), (20, 100, 2_000)]
        {
            let canary = canary(None, None, weight, total);
            let taken = (0..10_000).filter(|_| canary.takes(&HeaderMap::new())).count();
            assert_eq!(taken, expected, "{weight}/{total}");
        }
    }

    #[test]
    fn header_decisions_do_not_change_the_shares_of_others() {
        let canary = canary(Some(CanaryValue::AlwaysOrNever), None, 25, 100);
        let mut taken = 0;
        for _ in 0..100 {
            assert!(canary.takes(&headers(&[("x-canary", "always")])));
            assert!(!canary.takes(&headers(&[("x-canary", "never")])));
            taken += usize::from(canary.takes(&headers(&[])));
        }
        assert_eq!(taken, 25);
    }

    #[test]
    fn of_several_all_headers_come_before_all_cookies_and_one_draw_is_for_all() {
        let all = [
            config(None, Some("side"), 10, 100),
            config(Some(CanaryValue::Exact("eu".into())), Some("side"), 20, 100),
            config(Some(CanaryValue::AlwaysOrNever), None, 30, 100),
        ];
        let canaries = Canaries::compile(&all).unwrap();
        let choose = |fields: &[(&'static str, &str)]| canaries.choose(&headers(fields), |_| true);
        assert_eq!(choose(&[("x-canary", "eu"), ("cookie", "side=always")]), Some(1));
        assert_eq!(choose(&[("x-canary", "always"), ("cookie", "side=always")]), Some(2));
        assert_eq!(choose(&[("x-canary", "other"), ("cookie", "side=always")]), Some(0));
        let counts = |fields: &[(&'static str, &str)], is_open: &dyn Fn(usize) -> bool| {
            let mut counts = [0; 4];
            (0..100).for_each(|_| counts[canaries.choose(&headers(fields), is_open).unwrap_or(3)] += 1);
            counts
        };
        assert_eq!(counts(&[], &|_| true), [10, 20, 30, 40]);
        assert_eq!(
            counts(&[("x-canary", "never")], &|_| true),
            [10, 20, 0, 70],
            "its share is the main one's"
        );
        assert_eq!(counts(&[], &|place| place != 1), [10, 0, 30, 60]);
        assert_eq!(counts(&[("cookie", "side=never")], &|_| true), [0, 0, 30, 70]);
    }
}
