//! `proxy-next-upstream`, `-tries` and `-timeout`: conditions for another attempt after a failed
//! one.
//!
//! A request that may have reached an endpoint is only repeated if its method is idempotent or the
//! setting `non_idempotent` allows it. As in nginx, POST, LOCK and PATCH are not idempotent.

use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use sluice_config::{GlobalSettings, NextUpstream, Retry};

use super::timeouts::resolve_optional;
use crate::io::failure::{Failure, FailureKind};

/// Maximum number of attempts per request, which `proxy-next-upstream-tries` cannot exceed.
/// Endpoints that refuse connections are ejected, so more attempts would only repeat recent
/// failures.
pub const MOST_ATTEMPTS: u32 = 16;

/// How long after the first attempt another one may start if `proxy-next-upstream-timeout` is not
/// set.
const LONGEST_WINDOW: Duration = Duration::from_secs(600);

/// Retry settings for one request, resolved from the rule and the global settings.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    on: NextUpstream,
    tries: u32,
    window: Duration,
    idempotent: bool,
}

/// The attempts of a request so far.
#[derive(Clone, Copy, Debug)]
pub struct RetryProgress {
    /// Number of counted attempts, including the failed one.
    pub tries: u32,
    /// Start of the first attempt.
    pub first: Instant,
    /// Number of endpoints.
    pub endpoints: usize,
}

impl RetryPolicy {
    /// Resolves the settings for a request with this method.
    pub fn new(own: &Retry, settings: &GlobalSettings, method: &Method) -> Self {
        let on = own.on.unwrap_or(settings.next_upstream);
        Self {
            on: NextUpstream { non_idempotent: on.non_idempotent || settings.retry_non_idempotent, ..on },
            tries: own.tries.unwrap_or(settings.next_upstream_tries),
            window: resolve_optional(own.timeout, settings.next_upstream_timeout).unwrap_or(LONGEST_WINDOW),
            idempotent: !matches!(method.as_str(), "POST" | "LOCK" | "PATCH"),
        }
    }

    /// Returns the remaining time in which an attempt may start.
    pub fn time_left(&self, first: Instant) -> Duration {
        self.window.saturating_sub(first.elapsed())
    }

    /// Returns whether to retry after an attempt that failed before its response head.
    pub fn after_failure(&self, failure: &Failure, progress: &RetryProgress) -> bool {
        let wanted = match failure.kind {
            FailureKind::Connect | FailureKind::Handshake | FailureKind::Broken | FailureKind::Shortage => {
                self.on.error
            }
            FailureKind::ConnectTimeout
            | FailureKind::HandshakeTimeout
            | FailureKind::ReadTimeout
            | FailureKind::SendTimeout => self.on.timeout,
            FailureKind::InvalidHead => self.on.invalid_header,
            FailureKind::Client | FailureKind::ClientTimeout | FailureKind::ClientMalformed => false,
            // Another endpoint would not help here either.
            FailureKind::BodyTooLarge | FailureKind::Storage | FailureKind::Memory => false,
            FailureKind::ResponseRefused => false,
        };
        wanted
            && failure.replayable
            && !failure.response_started
            && (!failure.sent || self.may_repeat())
            && self.has_try_left(progress)
    }

    /// Returns whether to drop a response with this status and retry.
    pub fn after_status(&self, status: StatusCode, replayable: bool, progress: &RetryProgress) -> bool {
        self.names_status(status) && replayable && self.may_repeat() && self.has_try_left(progress)
    }

    /// Returns whether the conditions include this status.
    pub fn names_status(&self, status: StatusCode) -> bool {
        match status.as_u16() {
            403 => self.on.http_403,
            404 => self.on.http_404,
            429 => self.on.http_429,
            500 => self.on.http_500,
            502 => self.on.http_502,
            503 => self.on.http_503,
            504 => self.on.http_504,
            _ => false,
        }
    }

    /// Returns whether a request may be sent again to the same endpoint over a new connection,
    /// because the endpoint had closed the pooled connection. This does not count as an attempt,
    /// but it is a retry after an error: if errors are not a condition (for example with `off`),
    /// the answer is 502, as in nginx.
    pub fn after_stale(&self) -> bool {
        self.on.error
    }

    /// Returns whether a request that may have reached an endpoint may be sent again.
    pub fn may_repeat(&self) -> bool {
        self.idempotent || self.on.non_idempotent
    }

    fn has_try_left(&self, progress: &RetryProgress) -> bool {
        let limit = match self.tries {
            0 => u32::try_from(progress.endpoints).unwrap_or(u32::MAX),
            tries => tries,
        };
        progress.tries < limit.min(MOST_ATTEMPTS) && !self.time_left(progress.first).is_zero()
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::Timeout;

    use super::*;

    const GET: Method = Method::GET;

    fn failure(kind: FailureKind) -> Failure {
        Failure { kind, stale: false, sent: true, replayable: true, response_started: false }
    }

    fn progress(tries: u32) -> RetryProgress {
        RetryProgress { tries, first: Instant::now(), endpoints: 5 }
    }

    #[test]
    fn the_default_is_errors_and_timeouts_three_times() {
        let policy = RetryPolicy::new(&Retry::default(), &GlobalSettings::default(), &GET);
        use FailureKind::*;
        for (kind, again) in [
            (Connect, true),
            (ConnectTimeout, true),
            (Broken, true),
            (ReadTimeout, true),
            (SendTimeout, true),
            (InvalidHead, false),
            (Client, false),
            (ClientTimeout, false),
            (ClientMalformed, false),
        ] {
            assert_eq!(policy.after_failure(&failure(kind), &progress(1)), again, "{kind:?}");
        }
        assert!(policy.after_failure(&failure(Connect), &progress(2)));
        assert!(!policy.after_failure(&failure(Connect), &progress(3)));
        assert!(!policy.after_status(StatusCode::SERVICE_UNAVAILABLE, true, &progress(1)));
    }

    #[test]
    fn a_request_that_is_not_idempotent_goes_out_once() {
        for method in ["POST", "LOCK", "PATCH"] {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            let mut own = Retry::default();
            let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &method);
            assert!(!policy.after_failure(&failure(FailureKind::Broken), &progress(1)));
            let unsent = Failure { sent: false, ..failure(FailureKind::Connect) };
            assert!(policy.after_failure(&unsent, &progress(1)), "nothing was sent yet");
            own.on = Some(NextUpstream { non_idempotent: true, http_500: true, ..NextUpstream::DEFAULT });
            let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &method);
            assert!(policy.after_failure(&failure(FailureKind::Broken), &progress(1)));
            assert!(policy.after_status(StatusCode::INTERNAL_SERVER_ERROR, true, &progress(1)));
        }
    }

    #[test]
    fn conditions_of_a_rule_replace_non_idempotent_of_the_config_map() {
        let repeats = |on: Option<NextUpstream>, settings: &GlobalSettings| {
            let own = Retry { on, ..Retry::default() };
            RetryPolicy::new(&own, settings, &Method::POST).may_repeat()
        };
        let mut settings = GlobalSettings::default();
        settings.next_upstream.non_idempotent = true;
        assert!(repeats(None, &settings));
        assert!(!repeats(Some(NextUpstream::DEFAULT), &settings));
        let settings = GlobalSettings { retry_non_idempotent: true, ..GlobalSettings::default() };
        assert!(repeats(None, &settings) && repeats(Some(NextUpstream::DEFAULT), &settings));
    }

    #[test]
    fn no_retry_without_the_body_or_after_the_response_began() {
        let policy = RetryPolicy::new(&Retry::default(), &GlobalSettings::default(), &GET);
        let lost = Failure { replayable: false, ..failure(FailureKind::Broken) };
        let begun = Failure { response_started: true, ..failure(FailureKind::Broken) };
        assert!(!policy.after_failure(&lost, &progress(1)));
        assert!(!policy.after_failure(&begun, &progress(1)));
    }

    #[test]
    fn zero_tries_means_one_per_endpoint_and_the_window_closes() {
        let own = Retry { tries: Some(0), ..Retry::default() };
        let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &GET);
        assert!(policy.after_failure(&failure(FailureKind::Connect), &progress(4)));
        assert!(!policy.after_failure(&failure(FailureKind::Connect), &progress(5)));
        let own = Retry { timeout: Timeout::After(Duration::ZERO), ..Retry::default() };
        let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &GET);
        assert!(!policy.after_failure(&failure(FailureKind::Connect), &progress(1)));
    }

    #[test]
    fn attempts_have_an_end_whatever_is_configured() {
        for tries in [0, u32::MAX] {
            let own = Retry { tries: Some(tries), ..Retry::default() };
            let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &GET);
            let many = |tries| RetryProgress { endpoints: usize::MAX, ..progress(tries) };
            assert!(policy.after_failure(&failure(FailureKind::Connect), &many(MOST_ATTEMPTS - 1)));
            assert!(!policy.after_failure(&failure(FailureKind::Connect), &many(MOST_ATTEMPTS)));
            let long_ago = Instant::now().checked_sub(LONGEST_WINDOW).unwrap();
            let late = RetryProgress { first: long_ago, ..many(1) };
            assert!(!policy.after_failure(&failure(FailureKind::Connect), &late));
        }
    }

    #[test]
    fn every_status_has_its_switch() {
        type Switch = fn(&mut NextUpstream);
        let switches: [(u16, Switch); 7] = [
            (403, |on| on.http_403 = true),
            (404, |on| on.http_404 = true),
            (429, |on| on.http_429 = true),
            (500, |on| on.http_500 = true),
            (502, |on| on.http_502 = true),
            (503, |on| on.http_503 = true),
            (504, |on| on.http_504 = true),
        ];
        for (status, switch) in switches {
            let mut on = NextUpstream::default();
            switch(&mut on);
            let own = Retry { on: Some(on), ..Retry::default() };
            let policy = RetryPolicy::new(&own, &GlobalSettings::default(), &GET);
            for (other, _) in switches {
                let code = StatusCode::from_u16(other).unwrap();
                assert_eq!(policy.after_status(code, true, &progress(1)), other == status);
                assert!(!policy.after_status(code, false, &progress(1)));
            }
        }
    }
}
