//! Tasks that must run as long as the process: workers, acceptors, and the servers of health checks
//! and introspection.
//!
//! A panic in another task costs one connection. Without one of these the gateway would look
//! healthy and serve less than it should, so the panic is reported as [`Report::Died`].

use sluice_config::Report;
use tokio::task::JoinHandle;

use crate::process::reporter::Reporter;

/// Guard of a task that must not end; reports a panic when dropped by one.
pub(crate) struct CriticalTask {
    part: String,
    report: Reporter,
}

impl CriticalTask {
    pub(crate) fn new(report: &Reporter, part: impl Into<String>) -> Self {
        Self { part: part.into(), report: report.clone() }
    }
}

/// Starts a task that must not end by a panic.
pub(crate) fn spawn(
    report: &Reporter,
    part: &str,
    task: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let critical_task = CriticalTask::new(report, part);
    tokio::spawn(async move {
        let _held = critical_task;
        task.await;
    })
}

impl Drop for CriticalTask {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.report)(Report::Died { part: std::mem::take(&mut self.part) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn a_panic_is_reported_and_an_orderly_end_is_not() {
        let reported: Arc<Mutex<Vec<Report>>> = Arc::default();
        let reports = reported.clone();
        let reporter: Reporter = Arc::new(move |report| reports.lock().unwrap().push(report));
        let task = |part: &str, panics: bool| {
            spawn(&reporter, part, async move {
                tokio::task::yield_now().await;
                assert!(!panics, "on purpose");
            })
        };
        task("well", false).await.unwrap();
        task("ill", true).await.unwrap_err();
        assert_eq!(*reported.lock().unwrap(), [Report::Died { part: "ill".into() }]);
    }
}
