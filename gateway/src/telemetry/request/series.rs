//! The figures of one (method, status) of a target.
//!
//! They form one row, in the order of recording, because with thousands of targets most rows have
//! left the CPU caches when their next request is recorded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use prometheus::proto::{Counter, Metric};

use super::exemplars::{Exemplars, TraceBytes};
use super::family::{Families, Family};
use super::histogram::{Counts, Row, Times};
use super::native::{NativeBuckets, NativeHistogram};

/// The measurements of a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestSample {
    /// Time from the selection of the endpoint to an established connection.
    pub connect: Option<Duration>,
    /// Time from the selection of the endpoint to the head of its response.
    pub header: Option<Duration>,
    /// Time from the selection of the endpoint to the end of its response.
    pub response: Option<Duration>,
    /// Time from the request's head to the end of the request.
    pub request: Duration,
    /// Size of the request in bytes.
    pub request_size: u64,
    /// Bytes sent to the client.
    pub bytes_sent: u64,
    /// The id of the trace, if it is sampled.
    pub trace: Option<TraceBytes>,
}

/// The atomics of a series, without names and labels. Clones refer to the same series.
#[derive(Clone, Debug)]
pub(super) struct Series {
    number: u64,
    /// The row used by all workers without a row of their [own](super::own).
    shared: Arc<[AtomicU64]>,
    exemplars: Arc<Exemplars>,
}

/// Next series number; 0 stands for none.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The figures of a series at one point in time.
#[derive(Debug)]
pub(super) struct SeriesFigures(Box<[AtomicU64]>);

/// The parts of a row by name.
struct Parts<'r> {
    request: Times<'r>,
    request_size: Counts<'r>,
    request_bytes: &'r AtomicU64,
    response_size: Counts<'r>,
    bytes_sent: Counts<'r>,
    /// Sum for `response_size` and `bytes_sent`.
    response_bytes: &'r AtomicU64,
    connect: Times<'r>,
    header: Times<'r>,
    response: Times<'r>,
}

impl Series {
    pub(super) fn new(families: &Families) -> Self {
        let Families { times, lengths, sizes, native, .. } = families;
        let times = 4 * (times.buckets() + 1 + native.map_or(0, NativeBuckets::len));
        let others = 2 * lengths.buckets() + sizes.buckets() + 2;
        Self { number: NEXT.fetch_add(1, Relaxed), shared: row(times + others), exemplars: Arc::default() }
    }

    /// Returns the unique number of the series.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns a zeroed row for the figures.
    pub(super) fn empty_row(&self) -> Box<[AtomicU64]> {
        row(self.shared.len())
    }

    /// Records a request in the shared row.
    pub(super) fn record(&self, families: &Families, sample: &RequestSample) {
        self.record_into(&self.shared, families, sample, |cell, more| {
            cell.fetch_add(more, Relaxed);
        });
    }

    /// Records a request in one of the series' rows. Includes disabled metrics, because metrics are
    /// rarely disabled.
    #[inline]
    pub(super) fn record_into(
        &self,
        row: &[AtomicU64],
        families: &Families,
        sample: &RequestSample,
        add: impl Fn(&AtomicU64, u64) + Copy,
    ) {
        let Families { times, lengths, sizes, .. } = families;
        let parts = parts(row, families);
        parts.request.add(times, sample.request, add);
        parts.request_size.add(lengths, sample.request_size as f64, add);
        add(parts.request_bytes, sample.request_size);
        parts.response_size.add(lengths, sample.bytes_sent as f64, add);
        parts.bytes_sent.add(sizes, sample.bytes_sent as f64, add);
        add(parts.response_bytes, sample.bytes_sent);
        let RequestSample { connect, header, response, .. } = *sample;
        for (all, time) in [(&parts.connect, connect), (&parts.header, header), (&parts.response, response)] {
            if let Some(time) = time {
                all.add(times, time, add);
            }
        }
    }

    /// Returns the exemplars of requests.
    pub(super) fn exemplars(&self) -> &Exemplars {
        &self.exemplars
    }

    /// Adds the figures of a row.
    pub(super) fn add(&self, row: impl Iterator<Item = u64>) {
        // Most buckets of a histogram are empty.
        for (cell, more) in self.shared.iter().zip(row).filter(|(_, more)| *more != 0) {
            cell.fetch_add(more, Relaxed);
        }
    }

    /// Returns the sum of the figures of all rows: the shared one and these of workers.
    pub(super) fn sum<'r>(&'r self, own: impl Iterator<Item = &'r [AtomicU64]>) -> SeriesFigures {
        let sum: Box<[AtomicU64]> = row(self.shared.len());
        for row in own.chain([&*self.shared]) {
            for (cell, more) in sum.iter().zip(row) {
                cell.store(cell.load(Relaxed).wrapping_add(more.load(Relaxed)), Relaxed);
            }
        }
        SeriesFigures(sum)
    }
}

impl SeriesFigures {
    /// Returns the number of requests per bucket of durations.
    pub(super) fn durations(&self, families: &Families) -> Box<[u64]> {
        parts(&self.0, families).request.read()
    }

    /// Returns the native histogram of a family of durations, if there is one.
    pub(super) fn native(&self, family: Family, families: &Families) -> Option<NativeHistogram> {
        let parts = parts(&self.0, families);
        match family {
            Family::Connect => parts.connect.native(),
            Family::Header => parts.header.native(),
            Family::Response => parts.response.native(),
            Family::Request => parts.request.native(),
            Family::Requests | Family::RequestSize | Family::ResponseSize | Family::BytesSent => None,
        }
    }

    /// Returns the figures of a family without labels; `None` if there are none yet, because no
    /// backend was involved.
    pub(super) fn collect(&self, family: Family, families: &Families) -> Option<Metric> {
        let Families { times, lengths, sizes, .. } = families;
        let parts = parts(&self.0, families);
        let of_backend = |all: Times<'_>| (all.total() > 0).then(|| all.collect(times));
        let mut metric = Metric::default();
        metric.set_histogram(match family {
            Family::Requests => {
                let mut counter = Counter::default();
                counter.set_value(parts.request.total() as f64);
                metric.set_counter(counter);
                return Some(metric);
            }
            Family::Connect => of_backend(parts.connect)?,
            Family::Header => of_backend(parts.header)?,
            Family::Response => of_backend(parts.response)?,
            Family::Request => parts.request.collect(times),
            Family::RequestSize => parts.request_size.collect(lengths, bytes(parts.request_bytes)),
            Family::ResponseSize => parts.response_size.collect(lengths, bytes(parts.response_bytes)),
            Family::BytesSent => parts.bytes_sent.collect(sizes, bytes(parts.response_bytes)),
        });
        Some(metric)
    }
}

fn row<R: FromIterator<AtomicU64>>(length: usize) -> R {
    (0..length).map(|_| AtomicU64::new(0)).collect()
}

fn parts<'r>(row: &'r [AtomicU64], families: &Families) -> Parts<'r> {
    let Families { times, lengths, sizes, native, .. } = families;
    let mut row = Row::new(row);
    Parts {
        request: row.times(times, *native),
        request_size: row.counts(lengths),
        request_bytes: row.sum(),
        response_size: row.counts(lengths),
        bytes_sent: row.counts(sizes),
        response_bytes: row.sum(),
        connect: row.times(times, *native),
        header: row.times(times, *native),
        response: row.times(times, *native),
    }
}

fn bytes(sum: &AtomicU64) -> f64 {
    sum.load(Relaxed) as f64
}
