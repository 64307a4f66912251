//! The access log: lines go through a bounded queue to one writer thread.
//!
//! A request never waits for whoever reads the log. When the queue is full the line is dropped and counted.
//! The writer sleeps a few milliseconds between two batches, so that under load the threads that serve
//! requests find it awake and pay no system call for a line.

use std::fmt;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// Lines that may wait.
const QUEUE: usize = 8192;
/// Time for lines to gather into one write.
const BATCH: Duration = Duration::from_millis(4);
/// Octets written at once at most.
const CHUNK: usize = 64 * 1024;

/// The sending side of the log. Clones share one writer.
#[derive(Clone)]
pub struct AccessLog {
    sender: Option<SyncSender<Entry>>,
    dropped: Arc<AtomicU64>,
}

enum Entry {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

impl AccessLog {
    /// A log that goes to `output`. Fails when no thread can be started.
    pub fn to(output: impl Write + Send + 'static) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicU64::new(0));
        let count = dropped.clone();
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || write(&receiver, output, &count))?;
        Ok(Self { sender: Some(sender), dropped })
    }

    /// A log that nobody reads.
    pub fn none() -> Self {
        Self { sender: None, dropped: Arc::default() }
    }

    /// Whether lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// Sends a line, its newline included. Never waits.
    pub fn send(&self, line: Vec<u8>) {
        let Some(sender) = &self.sender else { return };
        if sender.try_send(Entry::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all lines sent so far are written, at most `limit`. Returns whether they are. Blocks the
    /// thread: for the end of the program.
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
        self.dropped.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("on", &self.is_on()).field("dropped", &self.dropped()).finish()
    }
}

/// The writer: ends when the last sender is gone.
fn write(receiver: &Receiver<Entry>, mut output: impl Write, dropped: &AtomicU64) {
    let mut batch = Batch { bytes: Vec::with_capacity(CHUNK), lines: 0 };
    while let Ok(mut entry) = receiver.recv() {
        loop {
            match entry {
                Entry::Line(line) => batch.add(&line, &mut output, dropped),
                Entry::Flush(done) => {
                    batch.flush(&mut output, dropped);
                    // Whoever asked may have stopped waiting.
                    let _ = done.try_send(());
                }
            }
            match receiver.try_recv() {
                Ok(next) => entry = next,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        batch.flush(&mut output, dropped);
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

struct Batch {
    bytes: Vec<u8>,
    lines: u64,
}

impl Batch {
    fn add(&mut self, line: &[u8], output: &mut impl Write, dropped: &AtomicU64) {
        if self.bytes.len() + line.len() > CHUNK {
            self.flush(output, dropped);
        }
        self.bytes.extend_from_slice(line);
        self.lines += 1;
    }

    fn flush(&mut self, output: &mut impl Write, dropped: &AtomicU64) {
        if self.lines > 0 && output.write_all(&self.bytes).and_then(|()| output.flush()).is_err() {
            dropped.fetch_add(self.lines, Ordering::Relaxed);
        }
        self.bytes.clear();
        self.lines = 0;
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
            log.send(format!("{number}\n").into_bytes());
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
            log.send(b"line\n".to_vec());
        }
        let dropped = log.dropped();
        assert!(dropped > 0, "nothing was dropped");
        drop(stopped);
        assert!(log.flush(Duration::from_secs(30)));
        let written = output.0.lock().unwrap().len() as u64 / 5;
        assert_eq!(written + dropped, sent);
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
        log.send(b"line\n".to_vec());
        assert!(log.flush(Duration::from_secs(30)));
        assert_eq!(log.dropped(), 1);
    }
}
