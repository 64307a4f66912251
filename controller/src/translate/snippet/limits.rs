//! `limit_req_zone` and `limit_conn_zone` of `http-snippet`, and the directives that use them:
//! `limit_req`, `limit_conn`, their statuses and dry runs.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::Moment;
use sluice_config::directives::{ConcurrencyLimit, RateLimit, ZoneLimits};

use super::arguments::{put, word};
use super::context::DirectiveContext;
use super::fault::Fault;
use super::variables::Declared;
use crate::translate::declarations::LimitZone;
use crate::translate::value;

/// The smallest zone of nginx: eight pages. The gateway's tables have a fixed size.
const LEAST_BYTES: u64 = 32 << 10;

/// Directives about limits of one level; `None` inherits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct LimitDirectives {
    rates: Vec<RateLimit>,
    concurrency: Vec<ConcurrencyLimit>,
    rate_status: Option<u16>,
    concurrency_status: Option<u16>,
    rate_dry_run: Option<bool>,
    concurrency_dry_run: Option<bool>,
}

/// Whether a directive is one of these.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "limit_req"
            | "limit_conn"
            | "limit_req_status"
            | "limit_conn_status"
            | "limit_req_dry_run"
            | "limit_conn_dry_run"
            | "limit_req_log_level"
            | "limit_conn_log_level"
    )
}

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    limits: &mut LimitDirectives,
) -> Result<String, Fault> {
    context.must_forward("it limits nothing")?;
    let switches = [("on", true), ("off", false)];
    let is_new = match name {
        "limit_req" => return rate(arguments, &declared.http.zones, &mut limits.rates),
        "limit_conn" => return concurrency(arguments, &declared.http.zones, &mut limits.concurrency),
        "limit_req_status" => put(&mut limits.rate_status, status(arguments)?),
        "limit_conn_status" => put(&mut limits.concurrency_status, status(arguments)?),
        "limit_req_dry_run" => put(&mut limits.rate_dry_run, word(arguments, &switches)?),
        "limit_conn_dry_run" => put(&mut limits.concurrency_dry_run, word(arguments, &switches)?),
        _ => {
            let levels = ["info", "notice", "warn", "error"].map(|level| (level, ()));
            word(arguments, &levels)?;
            return Ok("no effect: refused requests are in the access log only".to_owned());
        }
    };
    match is_new {
        true => Ok(format!("sets {}", arguments.join(" "))),
        false => Err("it stands twice".into()),
    }
}

fn status(arguments: &[String]) -> Result<u16, Fault> {
    let status = match arguments {
        [text] => text.parse().ok().filter(|status| (400..=599).contains(status)),
        _ => None,
    };
    status.ok_or_else(|| "takes a status from 400 to 599".into())
}

fn rate(arguments: &[String], zones: &[LimitZone], rates: &mut Vec<RateLimit>) -> Result<String, Fault> {
    let (mut zone, mut burst, mut undelayed) = (None, 0, Some(0));
    for argument in arguments {
        match argument.split_once('=') {
            Some(("zone", name)) => zone = Some(name),
            Some(("burst", number)) => burst = positive(number)?,
            Some(("delay", number)) => undelayed = Some(positive(number)?),
            None if argument == "nodelay" => undelayed = None,
            _ => return Err(format!("{argument:?} is not one of zone=, burst=, delay= and nodelay").into()),
        }
    }
    let name = zone.ok_or("it has no zone=")?;
    let found = zones.iter().find(|zone| *zone.name == *name);
    let Some(LimitZone { name, key, interval: Some(interval) }) = found else {
        return Err(format!("no limit_req_zone of http-snippet has the name {name}").into());
    };
    if rates.iter().any(|rate| rate.zone == *name) {
        return Err("it stands twice for the same zone".into());
    }
    rates.push(RateLimit { zone: name.clone(), key: key.clone(), interval: *interval, burst, undelayed });
    Ok(format!("limits requests by the zone {name}"))
}

fn concurrency(
    arguments: &[String],
    zones: &[LimitZone],
    concurrency: &mut Vec<ConcurrencyLimit>,
) -> Result<String, Fault> {
    let [name, number] = arguments else { return Err("takes a zone and a number".into()) };
    let most = positive(number)?;
    if most > u16::MAX.into() {
        return Err("the number must be less than 65536".into());
    }
    let found = zones.iter().find(|zone| *zone.name == **name && zone.interval.is_none());
    let LimitZone { name, key, .. } =
        found.ok_or_else(|| format!("no limit_conn_zone of http-snippet has the name {name}"))?;
    if concurrency.iter().any(|limit| limit.zone == *name) {
        return Err("it stands twice for the same zone".into());
    }
    concurrency.push(ConcurrencyLimit { zone: name.clone(), key: key.clone(), most });
    Ok(format!("limits concurrent requests by the zone {name}"))
}

fn positive(text: &str) -> Result<u32, Fault> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("{text:?} is not a positive number").into())
}

/// Reads `limit_req_zone` or `limit_conn_zone`.
pub(super) fn zone(name: &str, arguments: &[String], declared: &Declared) -> Result<LimitZone, Fault> {
    let [key, options @ ..] = arguments else { return Err("takes a key and zone=NAME:SIZE".into()) };
    let has_rate = name == "limit_req_zone";
    let (mut zone, mut interval) = (None, Duration::from_secs(1));
    for option in options {
        match option.split_once('=') {
            Some(("zone", named)) => zone = Some(named),
            Some(("rate", rate)) if has_rate => interval = interval_of(rate)?,
            _ if has_rate && option == "sync" => {
                return Err("sync is not translated: replicas share no counters".into());
            }
            _ => return Err(format!("{option:?} is not translated").into()),
        }
    }
    let (named, size) = zone
        .and_then(|zone| zone.split_once(':'))
        .filter(|(named, _)| !named.is_empty())
        .ok_or("it has no zone=NAME:SIZE")?;
    let size = value::size().parse(size, &value::Author::OPERATOR).ok();
    if size.is_none_or(|size| size < LEAST_BYTES) {
        return Err("the size of the zone is not a size, or less than 32k".into());
    }
    if declared.http.zones.iter().any(|known| *known.name == *named) {
        return Err(format!("the zone {named} is declared twice").into());
    }
    Ok(LimitZone {
        name: Arc::from(named),
        key: declared.template(key, Moment::Request)?,
        interval: has_rate.then_some(interval),
    })
}

/// The time between two requests of `Nr/s` or `Nr/m`.
fn interval_of(rate: &str) -> Result<Duration, Fault> {
    let (number, period) = match rate.strip_suffix("r/m") {
        Some(number) => (number, Duration::from_secs(60)),
        None => (rate.strip_suffix("r/s").unwrap_or(rate), Duration::from_secs(1)),
    };
    Ok(period / positive(number)?)
}

impl LimitDirectives {
    /// Takes over the directives of a text of the same level.
    pub(super) fn extend(&mut self, other: &Self) {
        let Self { rates, concurrency, rate_status, concurrency_status, rate_dry_run, concurrency_dry_run } =
            other;
        self.rates.extend_from_slice(rates);
        self.concurrency.extend_from_slice(concurrency);
        self.rate_status = self.rate_status.or(*rate_status);
        self.concurrency_status = self.concurrency_status.or(*concurrency_status);
        self.rate_dry_run = self.rate_dry_run.or(*rate_dry_run);
        self.concurrency_dry_run = self.concurrency_dry_run.or(*concurrency_dry_run);
    }

    /// Combines them with those of the outer level. `has_rate` and `has_number` are whether the
    /// template has such a limit of its own at this level.
    pub(super) fn combined(&self, outer: &Self, has_rate: bool, has_number: bool) -> ZoneLimits {
        let rates = if self.rates.is_empty() && !has_rate { &outer.rates } else { &self.rates };
        let inherits = self.concurrency.is_empty() && !has_number;
        let concurrency = if inherits { &outer.concurrency } else { &self.concurrency };
        if rates.is_empty() && concurrency.is_empty() {
            return ZoneLimits::default();
        }
        ZoneLimits {
            rates: rates.clone(),
            concurrency: concurrency.clone(),
            rate_status: self.rate_status.or(outer.rate_status),
            concurrency_status: self.concurrency_status.or(outer.concurrency_status),
            rate_dry_run: self.rate_dry_run.or(outer.rate_dry_run).unwrap_or(false),
            concurrency_dry_run: self.concurrency_dry_run.or(outer.concurrency_dry_run).unwrap_or(false),
        }
    }
}
