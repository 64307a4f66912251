//! The client's side of a connection as drivers see it.
//!
//! It stands between a driver and the socket for four reasons. It holds back what does not belong to the
//! current request, so that a pipelined one is read by us and not by a driver's leftover buffer. It gathers a
//! response head and the first octets of its body into one write. It lets nothing out before our own filters
//! have seen the request, so that a driver's built-in page never shows. And it carries what is known about the
//! connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use async_trait::async_trait;
use bytes::{Buf, BytesMut};
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_core::protocols::{
    ALPN, GetProxyDigest, GetSocketDigest, GetTimingDigest, Peek, Shutdown, SocketDigest, Ssl, TimingDigest,
    UniqueID, UniqueIDType,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_util::io::poll_read_buf;

use super::chunks::ChunkScanner;
use super::head::Framing;

/// Octets of a response that are gathered before they are written without being asked to.
const GATHER: usize = 16 * 1024;
/// Octets read at once when a driver only asks whether the client is still there.
const PROBE: usize = 1024;

/// The transport below.
#[derive(Debug)]
pub(crate) enum Transport {
    /// TCP.
    Plain(TcpStream),
    /// TLS on TCP; boxed because most connections of a busy gateway are not.
    Tls(Box<TlsStream<TcpStream>>),
}

/// A client's stream.
#[derive(Debug)]
pub(crate) struct ClientIo {
    transport: Transport,
    /// Read and not yet given to a driver.
    ahead: BytesMut,
    gate: Gate,
    /// Written by a driver and not yet sent.
    gathered: Vec<u8>,
    /// The driver's answer may go out.
    released: AtomicBool,
    /// The protocol has changed: everything passes.
    upgraded: AtomicBool,
    http2: bool,
    /// The connection ends with the current request.
    last: bool,
    digest: Arc<ProxyDigest>,
}

/// Which of the octets that follow belong to the current request.
#[derive(Debug)]
enum Gate {
    Length(u64),
    Chunked(ChunkScanner),
    Open,
}

impl ClientIo {
    /// A connection before its first request.
    pub(crate) fn new(transport: Transport, digest: Arc<ProxyDigest>) -> Self {
        Self {
            transport,
            ahead: BytesMut::new(),
            gate: Gate::Length(0),
            gathered: Vec::new(),
            released: AtomicBool::new(false),
            upgraded: AtomicBool::new(false),
            http2: false,
            last: false,
            digest,
        }
    }

    /// What is carried for the connection's requests.
    pub(crate) fn digest(&self) -> &Arc<ProxyDigest> {
        &self.digest
    }

    /// The octets read and not yet given to a driver.
    pub(crate) fn ahead(&mut self) -> &mut BytesMut {
        &mut self.ahead
    }

    /// Lets the octets of one request's body through, and nothing else. `last` says that the connection ends
    /// with it.
    pub(crate) fn admit(&mut self, framing: Framing, last: bool) {
        self.last = last;
        self.gate = match framing {
            Framing::Length(length) => Gate::Length(length),
            Framing::Chunked(scanner) => Gate::Chunked(scanner),
        };
        *self.released.get_mut() = false;
    }

    /// Lets everything through, as HTTP/2.
    pub(crate) fn open_as_http2(&mut self) {
        self.gate = Gate::Open;
        self.http2 = true;
        *self.released.get_mut() = true;
    }

    /// From now on what a driver writes goes out.
    pub(crate) fn release(&self) {
        self.released.store(true, Relaxed);
    }

    /// From now on everything the client sends goes to the driver (RFC 9110 §7.8).
    pub(crate) fn upgrade(&self) {
        self.upgraded.store(true, Relaxed);
    }

    /// Whether the connection ends with the current request.
    pub(crate) fn is_last(&self) -> bool {
        self.last
    }

    /// Gives back memory that an idle connection does not need.
    pub(crate) fn rest(&mut self) {
        self.gathered = Vec::new();
        if self.ahead.is_empty() {
            self.ahead = BytesMut::new();
        }
    }

    /// Waits until there may be something to read. Holds no buffer; may be wrong, and then the next read is
    /// pending.
    pub(crate) async fn readable(&self) -> io::Result<()> {
        match &self.transport {
            Transport::Plain(stream) => stream.readable().await,
            Transport::Tls(stream) => stream.get_ref().0.readable().await,
        }
    }

    /// Reads what is there into [`ahead`](Self::ahead) without waiting: `None` for nothing now, 0 at the end.
    pub(crate) fn try_fill(&mut self, context: &mut Context<'_>, most: usize) -> Option<io::Result<usize>> {
        self.ahead.reserve(most);
        match poll_read_buf(Pin::new(&mut self.transport), context, &mut self.ahead) {
            Poll::Ready(read) => Some(read),
            Poll::Pending => None,
        }
    }

    /// Sends octets past all gates: our own page for a head that no driver has seen.
    pub(crate) async fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        self.transport.write_all(octets).await?;
        self.transport.flush().await
    }

    fn poll_read_gated(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let allowed = match &self.gate {
            _ if *self.upgraded.get_mut() => u64::MAX,
            Gate::Open => u64::MAX,
            Gate::Length(left) => *left,
            Gate::Chunked(scanner) if scanner.is_done() => 0,
            Gate::Chunked(_) => u64::MAX,
        };
        if allowed == 0 {
            return self.poll_probe(context);
        }
        let most = usize::try_from(allowed).unwrap_or(usize::MAX).min(buffer.remaining());
        let start = buffer.filled().len();
        if !self.ahead.is_empty() {
            let step = most.min(self.ahead.len());
            buffer.put_slice(&self.ahead[..step]);
            self.ahead.advance(step);
        } else if most == buffer.remaining() {
            ready!(Pin::new(&mut self.transport).poll_read(context, buffer))?;
        } else {
            let mut part = ReadBuf::new(buffer.initialize_unfilled_to(most));
            ready!(Pin::new(&mut self.transport).poll_read(context, &mut part))?;
            let read = part.filled().len();
            buffer.advance(read);
        }
        self.account(buffer, start);
        Poll::Ready(Ok(()))
    }

    /// Takes back what was read beyond the request.
    fn account(&mut self, buffer: &mut ReadBuf<'_>, start: usize) {
        if *self.upgraded.get_mut() {
            return;
        }
        let read = &buffer.filled()[start..];
        match &mut self.gate {
            Gate::Open => {}
            Gate::Length(left) => *left -= read.len() as u64,
            Gate::Chunked(scanner) => {
                let used = scanner.scan(read);
                if used < read.len() {
                    let mut back = BytesMut::from(&read[used..]);
                    back.unsplit(std::mem::take(&mut self.ahead));
                    self.ahead = back;
                    buffer.set_filled(start + used);
                }
            }
        }
    }

    /// A driver that reads past the request wants to know whether the client is still there. What the client
    /// sends meanwhile is its next request and is kept.
    fn poll_probe(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.ahead.len() < PROBE {
            match self.try_fill(context, PROBE) {
                None => return Poll::Pending,
                Some(Err(error)) => return Poll::Ready(Err(error)),
                Some(Ok(0)) if self.ahead.is_empty() => return Poll::Ready(Ok(())),
                // The end is known; what came before it is answered first.
                Some(Ok(0)) => return Poll::Pending,
                Some(Ok(_)) => {}
            }
        }
        Poll::Pending
    }

    fn poll_send_gathered(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sent = 0;
        let result = loop {
            if sent == self.gathered.len() {
                break Poll::Ready(Ok(()));
            }
            match Pin::new(&mut self.transport).poll_write(context, &self.gathered[sent..]) {
                Poll::Ready(Ok(0)) => break Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(step)) => sent += step,
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        self.gathered.drain(..sent);
        result
    }
}

impl AsyncRead for ClientIo {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.get_mut().poll_read_gated(context, buffer)
    }
}

impl AsyncWrite for ClientIo {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if !*this.released.get_mut() {
            return Poll::Ready(Ok(octets.len()));
        }
        if this.gathered.len() + octets.len() <= GATHER {
            this.gathered.extend_from_slice(octets);
            return Poll::Ready(Ok(octets.len()));
        }
        ready!(this.poll_send_gathered(context))?;
        Pin::new(&mut this.transport).poll_write(context, octets)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send_gathered(context))?;
        Pin::new(&mut this.transport).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send_gathered(context))?;
        Pin::new(&mut this.transport).poll_shutdown(context)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, octets: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, octets),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, octets),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

#[async_trait]
impl Shutdown for ClientIo {
    async fn shutdown(&mut self) {
        // The peer may be gone; there is nobody to tell.
        let _ = AsyncWriteExt::shutdown(self).await;
    }
}

impl UniqueID for ClientIo {
    fn id(&self) -> UniqueIDType {
        use std::os::fd::AsRawFd;
        match &self.transport {
            Transport::Plain(stream) => stream.as_raw_fd(),
            Transport::Tls(stream) => stream.get_ref().0.as_raw_fd(),
        }
    }
}

impl Ssl for ClientIo {
    fn selected_alpn_proto(&self) -> Option<ALPN> {
        self.http2.then_some(ALPN::H2)
    }
}

impl GetTimingDigest for ClientIo {
    fn get_timing_digest(&self) -> Vec<Option<TimingDigest>> {
        Vec::new()
    }
}

impl GetProxyDigest for ClientIo {
    fn get_proxy_digest(&self) -> Option<Arc<ProxyDigest>> {
        Some(self.digest.clone())
    }
}

impl GetSocketDigest for ClientIo {
    fn get_socket_digest(&self) -> Option<Arc<SocketDigest>> {
        None
    }
}

impl Peek for ClientIo {}
