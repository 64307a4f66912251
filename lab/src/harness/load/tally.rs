//! The results of a load.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use http::Method;

/// Maximum number of failures kept in detail.
const EXAMPLES: usize = 10;

/// Responses by Pod, and failures.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Requests with a correct response.
    pub served: u64,
    /// Failed requests.
    pub failed: u64,
    /// Number of responses by Pod.
    pub pods: BTreeMap<String, u64>,
    /// The first failures.
    pub failures: Vec<Failure>,
}

/// A failed request.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Time from the start of the load to the request.
    pub asked: Duration,
    /// Time from the request to its failure.
    pub after: Duration,
    /// Its method.
    pub method: Method,
    /// The request and the reason for the failure.
    pub what: String,
}

impl Tally {
    /// Returns the number of responses of a Pod.
    pub fn by(&self, pod: &str) -> u64 {
        self.pods.get(pod).copied().unwrap_or(0)
    }

    /// Returns an error if any request failed.
    ///
    /// # Errors
    /// Returns an error if one has failed; the message contains the first failures.
    pub fn none_failed(&self) -> Result<()> {
        if self.failed > 0 {
            bail!("{self}");
        }
        Ok(())
    }

    pub(super) fn serve(&mut self, pod: String) {
        self.served += 1;
        *self.pods.entry(pod).or_default() += 1;
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        self.failed += 1;
        if self.failures.len() < EXAMPLES {
            self.failures.push(failure);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sent = self.served + self.failed;
        write!(f, "{sent} sent, {} failed, answered by {} Pods", self.failed, self.pods.len())?;
        for failure in &self.failures {
            let (asked, after) = (failure.asked.as_secs_f64(), failure.after.as_secs_f64());
            write!(f, "\n  at {asked:.3} s, after {after:.3} s: {}", failure.what)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_with_its_time_and_reason() {
        let mut tally = Tally::default();
        tally.serve("web-1".to_owned());
        tally.none_failed().unwrap();
        tally.fail(Failure {
            asked: Duration::from_millis(1500),
            after: Duration::from_millis(20),
            method: Method::GET,
            what: "GET on a kept connection: status 502".to_owned(),
        });
        let message = tally.none_failed().unwrap_err().to_string();
        assert!(message.starts_with("2 sent, 1 failed, answered by 1 Pods"), "{message}");
        assert!(
            message.contains("at 1.500 s, after 0.020 s: GET on a kept connection: status 502"),
            "{message}"
        );
    }

    #[test]
    fn not_every_failure_is_kept_in_words() {
        let mut tally = Tally::default();
        for _ in 0..100 {
            let what = "GET".to_owned();
            tally.fail(Failure { asked: Duration::ZERO, after: Duration::ZERO, method: Method::GET, what });
        }
        assert_eq!((tally.failed, tally.failures.len()), (100, EXAMPLES));
    }
}
