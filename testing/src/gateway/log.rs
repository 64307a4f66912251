//! Output of a process.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// Output of a process, collected by a thread that ends with the stream.
#[derive(Debug, Default)]
pub(super) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    pub(super) fn of(stream: impl Read + Send + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let copy = lines.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                copy.lock().unwrap().push(line);
            }
        });
        Self { lines, reader: Some(reader) }
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for the last line of a process that has ended.
    pub(super) fn await_end(&mut self) {
        // A reader that has panicked reads no more lines.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}
