//! The thread that writes bodies that leave memory, and removes files.
//!
//! It is one thread, so a disk that hangs occupies one, and not those of the blocking pools.

use std::io;
use std::sync::mpsc;
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// The thread. It ends after the last job once this is dropped.
#[derive(Debug)]
pub(super) struct FileThread {
    jobs: mpsc::Sender<Job>,
}

impl FileThread {
    pub(super) fn start() -> io::Result<Self> {
        let (jobs, received) = mpsc::channel::<Job>();
        thread::Builder::new().name("cache-files".into()).spawn(move || {
            for job in received {
                job();
            }
        })?;
        Ok(Self { jobs })
    }

    /// Runs a job after all earlier ones. If the thread has ended, the job is dropped.
    pub(super) fn run(&self, job: Job) {
        let _ = self.jobs.send(job);
    }
}
