//! One HTTP/1.1 request on one connection, with the complete response.

use anyhow::{Result, bail};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Sends a request and returns the complete response.
///
/// # Errors
/// Returns an error if the peer does not respond, or breaks off.
pub async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    request: Request<Bytes>,
) -> Result<Response<Bytes>> {
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let (head, body) = sender.send_request(request.map(Full::new)).await?.into_parts();
        anyhow::Ok(Response::from_parts(head, body.collect().await?.to_bytes()))
    };
    tokio::pin!(connection, answer);
    tokio::select! {
        biased;
        answer = &mut answer => answer,
        closed = &mut connection => {
            closed?;
            // The rest of the response may have arrived with the end of the connection.
            match futures::FutureExt::now_or_never(answer) {
                Some(answer) => answer,
                None => bail!("the connection was closed without an answer"),
            }
        }
    }
}
