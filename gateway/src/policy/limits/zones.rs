//! `limit_req` and `limit_conn` of snippets: limits whose keys are those of zones. They share the
//! usage tables of the limits per client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use sluice_config::directives as contract;

use super::{ConcurrentRequests, Exceeded, Limiter, Permit, Rate, Usage, sharing};
use crate::policy::error::PolicyError;
use crate::policy::template::{Template, TemplateContext};

/// The limits of a location.
#[derive(Debug)]
pub struct ZoneLimits {
    usage: Arc<Usage>,
    rates: Box<[RateLimit]>,
    concurrency: Box<[ConcurrencyLimit]>,
    /// Status of requests that exceed a rate.
    pub rate_status: Option<StatusCode>,
    /// Status of requests that exceed a number.
    pub concurrency_status: Option<StatusCode>,
    rate_dry_run: bool,
    concurrency_dry_run: bool,
}

#[derive(Debug)]
struct RateLimit {
    zone: u64,
    key: Template,
    rate: Rate,
    /// How early a request may come without a delay, in nanoseconds.
    undelayed: u64,
}

#[derive(Debug)]
struct ConcurrencyLimit {
    zone: u64,
    key: Template,
    most: u32,
}

impl ZoneLimits {
    /// Compiles the limits; `None` if there are none.
    ///
    /// # Errors
    /// A status or a key cannot be used.
    pub(in crate::policy) fn compile(
        limits: &contract::ZoneLimits,
        limiter: &Limiter,
    ) -> Result<Option<Self>, PolicyError> {
        let contract::ZoneLimits {
            rates,
            concurrency,
            rate_status,
            concurrency_status,
            rate_dry_run,
            concurrency_dry_run,
        } = limits;
        if rates.is_empty() && concurrency.is_empty() {
            return Ok(None);
        }
        let usage = limiter.usage();
        let zone = |name: &str| sharing::zone("zone", &[name]);
        let rates = rates.iter().map(|limit| {
            let interval = u64::try_from(limit.interval.as_nanos()).unwrap_or(u64::MAX).max(1);
            let undelayed = limit.undelayed.map(|requests| Rate::of(interval, requests.into()).early);
            Ok(RateLimit {
                zone: zone(&limit.zone),
                key: Template::compile(&limit.key)?,
                rate: Rate::of(interval, limit.burst.into()),
                undelayed: undelayed.unwrap_or(u64::MAX),
            })
        });
        let rates = rates.collect::<Result<_, PolicyError>>()?;
        let concurrency = concurrency.iter().map(|limit| {
            let key = Template::compile(&limit.key)?;
            Ok(ConcurrencyLimit { zone: zone(&limit.zone), key, most: limit.most })
        });
        let concurrency = concurrency.collect::<Result<_, PolicyError>>()?;
        let status = |code: Option<u16>| {
            code.map(|code| StatusCode::from_u16(code).map_err(|_| PolicyError::Status(code))).transpose()
        };
        Ok(Some(Self {
            usage,
            rates,
            concurrency,
            rate_status: status(*rate_status)?,
            concurrency_status: status(*concurrency_status)?,
            rate_dry_run: *rate_dry_run,
            concurrency_dry_run: *concurrency_dry_run,
        }))
    }

    /// Counts a request that arrived at `now` for all rates. Returns the time for which it must
    /// wait.
    ///
    /// # Errors
    /// It exceeds a rate. It is counted for none then.
    pub(crate) fn charge(&self, context: &TemplateContext<'_>, now: Instant) -> Result<Duration, Exceeded> {
        let (now, share) = (self.usage.time(now), self.usage.sharing.share());
        let mut charges = Vec::with_capacity(self.rates.len());
        let mut delay = 0;
        for RateLimit { zone, key, rate, undelayed } in &self.rates {
            let key = key.fill(context);
            if key.is_empty() {
                continue;
            }
            let Some(charge) = self.usage.rates.charge(self.hash(*zone, 3, &key), now, *rate, share) else {
                charges.into_iter().for_each(|charge| self.usage.rates.refund(charge));
                return if self.rate_dry_run { Ok(Duration::ZERO) } else { Err(Exceeded) };
            };
            delay = delay.max(charge.early.saturating_sub(*undelayed));
            charges.push(charge);
        }
        Ok(if self.rate_dry_run { Duration::ZERO } else { Duration::from_nanos(delay) })
    }

    /// Counts a request for all limits of concurrent requests. The permits must be held until it
    /// ends.
    ///
    /// # Errors
    /// It exceeds a limit.
    pub(crate) fn admit(&self, context: &TemplateContext<'_>) -> Result<Vec<Permit>, Exceeded> {
        let share = self.usage.sharing.share();
        let mut permits = Vec::with_capacity(self.concurrency.len());
        for ConcurrencyLimit { zone, key, most } in &self.concurrency {
            let key = key.fill(context);
            if key.is_empty() {
                continue;
            }
            match ConcurrentRequests::admit(
                &self.usage.requests,
                self.hash(*zone, 4, &key),
                share.of_number(*most),
            ) {
                Some(permit) => permits.push(permit),
                None if self.concurrency_dry_run => return Ok(Vec::new()),
                None => return Err(Exceeded),
            }
        }
        Ok(permits)
    }

    fn hash(&self, zone: u64, kind: u8, key: &[u8]) -> u64 {
        self.usage.sharing.hash((zone, kind, key))
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{TemplatePiece, Variable};

    use super::*;
    use crate::policy::template::tests::with_context;

    fn key(variable: Variable) -> sluice_config::Template {
        sluice_config::Template { pieces: vec![TemplatePiece::Variable(variable)] }
    }

    fn rate(
        zone: &str,
        key: sluice_config::Template,
        burst: u32,
        undelayed: Option<u32>,
    ) -> contract::RateLimit {
        contract::RateLimit { zone: zone.into(), key, interval: Duration::from_secs(1), burst, undelayed }
    }

    fn compile(limits: &contract::ZoneLimits) -> ZoneLimits {
        ZoneLimits::compile(limits, &Limiter::default()).unwrap().unwrap()
    }

    #[test]
    fn early_requests_wait_unless_they_are_few() {
        let waits = |undelayed, burst| {
            let limits = compile(&contract::ZoneLimits {
                rates: vec![rate("a", key(Variable::RemoteAddr), burst, undelayed)],
                ..contract::ZoneLimits::default()
            });
            let (mut all, now) = (Vec::new(), Instant::now());
            with_context(|context| {
                all = (0..6).map(|_| limits.charge(context, now).map(|wait| wait.as_secs()).ok()).collect();
            });
            all
        };
        assert_eq!(waits(Some(0), 0), [Some(0), None, None, None, None, None]);
        assert_eq!(waits(Some(0), 3), [Some(0), Some(1), Some(2), Some(3), None, None]);
        assert_eq!(waits(Some(2), 3), [Some(0), Some(0), Some(0), Some(1), None, None]);
        assert_eq!(waits(None, 3), [Some(0), Some(0), Some(0), Some(0), None, None]);
    }

    #[test]
    fn a_request_over_one_rate_counts_for_none_and_an_empty_key_is_free() {
        let limits = compile(&contract::ZoneLimits {
            rates: vec![
                rate("wide", key(Variable::RemoteAddr), 1, None),
                rate("narrow", key(Variable::Host), 0, None),
                rate("none", key(Variable::Field("x-absent".into())), 0, None),
            ],
            ..contract::ZoneLimits::default()
        });
        let start = Instant::now();
        with_context(|context| {
            let charge = |at| limits.charge(context, start + Duration::from_secs(at)).is_ok();
            assert!(charge(0));
            assert!(!charge(0) && !charge(0) && !charge(0));
            assert!(charge(1), "the refused requests have not used up the first zone");
        });
    }

    #[test]
    fn a_dry_run_refuses_and_delays_none() {
        let limits = compile(&contract::ZoneLimits {
            rates: vec![rate("a", key(Variable::RemoteAddr), 1, Some(0))],
            concurrency: vec![contract::ConcurrencyLimit {
                zone: "b".into(),
                key: key(Variable::RemoteAddr),
                most: 1,
            }],
            rate_dry_run: true,
            concurrency_dry_run: true,
            ..contract::ZoneLimits::default()
        });
        let now = Instant::now();
        with_context(|context| {
            assert!((0..5).all(|_| limits.charge(context, now) == Ok(Duration::ZERO)));
            let first = limits.admit(context).unwrap();
            assert_eq!((first.len(), limits.admit(context).unwrap().len()), (1, 0));
        });
    }

    #[test]
    fn so_many_requests_with_a_key_are_under_way() {
        let limits = compile(&contract::ZoneLimits {
            concurrency: vec![
                contract::ConcurrencyLimit { zone: "a".into(), key: key(Variable::Host), most: 2 },
                contract::ConcurrencyLimit {
                    zone: "a2".into(),
                    key: key(Variable::Field("x-absent".into())),
                    most: 1,
                },
            ],
            ..contract::ZoneLimits::default()
        });
        with_context(|context| {
            let (first, second) = (limits.admit(context), limits.admit(context));
            assert!(first.is_ok() && second.is_ok());
            assert_eq!(limits.admit(context).unwrap_err(), Exceeded);
            drop(first);
            assert!(limits.admit(context).is_ok());
        });
        assert!(
            ZoneLimits::compile(&contract::ZoneLimits::default(), &Limiter::default()).unwrap().is_none()
        );
    }
}
