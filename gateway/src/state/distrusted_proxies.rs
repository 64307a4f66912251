//! Counts redirects to https of requests that a proxy outside `proxy-real-ip-cidr` forwarded for a
//! client that used https already. Such a client is redirected endlessly.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use sluice_config::{Code, ObjectRef, Problem, Severity};
use tokio::sync::watch;

/// The count of such requests. Reported at the first one, and at each power of ten.
#[derive(Debug, Default)]
pub(crate) struct DistrustedProxies {
    count: AtomicU64,
    reported: watch::Sender<Option<DistrustedProxy>>,
}

/// The peer of the request that was reported last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DistrustedProxy {
    peer: IpAddr,
    requests: u64,
}

impl DistrustedProxies {
    /// Counts a request from this peer.
    pub(crate) fn count(&self, peer: IpAddr) {
        let requests = self.count.fetch_add(1, Relaxed).saturating_add(1);
        if requests == 10_u64.pow(requests.ilog10()) {
            self.reported.send_replace(Some(DistrustedProxy { peer, requests }));
        }
    }

    /// Resets the count, after the set of trusted proxies has changed.
    pub(crate) fn forget(&self) {
        self.count.store(0, Relaxed);
        self.reported.send_replace(None);
    }

    /// Returns a receiver for reports.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<DistrustedProxy>> {
        self.reported.subscribe()
    }
}

impl DistrustedProxy {
    /// Returns the problem for operators.
    pub(crate) fn problem(self) -> Problem {
        let Self { peer, requests } = self;
        Problem {
            object: ObjectRef::new("Peer", "", &peer.to_string()),
            field: "proxy-real-ip-cidr".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::ProxyNotTrusted,
            message: format!(
                "does not include this peer, which sends X-Forwarded-Proto: https: its clients are redirected to https \
                 endlessly ({requests} or more requests so far)"
            ),
            remedy: "add the address of the proxy to proxy-real-ip-cidr in the ConfigMap".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_request_is_reported_and_then_each_power_of_ten() {
        let proxies = DistrustedProxies::default();
        let mut reports = proxies.subscribe();
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        let mut reported = Vec::new();
        for _ in 0..120 {
            proxies.count(peer);
            if reports.has_changed().unwrap() {
                reported.push(reports.borrow_and_update().unwrap().requests);
            }
        }
        assert_eq!(reported, [1, 10, 100]);
        let problem = reports.borrow().unwrap().problem().to_string();
        assert!(problem.contains("192.0.2.1") && problem.contains("100 or more"), "{problem}");
        proxies.forget();
        assert_eq!(*reports.borrow(), None);
    }
}
