//! A client of gRPC's shape.

use std::net::SocketAddr;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{Request, Response};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{CONTENT, message, send};
use crate::client::trusting;

/// A client's connection to a gateway.
pub struct GrpcClient {
    requests: SendRequest<Bytes>,
    authority: String,
}

/// A call under way.
pub struct GrpcCall {
    response: ResponseFuture,
    stream: SendStream<Bytes>,
}

/// How a call ended.
#[derive(Debug)]
pub struct GrpcReply {
    /// The status of HTTP.
    pub http: u16,
    /// Fields of the head.
    pub head: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
    /// Trailers, if there were some.
    pub trailers: Option<HeaderMap>,
}

impl GrpcReply {
    /// gRPC's status, from wherever it stands.
    pub fn status(&self) -> Option<&str> {
        let trailers = self.trailers.as_ref().unwrap_or(&self.head);
        trailers.get("grpc-status")?.to_str().ok()
    }
}

impl GrpcClient {
    /// Over TLS.
    ///
    /// # Panics
    /// There is no such connection.
    pub async fn tls(address: SocketAddr, host: &str) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let stream = TlsConnector::from(trusting(&[b"h2"])).connect(name, socket).await.unwrap();
        Self::over(stream, host).await
    }

    /// In the clear.
    ///
    /// # Panics
    /// There is no such connection.
    pub async fn plain(address: SocketAddr, host: &str) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), host).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, host: &str) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { requests, authority: host.into() }
    }

    /// Begins a call.
    ///
    /// # Panics
    /// The connection has ended.
    pub async fn call(&self, path: &str) -> GrpcCall {
        self.call_with(path, &[]).await
    }

    /// The same with more fields.
    ///
    /// # Panics
    /// The connection has ended.
    pub async fn call_with(&self, path: &str, fields: &[(&str, &str)]) -> GrpcCall {
        let mut request = Request::post(format!("http://{}{path}", self.authority))
            .header(CONTENT_TYPE, CONTENT)
            .header("te", "trailers");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let mut requests = self.requests.clone().ready().await.unwrap();
        let (response, stream) = requests.send_request(request.body(()).unwrap(), false).unwrap();
        GrpcCall { response, stream }
    }

    /// A call with one message and its end.
    ///
    /// # Panics
    /// The connection has ended.
    pub async fn unary(&self, path: &str, text: &[u8]) -> Result<GrpcReply, h2::Error> {
        let mut call = self.call(path).await;
        call.send(message(text)).await?;
        call.finish()?;
        call.reply().await
    }
}

impl GrpcCall {
    /// Sends a piece.
    ///
    /// # Errors
    /// The call has ended.
    pub async fn send(&mut self, piece: Bytes) -> Result<(), h2::Error> {
        send(&mut self.stream, piece).await
    }

    /// Ends the request.
    ///
    /// # Errors
    /// The call has ended.
    pub fn finish(&mut self) -> Result<(), h2::Error> {
        self.stream.send_data(Bytes::new(), true)
    }

    /// Ends the request with trailers.
    ///
    /// # Errors
    /// The call has ended.
    pub fn finish_with(&mut self, trailers: HeaderMap) -> Result<(), h2::Error> {
        self.stream.send_trailers(trailers)
    }

    /// Interim responses up to the final one.
    ///
    /// # Errors
    /// There is none.
    pub async fn interim(&mut self) -> Result<Option<Response<()>>, h2::Error> {
        std::future::poll_fn(|cx| self.response.poll_informational(cx)).await.transpose()
    }

    /// Takes the call back.
    pub fn cancel(mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }

    /// The head of the response, and its body with what can still be sent.
    ///
    /// # Errors
    /// There is none.
    pub async fn head(self) -> Result<(Response<()>, RecvStream, SendStream<Bytes>), h2::Error> {
        let (head, body) = self.response.await?.into_parts();
        Ok((Response::from_parts(head, ()), body, self.stream))
    }

    /// The whole response.
    ///
    /// # Errors
    /// It broke off.
    pub async fn reply(self) -> Result<GrpcReply, h2::Error> {
        let (head, mut content) = self.response.await?.into_parts();
        let mut body = Vec::new();
        while let Some(piece) = content.data().await {
            let piece = piece?;
            content.flow_control().release_capacity(piece.len())?;
            body.extend_from_slice(&piece);
        }
        let trailers = content.trailers().await?;
        Ok(GrpcReply { http: head.status.as_u16(), head: head.headers, body, trailers })
    }
}
