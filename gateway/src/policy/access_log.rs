//! Selection of the requests that the access log records, and the format of their lines.

use std::time::Duration;

use sluice_config::{AccessLog, LogFilter};

use super::blocks::ValuePatterns;
use crate::telemetry::LogFormat;

/// Compiled settings of the access log.
#[derive(Debug)]
pub(crate) struct LogRules {
    /// Format of a line; `None` if the log is switched off.
    pub(crate) format: Option<LogFormat>,
    /// `enable-access-log-for-default-backend`.
    pub(crate) default_backend: bool,
    /// Whether a collector receives lines too (`otlp-access-log`).
    pub(crate) to_collector: bool,
    /// `skip-access-log-urls`.
    skip: Option<ValuePatterns>,
    /// `access-log-filter-*` and `access-log-sample`.
    filter: Option<LogFilter>,
}

/// The decision on a line before the outcome of the request is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineChoice {
    /// The line is written.
    Written,
    /// The outcome of the request decides.
    ByOutcome,
    /// The line is not written.
    Omitted,
}

impl LogRules {
    /// Compiles the settings.
    pub(crate) fn compile(log: &AccessLog, has_collector: bool) -> Self {
        let skip = match ValuePatterns::compile(&log.skip) {
            Ok(values) => Some(values).filter(|values| !values.is_empty()),
            Err(error) => {
                // Cannot fail: translation has already compiled each expression.
                tracing::error!(%error, "skip-access-log-urls cannot be used: all requests are logged");
                None
            }
        };
        let format = log.enabled.then(|| LogFormat::compile(&log.format));
        let to_collector = log.to_collector && has_collector;
        Self { format, default_backend: log.default_backend, to_collector, skip, filter: log.filter.clone() }
    }

    /// Returns whether `skip-access-log-urls` excludes this path and query from the log.
    pub(crate) fn skips(&self, target: &str) -> bool {
        self.skip.as_ref().is_some_and(|skip| skip.have(target.as_bytes()))
    }

    /// Decides on the line of a request that begins; `random` decides whether the request is in the
    /// sample.
    pub(crate) fn choose(&self, random: impl FnOnce() -> u64) -> LineChoice {
        match &self.filter {
            None => LineChoice::Written,
            Some(filter) if filter.sample.includes(random()) => LineChoice::Written,
            Some(filter) if filter.statuses.is_empty() && filter.min_duration.is_none() => {
                LineChoice::Omitted
            }
            Some(_) => LineChoice::ByOutcome,
        }
    }

    /// Returns whether the filters select a request with this outcome.
    pub(crate) fn selects(&self, status: u16, time: Duration) -> bool {
        self.filter.as_ref().is_none_or(|filter| {
            filter.min_duration.is_some_and(|least| time >= least)
                || filter.statuses.iter().any(|statuses| statuses.range().contains(&status))
        })
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{SampledShare, StatusRange};

    use super::*;

    fn rules(filter: Option<LogFilter>) -> LogRules {
        LogRules::compile(&AccessLog { filter, ..AccessLog::default() }, false)
    }

    #[test]
    fn without_a_filter_every_line_is_written_and_nothing_is_drawn() {
        let choice = rules(None).choose(|| panic!("nothing to decide"));
        assert_eq!(choice, LineChoice::Written);
    }

    #[test]
    fn a_sample_alone_decides_before_the_outcome() {
        let rules = rules(Some(LogFilter { sample: SampledShare::of(0.5), ..LogFilter::default() }));
        assert_eq!(rules.choose(|| 0), LineChoice::Written);
        assert_eq!(rules.choose(|| u64::MAX), LineChoice::Omitted);
    }

    #[test]
    fn a_filter_selects_by_status_or_duration() {
        let (slow, quick) = (Duration::from_millis(500), Duration::from_millis(499));
        let statuses = [StatusRange { first: 500, last: 599 }, StatusRange { first: 301, last: 301 }];
        let both = LogFilter { statuses: statuses.into(), min_duration: Some(slow), ..LogFilter::default() };
        let rules = rules(Some(both));
        assert_eq!(rules.choose(|| 0), LineChoice::ByOutcome);
        for (status, time, is_selected) in [
            (200, quick, false),
            (200, slow, true),
            (499, quick, false),
            (500, quick, true),
            (599, slow, true),
            (301, quick, true),
            (302, quick, false),
        ] {
            assert_eq!(rules.selects(status, time), is_selected, "{status} {time:?}");
        }
    }
}
