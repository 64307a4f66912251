//! Memory that is free goes back to the system.
//!
//! mimalloc keeps a freed page for a second, in case it is needed again, and looks at what it keeps only when another
//! page is freed. So what the start or ten thousand closed connections leave behind would stay with a process that
//! then has nothing to do. Freeing a page once in a while is all it takes.

use std::hint::black_box;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// Longer than mimalloc keeps a page (option `purge_delay`, 1 s).
const EVERY: Duration = Duration::from_secs(2);
/// Bytes that make a page of their own. They are never written, so they are never there.
const PAGE: usize = 1 << 20;

/// Lets the allocator give back what it keeps, for ever. Costs some microseconds each time.
pub(crate) async fn give_back() {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        drop(black_box(Vec::<u8>::with_capacity(PAGE)));
    }
}
