//! Requests at a fixed rate, whether the proxy keeps up or not.
//!
//! A latency is counted from the moment a request was due, so that waiting for a slow answer counts for all
//! requests that had to wait behind it (coordinated omission). Moments are kept with the precision of the
//! kernel's timers, not with a runtime's milliseconds: one thread sleeps until the next request is due or an
//! answer is there.

mod connection;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;

use super::{Latency, Work};
use connection::{Answer, Connection};

use crate::latencies::Latencies;

/// How long the last answers may take before they count as lost.
const FAREWELL: Duration = Duration::from_secs(5);

/// Requests at a fixed rate over kept connections.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Requests a second.
    pub rate: u32,
    /// Connections. A request that is due while all of them wait for an answer waits too.
    pub connections: usize,
    /// A request that has waited so long for a connection is not sent.
    pub wait: Duration,
    /// An answer that comes so long after its request was due does not count.
    pub patience: Duration,
    /// Whom to ask.
    pub host: &'static str,
}

/// The state of a run.
struct Pacer {
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    latencies: Latencies,
    wait: Duration,
    patience: Duration,
    /// When the last request is due.
    end: Instant,
    work: Work,
}

impl Paced {
    /// Runs it.
    ///
    /// # Errors
    /// Connections cannot be opened.
    pub fn run(&self, address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
        // The kernel lets threads oversleep by 50 microseconds otherwise.
        set_current_timer_slack(NonZeroU64::new(1000)).context("cannot set the precision of timers")?;
        let open = |_| Connection::open(address, self.host);
        let connections = (0..self.connections).map(open).collect::<anyhow::Result<_>>()?;
        let every = Duration::from_secs(1) / self.rate;
        let all = u32::try_from(duration.as_millis() * u128::from(self.rate) / 1000)?;
        let started = Instant::now();
        let mut pacer = Pacer {
            connections,
            idle: (0..self.connections).collect(),
            latencies: Latencies::new(),
            wait: self.wait,
            patience: self.patience,
            end: started + duration,
            work: Work::default(),
        };
        let mut next = 0;
        loop {
            while next < all
                && started + every * next <= Instant::now()
                && pacer.request(started + every * next)?
            {
                next += 1;
            }
            let over = duration + FAREWELL;
            let done = next == all && pacer.idle.len() == self.connections;
            if done || started.elapsed() > over {
                break;
            }
            let wait = match (next < all).then(|| started + every * next) {
                Some(due) if !pacer.idle.is_empty() => due.saturating_duration_since(Instant::now()),
                _ => over.saturating_sub(started.elapsed()),
            };
            pacer.answers(wait)?;
        }
        Ok(pacer.finish(started.elapsed(), u64::from(all)))
    }
}

impl Pacer {
    /// Sends what was due at a moment, or gives it up; false when it has to wait.
    fn request(&mut self, due: Instant) -> anyhow::Result<bool> {
        if due.elapsed() > self.wait {
            return Ok(true);
        }
        let Some(index) = self.idle.pop_front() else { return Ok(false) };
        self.connections[index].send(due)?;
        Ok(true)
    }

    /// Takes the answers that come within some time.
    fn answers(&mut self, wait: Duration) -> anyhow::Result<()> {
        for index in ready(&self.connections, wait)? {
            match self.connections[index].receive()? {
                Answer::Incomplete => continue,
                Answer::Lost => {}
                Answer::Whole { due, status } => {
                    let latency = due.elapsed();
                    if status == 200 && latency <= self.patience {
                        self.latencies.record(latency);
                        self.work.served += 1;
                        self.work.in_time += u64::from(Instant::now() <= self.end);
                    }
                }
            }
            self.idle.push_back(index);
        }
        Ok(())
    }

    fn finish(mut self, elapsed: Duration, all: u64) -> Work {
        self.work.latency = Some(Latency::of(&self.latencies));
        self.work.failed = all - self.work.served;
        self.work.elapsed = elapsed;
        self.work
    }
}

/// Which of the connections that wait have something to read, within some time.
fn ready(connections: &[Connection], wait: Duration) -> anyhow::Result<Vec<usize>> {
    let busy: Vec<usize> = (0..connections.len()).filter(|&index| connections[index].is_busy()).collect();
    let mut polled: Vec<PollFd<'_>> =
        busy.iter().map(|&index| PollFd::new(connections[index].stream(), PollFlags::IN)).collect();
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    poll(&mut polled, Some(&wait)).context("poll")?;
    let ready = busy.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
    Ok(ready.map(|(&index, _)| index).collect())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection, and takes its time for one of the requests.
    fn serve(listener: &TcpListener, slow: u32, pause: Duration) -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut bytes = [0; 1024];
        for number in 0.. {
            if stream.read(&mut bytes)? == 0 {
                break;
            }
            if number == slow {
                // A proxy that stands still: poll is the one wait that is not sleep.
                let wait = Timespec { tv_sec: 0, tv_nsec: pause.subsec_nanos().into() };
                poll(&mut [], Some(&wait))?;
            }
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
        }
        Ok(())
    }

    #[test]
    fn requests_that_wait_behind_a_slow_one_count_their_waiting() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let pause = Duration::from_millis(400);
        let server = std::thread::spawn(move || serve(&listener, 10, pause));
        let minute = Duration::from_secs(60);
        let paced = Paced { rate: 100, connections: 1, wait: minute, patience: minute, host: "host" };
        let work = paced.run(address, Duration::from_secs(1)).unwrap();
        server.join().unwrap().unwrap();
        assert_eq!((work.served, work.failed), (100, 0));
        // One slow answer of 100 is the largest alone; with those that waited behind it, it is a tenth of them at
        // the least.
        let latency = work.latency.unwrap();
        assert!(latency.p99 >= 380.0, "{latency:?}");
    }
}
