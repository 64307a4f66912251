//! The origin's gRPC service: every call gets one message or a stream of them. The request is not
//! decoded, because its content does not matter.

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::TcpStream;

/// Method with one response message.
pub const UNARY: &str = "/bench.Echo/Unary";
/// Method with a stream of response messages.
pub const STREAM: &str = "/bench.Echo/Stream";

/// A message of 100 bytes after its length prefix, whose last byte is the letter d (gRPC over
/// HTTP/2, "Length-Prefixed-Message").
pub const MESSAGE: &str = concat!(
    "\0\0\0\0d",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
);
/// Number of messages in a stream.
const MESSAGES: usize = 100;

/// Serves one connection.
pub(super) async fn serve(stream: TcpStream) -> std::io::Result<()> {
    let mut options = h2::server::Builder::new();
    options
        .max_concurrent_streams(1000)
        .initial_window_size(1 << 20)
        .initial_connection_window_size(16 << 20);
    let mut connection = options.handshake(stream).await.map_err(std::io::Error::other)?;
    while let Some(accepted) = connection.accept().await {
        let (request, reply) = accepted.map_err(std::io::Error::other)?;
        tokio::spawn(async move {
            // An error means that the proxy ended the call.
            let _ = answer(request, reply).await;
        });
    }
    Ok(())
}

async fn answer(request: Request<h2::RecvStream>, mut reply: SendResponse<Bytes>) -> Result<(), h2::Error> {
    let messages = if request.uri().path() == STREAM { MESSAGES } else { 1 };
    let mut body = request.into_body();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let mut head = Response::new(());
    head.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    let mut stream: SendStream<Bytes> = reply.send_response(head, false)?;
    for _ in 0..messages {
        stream.send_data(Bytes::from_static(MESSAGE.as_bytes()), false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    stream.send_trailers(trailers)
}
