//! The access log: each worker has a queue of lines, and one thread writes what is in them.
//!
//! A request never waits for the reader of the log. When a queue is full lines are dropped and counted, and so are lines
//! that cannot be written.
//! A thread that serves requests gathers the lines of one turn of its event loop in a buffer of its own, and puts
//! them into its queue before it waits for events: a line is not late for that, and a busy thread pays for the queue once
//! per turn. Nobody but the writer looks into a worker's queue, so workers do not wait for each other.
//! The writer sleeps a few milliseconds between two passes, so that under load those threads find it awake and pay
//! no system call.

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
use crate::per_worker::{Padded, PerWorker};

/// Bytes that may wait, in all queues together.
const WAITING: usize = 4 * 1024 * 1024;
/// Bytes that may wait in a queue, however many queues there are.
const LEAST: usize = 64 * 1024;
/// Bytes that a thread gathers at most.
const GATHERED: usize = 16 * 1024;
/// Time for lines to gather into one write.
const BATCH: Duration = Duration::from_millis(4);
/// Bytes written at once, unless there are more in one queue.
const CHUNK: usize = 64 * 1024;

/// The sending side of the log. Clones share one writer.
#[derive(Clone)]
pub struct AccessLog(Option<Arc<Senders>>);

/// Ends the writer when it is dropped.
struct Senders(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queues: PerWorker<Mutex<Queue>>,
    /// The writer waits until somebody wakes it. Written when it falls asleep and when it is woken, and not in between.
    asleep: Padded<AtomicBool>,
    writer: OnceLock<Thread>,
    /// There are no senders any more.
    closed: AtomicBool,
    dropped: AtomicU64,
    passes: Mutex<Passes>,
    passed: Condvar,
    /// There is something new in the next field.
    is_told: AtomicBool,
    told: Mutex<OutputRequest>,
    on_fault: OnceLock<Box<OnFault>>,
}

/// Hears why lines do not go where they should, and that they do again.
type OnFault = dyn Fn(Option<&LogFault>) + Send + Sync;

/// Pending requests to the writer thread.
#[derive(Default)]
struct OutputRequest {
    output: Option<LogOutput>,
    opens_again: bool,
}

/// How often the writer has written what was in all queues.
#[derive(Default)]
struct Passes {
    begun: u64,
    ended: u64,
    /// Somebody waits for the end of this one.
    wanted: u64,
}

/// What a thread has passed on.
#[derive(Default)]
struct Queue {
    lines: Lines,
    /// A buffer that the writer has emptied. It is for the same thread again: bytes go from one worker to the writer, and
    /// not to another worker.
    spare: Lines,
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
        let shared = Arc::<Shared>::default();
        let writing = shared.clone();
        thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            writing.write(Sink::new(output));
            drop(token);
        })?;
        Ok(Self(Some(Arc::new(Senders(shared)))))
    }

    /// A log without a reader.
    pub fn none() -> Self {
        Self(None)
    }

    /// Whether lines go anywhere.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// From here on the lines of this thread are gathered until it calls [`pass_on`](Self::pass_on). It must do so
    /// whenever it waits, and at its end.
    pub fn gather() {
        GATHERED_HERE.with_borrow_mut(|gathered| gathered.passes_on = true);
    }

    /// From now on lines go there.
    pub fn turn_to(&self, output: LogOutput) {
        self.tell(|told| told.output = Some(output));
    }

    /// Opens its file again, which somebody has renamed.
    pub fn open_again(&self) {
        self.tell(|told| told.opens_again = true);
    }

    /// Has this called whenever lines cannot go where they should, and when they can again. Only the first call counts.
    pub fn on_fault(&self, hear: impl Fn(Option<&LogFault>) + Send + Sync + 'static) {
        if let Some(senders) = &self.0 {
            let _ = senders.0.on_fault.set(Box::new(hear));
        }
    }

    fn tell(&self, say: impl FnOnce(&mut OutputRequest)) {
        let Some(senders) = &self.0 else { return };
        say(&mut lock(&senders.0.told));
        senders.0.is_told.store(true, SeqCst);
        senders.0.wake();
    }

    /// Sends a line, its newline included, that is written straight into the buffer of this thread. Never waits.
    pub fn send(&self, write: impl FnOnce(&mut Vec<u8>)) {
        GATHERED_HERE.with_borrow_mut(|Gathered { lines, passes_on }| {
            write(&mut lines.bytes);
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
        match &self.0 {
            Some(senders) => senders.0.queue(lines),
            None => lines.clear(),
        }
    }

    /// Waits until all lines sent so far are written, at most `limit`. Returns whether they are. Blocks the
    /// thread: for shutdown.
    pub fn flush(&self, limit: Duration) -> bool {
        let Some(senders) = &self.0 else { return true };
        let shared = &senders.0;
        let mut passes = shared.passes();
        // One that has begun may have been past the queue.
        let wanted = passes.begun + 1;
        passes.wanted = passes.wanted.max(wanted);
        drop(passes);
        shared.wake();
        let waits = |passes: &mut Passes| passes.ended < wanted;
        let waited = shared.passed.wait_timeout_while(shared.passes(), limit, waits);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }

    /// Lines dropped so far.
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
    /// Puts lines into the queue of this thread.
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
        // Either the writer sees what is in the queue before it sleeps, or this sees that it sleeps.
        fence(SeqCst);
        if self.asleep.load(Relaxed)
            && self.asleep.swap(false, SeqCst)
            && let Some(writer) = self.writer.get()
        {
            writer.unpark();
        }
    }

    /// The writer: ends when the last sender is gone.
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

    /// Does what it was told to do, and what is due.
    fn listen(&self, output: &mut Sink) {
        let told = match self.is_told.swap(false, SeqCst) {
            true => mem::take(&mut *lock(&self.told)),
            false => OutputRequest::default(),
        };
        let is_due = output.due().is_some_and(|wait| wait.is_zero());
        let opened = match told.output {
            Some(place) => output.turn_to(place),
            None if told.opens_again || is_due => output.open(),
            None => return,
        };
        if let Some(hear) = self.on_fault.get() {
            hear(opened.err().as_ref());
        }
    }

    /// Writes what is in all queues. Whether there was any.
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
        // A system call, also without a thread that waits.
        if is_awaited {
            self.passed.notify_all();
        }
        any
    }

    /// Waits until there is something to do, at most so long.
    fn sleep(&self, limit: Option<Duration>) {
        self.asleep.store(true, SeqCst);
        fence(SeqCst);
        let passes = self.passes();
        let wanted = passes.wanted > passes.ended;
        drop(passes);
        let is_idle = || self.queues.all().all(|queue| lock(queue).lines.count == 0);
        if !wanted && !self.closed.load(SeqCst) && !self.is_told.load(SeqCst) && is_idle() {
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

/// Lines and numbers are whole whatever panicked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets lines gather, so that many go out with one system call.
#[expect(clippy::disallowed_methods, reason = "the thread of the log; no connection waits")]
fn pause() {
    thread::sleep(BATCH);
}

impl Queue {
    /// What is in it; nothing is allocated where there is nothing.
    fn take(&mut self) -> Lines {
        match self.lines.count {
            0 => Lines::default(),
            _ => mem::replace(&mut self.lines, mem::take(&mut self.spare)),
        }
    }
}

impl Lines {
    /// Adds others, for one write with these if that is not too much.
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

    /// The next ones will most likely be as many, unless there were unusually many.
    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(CHUNK);
        self.count = 0;
    }
}

#[cfg(test)]
mod tests;
