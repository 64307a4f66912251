//! Backends: a well-behaved one, and ones with scripted connections.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use bytes::Bytes;
use h2::SendStream;
use sluice_testing::certificate::TestCertificate;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::client::Client;

pub(super) struct Backend {
    pub(super) address: SocketAddr,
    pub(super) connections: Arc<AtomicUsize>,
    pub(super) requests: Arc<AtomicUsize>,
    /// Releases one request for `/wait` per permit.
    pub(super) gate: Arc<Semaphore>,
    task: JoinHandle<()>,
}

impl Backend {
    /// Starts a backend that responds by path: `/wait` when the gate opens, `/chunked`, `/stream`
    /// with the rest of the body when the gate opens, and any other path with the received request.
    pub(super) async fn new() -> Self {
        let (requests, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let shared = (requests.clone(), gate.clone());
        let mut backend = Self::scripted(move |_, stream| {
            let (requests, gate) = shared.clone();
            async move { serve(Client::over(stream), &requests, &gate).await }
        })
        .await;
        (backend.requests, backend.gate) = (requests, gate);
        backend
    }

    /// Starts a backend whose connections are handled by `script`, which receives their numbers.
    pub(super) async fn scripted<F>(script: impl Fn(usize, TcpStream) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                tokio::spawn(script(counted.fetch_add(1, SeqCst), stream));
            }
        });
        Self { address, connections, requests: Arc::default(), gate: Arc::new(Semaphore::new(0)), task }
    }

    /// Starts an HTTP/2 backend that begins every response and sends its body with `send`.
    pub(super) async fn http2<F>(send: impl Fn(SendStream<Bytes>) -> F + Clone + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self::scripted(move |_, stream| {
            let send = send.clone();
            async move {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                while let Some(Ok((_, mut reply))) = connection.accept().await {
                    let body = reply.send_response(http::Response::new(()), false).unwrap();
                    tokio::spawn(send(body));
                }
            }
        })
        .await
    }

    /// Starts a backend that responds to every request with these bytes.
    pub(super) async fn saying(bytes: &'static str) -> Self {
        Self::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            while request(&mut client).await.is_some() {
                client.send(bytes).await;
            }
        })
        .await
    }

    /// Starts a backend that answers a request to switch protocols as `accept` does, then echoes
    /// everything in upper case.
    pub(super) async fn shouting(accept: fn(&str) -> String) -> Self {
        Self::scripted(move |_, stream| async move {
            let mut client = Client::over(stream);
            let head = client.until("\r\n\r\n").await;
            // The first bytes of the new protocol directly follow the head.
            client.send(accept(&head) + "ready;").await;
            loop {
                let shout = std::mem::take(&mut client.buf).to_ascii_uppercase();
                client.send(shout).await;
                if client.read().await == 0 {
                    return;
                }
            }
        })
        .await
    }

    /// Like [`scripted`](Self::scripted), over TLS with a self-signed certificate.
    pub(super) async fn with_tls<F>(
        script: impl Fn(TlsStream<TcpStream>) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let acceptor = TlsAcceptor::from(TestCertificate::new(&["other"]).server_config());
        Self::scripted(move |_, stream| {
            let (acceptor, script) = (acceptor.clone(), script.clone());
            async move { script(acceptor.accept(stream).await.unwrap()).await }
        })
        .await
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    pub(super) fn requests(&self) -> usize {
        self.requests.load(SeqCst)
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads a request: the head, and the body without its transfer coding.
pub(super) async fn request(client: &mut Client) -> Option<(String, String)> {
    while !client.buf.windows(4).any(|window| window == b"\r\n\r\n") {
        if client.read().await == 0 {
            return None;
        }
    }
    let head = client.until("\r\n\r\n").await.to_ascii_lowercase();
    if head.contains("expect: 100-continue") {
        client.send("HTTP/1.1 100 Continue\r\n\r\n").await;
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let body = if head.contains("transfer-encoding: chunked") {
        client.chunked().await
    } else if let Some(length) = length {
        client.exactly(length.parse().unwrap()).await
    } else {
        String::new()
    };
    Some((head, body))
}

async fn serve(mut client: Client, requests: &AtomicUsize, gate: &Semaphore) {
    while let Some((head, body)) = request(&mut client).await {
        requests.fetch_add(1, SeqCst);
        let path = head.split(' ').nth(1).unwrap_or_default();
        match path {
            "/chunked" => {
                client
                    .send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
                    .await;
            }
            "/stream" => {
                client.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
                gate.acquire().await.unwrap().forget();
                client.send("5\r\nhello\r\n").await;
                gate.acquire().await.unwrap().forget();
                client.send("5\r\nworld\r\n0\r\n\r\n").await;
            }
            _ => {
                if path == "/wait" {
                    gate.acquire().await.unwrap().forget();
                }
                let text = format!("{head}{body}");
                let answer = match head.starts_with("head ") {
                    true => String::new(),
                    false => text.clone(),
                };
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", text.len());
                client.send(answer).await;
            }
        }
    }
}
