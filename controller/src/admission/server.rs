//! The server of the webhook: one path, with limits for all that a client may send or keep waiting.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::certificate::Current;
use super::request::{Reviewer, Unanswered};

/// As in ingress-nginx.
const PATH: &str = "/networking/v1/ingresses";
/// The largest review: an object has 3 MiB at most, and an update has two of them.
const LARGEST: usize = 9 * 1024 * 1024;
/// Connections at a time.
const CONNECTIONS: usize = 64;
/// Reviews at a time: each may hold its body.
const REVIEWS: usize = 8;
const HANDSHAKE: Duration = Duration::from_secs(5);
const HEAD: Duration = Duration::from_secs(10);
/// For the body and the answer. API servers wait for 10 s unless they are told otherwise.
const ANSWER: Duration = Duration::from_secs(9);
/// A connection that is older is closed between two requests.
const LIFE: Duration = Duration::from_secs(120);

/// TLS with whatever certificate there is at the time.
pub(super) fn tls(certificates: Arc<Current>) -> TlsAcceptor {
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().expect("the provider knows TLS 1.2 and 1.3");
    let mut config = builder.with_no_client_auth().with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    TlsAcceptor::from(Arc::new(config))
}

/// Serves for ever.
pub(super) async fn run(listener: TcpListener, tls: TlsAcceptor, reviewer: Arc<Reviewer>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let reviews = Arc::new(Semaphore::new(REVIEWS));
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let stream = match accept(&listener).await {
            Ok(stream) => stream,
            Err(error) => {
                // No descriptors, most likely.
                tracing::warn!(%error, "the validating webhook cannot accept a connection");
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (tls, reviewer, reviews) = (tls.clone(), reviewer.clone(), reviews.clone());
        tokio::spawn(async move {
            connection(stream, tls, &reviewer, &reviews).await;
            drop(place);
        });
    }
}

/// The next connection. Its first answer comes right behind the tickets of TLS: with Nagle's algorithm it would wait until the
/// client has acknowledged those, and clients take up to 40 ms for that.
async fn accept(listener: &TcpListener) -> io::Result<TcpStream> {
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn connection(stream: TcpStream, tls: TlsAcceptor, reviewer: &Reviewer, reviews: &Semaphore) {
    let stream = match timeout(HANDSHAKE, tls.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            return tracing::debug!(%error, "a TLS handshake with the validating webhook failed");
        }
        Err(_) => return,
    };
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(serve(request, reviewer, reviews).await) });
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
    reviews: &Semaphore,
) -> Response<Full<Bytes>> {
    if request.uri().path() != PATH {
        return plain(
            StatusCode::NOT_FOUND,
            "there is nothing here; reviews of Ingresses go to /networking/v1/ingresses",
        );
    }
    if request.method() != Method::POST {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "reviews are sent with POST");
    }
    let answer = async {
        if request.body().size_hint().lower() > LARGEST as u64 {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "the review is larger than 9 MiB");
        }
        let Ok(_place) = reviews.acquire().await else {
            return plain(StatusCode::SERVICE_UNAVAILABLE, "the program ends");
        };
        let body = match Limited::new(request.into_body(), LARGEST).collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) if error.is::<LengthLimitError>() => {
                return plain(StatusCode::PAYLOAD_TOO_LARGE, "the review is larger than 9 MiB");
            }
            Err(_) => return plain(StatusCode::BAD_REQUEST, "the body broke off"),
        };
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
