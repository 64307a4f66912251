//! Requests at a fixed rate, whether the proxy keeps up or not.
//!
//! A latency is counted from the moment a request was due, so that waiting for a slow answer counts for all
//! requests that had to wait behind it (coordinated omission). Moments are kept with the precision of the
//! kernel's timers, not with a runtime's milliseconds: one thread sleeps until the next request is due or an
//! answer is there.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use anyhow::Context;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::set_current_timer_slack;

use super::{Latency, Work};
use crate::bench::scene::HOST;

/// Requests at a fixed rate over kept connections.
#[derive(Clone, Copy, Debug)]
pub struct Paced {
    /// Requests a second.
    pub rate: u32,
    /// Connections.
    pub connections: usize,
    /// What is asked for.
    pub path: &'static str,
}

struct Client {
    stream: TcpStream,
    /// When the request that is on its way was due.
    due: Option<Instant>,
    received: Vec<u8>,
    /// Octets of the answer still to come, once its head is known.
    rest: Option<usize>,
}

impl Paced {
    /// Runs it.
    ///
    /// # Errors
    /// Connections cannot be opened, or one ends on its own.
    pub fn run(&self, address: SocketAddr, duration: Duration) -> anyhow::Result<Work> {
        // The kernel lets threads oversleep by 50 microseconds otherwise.
        set_current_timer_slack(NonZeroU64::new(1000)).context("cannot set the precision of timers")?;
        let mut clients =
            (0..self.connections).map(|_| Client::open(address)).collect::<anyhow::Result<Vec<_>>>()?;
        let request = format!("GET {} HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: paced\r\n\r\n", self.path);
        let mut idle: VecDeque<usize> = (0..clients.len()).collect();
        let mut latencies: Histogram<u64> = Histogram::new(3).context("recorder")?;
        let every = Duration::from_secs(1) / self.rate;
        let started = Instant::now();
        let (mut sent, mut work) = (0, Work::default());
        let all = u32::try_from(duration.as_millis())? / 1000 * self.rate;
        while sent < all || idle.len() < clients.len() {
            while sent < all {
                let due = started + every * sent;
                if Instant::now() < due {
                    break;
                }
                let Some(index) = idle.pop_front() else { break };
                clients[index].send(&request, due)?;
                sent += 1;
            }
            let wait = match (sent < all).then(|| started + every * sent) {
                Some(due) if !idle.is_empty() => due.saturating_duration_since(Instant::now()),
                _ => Duration::from_secs(5),
            };
            for index in ready(&clients, wait)? {
                let Some((due, status)) = clients[index].receive()? else { continue };
                let latency = due.elapsed();
                latencies.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX) / 1000);
                if status == 200 {
                    work.served += 1;
                } else {
                    work.failed += 1;
                }
                idle.push_back(index);
            }
        }
        work.elapsed = started.elapsed();
        let milliseconds = |share| latencies.value_at_quantile(share) as f64 / 1e3;
        work.latency =
            Some(Latency { p50: milliseconds(0.5), p99: milliseconds(0.99), p999: milliseconds(0.999) });
        Ok(work)
    }
}

/// Which of the clients that wait have something to read, within some time.
fn ready(clients: &[Client], wait: Duration) -> anyhow::Result<Vec<usize>> {
    let busy: Vec<usize> = (0..clients.len()).filter(|&index| clients[index].due.is_some()).collect();
    let mut polled: Vec<PollFd<'_>> =
        busy.iter().map(|&index| PollFd::new(&clients[index].stream, PollFlags::IN)).collect();
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    poll(&mut polled, Some(&wait)).context("poll")?;
    let ready = busy.iter().zip(&polled).filter(|(_, polled)| !polled.revents().is_empty());
    Ok(ready.map(|(&index, _)| index).collect())
}

impl Client {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).context("connect")?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, due: None, received: Vec::with_capacity(4096), rest: None })
    }

    fn send(&mut self, request: &str, due: Instant) -> anyhow::Result<()> {
        // A request is far smaller than what a socket takes at once.
        self.stream.write_all(request.as_bytes()).context("send")?;
        self.due = Some(due);
        Ok(())
    }

    /// When the request was due and the status of its answer, once that is whole.
    fn receive(&mut self) -> anyhow::Result<Option<(Instant, u16)>> {
        let mut octets = [0; 16 * 1024];
        let count = match self.stream.read(&mut octets) {
            Ok(0) => anyhow::bail!("the proxy closed a connection that it should have kept"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error).context("receive"),
        };
        self.received.extend_from_slice(&octets[..count]);
        if self.rest.is_none() {
            let Some(end) = self.received.windows(4).position(|four| four == b"\r\n\r\n") else {
                return Ok(None);
            };
            let head = String::from_utf8_lossy(&self.received[..end]).to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
            let length: usize = length.context("an answer has no length")?.trim().parse()?;
            self.rest = Some(end + 4 + length);
        }
        if self.rest.is_some_and(|whole| self.received.len() < whole) {
            return Ok(None);
        }
        let status = self.received.get(9..12).and_then(|code| std::str::from_utf8(code).ok()?.parse().ok());
        self.received.clear();
        self.rest = None;
        let due = self.due.take().context("an answer that nobody asked for")?;
        Ok(Some((due, status.unwrap_or(0))))
    }
}
