//! Keys that select the requests of the access log.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::{LogFilter, SampledShare, StatusRange};

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::value::{self, Type};

/// The values of these keys, which have a meaning together only.
#[derive(Clone, Debug, Default)]
pub(super) struct LogFilterKeys {
    statuses: Arc<[StatusRange]>,
    min_duration: Option<Duration>,
    sample: Option<SampledShare>,
}

impl LogFilterKeys {
    /// Returns the filter; `None` if all requests are logged.
    pub(super) fn filter(&self) -> Option<LogFilter> {
        let Self { statuses, min_duration, sample } = self;
        if statuses.is_empty() && min_duration.is_none() && sample.is_none() {
            return None;
        }
        let sample = sample.unwrap_or_default();
        Some(LogFilter { statuses: statuses.clone(), min_duration: *min_duration, sample })
    }
}

pub(super) fn settings() -> [Key; 3] {
    [
        Key::served(
            "access-log-filter-status",
            statuses(),
            "",
            "Log requests with these statuses, such as 4xx,5xx,301. With this key or \
             access-log-filter-min-duration, other requests are logged only by access-log-sample.",
            |settings, value| settings.logs.filter.statuses = value,
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::Absent, ""),
        Key::served(
            "access-log-filter-min-duration",
            value::some_time(),
            "",
            "Log requests that take this long or longer ($request_time), such as 500ms.",
            |settings, value| settings.logs.filter.min_duration = Some(value),
        )
        .absent_in_reference(),
        Key::served(
            "access-log-sample",
            value::percentage(),
            "",
            "Log this share of the requests that no access-log-filter-* key selects, chosen at random. By \
             default none of them is logged, or all if there is no such key.",
            |settings, value| settings.logs.filter.sample = Some(SampledShare::of(value)),
        )
        .absent_in_reference(),
    ]
}

/// Statuses, classes of statuses, and ranges.
fn statuses() -> Type<Arc<[StatusRange]>> {
    let status = |word: &str| {
        let range = class(word).or_else(|| value::status_range(word));
        range.ok_or_else(|| {
            format!(
                "has {word:?}, which is neither a status from 100 to 599 nor a class or range of statuses"
            )
        })
    };
    value::list_of("comma-separated statuses, classes and ranges such as 5xx,404,301-308", status)
        .map(Into::into)
}

/// Parses a class of statuses: `4xx`.
fn class(text: &str) -> Option<StatusRange> {
    let [class @ b'1'..=b'5', b'x' | b'X', b'x' | b'X'] = text.as_bytes() else { return None };
    let first = u16::from(class - b'0') * 100;
    Some(StatusRange { first, last: first + 99 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn statuses_are_single_ones_classes_and_ranges() {
        let range = |first, last| StatusRange { first, last };
        assert_eq!(
            *statuses().parse("4xx, 5XX,301,200-204", &Author::OPERATOR).unwrap(),
            [range(400, 499), range(500, 599), range(301, 301), range(200, 204)]
        );
        for bad in ["6xx", "0xx", "xx", "+4xx", "4x", "99", "600", "500-400", "error"] {
            let error = statuses().parse(bad, &Author::OPERATOR).unwrap_err();
            assert!(format!("{error:?}").contains(bad), "{bad}: {error:?}");
        }
    }

    #[test]
    fn without_a_key_there_is_no_filter() {
        assert_eq!(LogFilterKeys::default().filter(), None);
    }

    #[test]
    fn a_filter_without_a_sample_has_no_other_request() {
        let keys = LogFilterKeys { min_duration: Some(Duration::from_millis(500)), ..Default::default() };
        assert_eq!(keys.filter().unwrap().sample, SampledShare::of(0.0));
    }
}
