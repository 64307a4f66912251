//! HTTP/2 clients, over TLS or with prior knowledge.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{Request, Response};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::client::trusting;
use crate::wait::PATIENCE;

/// Returns a frame (RFC 9113 §4.1).
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Runs a test on a runtime of its own, with a time limit.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let deadline: Duration = 2 * PATIENCE;
    runtime.block_on(async { tokio::time::timeout(deadline, test).await.expect("the test takes too long") })
}

/// An HTTP/2 connection. Its driver ends with an error, or when the gateway closes the connection.
pub struct Connection {
    requests: SendRequest<Bytes>,
    /// Completes with the result of the connection.
    pub driver: JoinHandle<Result<(), h2::Error>>,
}

impl Connection {
    /// Connects over TLS; the gateway must select `h2` by ALPN.
    pub async fn tls(address: SocketAddr, sni: &str) -> Self {
        Self::tls_with(address, sni, trusting(&[b"h2", b"http/1.1"])).await
    }

    /// The same as a configuration of the test says, which must offer `h2`.
    pub async fn tls_with(address: SocketAddr, sni: &str, config: Arc<ClientConfig>) -> Self {
        let connector = TlsConnector::from(config);
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(sni.to_owned()).unwrap();
        let stream = connector.connect(name, socket).await.unwrap();
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        Self::over(stream).await
    }

    /// Connects without TLS, with prior knowledge.
    pub async fn plain(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap()).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        Self { requests, driver: tokio::spawn(connection) }
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: Request<()>, body: &str) -> Result<Response<Bytes>, h2::Error> {
        let mut requests = self.requests.clone().ready().await?;
        let (response, mut stream) = requests.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(Bytes::copy_from_slice(body.as_bytes()), true)?;
        }
        let (head, mut content) = response.await?.into_parts();
        let mut bytes = Vec::new();
        while let Some(chunk) = content.data().await {
            let chunk = chunk?;
            content.flow_control().release_capacity(chunk.len())?;
            bytes.extend_from_slice(&chunk);
        }
        Ok(Response::from_parts(head, bytes.into()))
    }

    /// Sends a GET for an https URL.
    pub async fn get(&self, url: &str) -> Result<Response<Bytes>, h2::Error> {
        self.send(Request::get(url).body(()).unwrap(), "").await
    }
}

/// Returns the protocol that the gateway selects from `offered`.
pub async fn negotiated(address: SocketAddr, sni: &str, offered: &[&[u8]]) -> Option<Vec<u8>> {
    let connector = TlsConnector::from(Arc::clone(&trusting(offered)));
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(sni.to_owned()).unwrap();
    let stream = connector.connect(name, socket).await.unwrap();
    stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec)
}
