//! Requests at a fixed rate, whether or not the proxy keeps up.
//!
//! Latency is measured from the scheduled time of a request, so that the wait for a slow response
//! counts for all requests delayed by it (coordinated omission). Scheduling has the precision of
//! the kernel's timers instead of a runtime's milliseconds: one thread sleeps until the next
//! request is due or a response arrives.

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

/// Time limit for the last responses, after which they count as lost.
const FAREWELL: Duration = Duration::from_secs(5);

/// Requests at a fixed rate over kept connections.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Requests per second.
    pub rate: u32,
    /// Number of connections. A request that is due while all are busy waits.
    pub connections: usize,
    /// Maximum wait for a connection, after which a request is not sent.
    pub wait: Duration,
    /// Maximum latency of a response that counts as served.
    pub time_limit: Duration,
    /// The host of the requests.
    pub host: &'static str,
}

/// The state of a run.
struct Pacer {
    connections: Vec<Connection>,
    idle: VecDeque<usize>,
    latencies: Latencies,
    wait: Duration,
    time_limit: Duration,
    /// The end of the schedule.
    end: Instant,
    work: Work,
}

impl Paced {
    /// Runs the load.
    ///
    /// # Errors
    /// Connections cannot be opened.
    pub fn run(&self, address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
        // The kernel's default lets threads oversleep by 50 µs.
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
            time_limit: self.time_limit,
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
    /// Sends a request scheduled for `due`, or drops it. Returns false if it has to wait.
    fn request(&mut self, due: Instant) -> anyhow::Result<bool> {
        if due.elapsed() > self.wait {
            return Ok(true);
        }
        let Some(index) = self.idle.pop_front() else { return Ok(false) };
        self.connections[index].send(due)?;
        Ok(true)
    }

    /// Receives responses for at most `wait`.
    fn answers(&mut self, wait: Duration) -> anyhow::Result<()> {
        for index in ready(&self.connections, wait)? {
            match self.connections[index].receive()? {
                Answer::Incomplete => continue,
                Answer::Lost => {}
                Answer::Whole { due, status } => {
                    let latency = due.elapsed();
                    if status == 200 && latency <= self.time_limit {
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

/// Returns the busy connections that become readable within `wait`.
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

    /// Serves one connection, and delays one of the responses.
    fn serve(listener: &TcpListener, slow: u32, pause: Duration) -> std::io::Result<()> {
        let (mut stream, _) = listener.accept()?;
        let mut bytes = [0; 1024];
        for number in 0.. {
            if stream.read(&mut bytes)? == 0 {
                break;
            }
            if number == slow {
                // Simulates a stalled proxy. `poll` is the only wait here that is not a sleep.
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
        let paced = Paced { rate: 100, connections: 1, wait: minute, time_limit: minute, host: "host" };
        let work = paced.run(address, Duration::from_secs(1)).unwrap();
        server.join().unwrap().unwrap();
        assert_eq!((work.served, work.failed), (100, 0));
        // One slow response of 100 alone is only the maximum. Together with those delayed by it, it
        // is at least a tenth.
        let latency = work.latency.unwrap();
        assert!(latency.p99 >= 380.0, "{latency:?}");
    }
}
