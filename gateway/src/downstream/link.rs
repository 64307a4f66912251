//! What the connection loop and the proxy tell each other about one client connection.
//!
//! Between them stands Pingora, which carries a `ProxyDigest` with the stream and shows it with every session.
//! Its user data is a [`Client`]. Requests of one HTTP/1 connection follow one another, so the cells of its
//! [`Link`] have one writer at a time; they are atomics because Pingora's futures must be `Send`.

use std::any::Any;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use http::StatusCode;
use pingora_core::protocols::raw_connect::ProxyDigest;
use pingora_http::ResponseHeader;

use super::http2::Streams;
use crate::connection_info::ConnectionInfo;
use crate::io::transport::has_left;
use crate::io::transport::on_its_way;
use crate::io::wire::Wire;
use crate::message::framing::Framing;

/// Facts about a connection, as the proxy finds them in a session.
#[derive(Debug)]
pub(crate) struct Client {
    /// Addresses, listener, TLS.
    pub(crate) info: Arc<ConnectionInfo>,
    /// The other end of the HTTP/1 loop; `None` for HTTP/2.
    pub(crate) http1: Option<Arc<Link>>,
    /// The streams of the connection; `None` for HTTP/1.
    pub(crate) http2: Option<Arc<Streams>>,
}

/// The cells shared by the HTTP/1 loop, the stream it lends to Pingora and the proxy.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The request reached our own code. What is written before that is not ours and is dropped.
    began: AtomicBool,
    /// The endpoint switched protocols.
    upgraded: AtomicBool,
    /// What the next flush can wait for.
    follows: AtomicU8,
    /// The response is chunked.
    chunked: AtomicBool,
    /// Its head has not been sent.
    head_waits: AtomicBool,
    /// The request and its response are complete and the connection may go on, although Pingora would end it.
    keep: AtomicBool,
    /// The response went out whole.
    whole: AtomicBool,
    /// This is the last request of the connection.
    last: AtomicBool,
    /// The client waits for `100 Continue`.
    awaits_continue: AtomicBool,
    /// The request's body is not what its head says.
    malformed: AtomicBool,
    /// Bytes of the request body that were not read yet; [`UNKNOWN`] when nobody knows.
    unread: AtomicU64,
    /// Bytes written for this request.
    sent: AtomicU64,
    /// Bytes of the request head.
    head_length: AtomicUsize,
    /// The client's socket.
    descriptor: AtomicI32,
    /// The stream, once Pingora has let go of it. Held for a move only, never waited for: it is empty while
    /// Pingora has the stream, and whoever fills it has gone when the loop looks.
    home: Mutex<Option<Returned>>,
}

/// A stream on its way back to the loop.
#[derive(Debug)]
pub(crate) struct Returned {
    /// The stream.
    pub(crate) wire: Box<Wire>,
    /// What was not read of the body.
    pub(crate) framing: Framing,
    /// What was not sent of the response.
    pub(crate) out: BytesMut,
}

const UNKNOWN: u64 = u64::MAX;

/// What will be written next, so that a flush can wait for it and both leave in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Follows {
    /// Nothing that is known of.
    Nothing = 0,
    /// A piece of the body.
    Body = 1,
    /// The end of the body.
    End = 2,
}

impl Client {
    /// The digest that carries it through Pingora.
    pub(crate) fn digest(
        info: Arc<ConnectionInfo>,
        http1: Option<Arc<Link>>,
        http2: Option<Arc<Streams>>,
    ) -> Arc<ProxyDigest> {
        let client: Box<dyn Any + Send + Sync> = Box::new(Self { info, http1, http2 });
        let response = ResponseHeader::from(http::Response::new(()).into_parts().0);
        Arc::new(ProxyDigest::new(Box::new(response), Some(client)))
    }

    /// The client of a session that came through our own streams.
    pub(crate) fn of(digest: Option<&ProxyDigest>) -> Option<&Self> {
        digest?.user_data.as_ref()?.downcast_ref()
    }
}

impl Link {
    /// Prepares for the next request.
    pub(crate) fn prepare(&self, head_length: usize, framing: &Framing, awaits_continue: bool, last: bool) {
        for cell in [&self.began, &self.upgraded, &self.keep, &self.whole, &self.chunked, &self.head_waits] {
            cell.store(false, Relaxed);
        }
        self.malformed.store(false, Relaxed);
        self.follows.store(Follows::Nothing as u8, Relaxed);
        self.last.store(last, Relaxed);
        self.awaits_continue.store(awaits_continue && !framing.is_done(), Relaxed);
        self.head_length.store(head_length, Relaxed);
        self.sent.store(0, Relaxed);
        self.set_unread(framing);
    }

    /// A link for a stream that is lent whole.
    pub(crate) fn opaque() -> Arc<Self> {
        let link = Self::default();
        link.begin();
        link.upgraded.store(true, Relaxed);
        Arc::new(link)
    }

    pub(crate) fn begin(&self) {
        self.began.store(true, Relaxed);
    }

    pub(crate) fn began(&self) -> bool {
        self.began.load(Relaxed)
    }

    /// A final response head or an interim one goes out.
    pub(crate) fn responds(&self, status: StatusCode, chunked: bool) {
        if status == StatusCode::SWITCHING_PROTOCOLS {
            self.upgraded.store(true, Relaxed);
        }
        if status == StatusCode::CONTINUE {
            self.awaits_continue.store(false, Relaxed);
        }
        self.chunked.store(chunked, Relaxed);
        self.head_waits.store(chunked, Relaxed);
    }

    pub(crate) fn upgraded(&self) -> bool {
        self.upgraded.load(Relaxed)
    }

    /// A piece of a response body is about to be written: Pingora runs the filters of all that it has at hand
    /// before it writes any of it. Of other than chunked bodies Pingora flushes the end only.
    pub(crate) fn body_follows(&self, bytes: usize, end: bool) {
        if !self.chunked.load(Relaxed) {
            return;
        }
        if end {
            self.follows.store(Follows::End as u8, Relaxed);
        } else if bytes > 0 && self.head_waits.load(Relaxed) {
            self.follows.store(Follows::Body as u8, Relaxed);
        }
    }

    pub(crate) fn follows(&self) -> Follows {
        match self.follows.load(Relaxed) {
            1 => Follows::Body,
            2 => Follows::End,
            _ => Follows::Nothing,
        }
    }

    /// A flush was left out, because more follows.
    pub(crate) fn flush_waits(&self) {
        self.head_waits.store(false, Relaxed);
        if self.follows() == Follows::Body {
            self.follows.store(Follows::Nothing as u8, Relaxed);
        }
    }

    /// All that was written is sent.
    pub(crate) fn flushed(&self) {
        self.head_waits.store(false, Relaxed);
        self.follows.store(Follows::Nothing as u8, Relaxed);
    }

    pub(crate) fn set_keep(&self) {
        self.keep.store(true, Relaxed);
    }

    pub(crate) fn keep(&self) -> bool {
        self.keep.load(Relaxed)
    }

    pub(crate) fn set_whole(&self) {
        self.whole.store(true, Relaxed);
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load(Relaxed)
    }

    pub(crate) fn set_malformed(&self) {
        self.malformed.store(true, Relaxed);
    }

    pub(crate) fn is_malformed(&self) -> bool {
        self.malformed.load(Relaxed)
    }

    pub(crate) fn is_last(&self) -> bool {
        self.last.load(Relaxed)
    }

    pub(crate) fn set_unread(&self, framing: &Framing) {
        self.unread.store(framing.left().unwrap_or(UNKNOWN), Relaxed);
    }

    /// Whether what was not read of the body can be read and dropped: it is small, and it will come.
    pub(crate) fn can_drain(&self) -> bool {
        let unread = self.unread.load(Relaxed);
        unread == 0 || unread <= super::MAX_DRAIN && !self.awaits_continue.load(Relaxed)
    }

    pub(crate) fn add_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
    }

    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(crate) fn head_length(&self) -> usize {
        self.head_length.load(Relaxed)
    }

    /// Says which socket is the client's, for as long as the stream is lent.
    pub(crate) fn set_descriptor(&self, descriptor: RawFd) {
        self.descriptor.store(descriptor, Relaxed);
    }

    /// Whether the client has left, as far as the kernel knows: Pingora does not look while it connects.
    pub(crate) fn has_left(&self) -> bool {
        has_left(self.descriptor.load(Relaxed))
    }

    /// While the client has not got all that was written, as far as the kernel knows: how many bytes it has got.
    pub(crate) fn on_its_way(&self) -> Option<u64> {
        on_its_way(self.descriptor.load(Relaxed))
    }

    pub(crate) fn come_home(&self, returned: Returned) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
    }

    pub(crate) fn take_home(&self) -> Option<Returned> {
        self.home.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
