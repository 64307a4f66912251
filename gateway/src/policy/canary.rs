//! Canaries: which requests of a rule go to its other backend. The header decides first, then the cookie, then a draw,
//! as in ingress-nginx.

use http::HeaderName;
use http::header::COOKIE;
use regex::bytes::{Regex, RegexBuilder};
use sluice_config::CanaryValue;
use std::sync::Arc;

use super::error::PolicyError;
use crate::message::fields::Fields;
use crate::router::REGEX_SIZE_LIMIT;

/// The choice between a rule's own backend and its canary, compiled.
#[derive(Debug)]
pub struct Canary {
    header: Option<(HeaderName, Value)>,
    cookie: Option<Arc<str>>,
    weight: u32,
    total: u32,
}

#[derive(Debug)]
enum Value {
    AlwaysOrNever,
    Exact(Arc<str>),
    Regex(Regex),
}

impl Canary {
    /// Fails on a name that is none, and on an expression that is malformed or too large.
    pub fn compile(canary: &sluice_config::Canary) -> Result<Self, PolicyError> {
        let header = match &canary.header {
            Some(header) => {
                let name = HeaderName::from_bytes(header.name.as_bytes())
                    .map_err(|_| PolicyError::HeaderName(header.name.to_string()))?;
                Some((name, Value::compile(&header.value)?))
            }
            None => None,
        };
        Ok(Self { header, cookie: canary.cookie.clone(), weight: canary.weight, total: canary.total.max(1) })
    }

    /// Whether a request without a session goes to the canary.
    pub fn takes(&self, headers: &impl Fields) -> bool {
        self.decides(headers).unwrap_or_else(|| self.draws())
    }

    /// What its header or cookie says; nothing where it is left to a draw.
    pub(crate) fn decides(&self, headers: &impl Fields) -> Option<bool> {
        let by_header = self.header.as_ref().and_then(|(name, value)| value.decides(headers, name));
        by_header.or_else(|| always_or_never(cookie(headers, self.cookie.as_deref()?)?))
    }

    fn draws(&self) -> bool {
        match self.weight {
            0 => false,
            weight if weight >= self.total => true,
            weight => fastrand::u32(..self.total) < weight,
        }
    }
}

impl Value {
    fn compile(value: &CanaryValue) -> Result<Self, PolicyError> {
        Ok(match value {
            CanaryValue::AlwaysOrNever => Self::AlwaysOrNever,
            CanaryValue::Exact(text) => Self::Exact(text.clone()),
            CanaryValue::Regex(pattern) => {
                let built = RegexBuilder::new(pattern)
                    .size_limit(REGEX_SIZE_LIMIT)
                    .dfa_size_limit(REGEX_SIZE_LIMIT)
                    .build();
                let bad = |error| PolicyError::Canary(format!("expression `{pattern}`: {error}"));
                Self::Regex(built.map_err(bad)?)
            }
        })
    }

    /// What the field says; nothing where it is not there or says something else.
    fn decides(&self, headers: &impl Fields, name: &HeaderName) -> Option<bool> {
        let mut lines = headers.lines(name);
        let first = lines.next()?;
        let joined;
        // Several lines are one value (RFC 9110 §5.3).
        let value = match lines.next() {
            None => first,
            Some(_) => {
                joined = headers.lines(name).collect::<Vec<_>>().join(&b", "[..]);
                &joined
            }
        };
        match self {
            Self::AlwaysOrNever => always_or_never(value),
            Self::Exact(text) => (value == text.as_bytes()).then_some(true),
            Self::Regex(pattern) => pattern.is_match(value).then_some(true),
        }
    }
}

fn always_or_never(value: &[u8]) -> Option<bool> {
    match value {
        b"always" => Some(true),
        b"never" => Some(false),
        _ => None,
    }
}

/// The first cookie of a name, in any case: that is how nginx finds it for a canary.
fn cookie<'h>(headers: &'h impl Fields, name: &str) -> Option<&'h [u8]> {
    let pairs = headers.lines(&COOKIE).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs
        .filter_map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            let (key, value) = (pair[..equals].trim_ascii(), pair[equals + 1..].trim_ascii());
            key.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        })
        .next()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sluice_config::{CanaryHeader, EndpointSetKey, PoolKey, ServiceRef};

    use super::*;

    fn canary(value: Option<CanaryValue>, cookie: Option<&str>, weight: u32, total: u32) -> Canary {
        let endpoints = EndpointSetKey { namespace: "n".into(), service: "s".into(), port: "p".into() };
        Canary::compile(&sluice_config::Canary {
            pool: PoolKey { endpoints, policy: "".into() },
            service: ServiceRef { namespace: "n".into(), name: "s".into(), port: "p".into() },
            header: value.map(|value| CanaryHeader { name: "X-Canary".into(), value }),
            cookie: cookie.map(Into::into),
            weight,
            total,
            sticky: true,
        })
        .unwrap()
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
    fn a_value_or_an_expression_chooses_and_anything_else_is_left_to_what_comes_next() {
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
        for (weight, total, least, most) in
            [(0, 100, 0, 0), (100, 100, 10_000, 10_000), (150, 100, 10_000, 10_000), (50, 1_000, 370, 630)]
        {
            let canary = canary(None, None, weight, total);
            let taken = (0..10_000).filter(|_| canary.takes(&HeaderMap::new())).count();
            // Six standard deviations of 10,000 draws with a chance of 1/20 are 130.
            assert!((least..=most).contains(&taken), "{weight}/{total}: {taken}");
        }
    }
}
