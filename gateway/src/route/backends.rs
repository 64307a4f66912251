//! The backends of a rule, and the selection of one for a request.

use smallvec::SmallVec;

use super::{Destination, RouteBackend};
use crate::message::fields::Fields;
use crate::policy::canary::Canaries;

/// Weighted backends.
#[derive(Debug)]
pub struct Backends {
    /// Nearly always one.
    backends: SmallVec<[(u32, RouteBackend); 1]>,
    total: u64,
    canaries: Option<Box<CanaryBackends>>,
}

/// Backends that serve some requests instead of the others.
#[derive(Debug)]
pub(super) struct CanaryBackends {
    pub(super) choice: Canaries,
    pub(super) backends: Box<[RouteBackend]>,
}

impl Backends {
    pub(super) fn new(
        backends: SmallVec<[(u32, RouteBackend); 1]>,
        canaries: Option<Box<CanaryBackends>>,
    ) -> Self {
        let total = backends.iter().map(|(weight, _)| u64::from(*weight)).sum();
        Self { backends, total, canaries }
    }

    /// Selects the backend of a request: that of its session, which `digits` identify, or one drawn
    /// by weight. A canary may replace it. `has_fallback` returns whether another backend serves in
    /// place of one without endpoints. Returns `None` if there is no backend, or none with a
    /// weight.
    pub fn draw(
        &self,
        headers: &impl Fields,
        digits: Option<&[u8]>,
        has_fallback: impl FnOnce() -> bool,
    ) -> Option<&RouteBackend> {
        let main = digits.and_then(|digits| self.of_session(digits)).or_else(|| self.draw_by_weight());
        self.canary(headers, digits, main, has_fallback).or(main)
    }

    /// Draws a backend with a probability proportional to its weight.
    fn draw_by_weight(&self) -> Option<&RouteBackend> {
        if let [(weight, only)] = &*self.backends {
            return (*weight > 0).then_some(only);
        }
        if self.total == 0 {
            return None;
        }
        let mut left = fastrand::u64(..self.total);
        let drawn = self.backends.iter().find(|(weight, _)| match left.checked_sub(u64::from(*weight)) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        drawn.map(|(_, backend)| backend)
    }

    /// Returns the canary that replaces `main` for a request: that of its session, which `digits`
    /// identify, or a selected one. Sticky sessions take precedence. A canary without endpoints
    /// serves no request. As in ingress-nginx, no canary does if the rule itself has no endpoints,
    /// unless its own default backend serves in their place.
    fn canary(
        &self,
        headers: &impl Fields,
        digits: Option<&[u8]>,
        main: Option<&RouteBackend>,
        has_fallback: impl FnOnce() -> bool,
    ) -> Option<&RouteBackend> {
        let CanaryBackends { choice, backends } = self.canaries.as_deref()?;
        if !is_served(main?, has_fallback) {
            return None;
        }
        let of_session =
            digits.and_then(|digits| backends.iter().find(|backend| backend.is_of_session(digits)));
        if let Some(backend) = of_session.filter(|backend| has_endpoints(backend)) {
            return Some(backend);
        }
        let of_main = digits.is_some_and(|digits| self.of_session(digits).is_some());
        let is_open =
            |place: usize| has_endpoints(&backends[place]) && !(of_main && backends[place].sticky.is_some());
        choice.choose(headers, is_open).map(|place| &backends[place])
    }

    /// Returns the backend of a request without a draw, which would change the shares of others:
    /// the canary that its header or cookie selects, else the first backend.
    pub(crate) fn without_draw(
        &self,
        headers: &impl Fields,
        has_fallback: impl FnOnce() -> bool,
    ) -> Option<&RouteBackend> {
        let main = self.first();
        let selected = || {
            let CanaryBackends { choice, backends } = self.canaries.as_deref()?;
            main.filter(|main| is_served(main, has_fallback))?;
            choice.selected(headers, |place| has_endpoints(&backends[place])).map(|place| &backends[place])
        };
        selected().or(main)
    }

    /// Returns the first backend.
    pub fn first(&self) -> Option<&RouteBackend> {
        self.backends.first().map(|(_, backend)| backend)
    }

    /// Returns the backend of a session, even if its weight is 0.
    fn of_session(&self, digits: &[u8]) -> Option<&RouteBackend> {
        self.backends.iter().map(|(_, backend)| backend).find(|backend| backend.is_of_session(digits))
    }
}

fn has_endpoints(backend: &RouteBackend) -> bool {
    matches!(&backend.to, Destination::Pool(pool) if !pool.is_empty())
}

/// Returns whether requests of the backend reach an endpoint: its own, or one of the backend that
/// serves in its place.
fn is_served(backend: &RouteBackend, has_fallback: impl FnOnce() -> bool) -> bool {
    has_endpoints(backend) || !matches!(backend.to, Destination::Default) && has_fallback()
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::super::Sticky;
    use super::*;
    use crate::policy::affinity;

    fn backends(weights: &[u32]) -> Backends {
        let backend = |index: usize| RouteBackend {
            to: Destination::Invalid(StatusCode::SERVICE_UNAVAILABLE),
            name: index.to_string().into(),
            alternative: "".into(),
            service: None,
            meters: None,
            sticky: Some(Sticky::new(None, &index.to_string())),
            tls: None,
            hash_by: None,
        };
        let backends = weights.iter().enumerate().map(|(index, weight)| (*weight, backend(index)));
        Backends::new(backends.collect(), None)
    }

    #[test]
    fn shares_are_weights_over_their_sum() {
        let backends = backends(&[1, 0, 3]);
        let mut counts = [0_u32; 3];
        for _ in 0..40_000 {
            let drawn = backends.draw_by_weight().unwrap();
            counts[drawn.name.parse::<usize>().unwrap()] += 1;
        }
        assert_eq!(counts[1], 0);
        // Six standard deviations of 40,000 draws with a probability of 1/4 are 520.
        assert!((9_480..=10_520).contains(&counts[0]), "{counts:?}");
    }

    #[test]
    fn without_weight_there_is_nothing_to_draw() {
        for weights in [&[][..], &[0], &[0, 0]] {
            assert!(backends(weights).draw_by_weight().is_none(), "{weights:?}");
        }
    }

    #[test]
    fn a_session_beats_weights() {
        let backends = backends(&[1, 0]);
        let digits = affinity::backend_digits("1");
        assert_eq!(&*backends.of_session(&digits).unwrap().name, "1");
        assert!(backends.of_session(b"f00").is_none());
    }
}
