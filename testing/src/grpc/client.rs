//! A gRPC client.

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

/// A connection to a gateway.
pub struct GrpcClient {
    requests: SendRequest<Bytes>,
    authority: String,
}

/// A running call.
pub struct GrpcCall {
    response: ResponseFuture,
    stream: SendStream<Bytes>,
}

/// The result of a call.
#[derive(Debug)]
pub struct GrpcReply {
    /// The HTTP status.
    pub http: u16,
    /// Fields of the head.
    pub head: HeaderMap,
    /// The whole body.
    pub body: Vec<u8>,
    /// The trailers, if there are any.
    pub trailers: Option<HeaderMap>,
}

impl GrpcReply {
    /// Returns the gRPC status, from the trailers or the head.
    pub fn status(&self) -> Option<&str> {
        let trailers = self.trailers.as_ref().unwrap_or(&self.head);
        trailers.get("grpc-status")?.to_str().ok()
    }
}

impl GrpcClient {
    /// Connects over TLS.
    ///
    /// # Panics
    /// The connection fails.
    pub async fn tls(address: SocketAddr, host: &str) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(host.to_owned()).unwrap();
        let stream = TlsConnector::from(trusting(&[b"h2"])).connect(name, socket).await.unwrap();
        Self::over(stream, host).await
    }

    /// Connects without TLS.
    ///
    /// # Panics
    /// The connection fails.
    pub async fn plain(address: SocketAddr, host: &str) -> Self {
        Self::over(TcpStream::connect(address).await.unwrap(), host).await
    }

    async fn over(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, host: &str) -> Self {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self { requests, authority: host.into() }
    }

    /// Starts a call.
    ///
    /// # Panics
    /// The connection has ended.
    pub async fn call(&self, path: &str) -> GrpcCall {
        self.call_with(path, &[]).await
    }

    /// Starts a call with additional fields.
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

    /// Makes a call with one message.
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
    /// Sends a piece of the body.
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

    /// Returns the next interim response; `None` after the last one.
    ///
    /// # Errors
    /// The call has failed.
    pub async fn interim(&mut self) -> Result<Option<Response<()>>, h2::Error> {
        std::future::poll_fn(|cx| self.response.poll_informational(cx)).await.transpose()
    }

    /// Cancels the call.
    pub fn cancel(mut self) {
        self.stream.send_reset(Reason::CANCEL);
    }

    /// Returns the head and the body of the response, and the stream for the rest of the request.
    ///
    /// # Errors
    /// The call has failed.
    pub async fn head(self) -> Result<(Response<()>, RecvStream, SendStream<Bytes>), h2::Error> {
        let (head, body) = self.response.await?.into_parts();
        Ok((Response::from_parts(head, ()), body, self.stream))
    }

    /// Returns the whole response.
    ///
    /// # Errors
    /// The response was aborted.
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
