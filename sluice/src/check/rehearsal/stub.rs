//! The stub that answers in place of every endpoint: 200 without a body. To a request for an error
//! page, it answers with the status of the page (`X-Code`), like the servers of error pages.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// Starts the stub on a free port of loopback. It ends with the runtime.
///
/// # Errors
/// No port can be bound.
pub(super) async fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        // An error of one connection, such as a lack of descriptors, ends no others.
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    });
    Ok(address)
}

async fn answer(request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let code = request.headers().get("x-code").and_then(|code| StatusCode::from_bytes(code.as_bytes()).ok());
    let mut response = Response::new(Empty::new());
    *response.status_mut() = code.unwrap_or(StatusCode::OK);
    Ok(response)
}
