//! The HTTPS server of the webhook: one path, a deadline for each part of a request, and capacity
//! for new clients whatever the open connections do (`connections.rs`).

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificate::Current;
use super::connections::{ConnectionSlot, Connections, Limits};
use super::request::{Reviewer, Unanswered};

/// The path is that of ingress-nginx.
const PATH: &str = "/networking/v1/ingresses";
/// Size in bytes from which reviews are refused, as by ingress-nginx. An object has at most 3 MiB,
/// and an update contains two.
const TOO_LARGE: usize = 9 * 1024 * 1024;
/// Maximum number of bytes of a refused body that are read and dropped.
const MOST_DROPPED: usize = 4 * TOO_LARGE;
/// Limits for connections and the bytes of all request bodies.
const LIMITS: Limits = Limits { connections: 128, bytes: 4 * TOO_LARGE };
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(10);
/// Time limit for the body. API servers send it at once.
const BODY: Duration = Duration::from_secs(5);
/// Time limit for body and verdict. API servers wait 10 s by default.
const ANSWER: Duration = Duration::from_secs(9);
/// A connection older than this is closed between two requests.
const LIFE: Duration = Duration::from_secs(120);

/// Returns a TLS acceptor that always uses the current certificate.
pub(super) fn tls(certificates: Arc<Current>) -> TlsAcceptor {
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider knows TLS 1.2 and 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Serves until it is dropped.
pub(super) async fn run(listener: TcpListener, tls: TlsAcceptor, reviewer: Arc<Reviewer>) {
    let connections = Connections::new(LIMITS);
    loop {
        let stream = match accept(&listener).await {
            Ok(stream) => stream,
            Err(error) => {
                // Most likely the process is out of file descriptors.
                tracing::warn!(%error, "the validating webhook cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let slot = connections.admit().await;
        let (tls, reviewer) = (tls.clone(), reviewer.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = connection(stream, tls, &reviewer, &slot) => {}
                () = slot.evicted() => {
                    tracing::debug!("a connection to the validating webhook was closed to admit another");
                }
            }
        });
    }
}

/// Accepts the next connection. The first response follows the TLS session tickets. With Nagle's
/// algorithm it would wait until the client has acknowledged these, which takes up to 40 ms.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, reviewer: &Reviewer, slot: &ConnectionSlot) {
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "a TLS handshake with the validating webhook failed");
        }
        Err(_) => return,
    };
    let service = service_fn(|request| async {
        slot.waits_for_client();
        let response = serve(request, reviewer, slot).await;
        slot.release();
        slot.waits_for_client();
        Ok::<_, Infallible>(response)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(64 * 1024);
    let mut connection = std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        _ = connection.as_mut() => {}
        () = sleep(LIFE) => {
            connection.as_mut().graceful_shutdown();
            let _ = timeout(HEAD + ANSWER, connection).await;
        }
    }
}

async fn serve(
    request: Request<Incoming>,
    reviewer: &Reviewer,
    slot: &ConnectionSlot,
) -> Response<Full<Bytes>> {
    let (head, mut body) = request.into_parts();
    if head.uri.path() != PATH {
        discard(body);
        return plain(
            StatusCode::NOT_FOUND,
            "there is nothing here; reviews of Ingresses go to /networking/v1/ingresses",
        );
    }
    if head.method != Method::POST {
        discard(body);
        return plain(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent with POST");
    }
    let answer = async {
        let body = match timeout(BODY, receive(&mut body, slot)).await {
            Ok(Ok(body)) => body,
            Ok(Err(refusal)) => {
                slot.release();
                discard(body);
                return refusal.response();
            }
            Err(_) => return plain(StatusCode::REQUEST_TIMEOUT, "the body did not come in time"),
        };
        slot.waits_for_verdict();
        match reviewer.answer(&body).await {
            Ok(json) => {
                let mut response = Response::new(Full::new(Bytes::from(json)));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
            Err(error @ Unanswered::Malformed(_)) => plain(StatusCode::BAD_REQUEST, &error.to_string()),
            Err(error @ Unanswered::NotReady) => plain(StatusCode::SERVICE_UNAVAILABLE, &error.to_string()),
        }
    };
    match timeout(ANSWER, answer).await {
        Ok(response) => response,
        Err(_) => plain(StatusCode::SERVICE_UNAVAILABLE, "there was no verdict in time; try again"),
    }
}

/// Why a body was not read completely.
enum BodyRefusal {
    TooLarge,
    Broken,
    NoMemory,
}

impl BodyRefusal {
    fn response(self) -> Response<Full<Bytes>> {
        match self {
            Self::TooLarge => plain(StatusCode::PAYLOAD_TOO_LARGE, "the review has 9 MiB or more"),
            Self::Broken => plain(StatusCode::BAD_REQUEST, "the body broke off"),
            Self::NoMemory => {
                plain(StatusCode::SERVICE_UNAVAILABLE, "too many large reviews at a time; try again")
            }
        }
    }
}

/// Reads and drops the rest of a refused body while the response is sent. A connection that ends
/// with unread bytes is reset, and a client that is still sending could lose the response.
fn discard(mut body: Incoming) {
    if body.is_end_stream() {
        return;
    }
    tokio::spawn(timeout(BODY, async move {
        let mut dropped = 0;
        while dropped < MOST_DROPPED
            && let Some(Ok(frame)) = body.frame().await
        {
            dropped += frame.data_ref().map_or(0, Bytes::len);
        }
    }));
}

async fn receive(body: &mut Incoming, slot: &ConnectionSlot) -> Result<Vec<u8>, BodyRefusal> {
    if body.size_hint().lower() >= TOO_LARGE as u64 {
        return Err(BodyRefusal::TooLarge);
    }
    let mut received = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyRefusal::Broken)?.into_data() else { continue };
        if received.len() + data.len() >= TOO_LARGE {
            return Err(BodyRefusal::TooLarge);
        }
        if !slot.hold(data.len()) {
            return Err(BodyRefusal::NoMemory);
        }
        received.extend_from_slice(&data);
    }
    Ok(received)
}

fn plain(status: StatusCode, text: &str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_review_of_a_connection_waited_40_ms_for_an_acknowledgement() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(accept(&listener).await.unwrap().nodelay().unwrap());
    }
}
