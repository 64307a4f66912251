//! The access log: each worker has a queue of lines, and one thread writes the lines of all queues.
//! The log of streams and the program log are written in the same way.
//!
//! A request never waits for the output of the log. Lines that do not fit into a full queue, or
//! that cannot be written, are dropped and counted.
//!
//! A worker collects the lines of one turn of its event loop in a buffer of its own and moves them
//! to its queue before it waits for events. This does not delay lines, and a busy worker accesses
//! the queue only once per turn. Only the worker and the writer access a queue, so workers never
//! wait for each other.
//!
//! The writer sleeps a few milliseconds between two passes. Under load, workers thus find it awake
//! and need no system call to wake it.

use std::cell::RefCell;
use std::fmt;
use std::io::Write;
use std::mem;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use sluice_config::LogOutput;

use super::sink::{LogFault, Sink};
use crate::process::per_worker::{Padded, PerWorker};

/// Maximum number of waiting bytes, in all queues together.
const WAITING: usize = 4 * 1024 * 1024;
/// Number of bytes that may wait in a queue, however many queues there are.
const LEAST: usize = 64 * 1024;
/// Maximum number of bytes that a thread collects.
const GATHERED: usize = 16 * 1024;
/// Time in which lines are collected for one write.
const BATCH: Duration = Duration::from_millis(4);
/// Bytes per write, unless a single queue holds more.
const CHUNK: usize = 64 * 1024;

/// The sending side of the log. Clones share a writer.
#[derive(Clone)]
pub struct AccessLog(Option<Arc<Senders>>);

/// Stops the writer when it is dropped.
struct Senders(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: PerWorker<Mutex<Queue>>,
    /// Whether the writer sleeps until it is woken. Only written when it falls asleep and when it
    /// is woken.
    asleep: Padded<AtomicBool>,
    writer: OnceLock<Thread>,
    /// All senders are gone.
    closed: AtomicBool,
    dropped: AtomicU64,
    passes: Mutex<Passes>,
    passed: Condvar,
    /// Whether `requested` has a new request.
    is_requested: AtomicBool,
    requested: Mutex<OutputRequest>,
    on_fault: OnceLock<Box<OnFault>>,
}

/// Called when the configured output fails, and when it works again.
type OnFault = dyn Fn(Option<&LogFault>) + Send + Sync;

/// Pending requests to the writer thread.
#[derive(Default)]
struct OutputRequest {
    output: Option<LogOutput>,
    opens_again: bool,
}

/// Counts the passes of the writer over all queues.
#[derive(Default)]
struct Passes {
    begun: u64,
    ended: u64,
    /// The last pass whose end a thread waits for.
    wanted: u64,
}

/// Lines that a thread has handed over.
#[derive(Default)]
struct Queue {
    lines: Lines,
    /// A buffer that the writer has emptied. It is reused by the same thread, so that memory moves
    /// only between a worker and the writer, never between workers.
    spare: Lines,
}

/// Concatenated lines.
#[derive(Default)]
struct Lines {
    bytes: Vec<u8>,
    count: u64,
}

/// Lines that a thread has not handed over yet.
#[derive(Default)]
struct Gathered {
    lines: Lines,
    /// Whether this thread calls [`AccessLog::pass_on`].
    passes_on: bool,
}

thread_local! {
    static GATHERED_HERE: RefCell<Gathered> = RefCell::default();
}

impl AccessLog {
    /// Creates a log that writes to `output`.
    ///
    /// # Errors
    /// The writer thread cannot be started.
    pub fn to(output: impl Write + Send + 'static) -> std::io::Result<Self> {
        Self::watched(output, ())
    }

    /// Same as [`to`](Self::to). `token` is dropped when the writer thread ends, which must not
    /// happen while there is a sender.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn watched(output: impl Write + Send + 'static, token: impl Send + 'static) -> std::io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let writing = shared.clone();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writing.write(Sink::new(output));
            drop(token);
        })?;
        Ok(Self(Some(Arc::new(Senders(shared)))))
    }

    /// Returns a log that discards all lines.
    pub fn none() -> Self {
        Self(None)
    }

    /// Returns whether lines are written.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Collects the lines of this thread until it calls [`pass_on`](Self::pass_on). The thread must
    /// call it whenever it waits, and when it ends.
    pub fn gather() {
        GATHERED_HERE.with_borrow_mut(|gathered| gathered.passes_on = true);
    }

    /// Changes the output.
    pub fn turn_to(&self, output: LogOutput) {
        self.request(|requested| requested.output = Some(output));
    }

    /// Reopens the file, which log rotation has renamed.
    pub fn open_again(&self) {
        self.request(|requested| requested.opens_again = true);
    }

    /// Sets the function to call when the output fails and when it works again. Only the first call
    /// has an effect.
    pub fn on_fault(&self, on_fault: impl Fn(Option<&LogFault>) + Send + Sync + 'static) {
        if let Some(senders) = &self.0 {
            let _ = senders.0.on_fault.set(Box::new(on_fault));
        }
    }

    fn request(&self, change: impl FnOnce(&mut OutputRequest)) {
        let Some(senders) = &self.0 else { return };
        change(&mut lock(&senders.0.requested));
        senders.0.is_requested.store(true, SeqCst);
        senders.0.wake();
    }

    /// Sends a line, including its newline. `write` appends it directly to the buffer of this
    /// thread. Never blocks.
    pub fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        GATHERED_HERE.with_borrow_mut(|Gathered { lines, passes_on }| {
            write(&mut lines.bytes);
            lines.count += 1;
            if !*passes_on || lines.bytes.len() >= GATHERED {
                self.queue(lines);
            }
        });
    }

    /// Sends a line without collecting it, for a log other than the one whose lines this thread
    /// collects. Never blocks.
    pub fn send_apart(&self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut lines = Lines { bytes: Vec::new(), count: 1 };
        write(&mut lines.bytes);
        self.queue(&mut lines);
    }

    /// Sends the collected lines of this thread. Never blocks.
    pub fn pass_on(&self) {
        GATHERED_HERE.with_borrow_mut(|gathered| self.queue(&mut gathered.lines));
    }

    fn queue(&self, lines: &mut Lines) {
        if lines.count == 0 {
            return;
        }
        match &self.0 {
            Some(senders) => senders.0.queue(lines),
            None => lines.clear(),
        }
    }

    /// Blocks until all lines sent so far are written, for at most `limit`. Returns whether they
    /// are written. For shutdown only.
    pub fn flush(&self, limit: Duration) -> bool {
        let Some(senders) = &self.0 else { return true };
        let shared = &senders.0;
        let mut passes = shared.passes();
        // A pass that has already started may have passed this queue.
        let wanted = passes.begun + 1;
        passes.wanted = passes.wanted.max(wanted);
        drop(passes);
        shared.wake();
        let waits = |passes: &mut Passes| passes.ended < wanted;
        let waited = shared.passed.wait_timeout_while(shared.passes(), limit, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Returns the number of dropped lines.
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |senders| senders.0.dropped.load(Relaxed))
    }
}

impl fmt::Debug for AccessLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccessLog").field("on", &self.is_on()).field("dropped", &self.dropped()).finish()
    }
}

impl Drop for Senders {
    fn drop(&mut self) {
        self.0.closed.store(true, SeqCst);
        self.0.wake();
    }
}

impl Shared {
    /// Adds lines to the queue of this thread.
    fn queue(&self, lines: &mut Lines) {
        let mut guard = lock(self.queues.here());
        let queue = &mut guard.lines;
        let bytes = queue.bytes.len() + lines.bytes.len();
        if bytes <= LEAST || bytes <= WAITING / self.queues.all().count() {
            queue.bytes.extend_from_slice(&lines.bytes);
            queue.count += lines.count;
        } else {
            self.dropped.fetch_add(lines.count, Relaxed);
        }
        drop(guard);
        lines.clear();
        self.wake();
    }

    fn wake(&self) {
        // Either the writer sees the new lines before it sleeps, or this thread sees that the
        // writer sleeps.
        fence(SeqCst);
        if self.asleep.load(Relaxed)
            && self.asleep.swap(false, SeqCst)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// Runs the writer until the last sender is gone.
    fn write(&self, mut output: Sink) {
        let _ = self.writer.set(thread::current());
        let mut batch = Lines::default();
        loop {
            let closes = self.closed.load(SeqCst);
            self.listen(&mut output);
            match self.pass(&mut batch, &mut output) {
                true => pause(),
                false if closes => return,
                false => self.sleep(output.due()),
            }
        }
    }

    /// Applies pending requests and reopens an output that is due.
    fn listen(&self, output: &mut Sink) {
        let requested = match self.is_requested.swap(false, SeqCst) {
            true => mem::take(&mut *lock(&self.requested)),
            false => OutputRequest::default(),
        };
        let is_due = output.due().is_some_and(|wait| wait.is_zero());
        let opened = match requested.output {
            Some(place) => output.turn_to(place),
            None if requested.opens_again || is_due => output.open(),
            None => return,
        };
        if let Some(on_fault) = self.on_fault.get() {
            on_fault(opened.err().as_ref());
        }
    }

    /// Writes the lines of all queues. Returns whether there were any.
    fn pass(&self, batch: &mut Lines, output: &mut Sink) -> bool {
        self.passes().begun += 1;
        let mut any = false;
        for queue in self.queues.all() {
            let mut taken = lock(queue).take();
            if taken.count > 0 {
                any = true;
                batch.add(&taken, output, &self.dropped);
                taken.clear();
                lock(queue).spare = taken;
            }
        }
        batch.write(output, &self.dropped);
        let mut passes = self.passes();
        let is_awaited = passes.wanted > passes.ended;
        passes.ended = passes.begun;
        drop(passes);
        // `notify_all` is a system call even if no thread waits.
        if is_awaited {
            self.passed.notify_all();
        }
        any
    }

    /// Sleeps until there is work, for at most `limit`.
    fn sleep(&self, limit: Option<Duration>) {
        self.asleep.store(true, SeqCst);
        fence(SeqCst);
        let passes = self.passes();
        let wanted = passes.wanted > passes.ended;
        drop(passes);
        let is_idle = || self.queues.all().all(|queue| lock(queue).lines.count == 0);
        if !wanted && !self.closed.load(SeqCst) && !self.is_requested.load(SeqCst) && is_idle() {
            match limit {
                Some(limit) => thread::park_timeout(limit),
                None => thread::park(),
            }
        }
        self.asleep.store(false, SeqCst);
    }

    fn passes(&self) -> MutexGuard<'_, Passes> {
        lock(&self.passes)
    }
}

/// Poisoning can be ignored: the guarded values are consistent at any time.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for more lines, so that many are written with one system call.
#[expect(clippy::disallowed_methods, reason = "the thread of the log; no connection waits")]
fn pause() {
    thread::sleep(BATCH);
}

impl Queue {
    /// Takes the lines. Does not allocate if there are none.
    fn take(&mut self) -> Lines {
        match self.lines.count {
            0 => Lines::default(),
            _ => mem::replace(&mut self.lines, mem::take(&mut self.spare)),
        }
    }
}

impl Lines {
    /// Appends other lines for a common write, after a write of these if both exceed [`CHUNK`].
    fn add(&mut self, others: &Self, output: &mut Sink, dropped: &AtomicU64) {
        if self.bytes.len() + others.bytes.len() > CHUNK {
            self.write(output, dropped);
        }
        self.bytes.extend_from_slice(&others.bytes);
        self.count += others.count;
    }

    fn write(&mut self, output: &mut Sink, dropped: &AtomicU64) {
        if self.count > 0 {
            dropped.fetch_add(output.write(&self.bytes, self.count), Relaxed);
        }
        self.clear();
    }

    /// Keeps the capacity, because the next lines will probably need as much, up to [`CHUNK`].
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(CHUNK);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests;
