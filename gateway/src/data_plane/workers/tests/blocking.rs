//! The threads for work that blocks.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

use crate::data_plane::workers::{BLOCKING_THREADS, runtime};
use crate::telemetry::AccessLog;

#[test]
fn slow_uploads_started_a_thread_for_each_body_on_disk() {
    let runtime = runtime(&AccessLog::none()).unwrap();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    // Each task waits for as many others as there are threads.
    let together = Arc::new(Barrier::new(BLOCKING_THREADS));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10 * BLOCKING_THREADS)
            .map(|_| {
                let (running, most, together) = (running.clone(), most.clone(), together.clone());
                tokio::task::spawn_blocking(move || {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    together.wait();
                    running.fetch_sub(1, SeqCst);
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    assert_eq!(most.load(SeqCst), BLOCKING_THREADS);
}
