//! Numbers of spans and log records for the collector, as counted by their queues.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};

use super::error::TelemetryError;
use crate::otel::ExportCounts;

/// The numbers of all signals.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OtelCounts {
    pub(crate) spans: ExportCounts,
    pub(crate) log_records: ExportCounts,
}

/// Names of the metrics of a signal, each with its description.
struct Names {
    exported: [&'static str; 2],
    dropped: [&'static str; 2],
    waiting: [&'static str; 2],
}

const SPANS: Names = Names {
    exported: ["sluice_otel_spans_exported_total", "Spans that the collector has accepted."],
    dropped: [
        "sluice_otel_spans_dropped_total",
        "Spans that were not sent; queue_full: otel-max-queuesize was reached, unavailable: the collector did not \
         answer for a minute, rejected: it refused them.",
    ],
    waiting: ["sluice_otel_spans_waiting", "Spans that wait to be sent."],
};

const LOG_RECORDS: Names = Names {
    exported: [
        "sluice_otel_log_records_exported_total",
        "Access log lines that the collector has accepted (otlp-access-log).",
    ],
    dropped: [
        "sluice_otel_log_records_dropped_total",
        "Access log lines that were not sent to the collector, with the reasons of spans.",
    ],
    waiting: ["sluice_otel_log_records_waiting", "Access log lines that wait to be sent to the collector."],
};

pub(super) fn families(counts: OtelCounts) -> Result<Vec<MetricFamily>, TelemetryError> {
    let OtelCounts { spans, log_records } = counts;
    let mut families = of_signal(&SPANS, spans)?;
    families.extend(of_signal(&LOG_RECORDS, log_records)?);
    Ok(families)
}

fn of_signal(names: &Names, counts: ExportCounts) -> Result<Vec<MetricFamily>, TelemetryError> {
    let Names { exported: [name, help], .. } = names;
    let exported = IntCounter::new(*name, *help)?;
    exported.inc_by(counts.exported);
    let Names { dropped: [name, help], .. } = names;
    let dropped = IntCounterVec::new(Opts::new(*name, *help), &["reason"])?;
    for (reason, count) in counts.dropped_by_reason() {
        dropped.with_label_values(&[reason]).inc_by(count);
    }
    let Names { waiting: [name, help], .. } = names;
    let waiting = IntGauge::new(*name, *help)?;
    waiting.set(i64::try_from(counts.waiting).unwrap_or(i64::MAX));
    Ok(exported.collect().into_iter().chain(dropped.collect()).chain(waiting.collect()).collect())
}
