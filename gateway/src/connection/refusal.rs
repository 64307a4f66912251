//! The end of a connection whose request could not be read.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::StatusCode;
use std::future::poll_fn;
use std::task::Poll;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::info::of;
use super::io::ClientIo;
use crate::pipeline::{Answer, Exchange, Outcome};
use crate::worker::Worker;

/// How long a client may take to take the page, and then to go away by itself.
const PATIENCE: Duration = Duration::from_secs(2);
/// Octets of a request that are read and dropped so that the client can read our page: closing a socket that
/// holds unread octets resets the connection.
const LINGER: usize = 256 * 1024;

/// Answers with the page for `status`, logs it, and closes.
pub(super) async fn refuse(mut io: Box<ClientIo>, worker: &Worker, status: StatusCode) {
    let Some(connection) = of(io.digest()).cloned() else { return };
    let length = io.ahead().len();
    let line = {
        let read = &io.ahead()[..];
        let start = read.iter().position(|octet| !b"\r\n".contains(octet)).unwrap_or(read.len());
        let end = read[start..].iter().position(|octet| b"\r\n".contains(octet));
        read[start..end.map_or(read.len(), |end| start + end)].to_vec()
    };
    let (mut exchange, answer) = Exchange::refuse(&worker.state, &connection, &line, length, status);
    let octets = render(&answer);
    let sent = matches!(timeout(PATIENCE, io.send(&octets)).await, Ok(Ok(())));
    exchange.end(Outcome {
        status: sent.then_some(answer.status),
        body_sent: if sent { answer.body.len() as u64 } else { 0 },
        bytes_sent: if sent { octets.len() as u64 } else { 0 },
        aborted: !sent,
        ..Outcome::default()
    });
    io.release();
    // The client may have gone already.
    let _ = timeout(PATIENCE, linger(&mut io)).await;
}

async fn linger(io: &mut ClientIo) {
    if io.shutdown().await.is_err() {
        return;
    }
    let mut dropped = 0;
    while dropped < LINGER {
        io.ahead().clear();
        match poll_fn(|context| io.try_fill(context, 4096).map_or(Poll::Pending, Poll::Ready)).await {
            Ok(read @ 1..) => dropped += read,
            _ => return,
        }
    }
}

fn render(answer: &Answer) -> BytesMut {
    let mut octets = BytesMut::with_capacity(512);
    let reason = answer.status.canonical_reason().unwrap_or("");
    octets.put_slice(format!("HTTP/1.1 {} {reason}\r\n", answer.status.as_str()).as_bytes());
    let date = httpdate::fmt_http_date(std::time::SystemTime::now());
    octets.put_slice(format!("Date: {date}\r\n").as_bytes());
    for (name, value) in &answer.fields {
        octets.put_slice(name.as_str().as_bytes());
        octets.put_slice(b": ");
        octets.put_slice(value.as_bytes());
        octets.put_slice(b"\r\n");
    }
    octets
        .put_slice(format!("Content-Length: {}\r\nConnection: close\r\n\r\n", answer.body.len()).as_bytes());
    octets.put_slice(&answer.body);
    octets
}
