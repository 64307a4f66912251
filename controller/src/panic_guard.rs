//! Detection of panics in tasks, whose work would otherwise stop unnoticed.

use std::sync::Arc;

use tokio::sync::Notify;

/// A guard that each guarded task holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct PanicGuard(Arc<Notify>);

impl PanicGuard {
    /// Waits until a guarded task panics.
    pub(crate) async fn panicked(&self) {
        self.0.notified().await;
    }

    /// Runs a task with this guard.
    pub(crate) async fn around<T>(self, task: impl Future<Output = T>) -> T {
        let _guard = self;
        task.await
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_noticed() {
        let guard = PanicGuard::default();
        tokio::spawn(guard.clone().around(async {})).await.unwrap();
        let task = tokio::spawn(guard.clone().around(async {
            tokio::task::yield_now().await;
            panic!("on purpose");
        }));
        guard.panicked().await;
        assert!(task.await.unwrap_err().is_panic());
    }
}
