//! An upload to an endpoint with TLS, from a client that pauses.

use std::future::poll_fn;
use std::time::Duration;

use http::HeaderMap;
use rustls::pki_types::ServerName;
use sluice_testing::certificate::TestCertificate;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use super::*;
use crate::body::downstream::Passed;
use crate::message::field_names::FieldNames;
use crate::message::response::Response;
use crate::pipeline::Answer;
use crate::upstream::connection::UNVERIFIED;

/// Less than rustls buffers at once, and more than the sockets hold.
const PIECE: usize = 48 * 1024;
const SOCKET: usize = 4 * 1024;

/// A client that sends one piece of its body and then stays silent.
struct Pauses {
    sent: bool,
}

impl Downstream for Pauses {
    fn is_spent(&self) -> bool {
        false
    }

    fn awaits_continue(&self) -> bool {
        false
    }

    fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        pass: impl FnOnce(&mut Context<'_>, &[u8], usize),
    ) -> Poll<Result<(), FailureKind>> {
        if std::mem::replace(&mut self.sent, true) {
            return Poll::Pending;
        }
        pass(cx, &[b'x'; PIECE], PIECE);
        Poll::Ready(Ok(()))
    }

    fn poll_client_closed(&mut self, _: &mut Context<'_>, _: bool) -> Poll<()> {
        Poll::Pending
    }

    fn has_left(&self) -> bool {
        false
    }

    fn interim(&mut self, _: &mut Context<'_>, _: &mut Response) -> Result<(), FailureKind> {
        unreachable!("nothing is answered")
    }

    fn respond(&mut self, _: &mut Context<'_>, _: &mut Response, _: &[u8]) -> Result<Passed, FailureKind> {
        unreachable!("nothing is answered")
    }

    fn pass(&mut self, _: &mut Context<'_>, _: &mut Response, _: &[u8]) -> Result<Passed, FailureKind> {
        unreachable!("nothing is answered")
    }

    fn end(
        &mut self,
        _: &mut Context<'_>,
        _: &mut Response,
        _: Option<&HeaderMap>,
    ) -> Result<(), FailureKind> {
        unreachable!("nothing is answered")
    }

    fn answer(&mut self, _: &mut Context<'_>, _: &Answer, _: bool) -> Result<(), FailureKind> {
        unreachable!("nothing is answered")
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, _: &mut Deadlines) -> Poll<Result<(), FailureKind>> {
        Poll::Ready(Ok(()))
    }

    fn sent(&self) -> (u64, u64) {
        (0, 0)
    }
}

async fn pair() -> (Transport, tokio_rustls::server::TlsStream<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    socket2::SockRef::from(&listener).set_recv_buffer_size(SOCKET).unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    socket2::SockRef::from(&ours).set_send_buffer_size(SOCKET).unwrap();
    let (theirs, _) = listener.accept().await.unwrap();
    let name = ServerName::try_from("other").unwrap();
    let connector = TlsConnector::from(UNVERIFIED.clone());
    let acceptor = TlsAcceptor::from(TestCertificate::new(&["other"]).server_config());
    let (ours, theirs) = tokio::join!(connector.connect(name, ours), acceptor.accept(theirs));
    (Transport::Tls(Box::new(ours.unwrap().into())), theirs.unwrap())
}

#[tokio::test]
async fn bytes_buffered_by_tls_waited_for_a_paused_client() {
    let (mut to, mut endpoint) = pair().await;
    let head = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 1000000\r\n\r\n";
    let head = Head::read(head, FieldNames::ANY).unwrap();
    let minute = Duration::from_secs(60);
    let outgoing = OutgoingRequest {
        head: &head,
        version: Version::HTTP_11,
        last: false,
        upgrade: false,
        timeouts: UploadTimeouts { client: Some(minute), endpoint: Some(minute) },
    };
    let (mut upload, mut downstream, mut deadlines) =
        (Upload::new(), Pauses { sent: false }, Deadlines::default());
    let mut upload = poll_fn(|cx| {
        upload.poll(cx, &mut downstream, &mut to, &mut deadlines, &outgoing).map(|ended| ended.is_ok())
    });
    let mut seen = Vec::new();
    let reading = async {
        // The endpoint begins to read once the upload has stalled.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        while seen.len() < head.length + PIECE {
            assert_ne!(endpoint.read_buf(&mut seen).await.unwrap(), 0);
        }
    };
    tokio::select! {
        ended = &mut upload => panic!("the body is not complete: {ended}"),
        read = tokio::time::timeout(minute / 4, reading) => read.expect("all that the client sent"),
    }
}
