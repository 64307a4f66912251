//! WebSocket: an endpoint of HTTP/1.1 and a client of HTTP/2 (RFC 8441).

use std::net::SocketAddr;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use http::{Method, Request};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use crate::client::trusting;
use crate::wait::{PATIENCE, until};

/// An endpoint that accepts handshakes of HTTP/1.1 and echoes each message.
pub struct EchoEndpoint {
    /// The address of the endpoint.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl EchoEndpoint {
    /// Starts the endpoint.
    ///
    /// # Panics
    /// No socket can be bound.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
                    while let Some(Ok(message)) = socket.next().await {
                        if message.is_text() && socket.send(message).await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for EchoEndpoint {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A WebSocket on a stream of an HTTP/2 connection over TLS.
pub struct WebSocket {
    socket: WebSocketStream<DuplexStream>,
    connection: JoinHandle<Result<(), h2::Error>>,
}

impl WebSocket {
    /// Opens a connection and a WebSocket. The error is the status of another response.
    ///
    /// # Errors
    /// The gateway or the endpoint has refused the handshake.
    ///
    /// # Panics
    /// The connection fails, or the gateway does not permit extended CONNECT.
    pub async fn connect(address: SocketAddr, host: &str, path: &str) -> Result<Self, u16> {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let stream = TlsConnector::from(trusting(&[b"h2"])).connect(name, stream).await.unwrap();
        let (client, connection) = h2::client::handshake(stream).await.unwrap();
        let connection = tokio::spawn(connection);
        until("the SETTINGS of the gateway", || client.is_extended_connect_protocol_enabled()).await;
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(format!("https://{host}{path}"))
            .header("sec-websocket-version", "13")
            .body(())
            .unwrap();
        request.extensions_mut().insert(Protocol::from_static("websocket"));
        let (response, send) = client.ready().await.unwrap().send_request(request, false).unwrap();
        let response = response.await.unwrap();
        if response.status() != 200 {
            return Err(response.status().as_u16());
        }
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (read, write) = tokio::io::split(theirs);
        tokio::spawn(upload(read, send));
        tokio::spawn(download(response.into_body(), write));
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        Ok(Self { socket, connection })
    }

    /// Sends a text and returns the next one.
    ///
    /// # Panics
    /// There is none in time.
    pub async fn echo(&mut self, text: &str) -> String {
        self.socket.send(Message::text(text)).await.unwrap();
        let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("in time");
        message.expect("a message").unwrap().into_text().unwrap().to_string()
    }

    /// Closes the WebSocket in order, and then the connection.
    ///
    /// # Panics
    /// The gateway does not close either in time.
    pub async fn close(self) {
        let Self { mut socket, connection } = self;
        let closed = async {
            socket.close(None).await.unwrap();
            while socket.next().await.is_some() {}
            drop(socket);
            // It ends with its only stream.
            connection.await.unwrap().unwrap();
        };
        tokio::time::timeout(PATIENCE, closed).await.expect("in time");
    }
}

async fn upload(mut from: ReadHalf<DuplexStream>, mut to: SendStream<Bytes>) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let mut rest = Bytes::copy_from_slice(&buffer[..length]);
        while !rest.is_empty() {
            to.reserve_capacity(rest.len());
            let Some(Ok(room)) = std::future::poll_fn(|cx| to.poll_capacity(cx)).await else { return };
            if to.send_data(rest.split_to(room.min(rest.len())), false).is_err() {
                return;
            }
        }
    }
    // The gateway may have ended the stream.
    let _ = to.send_data(Bytes::new(), true);
}

async fn download(mut from: RecvStream, mut to: WriteHalf<DuplexStream>) {
    while let Some(Ok(piece)) = from.data().await {
        if from.flow_control().release_capacity(piece.len()).is_err() || to.write_all(&piece).await.is_err() {
            return;
        }
    }
    // The reader may be gone.
    let _ = to.shutdown().await;
}
