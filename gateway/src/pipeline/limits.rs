//! Limits of requests: those per client of annotations, and those of the zones of snippets.

use std::time::Duration;

use http::StatusCode;

use super::directive_state::directives;
use super::exchange::{Exchange, Verdict};
use super::question::Question;
use super::stages::{StageInput, Step};
use crate::policy::limits::{ClientKey, Exceeded, Limits, ZoneLimits};
use crate::route::Route;
use crate::state::compiled_settings::LimitKey;

impl Exchange {
    /// All rates, whose zones may delay the request, then all numbers of concurrent requests, as in
    /// nginx: a request that waits is not under way.
    pub(super) fn check_limits(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        self.check_client_rates(route, input)?;
        self.check_zone_rates(route, input)?;
        self.check_concurrency(route, input)
    }

    /// The limits of concurrent requests.
    pub(super) fn check_concurrency(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        self.check_client_concurrency(route, input)?;
        self.check_zone_concurrency(route, input)
    }

    fn check_client_rates(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some((limits, client)) = self.client_limits(route, input, Limits::has_rates) else {
            return Step::Continue(());
        };
        let charged = limits.charge(&client, self.began);
        if let Some(fields) = limits.fields(&client, self.began) {
            self.extras.get_or_insert_default().rate_fields = Some(Box::new(fields));
        }
        match charged {
            Ok(()) => Step::Continue(()),
            Err(Exceeded) => Step::Break(self.limited(None, self.settings().limit_rate_status)),
        }
    }

    fn check_client_concurrency(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some((limits, client)) = self.client_limits(route, input, Limits::has_concurrency) else {
            return Step::Continue(());
        };
        match limits.admit(&client) {
            Ok(None) => Step::Continue(()),
            Ok(Some(permit)) => {
                self.extras.get_or_insert_default().permits.push(permit);
                Step::Continue(())
            }
            Err(Exceeded) => Step::Break(self.limited(None, self.settings().limit_connections_status)),
        }
    }

    /// The limits per client, if they have the kind of limit, with the client's key. `None` for
    /// exempt clients and, as in nginx, for those with an empty key.
    fn client_limits<'r>(
        &self,
        route: &'r Route,
        input: &StageInput<'_>,
        has_kind: fn(&Limits) -> bool,
    ) -> Option<(&'r Limits, ClientKey)> {
        let limits = route.compiled.as_ref()?.limits.as_ref().filter(|limits| has_kind(limits))?;
        let address = self.client.address;
        if limits.exempts(address) {
            return None;
        }
        let LimitKey::Filled(template) = &input.compiled_settings.limit_key else {
            return Some((limits, ClientKey::Address(address)));
        };
        let key = template.fill(&self.template_context(Some(route), input));
        (!key.is_empty()).then_some((limits, ClientKey::Text(key)))
    }

    /// The rates of zones, which may delay the request.
    fn check_zone_rates(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(limits) = zone_limits(route) else { return Step::Continue(()) };
        match limits.charge(&self.template_context(Some(route), input), self.began) {
            Ok(Duration::ZERO) => Step::Continue(()),
            Ok(delay) => Step::Break(Verdict::Ask(Question::Wait(delay))),
            Err(Exceeded) => Step::Break(self.limited(limits.rate_status, self.settings().limit_rate_status)),
        }
    }

    /// The limits of zones on the number of concurrent requests.
    fn check_zone_concurrency(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(limits) = zone_limits(route) else { return Step::Continue(()) };
        match limits.admit(&self.template_context(Some(route), input)) {
            Ok(permits) if permits.is_empty() => Step::Continue(()),
            Ok(permits) => {
                self.extras.get_or_insert_default().permits.extend(permits);
                Step::Continue(())
            }
            Err(Exceeded) => {
                let status = self.settings().limit_connections_status;
                Step::Break(self.limited(limits.concurrency_status, status))
            }
        }
    }

    /// Refuses a request over a limit.
    fn limited(&self, status: Option<StatusCode>, global: u16) -> Verdict {
        let global = StatusCode::from_u16(global).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        self.refused(status.unwrap_or(global))
    }
}

fn zone_limits(route: &Route) -> Option<&ZoneLimits> {
    directives(route)?.own.limits.as_ref()
}
