//! The keep-alive loop of an HTTP/1 connection.
//!
//! Ours and not Pingora's, because an idle connection should hold no buffer, a whole head should have one
//! deadline, and what is malformed should get our page, our log line and our metric. The driver gets the
//! stream together with a head that has been checked, and gives the stream back.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::StatusCode;
use pingora_core::apps::HttpServerApp;
use pingora_core::protocols::http::ServerSession;
use tokio::time::{Instant, timeout_at};

use super::head::{self, Head, Limits, Parsed};
use super::io::ClientIo;
use super::{http2, refusal};
use crate::worker::Worker;

/// Room made for a head at a time: most fit into one.
const READ: usize = 2048;

/// How long a connection may still send its first request when the program closes its sockets.
const LAST_FIRST: Duration = Duration::from_secs(1);
/// How long a connection that was idle then may send its next one.
const LAST_NEXT: Duration = Duration::from_millis(100);

/// What reading a head came to.
enum Read {
    Head(Head),
    Http2,
    Refused(StatusCode),
    /// The client went away, or never said anything.
    Closed,
}

/// Serves requests until the connection ends.
pub(crate) async fn serve(mut io: Box<ClientIo>, worker: Arc<Worker>) {
    let mut requests = 0;
    loop {
        let tuning = worker.state.tuning.load_full();
        let patience = if requests == 0 { tuning.client_header_timeout } else { tuning.keep_alive };
        if !has_arrived(&mut io, requests == 0, patience, &worker).await {
            return;
        }
        let limits = Limits { line: tuning.max_request_line, head: tuning.max_request_head };
        let head = match read_head(&mut io, limits, Instant::now() + tuning.client_header_timeout).await {
            Read::Head(head) => head,
            Read::Http2 => return Box::pin(http2::serve(io, &worker)).await,
            Read::Refused(status) => return Box::pin(refusal::refuse(io, &worker, status)).await,
            Read::Closed => return,
        };
        requests += 1;
        let last = requests >= tuning.keep_alive_requests || tuning.keep_alive.is_zero();
        drop(tuning);
        match Box::pin(drive(io, head, last, &worker)).await {
            Some(back) => io = back,
            None => return,
        }
        io.rest();
    }
}

/// One request through the driver; the stream comes back if it can be used again.
async fn drive(mut io: Box<ClientIo>, head: Head, last: bool, worker: &Worker) -> Option<Box<ClientIo>> {
    let mut octets = io.ahead().split_to(head.length);
    if let Some(rewritten) = head.rewritten {
        octets = rewritten;
    } else {
        let _ = octets.split_to(head.skipped);
    }
    io.admit(head.framing, last);
    let _running = worker.drain.request();
    let mut session = ServerSession::new_http1(io);
    session.set_pipelined_prefix(octets);
    let reused = worker.proxy().process_new_http(session, &worker.shutdown).await?;
    let (stream, _) = reused.consume();
    stream.into_any().downcast::<ClientIo>().ok()
}

/// Waits for the first octet of a request, holding no buffer meanwhile. False when none came: the client went
/// away, was silent too long, or the program is ending. `first` says that nothing has been served yet.
async fn has_arrived(io: &mut ClientIo, first: bool, patience: Duration, worker: &Worker) -> bool {
    if !io.ahead().is_empty() {
        return true;
    }
    let mut until = Instant::now() + patience;
    let mut closing = worker.closing.clone();
    let mut told = false;
    loop {
        // TLS may hold octets that the socket no longer shows.
        match poll_fn(|context| Poll::Ready(io.try_fill(context, READ))).await {
            Some(Ok(1..)) => return true,
            Some(Ok(0) | Err(_)) => return false,
            None => io.rest(),
        }
        tokio::select! {
            readable = io.readable() => if readable.is_err() {
                return false;
            },
            () = tokio::time::sleep_until(until) => return false,
            _ = closing.wait_for(|closing| *closing), if !told => {
                // A request may be on its way, all the more on a connection that was just taken out of the
                // accept queue.
                told = true;
                until = until.min(Instant::now() + if first { LAST_FIRST } else { LAST_NEXT });
            }
        }
    }
}

/// Reads a whole head, or says what it gets instead.
pub(super) async fn read_head_refusing(io: &mut ClientIo, limits: Limits, until: Instant) -> bool {
    !matches!(read_head(io, limits, until).await, Read::Closed)
}

async fn read_head(io: &mut ClientIo, limits: Limits, until: Instant) -> Read {
    let mut fresh = 0;
    loop {
        // A head can only be whole, or wrong, when a line has ended or is too long: a client that sends octet
        // by octet must not make us look at everything each time.
        let octets = &io.ahead()[fresh..];
        if octets.contains(&b'\n') || io.ahead().len() > limits.line {
            match head::parse(io.ahead(), limits) {
                Parsed::Partial => {}
                Parsed::Http2 => return Read::Http2,
                Parsed::Head(head) => return Read::Head(head),
                Parsed::Refused(status) => return Read::Refused(status),
            }
        }
        fresh = io.ahead().len();
        let filled = poll_fn(|context| io.try_fill(context, READ).map_or(Poll::Pending, Poll::Ready));
        match timeout_at(until, filled).await {
            Ok(Ok(1..)) => {}
            Ok(_) => return Read::Closed,
            Err(_) if io.ahead().is_empty() => return Read::Closed,
            Err(_) => return Read::Refused(StatusCode::REQUEST_TIMEOUT),
        }
    }
}
