//! The figures of one (method, status) of one target.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus::proto::{Counter, Metric};

use super::family::{Families, Family};
use super::histogram::{Counts, Times};

/// What is recorded of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// From the choice of the endpoint to a standing connection.
    pub connect: Option<Duration>,
    /// From the choice of the endpoint to the head of its response.
    pub header: Option<Duration>,
    /// From the choice of the endpoint to the end of its response.
    pub response: Option<Duration>,
    /// From the request's head to the end.
    pub request: Duration,
    /// Octets of the request.
    pub request_size: u64,
    /// Octets sent to the client.
    pub bytes_sent: u64,
}

/// Atomics, and nothing that says what they count: some of them are read for two metrics.
#[derive(Debug)]
pub(super) struct Series {
    request: Times,
    request_size: Counts,
    request_octets: AtomicU64,
    response_size: Counts,
    bytes_sent: Counts,
    response_octets: AtomicU64,
    /// Made with the first request that had an endpoint.
    upstream: OnceLock<Box<Upstream>>,
}

#[derive(Debug)]
struct Upstream {
    connect: Times,
    header: Times,
    response: Times,
}

impl Series {
    pub(super) fn new(families: &Families) -> Self {
        Self {
            request: Times::new(&families.times),
            request_size: Counts::new(&families.lengths),
            request_octets: AtomicU64::new(0),
            response_size: Counts::new(&families.lengths),
            bytes_sent: Counts::new(&families.sizes),
            response_octets: AtomicU64::new(0),
            upstream: OnceLock::new(),
        }
    }

    /// Records a request, in metrics that are not kept too: they are the exception.
    pub(super) fn record(&self, families: &Families, sample: &Sample) {
        let Families { times, lengths, sizes, .. } = families;
        self.request.add(times, sample.request);
        self.request_size.add(lengths, sample.request_size as f64);
        self.request_octets.fetch_add(sample.request_size, Relaxed);
        self.response_size.add(lengths, sample.bytes_sent as f64);
        self.bytes_sent.add(sizes, sample.bytes_sent as f64);
        self.response_octets.fetch_add(sample.bytes_sent, Relaxed);
        let Sample { connect, header, response, .. } = *sample;
        if connect.or(header).or(response).is_none() {
            return;
        }
        let upstream = self.upstream.get_or_init(|| Box::new(Upstream::new(families)));
        for (all, time) in
            [(&upstream.connect, connect), (&upstream.header, header), (&upstream.response, response)]
        {
            if let Some(time) = time {
                all.add(times, time);
            }
        }
    }

    /// The value of a family, without labels; `None` where no request had an endpoint.
    pub(super) fn collect(&self, family: Family, families: &Families) -> Option<Metric> {
        let Families { times, lengths, sizes, .. } = families;
        let upstream = self.upstream.get();
        let mut metric = Metric::default();
        metric.set_histogram(match family {
            Family::Requests => {
                let mut counter = Counter::default();
                counter.set_value(self.request.total() as f64);
                metric.set_counter(counter);
                return Some(metric);
            }
            Family::Connect => upstream?.connect.collect(times),
            Family::Header => upstream?.header.collect(times),
            Family::Response => upstream?.response.collect(times),
            Family::Request => self.request.collect(times),
            Family::RequestSize => self.request_size.collect(lengths, octets(&self.request_octets)),
            Family::ResponseSize => self.response_size.collect(lengths, octets(&self.response_octets)),
            Family::BytesSent => self.bytes_sent.collect(sizes, octets(&self.response_octets)),
        });
        Some(metric)
    }
}

impl Upstream {
    fn new(families: &Families) -> Self {
        let times = || Times::new(&families.times);
        Self { connect: times(), header: times(), response: times() }
    }
}

fn octets(sum: &AtomicU64) -> f64 {
    sum.load(Relaxed) as f64
}
