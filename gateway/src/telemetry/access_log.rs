//! The access log: lines go through a bounded queue to one writer thread.
//!
//! A request never waits for the reader of the log. When the queue is full lines are dropped and counted.
//! A thread that serves requests gathers the lines of one turn of its event loop in a buffer of its own, and passes
//! them on before it waits for events: a line is not late for that, and a busy thread pays for the queue once per turn.
//! The writer sleeps a few milliseconds between two batches, so that under load those threads find it awake and pay
//! no system call.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// Batches that may wait.
const QUEUE: usize = 8192;
/// Bytes that may wait.
const WAITING: usize = 4 * 1024 * 1024;
/// Bytes that a thread gathers at most.
const GATHERED: usize = 16 * 1024;
/// Time for lines to gather into one write.
const BATCH: Duration = Duration::from_millis(4);
/// Bytes written at once at most.
const CHUNK: usize = 64 * 1024;

/// The sending side of the log. Clones share one writer.
#[derive(Clone)]
pub struct AccessLog {
    sender: Option<SyncSender<Entry>>,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    /// Bytes in the queue.
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

enum Entry {
    Lines(Lines),
    Flush(SyncSender<()>),
}

/// Lines one behind the other.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
}

/// What a thread has not passed on.
#[derive(Default)]
struct Gathered {
    lines: Lines,
    /// Somebody calls [`AccessLog::pass_on`] on this thread.
    passes_on: bool,
}

thread_local! {
    static GATHERED_HERE: RefCell<Gathered> = RefCell::default();
}

impl AccessLog {
    /// A log that goes to `output`. Fails when no thread can be started.
    pub fn to(output: impl Write + Send + 'static) -> std::io::Result<Self> {
        Self::watched(output, ())
    }

    /// The same; `token` is dropped when the thread that writes ends, which it should not while there is a sender.
    pub fn watched(output: impl Write + Send + 'static, token: impl Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let counts = Arc::<Counts>::default();
        let shared = counts.clone();
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            write(&receiver, output, &shared);
            drop(token);
        })?;
        Ok(Self { sender: Some(sender), counts })
    }

    /// A log without a reader.
    pub fn none() -> Self {
        Self { sender: None, counts: Arc::default() }
    }

    /// Whether lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// From here on the lines of this thread are gathered until it calls [`pass_on`](Self::pass_on). It must do so
    /// whenever it waits, and at its end.
    pub fn gather() {
        GATHERED_HERE.with_borrow_mut(|gathered| gathered.passes_on = true);
    }

    /// Sends a line, its newline included. Never waits.
    pub fn send(&self, line: &[u8]) {
        GATHERED_HERE.with_borrow_mut(|Gathered { lines, passes_on }| {
            lines.bytes.extend_from_slice(line);
            lines.count += 1;
            if !*passes_on || lines.bytes.len() >= GATHERED {
                self.queue(lines);
            }
        });
    }

    /// Sends what this thread has gathered. Never waits.
    pub fn pass_on(&self) {
        GATHERED_HERE.with_borrow_mut(|gathered| self.queue(&mut gathered.lines));
    }

    fn queue(&self, lines: &mut Lines) {
        if lines.count == 0 {
            return;
        }
        // The next batch will most likely be as large.
        let next = Lines { bytes: Vec::with_capacity(lines.bytes.len()), count: 0 };
        let lines = mem::replace(lines, next);
        let (bytes, count) = (lines.bytes.len(), lines.count);
        let Some(sender) = &self.sender else { return };
        let room = self.counts.waiting.fetch_add(bytes, Ordering::Relaxed) < WAITING;
        if !room || sender.try_send(Entry::Lines(lines)).is_err() {
            self.counts.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.counts.dropped.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// Waits until all lines sent so far are written, at most `limit`. Returns whether they are. Blocks the
    /// thread: for shutdown.
    pub fn flush(&self, limit: Duration) -> bool {
        let Some(sender) = &self.sender else { return true };
        let deadline = Instant::now() + limit;
        let (done, written) = sync_channel(1);
        while sender.try_send(Entry::Flush(done.clone())).is_err() {
            if Instant::now() >= deadline {
                return false;
            }
            pause();
        }
        written.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok()
    }

    /// Lines dropped so far.
    pub fn dropped(&self) -> u64 {
        self.counts.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("on", &self.is_on()).field("dropped", &self.dropped()).finish()
    }
}

/// The writer: ends when the last sender is gone.
fn write(receiver: &Receiver<Entry>, mut output: impl Write, counts: &Counts) {
    let mut batch = Lines { bytes: Vec::with_capacity(CHUNK), count: 0 };
    while let Ok(mut entry) = receiver.recv() {
        loop {
            match entry {
                Entry::Lines(lines) => {
                    counts.waiting.fetch_sub(lines.bytes.len(), Ordering::Relaxed);
                    batch.add(&lines, &mut output, counts);
                }
                Entry::Flush(done) => {
                    batch.write(&mut output, counts);
                    // The caller may have stopped waiting.
                    let _ = done.try_send(());
                }
            }
            match receiver.try_recv() {
                Ok(next) => entry = next,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        batch.write(&mut output, counts);
        pause();
    }
}

/// Lets lines gather, so that many go out with one system call.
#[expect(
    clippy::disallowed_methods,
    reason = "the thread of the log, or of the program's end; no connection waits"
)]
fn pause() {
    std::thread::sleep(BATCH);
}

impl Lines {
    /// Adds others, for one write with these if that is not too much.
    fn add(&mut self, others: &Self, output: &mut impl Write, counts: &Counts) {
        if self.bytes.len() + others.bytes.len() > CHUNK {
            self.write(output, counts);
        }
        self.bytes.extend_from_slice(&others.bytes);
        self.count += others.count;
    }

    fn write(&mut self, output: &mut impl Write, counts: &Counts) {
        if self.count > 0 && output.write_all(&self.bytes).and_then(|()| output.flush()).is_err() {
            counts.dropped.fetch_add(self.count, Ordering::Relaxed);
        }
        self.bytes.clear();
        self.count = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_arrive_in_order_and_a_flush_waits_for_them() {
        let output = Shared::default();
        let log = AccessLog::to(output.clone()).unwrap();
        for number in 0..1000 {
            log.send(format!("{number}\n").as_bytes());
        }
        assert!(log.flush(Duration::from_secs(30)));
        let expected: String = (0..1000).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(output.0.lock().unwrap().clone()).unwrap(), expected);
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn a_reader_that_stands_still_costs_lines_not_time() {
        let output = Shared::default();
        let stopped = output.0.lock().unwrap();
        let log = AccessLog::to(output.clone()).unwrap();
        let sent = 4 * QUEUE as u64;
        for _ in 0..sent {
            log.send(b"line\n");
        }
        let dropped = log.dropped();
        assert!(dropped > 0, "nothing was dropped");
        drop(stopped);
        assert!(log.flush(Duration::from_secs(30)));
        let written = output.0.lock().unwrap().len() as u64 / 5;
        assert_eq!(written + dropped, sent);
    }

    #[test]
    fn a_thread_that_gathers_passes_its_lines_on_when_it_says_so_or_has_many() {
        let output = Shared::default();
        let log = AccessLog::to(output.clone()).unwrap();
        let written = || {
            assert!(log.flush(Duration::from_secs(30)));
            output.0.lock().unwrap().len()
        };
        AccessLog::gather();
        log.send(b"line\n");
        assert_eq!(written(), 0);
        log.pass_on();
        assert_eq!(written(), 5);
        for _ in 0..GATHERED / 5 + 1 {
            log.send(b"line\n");
        }
        assert_eq!(written(), 5 + (GATHERED / 5 + 1) * 5);
        log.pass_on();
        assert_eq!((written(), log.dropped()), (5 + (GATHERED / 5 + 1) * 5, 0));
    }

    #[test]
    fn the_death_of_the_writer_does_not_go_unnoticed() {
        struct Panics;
        impl Write for Panics {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                panic!("on purpose");
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let (token, told) = std::sync::mpsc::channel::<()>();
        let log = AccessLog::watched(Panics, token).unwrap();
        log.send(b"line\n");
        let told = told.recv_timeout(Duration::from_secs(30));
        assert_eq!(told, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn an_output_that_fails_counts_as_dropped() {
        struct Broken;
        impl Write for Broken {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let log = AccessLog::to(Broken).unwrap();
        log.send(b"line\n");
        assert!(log.flush(Duration::from_secs(30)));
        assert_eq!(log.dropped(), 1);
    }
}
