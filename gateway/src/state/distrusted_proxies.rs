//! Redirects to https of requests that a proxy outside `proxy-real-ip-cidr` forwarded for a client
//! that used https already. Such a client is redirected endlessly.

use std::net::IpAddr;

use sluice_config::{Code, ObjectRef, Problem, Severity};

/// The peer of such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DistrustedProxy(pub(crate) IpAddr);

impl DistrustedProxy {
    /// Returns the problem for operators, after so many requests.
    pub(crate) fn problem(self, requests: u64) -> Problem {
        Problem {
            object: ObjectRef::new("Peer", "", &self.0.to_string()),
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
    fn the_problem_names_the_peer_and_the_number_of_requests() {
        let problem = DistrustedProxy("192.0.2.1".parse().unwrap()).problem(100).to_string();
        assert!(problem.contains("192.0.2.1") && problem.contains("100 or more"), "{problem}");
    }
}
