//! Counts requests with a fault of the configuration, and reports the first of them and then each
//! time that there are ten times as many. A fault that every request has costs no more than a
//! count.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tokio::sync::watch;

/// The count, and the request that was reported last with the count at that time.
#[derive(Debug)]
pub(crate) struct CountedReports<R> {
    count: AtomicU64,
    reported: watch::Sender<Option<(R, u64)>>,
}

impl<R> Default for CountedReports<R> {
    fn default() -> Self {
        Self { count: AtomicU64::new(0), reported: watch::Sender::new(None) }
    }
}

impl<R> CountedReports<R> {
    /// Counts a request.
    pub(crate) fn count(&self, report: R) {
        let requests = self.count.fetch_add(1, Relaxed).saturating_add(1);
        if requests == 10_u64.pow(requests.ilog10()) {
            self.reported.send_replace(Some((report, requests)));
        }
    }

    /// Begins anew, after the configuration has changed.
    pub(crate) fn forget(&self) {
        self.count.store(0, Relaxed);
        self.reported.send_if_modified(|reported| reported.take().is_some());
    }

    /// Returns a receiver for reports.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<(R, u64)>> {
        self.reported.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_reported_and_then_each_power_of_ten() {
        let counted = CountedReports::default();
        let mut reports = counted.subscribe();
        let mut reported = Vec::new();
        for _ in 0..120 {
            counted.count("fault");
            if reports.has_changed().unwrap() {
                reported.push(reports.borrow_and_update().unwrap().1);
            }
        }
        assert_eq!(reported, [1, 10, 100]);
        counted.forget();
        assert_eq!(*reports.borrow(), None);
    }
}
