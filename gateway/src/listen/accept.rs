//! Accepting from one listening socket, on one worker.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use pingora_core::protocols::l4::ext::get_tcp_info;
use rustix::io::Errno;
use sluice_config::BindProtocol;
use socket2::SockRef;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::task::{coop::unconstrained, yield_now};

use super::arrivals::{Arrivals, Order};
use super::assignment::{AssignedConnection, Assignee, Assignment};
use super::bind::BACKLOG;
use super::listeners::ListenerTarget;
use super::{Opened, open, serve};
use crate::connection::drain::{ClientAdmission, OpenConnection};
use crate::io::budget::Account;
use crate::stream::AcceptedConnection;
use crate::worker::Worker;

/// How long nothing is accepted when the process or the machine has no descriptors or memory left.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Minimum time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

type Accepted = io::Result<(TcpStream, SocketAddr)>;

/// The workers, as one of them that accepts connections sees them.
#[derive(Clone)]
pub(crate) struct Workplace {
    pub(crate) own: Arc<Assignee>,
    pub(crate) assignment: Arc<Assignment>,
}

/// Accepts until `stop` is dropped or sent to; then empties the queue and ends.
pub(crate) async fn accept(
    socket: Arc<TcpListener>,
    entry: ListenerTarget,
    workplace: Workplace,
    mut stop: oneshot::Receiver<()>,
) {
    let port = socket.local_addr().map_or(entry.declared_port, |address| address.port());
    let mut acceptor = Acceptor {
        entry,
        port,
        arrivals: Arrivals::new(workplace.own.worker.count),
        workplace,
        socket: socket.clone(),
        backlog: BACKLOG,
        last_warning: None,
    };
    // Registering the socket with the runtime needs a descriptor, and none may be free now.
    let listener = loop {
        match socket.try_clone().and_then(tokio::net::TcpListener::from_std) {
            Ok(listener) => break Some(listener),
            Err(error) => {
                acceptor.warn(&error);
                tokio::select! {
                    biased;
                    _ = &mut stop => break None,
                    () = tokio::time::sleep(EXHAUSTED) => {}
                }
            }
        }
    };
    while let Some(listener) = &listener {
        let mut first = None;
        if acceptor.arrivals.is_behind() {
            // Lets other tasks run, and lets the runtime ask the kernel for events.
            yield_now().await;
            if stop.try_recv() != Err(TryRecvError::Empty) {
                break;
            }
        } else {
            tokio::select! {
                biased;
                accepted = listener.accept() => first = Some(accepted),
                _ = &mut stop => break,
            }
        }
        // Within a budget, the runtime could report an empty queue that is not empty.
        let take = || first.take().or_else(|| unconstrained(listener.accept()).now_or_never());
        if let Err(error) = acceptor.turn(take) {
            acceptor.pause(&error).await;
        }
    }
    // The runtime's readiness may lag behind the kernel's queue: ask the kernel.
    let order = acceptor.arrivals.begin(Instant::now(), || Duration::ZERO);
    while let Some(Ok((stream, peer))) = take_now(&socket) {
        acceptor.admit(order, stream, peer);
    }
    acceptor.end();
}

fn take_now(socket: &TcpListener) -> Option<Accepted> {
    let register = |(stream, peer): (std::net::TcpStream, _)| {
        stream.set_nonblocking(true)?;
        Ok((TcpStream::from_std(stream)?, peer))
    };
    match socket.accept().and_then(register) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        accepted => Some(accepted),
    }
}

/// Accepts the connections of one socket and starts their tasks.
struct Acceptor {
    entry: ListenerTarget,
    /// The port of the socket.
    port: u16,
    workplace: Workplace,
    socket: Arc<TcpListener>,
    arrivals: Arrivals<Arrival>,
    /// The backlog that the kernel was last given.
    backlog: u16,
    /// When a lack of descriptors or a reached limit was last logged.
    last_warning: Option<Instant>,
}

/// A connection that was accepted.
struct Arrival {
    stream: TcpStream,
    peer: SocketAddr,
    open: OpenConnection,
}

impl Acceptor {
    /// Accepts what is queued and starts as many connections as one turn of the loop allows.
    fn turn(&mut self, mut take: impl FnMut() -> Option<Accepted>) -> io::Result<()> {
        let mut first = take();
        let order = self.arrivals.begin(Instant::now(), || match &first {
            Some(Ok((stream, _))) => waited(stream),
            _ => Duration::ZERO,
        });
        let mut left = order.accepts();
        let result = loop {
            match first.take().or_else(&mut take) {
                Some(Ok((stream, peer))) => self.admit(order, stream, peer),
                Some(Err(error)) => break Err(error),
                None => break Ok(()),
            }
            left -= 1;
            if left == 0 {
                break Ok(());
            }
        };
        if order.newest_first {
            self.begin_newest(order);
        }
        // An accept error does not mean that the worker is behind.
        self.arrivals.end(order, left > 0);
        self.keep(self.arrivals.backlog());
        result
    }

    fn admit(&mut self, order: Order, stream: TcpStream, peer: SocketAddr) {
        let limit = self.worker().client_limit();
        let open = loop {
            match self.worker().drain.shared().admit(limit) {
                ClientAdmission::Free(open) => break open,
                ClientAdmission::InPlaceOfIdle(open) => {
                    self.worker().state.telemetry.connection_reclaimed();
                    self.warn_of_limit(limit);
                    break open;
                }
                ClientAdmission::Refused => {}
            }
            self.worker().state.telemetry.connection_refused();
            self.warn_of_limit(limit);
            // The client that has waited longest is the likeliest to have left.
            if self.arrivals.oldest().is_none() {
                return;
            }
        };
        let arrival = Arrival { stream, peer, open };
        match order.newest_first {
            true => self.arrivals.push(order, arrival),
            false => self.begin(arrival),
        }
    }

    fn begin_newest(&mut self, order: Order) {
        let mut left = order.begins();
        while left > 0
            && let Some(arrival) = self.arrivals.newest()
        {
            if self.entry.protocol == BindProtocol::Https && has_left(&arrival.stream) {
                self.worker().state.telemetry.connection_refused();
                continue;
            }
            self.begin(arrival);
            left -= 1;
        }
        while self.arrivals.stale(order).is_some() {
            self.worker().state.telemetry.connection_refused();
        }
    }

    fn begin(&self, arrival: Arrival) {
        let Arrival { stream, peer, open } = arrival;
        let telemetry = &self.worker().state.telemetry;
        let assigned = self.workplace.assignment.assign(&self.workplace.own, self.worker().serving());
        let stream = match assigned.is_to(&self.workplace.own) {
            true => Started::Here(stream),
            // The stream moves to another runtime.
            false => match stream.into_std() {
                Ok(stream) => Started::Passed(stream),
                Err(_) => return telemetry.connection_refused(),
            },
        };
        let runtime = assigned.runtime().clone();
        let origin = Origin { peer, number: telemetry.connection_opened(), opened: Instant::now() };
        let counted = Counted { assigned, open };
        runtime.spawn(connection(stream, origin, (self.entry.clone(), self.port), counted));
    }

    fn worker(&self) -> &Worker {
        &self.workplace.own.worker
    }

    /// Sets the kernel's backlog, if it has changed.
    fn keep(&mut self, backlog: u16) {
        if std::mem::replace(&mut self.backlog, backlog) == backlog {
            return;
        }
        if let Err(error) = SockRef::from(&*self.socket).listen(backlog.into()) {
            tracing::warn!(%error, "cannot set the backlog of a listening socket");
        }
    }

    /// Starts every waiting connection and restores the socket's backlog.
    fn end(&mut self) {
        while let Some(arrival) = self.arrivals.newest() {
            self.begin(arrival);
        }
        self.keep(BACKLOG);
    }

    /// Pauses accepting while descriptors or memory are exhausted: the connection stays queued, so
    /// every attempt would fail at once. Other errors concern one connection, and the next may
    /// succeed.
    async fn pause(&mut self, error: &io::Error) {
        let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
        if !exhausted.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error())) {
            return;
        }
        if self.arrivals.oldest().is_some() {
            return self.worker().state.telemetry.connection_refused();
        }
        self.warn(error);
        tokio::time::sleep(EXHAUSTED).await;
    }
}

impl Acceptor {
    fn warn_of_limit(&mut self, limit: usize) {
        if self.may_warn() {
            tracing::warn!(
                limit,
                listener = ?self.socket.local_addr().ok(),
                "the limit of client connections is reached: the oldest idle ones are closed to admit new ones; \
                 raise max-worker-connections or the limit of open files"
            );
        }
    }

    /// Returns whether a warning is due, and then counts it as written.
    fn may_warn(&mut self) -> bool {
        let due = self.last_warning.is_none_or(|last| last.elapsed() >= WARNING_INTERVAL);
        if due {
            self.last_warning = Some(Instant::now());
        }
        due
    }

    fn warn(&mut self, error: &io::Error) {
        if !self.may_warn() {
            return;
        }
        tracing::warn!(
            %error,
            listener = ?self.socket.local_addr().ok(),
            "cannot accept connections; raise the limit of open files or lower max-worker-connections"
        );
    }
}

/// Returns how long an accepted connection was in the kernel's queue, measured from its client's
/// last packet: most clients send one or two at once and then wait.
fn waited(stream: &TcpStream) -> Duration {
    let since = get_tcp_info(stream.as_raw_fd()).map_or(0, |info| info.tcpi_last_ack_recv);
    Duration::from_millis(since.into())
}

/// Returns whether a client has closed its side, after which TLS is impossible. Uses the runtime's
/// readiness, which is current for a connection that has waited for a turn or two.
fn has_left(stream: &TcpStream) -> bool {
    let ready = stream.ready(Interest::READABLE).now_or_never();
    ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
}

/// The stream of a connection that is being started.
enum Started {
    /// Served by the worker that accepted it.
    Here(TcpStream),
    /// Served by another worker, in whose runtime it is not registered yet.
    Passed(std::net::TcpStream),
}

/// Where and when a connection came in.
struct Origin {
    peer: SocketAddr,
    number: u64,
    opened: Instant,
}

impl Started {
    async fn open(
        self,
        origin: Origin,
        (entry, port): (ListenerTarget, u16),
        worker: Arc<Worker>,
    ) -> Option<Opened> {
        let Origin { peer, number, opened } = origin;
        let stream = match self {
            Self::Here(stream) => stream,
            Self::Passed(stream) => TcpStream::from_std(stream)
                .inspect_err(|error| tracing::warn!(client = %peer, %error, "cannot serve a connection"))
                .ok()?,
        };
        open(AcceptedConnection { stream, peer, number, opened }, entry, port, worker).await
    }
}

/// The task of a connection. Most are idle, so the state for opening is boxed and dropped early.
fn connection(
    stream: Started,
    origin: Origin,
    listener: (ListenerTarget, u16),
    counted: Counted,
) -> impl Future<Output = ()> {
    let opening = Box::pin(stream.open(origin, listener, counted.assigned.worker().clone()));
    async move {
        // The heads and bodies of a connection count towards one account.
        let account = Account::open();
        counted.open.idle.attach().await;
        let serving = pin!(serve(opening, &counted.open.idle));
        account.of(serving).await;
    }
}

/// A connection in the counts, however it ends.
struct Counted {
    assigned: AssignedConnection,
    open: OpenConnection,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.assigned.worker().state.telemetry.connection_closed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<A, B, C, D, F>(_: fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// Thousands of connections are idle at any time; each holds this and about 100 bytes of
    /// tokio's. Together they take a multiple of 128 bytes: 384.
    #[test]
    fn the_task_of_an_idle_connection_is_small() {
        assert!(size(connection) <= 280, "{} bytes", size(connection));
    }

    #[tokio::test]
    async fn a_client_that_has_closed_is_known_to_have_left() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let [stays, leaves] = [(), ()].map(|()| {
            let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (client, take_now(&listener).unwrap().unwrap().0)
        });
        use std::io::Write;
        (&leaves.0).write_all(b"hello").unwrap();
        drop(leaves.0);
        while !has_left(&leaves.1) {
            yield_now().await;
        }
        assert!(!has_left(&stays.1));
    }

    #[tokio::test]
    async fn how_long_a_client_has_waited_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = take_now(&listener).unwrap().unwrap();
        while waited(&stream) < Duration::from_millis(2) {
            yield_now().await;
        }
    }
}
