//! Prometheus' protobuf format: messages of `io.prometheus.client`, each behind its length. Only
//! this format has native histograms, and exemplars without a change of metric names (OpenMetrics
//! would add `_total` to counters of ingress-nginx). Numbers are those of Prometheus'
//! `metrics.proto`.

use std::time::UNIX_EPOCH;

use prometheus::proto::{self, MetricType};
use prost::Message;

use super::request::{AllDetails, DurationDetails, Exemplar, NativeHistogram, SeriesKey, zero_threshold};

/// The `Content-Type` of the format.
pub(crate) const CONTENT_TYPE: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// A metric with all its series.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MetricFamily {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) help: Option<String>,
    /// `COUNTER`, `GAUGE`, `SUMMARY`, `UNTYPED`, `HISTOGRAM`.
    #[prost(int32, optional, tag = "3")]
    pub(super) kind: Option<i32>,
    #[prost(message, repeated, tag = "4")]
    pub(super) metric: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metric {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(message, optional, tag = "2")]
    pub(super) gauge: Option<Number>,
    #[prost(message, optional, tag = "3")]
    pub(super) counter: Option<Number>,
    #[prost(message, optional, tag = "7")]
    pub(super) histogram: Option<Histogram>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LabelPair {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) value: Option<String>,
}

/// A counter or a gauge.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Number {
    #[prost(double, optional, tag = "1")]
    pub(super) value: Option<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Histogram {
    #[prost(uint64, optional, tag = "1")]
    pub(super) sample_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) sample_sum: Option<f64>,
    #[prost(message, repeated, tag = "3")]
    pub(super) bucket: Vec<Bucket>,
    #[prost(sint32, optional, tag = "5")]
    pub(super) schema: Option<i32>,
    #[prost(double, optional, tag = "6")]
    pub(super) zero_threshold: Option<f64>,
    #[prost(uint64, optional, tag = "7")]
    pub(super) zero_count: Option<u64>,
    #[prost(message, repeated, tag = "12")]
    pub(super) positive_span: Vec<BucketSpan>,
    /// Each relative to the one before.
    #[prost(sint64, repeated, packed = "false", tag = "13")]
    pub(super) positive_delta: Vec<i64>,
    #[prost(message, repeated, tag = "16")]
    pub(super) exemplars: Vec<ExemplarMessage>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bucket {
    #[prost(uint64, optional, tag = "1")]
    pub(super) cumulative_count: Option<u64>,
    #[prost(double, optional, tag = "2")]
    pub(super) upper_bound: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) exemplar: Option<ExemplarMessage>,
}

/// Consecutive buckets of a native histogram.
#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct BucketSpan {
    /// Of the first span, the index of its first bucket; of others, the gap before it.
    #[prost(sint32, optional, tag = "1")]
    pub(super) offset: Option<i32>,
    #[prost(uint32, optional, tag = "2")]
    pub(super) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExemplarMessage {
    #[prost(message, repeated, tag = "1")]
    pub(super) label: Vec<LabelPair>,
    #[prost(double, optional, tag = "2")]
    pub(super) value: Option<f64>,
    #[prost(message, optional, tag = "3")]
    pub(super) timestamp: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Timestamp {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// Returns the metrics in this format, with what the text format has no place for.
pub(super) fn encode(families: &[proto::MetricFamily], details: &AllDetails) -> Vec<u8> {
    let mut out = Vec::new();
    for family in families {
        let details = details.get(family.name());
        let details = |metric: &proto::Metric| details?.get(&SeriesKey::of(metric.get_label()));
        let kind = family.get_field_type();
        let message = MetricFamily {
            name: Some(family.name().to_owned()),
            help: Some(family.help().to_owned()),
            kind: Some(kind as i32),
            metric: family.get_metric().iter().map(|metric| convert(kind, metric, details(metric))).collect(),
        };
        // It fails only if the buffer cannot grow.
        let _ = message.encode_length_delimited(&mut out);
    }
    out
}

fn convert(kind: MetricType, metric: &proto::Metric, details: Option<&DurationDetails>) -> Metric {
    let label = metric.get_label().iter().map(|pair| label(pair.name(), pair.value())).collect();
    let number = |value| Some(Number { value: Some(value) });
    let mut message = Metric { label, gauge: None, counter: None, histogram: None };
    match kind {
        MetricType::COUNTER => message.counter = number(metric.get_counter().get_value()),
        MetricType::HISTOGRAM => {
            message.histogram = Some(convert_histogram(metric.get_histogram(), details));
        }
        // There are no other types.
        _ => message.gauge = number(metric.get_gauge().get_value()),
    }
    message
}

fn convert_histogram(histogram: &proto::Histogram, details: Option<&DurationDetails>) -> Histogram {
    let mut shown = Histogram {
        sample_count: Some(histogram.get_sample_count()),
        sample_sum: Some(histogram.get_sample_sum()),
        bucket: histogram.get_bucket().iter().map(bucket).collect(),
        ..Histogram::default()
    };
    if let Some(DurationDetails { native, exemplars }) = details {
        if let Some(native) = native {
            add_native(&mut shown, native);
        }
        add_exemplars(&mut shown, exemplars, native.is_some());
    }
    shown
}

fn bucket(bucket: &proto::Bucket) -> Bucket {
    Bucket {
        cumulative_count: Some(bucket.cumulative_count()),
        upper_bound: Some(bucket.upper_bound()),
        exemplar: None,
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    LabelPair { name: Some(name.to_owned()), value: Some(value.to_owned()) }
}

fn add_exemplars(histogram: &mut Histogram, exemplars: &[(usize, Exemplar)], is_native: bool) {
    for (place, exemplar) in exemplars {
        let message = exemplar_message(exemplar);
        if is_native {
            histogram.exemplars.push(message.clone());
        }
        if *place == histogram.bucket.len() {
            let (cumulative_count, upper_bound) = (histogram.sample_count, Some(f64::INFINITY));
            histogram.bucket.push(Bucket { cumulative_count, upper_bound, exemplar: None });
        }
        if let Some(bucket) = histogram.bucket.get_mut(*place) {
            bucket.exemplar = Some(message);
        }
    }
}

fn exemplar_message(exemplar: &Exemplar) -> ExemplarMessage {
    let id = exemplar.trace.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let since = exemplar.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    ExemplarMessage {
        label: vec![label("trace_id", &id)],
        value: Some(exemplar.value),
        timestamp: Some(Timestamp {
            seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
            // Less than a thousand millions.
            nanos: since.subsec_nanos() as i32,
        }),
    }
}

fn add_native(histogram: &mut Histogram, native: &NativeHistogram) {
    // Prometheus refuses a histogram whose parts differ from its count, and a request may have been
    // recorded between both reads.
    let total = native.zero_count + native.buckets.iter().map(|(_, count)| count).sum::<u64>();
    histogram.sample_count = Some(total);
    for bucket in &mut histogram.bucket {
        bucket.cumulative_count = bucket.cumulative_count.map(|count| count.min(total));
    }
    histogram.schema = Some(native.schema);
    histogram.zero_threshold = Some(zero_threshold());
    histogram.zero_count = Some(native.zero_count);
    let (mut end, mut before) = (0, 0);
    for (number, (index, count)) in native.buckets.iter().enumerate() {
        match histogram.positive_span.last_mut().filter(|_| *index == end) {
            Some(BucketSpan { length: Some(length), .. }) => *length += 1,
            _ => {
                let offset = if number == 0 { *index } else { *index - end };
                histogram.positive_span.push(BucketSpan { offset: Some(offset), length: Some(1) });
            }
        }
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        histogram.positive_delta.push(count - before);
        (end, before) = (*index + 1, count);
    }
    if native.buckets.is_empty() && native.zero_count == 0 {
        // Without a span, it would look like a histogram without native buckets.
        histogram.positive_span.push(BucketSpan { offset: Some(0), length: Some(0) });
    }
}

/// Returns whether a client of this `Accept` field gets this format: it names the format, and not
/// the text format with a higher weight (RFC 9110 §12.5.1).
pub(crate) fn is_accepted(accept: &str) -> bool {
    let (mut protobuf, mut text) = (0.0, 0.0);
    for range in accept.split(',') {
        let mut parameters = range.split(';').map(|part| part.trim().to_ascii_lowercase());
        let name = parameters.next().unwrap_or_default();
        let (mut weight, mut is_delimited) = (1.0, false);
        for parameter in parameters {
            match parameter.split_once('=') {
                Some(("q", value)) => weight = value.trim().parse().unwrap_or(0.0),
                Some(("encoding", value)) => is_delimited = value.trim_matches('"') == "delimited",
                _ => {}
            }
        }
        match &*name {
            "application/vnd.google.protobuf" if is_delimited => protobuf = weight,
            "text/plain" => text = weight,
            _ => {}
        }
    }
    protobuf > 0.0 && protobuf >= text
}

#[cfg(test)]
mod tests;
