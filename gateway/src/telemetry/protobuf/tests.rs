use std::collections::HashMap;
use std::time::Duration;

use prometheus::{HistogramOpts, IntCounter, IntGauge, Registry};

use super::*;

/// Decodes a page.
fn decode(mut bytes: &[u8]) -> HashMap<String, MetricFamily> {
    let mut all = HashMap::new();
    while !bytes.is_empty() {
        let family = MetricFamily::decode_length_delimited(&mut bytes).unwrap();
        all.insert(family.name.clone().unwrap(), family);
    }
    all
}

fn registry() -> Registry {
    let registry = Registry::new();
    let counter = IntCounter::new("requests", "Client requests.").unwrap();
    counter.inc_by(7);
    let gauge = IntGauge::new("open", "Open connections.").unwrap();
    gauge.set(-3);
    let times = prometheus::Histogram::with_opts(HistogramOpts::new("seconds", "x").buckets(vec![0.1, 1.0]));
    let times = times.unwrap();
    for seconds in [0.05, 0.5, 5.0] {
        times.observe(seconds);
    }
    registry.register(Box::new(counter)).unwrap();
    registry.register(Box::new(gauge)).unwrap();
    registry.register(Box::new(times)).unwrap();
    registry
}

#[test]
fn a_page_has_the_figures_of_the_text_format() {
    let all = decode(&encode(&registry().gather(), &AllDetails::new()));
    let counter = &all["requests"];
    assert_eq!((counter.kind, counter.help.as_deref()), (Some(0), Some("Client requests.")));
    assert_eq!(counter.metric[0].counter.as_ref().unwrap().value, Some(7.0));
    let gauge = &all["open"];
    assert_eq!((gauge.kind, gauge.metric[0].gauge.as_ref().unwrap().value), (Some(1), Some(-3.0)));
    let times = all["seconds"].metric[0].histogram.as_ref().unwrap();
    assert_eq!((all["seconds"].kind, times.sample_count, times.sample_sum), (Some(4), Some(3), Some(5.55)));
    let buckets: Vec<_> = times
        .bucket
        .iter()
        .map(|bucket| (bucket.upper_bound.unwrap(), bucket.cumulative_count.unwrap()))
        .collect();
    assert_eq!((buckets, times.schema), (vec![(0.1, 1), (1.0, 2)], None));
}

#[test]
fn native_buckets_are_spans_and_differences() {
    let native =
        NativeHistogram { schema: 3, zero_count: 1, buckets: vec![(-9, 4), (-8, 1), (0, 2), (1, 2), (2, 5)] };
    let at = UNIX_EPOCH + Duration::from_millis(1500);
    let exemplars = vec![(2, Exemplar { trace: [0xab; 16], value: 5.0, at })];
    let details = HashMap::from([(SeriesKey::of(&[]), DurationDetails { native: Some(native), exemplars })]);
    let all = decode(&encode(&registry().gather(), &HashMap::from([("seconds".to_owned(), details)])));
    let times = all["seconds"].metric[0].histogram.as_ref().unwrap();
    assert_eq!(
        (times.schema, times.zero_count, times.zero_threshold),
        (Some(3), Some(1), Some(zero_threshold()))
    );
    let spans: Vec<_> =
        times.positive_span.iter().map(|span| (span.offset.unwrap(), span.length.unwrap())).collect();
    assert_eq!((spans, &*times.positive_delta), (vec![(-9, 2), (7, 3)], &[4, -3, 1, 0, 3][..]));
    assert_eq!(times.sample_count, Some(15), "the sum of its native buckets");
    let last = times.bucket.last().unwrap();
    let exemplar = last.exemplar.as_ref().unwrap();
    assert_eq!((last.upper_bound, &times.exemplars), (Some(f64::INFINITY), &vec![exemplar.clone()]));
    assert_eq!(exemplar.label[0], label("trace_id", &"ab".repeat(16)));
    assert_eq!(exemplar.timestamp, Some(Timestamp { seconds: 1, nanos: 500_000_000 }));
}

#[test]
fn a_native_histogram_without_values_is_one_all_the_same() {
    let native = NativeHistogram { schema: 3, zero_count: 0, buckets: Vec::new() };
    let mut histogram = Histogram::default();
    add_native(&mut histogram, &native);
    assert_eq!(histogram.positive_span, [BucketSpan { offset: Some(0), length: Some(0) }]);
}

#[test]
fn the_format_is_chosen_by_weight() {
    let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;\
                      q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
    for (accept, accepted) in [
        (prometheus, true),
        (
            "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=\"delimited\"",
            true,
        ),
        ("application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.5,*/*;q=0.2", false),
        ("application/vnd.google.protobuf;encoding=text", false),
        ("application/vnd.google.protobuf;encoding=delimited;q=0", false),
        ("application/vnd.google.protobuf;encoding=delimited;q=0.3,text/plain;q=0.5", false),
        ("*/*", false),
        ("", false),
    ] {
        assert_eq!(is_accepted(accept), accepted, "{accept}");
    }
}
