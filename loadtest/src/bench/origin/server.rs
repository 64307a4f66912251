//! The origin server. It responds as cheaply as one thread can, because it shares a core with the
//! load generator and must not be the bottleneck.
//!
//! `/10k` and `/1m` return bodies of that size, `/text` and `/text-100k` return 10 and 100 KiB of
//! compressible text, `/ticket` a number that no other response has, `/traceparent` that field of
//! the request, `/v1/traces` the empty response of a collector, and every other path 0.1 KiB.
//! Request bodies are read and dropped. Upgraded connections are echoed. HTTP/2 connections are
//! gRPC. Other protocols are in `streams`.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::super::proof::{CONTEXT, TICKET};
use super::streams::{self, ECHO, FLOOD};

/// Bytes per read: enough for a head, and for bodies in few calls.
const READ: usize = 64 * 1024;

struct Answers {
    small: Vec<u8>,
    medium: Vec<u8>,
    large: Vec<u8>,
    text: Vec<u8>,
    large_text: Vec<u8>,
    collected: Vec<u8>,
    tickets: AtomicU64,
}

impl Answers {
    fn new() -> Self {
        let filler = |length| answer("application/octet-stream", &vec![b'x'; length]);
        Self {
            small: filler(102),
            medium: filler(10 * 1024),
            large: filler(1024 * 1024),
            text: answer("text/plain", &text(10 * 1024)),
            large_text: answer("text/plain", &text(100 * 1024)),
            collected: answer("application/x-protobuf", b""),
            tickets: AtomicU64::new(0),
        }
    }

    fn to(&self, head: &[u8]) -> Cow<'_, [u8]> {
        let target = head.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        let ready = match target {
            b"/10k" => &self.medium,
            b"/1m" => &self.large,
            b"/text" => &self.text,
            b"/text-100k" => &self.large_text,
            b"/v1/traces" => &self.collected,
            _ if target == TICKET.as_bytes() => {
                let ticket = self.tickets.fetch_add(1, Relaxed).to_string();
                return Cow::Owned(answer("text/plain", ticket.as_bytes()));
            }
            _ if target == CONTEXT.as_bytes() => {
                let context = field(head, b"traceparent:").unwrap_or_default().trim();
                return Cow::Owned(answer("text/plain", context.as_bytes()));
            }
            _ => &self.small,
        };
        Cow::Borrowed(ready)
    }
}

/// Returns a whole response.
fn answer(media_type: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// Returns lines that are similar but not equal, as in JSON and HTML.
fn text(length: usize) -> Vec<u8> {
    let lines = (0_u64..).flat_map(|number| {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
        format!("{{\"id\": {number}, \"name\": \"item {mixed:x}\", \"count\": {}}}\n", mixed % 1000)
            .into_bytes()
    });
    lines.take(length).collect()
}

/// Serves until the listener fails.
///
/// # Errors
/// The address cannot be bound, or accepting fails.
pub async fn serve(address: SocketAddr) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot bind {address}"))?;
    let answers = Arc::new(Answers::new());
    loop {
        let (stream, _) = listener.accept().await.context("accept")?;
        let answers = answers.clone();
        tokio::spawn(async move {
            // An error means that the proxy closed the connection.
            let _ = converse(stream, &answers).await;
        });
    }
}

async fn converse(mut stream: TcpStream, answers: &Answers) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0; 3];
    // No HTTP/1.1 request here begins like these. `PRI` begins every HTTP/2 connection (RFC 9113
    // §3.4).
    if stream.peek(&mut first).await? == first.len() {
        match first {
            ECHO => return streams::echo(stream).await,
            FLOOD => return streams::flood(stream).await,
            _ if first == *b"PRI" => return super::grpc::serve(stream).await,
            _ => {}
        }
    }
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = &buffer[..end];
        if field(head, b"upgrade:").is_some() {
            return parrot(stream).await;
        }
        let chunked = field(head, b"transfer-encoding:").is_some();
        let length = field(head, b"content-length:").and_then(|value| value.trim().parse().ok()).unwrap_or(0);
        let answer = answers.to(head);
        let begun = buffer.len() - end;
        if chunked {
            skip_chunks(&mut stream, &mut buffer, end).await?;
        } else if begun > length {
            buffer.drain(..end + length);
        } else {
            buffer.clear();
            skip(&mut stream, length - begun).await?;
        }
        stream.write_all(&answer).await?;
    }
}

/// Returns the value of a field. `name` is in lower case and includes the colon.
fn field<'a>(head: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let mut lines = head.split(|&byte| byte == b'\n').skip(1);
    let line = lines.find(|line| line.len() > name.len() && line[..name.len()].eq_ignore_ascii_case(name))?;
    std::str::from_utf8(&line[name.len()..]).ok()
}

async fn skip(stream: &mut TcpStream, mut length: usize) -> std::io::Result<()> {
    if length == 0 {
        return Ok(());
    }
    let mut waste = vec![0; READ];
    while length > 0 {
        let wanted = length.min(READ);
        match stream.read(&mut waste[..wanted]).await? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            count => length -= count,
        }
    }
    Ok(())
}

/// Skips a chunked body. Assumes no trailers, and that the body does not contain the bytes of a
/// last chunk.
async fn skip_chunks(stream: &mut TcpStream, buffer: &mut Vec<u8>, start: usize) -> std::io::Result<()> {
    let mut from = start;
    loop {
        if let Some(end) = buffer[from..].windows(5).position(|five| five == b"0\r\n\r\n") {
            buffer.drain(..from + end + 5);
            return Ok(());
        }
        from = start.max(buffer.len().saturating_sub(4));
        if stream.read_buf(buffer).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Accepts an upgrade with the example key of RFC 6455, which the clients here send, and echoes all
/// bytes.
async fn parrot(mut stream: TcpStream) -> std::io::Result<()> {
    stream
        .write_all(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
              Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        )
        .await?;
    streams::echo(stream).await
}
