//! A watch or a fetch that panics ends the source, and with it the program. Otherwise its kind would stay as it is for
//! good, unnoticed.

use std::sync::Arc;

use tokio::sync::Notify;

/// Held by each task of the source.
#[derive(Clone, Debug, Default)]
pub(super) struct Canary(Arc<Notify>);

impl Canary {
    /// Waits until a task that holds one has panicked.
    pub(super) async fn panicked(&self) {
        self.0.notified().await;
    }
}

impl Drop for Canary {
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
        let canary = Canary::default();
        let (well, ill) = (canary.clone(), canary.clone());
        tokio::spawn(async move { drop(well) }).await.unwrap();
        let task = tokio::spawn(async move {
            let _ill = ill;
            tokio::task::yield_now().await;
            panic!("on purpose");
        });
        canary.panicked().await;
        assert!(task.await.unwrap_err().is_panic());
    }
}
