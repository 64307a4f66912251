//! Jobs of the blocking pool for files of bodies.
//!
//! The pool of a worker has few threads, which also check passwords. A disk that hangs must not
//! occupy all of them, and no request waits for it for ever.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

/// Jobs at a time, per worker; half of the threads of its pool.
const JOBS: usize = 4;
/// Time limit for a job, with the wait for its turn.
const LIMIT: Duration = Duration::from_secs(5);

thread_local! {
    /// The turns of this worker.
    static TURNS: Arc<Semaphore> = Arc::new(Semaphore::new(JOBS));
}

/// Starts a job once it is its turn. It ends its turn even if its caller does not await it.
///
/// # Errors
/// It was not its turn in time.
pub(super) async fn start<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let turn = TURNS.with(Arc::clone).acquire_owned();
    let turn: OwnedSemaphorePermit = in_time(turn).await?;
    Ok(spawn_blocking(move || {
        let _turn = turn;
        job()
    }))
}

/// Awaits a job.
///
/// # Errors
/// It takes too long, or its thread has panicked.
pub(super) async fn in_time<T, E>(job: impl Future<Output = Result<T, E>>) -> io::Result<T>
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    match timeout(LIMIT, job).await {
        Ok(done) => done.map_err(io::Error::other),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "the disk takes longer than 5 s")),
    }
}
