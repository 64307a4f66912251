//! Returns free memory to the system.
//!
//! mimalloc keeps a freed page for a second (`MIMALLOC_PURGE_DELAY`; in the image 10 ms) in case it
//! is needed again, and only checks these pages when another page is freed. Memory used at the
//! start or by ten thousand closed connections would remain with a process that is idle afterwards.
//! Freeing one page periodically is sufficient.

use std::hint::black_box;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// Longer than mimalloc keeps a page (option `purge_delay`, 1 s).
const EVERY: Duration = Duration::from_secs(2);
/// Bytes that occupy a page of their own. They are never written, so they never occupy memory.
const PAGE: usize = 1 << 20;

/// Triggers the allocator periodically to return free memory. Never ends. Each step costs a few
/// microseconds.
pub(crate) async fn give_back() {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(PAGE)));
    }
}
