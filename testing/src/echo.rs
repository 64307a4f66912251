//! A backend that responds with its identity and the received request, and behaves as the query
//! specifies.
//!
//! | query | effect |
//! |---|---|
//! | `status=503` | the status of the response |
//! | `delay_ms=200` | delay of the response |
//! | `bytes=10240` | a response of this size instead of the description, [`MOST`] at most |
//!
//! A WebSocket echoes every message. The k6 scripts depend on this behaviour of echo backends, and
//! the image `echo` of the lab runs the same code in a Pod.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use http::header::{CONNECTION, CONTENT_TYPE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use serde_json::json;
use tokio::net::TcpListener;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// Maximum size of a response in bytes.
pub const MOST: u64 = 64 << 20;

/// The identity that a backend reports in its responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The name of the Pod.
    pub pod: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// The node on which it runs.
    pub node: Option<String>,
}

/// Serves the connections of a listener until `stop`; then closes the listener and finishes the
/// running requests. Upgraded connections continue, as in a Pod during its termination grace
/// period.
pub async fn serve<F>(
    listener: TcpListener,
    answer: impl Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    stop: impl Future<Output = ()>,
) where
    F: Future<Output = Response<Full<Bytes>>> + Send + 'static,
{
    let connections = GracefulShutdown::new();
    let mut stop = pin!(stop);
    loop {
        let stream = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // No file descriptor is available, which the client notices.
                Err(_) => continue,
            },
        };
        // Sends responses immediately, whatever data of the client is in transit.
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = service_fn(move |request| {
            let answer = answer(request);
            async move { Ok::<_, Infallible>(answer.await) }
        });
        let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
        server.http1().timer(TokioTimer::new());
        let connection = server.serve_connection_with_upgrades(TokioIo::new(stream), service);
        let connection = connections.watch(connection.into_owned());
        // An aborted connection is not an error of the backend.
        tokio::spawn(async move { drop(connection.await) });
    }
    drop(listener);
    connections.shutdown().await;
}

/// Responds to a request. WebSockets require a connection served with upgrades.
pub async fn answer(mut request: Request<Incoming>, identity: &Identity) -> Response<Full<Bytes>> {
    if let Some(key) = websocket_key(&request) {
        let upgrade = hyper::upgrade::on(&mut request);
        tokio::spawn(send_back(upgrade));
        return switching(&key);
    }
    let (head, body) = request.into_parts();
    let length = length(body).await;
    if let Some(delay) = query(&head.uri, "delay_ms") {
        tokio::time::sleep(Duration::from_millis(delay)).await;
    }
    let status = query(&head.uri, "status").and_then(|code| StatusCode::from_u16(code.try_into().ok()?).ok());
    let (kind, content) = match query(&head.uri, "bytes").map(|count| usize::try_from(count.min(MOST))) {
        Some(Ok(count)) => ("text/plain", Bytes::from(vec![b'x'; count])),
        _ => ("application/json", describe(&head, length, identity)),
    };
    let mut response = Response::new(Full::new(content));
    *response.status_mut() = status.unwrap_or(StatusCode::OK);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn describe(head: &http::request::Parts, length: usize, identity: &Identity) -> Bytes {
    let headers: Vec<(&str, String)> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    let answer = json!({
        "pod": identity.pod,
        "namespace": identity.namespace,
        "node": identity.node,
        "method": head.method.as_str(),
        "path": head.uri.path_and_query().map(ToString::to_string),
        "headers": headers,
        "body_length": length,
    });
    Bytes::from(answer.to_string())
}

/// Reads a body to its end without storing it, and returns its length.
async fn length(mut body: Incoming) -> usize {
    let mut length = 0;
    // The length of an aborted body is that of the received part.
    while let Some(Ok(frame)) = body.frame().await {
        length += frame.data_ref().map_or(0, Bytes::len);
    }
    length
}

fn query(uri: &Uri, name: &str) -> Option<u64> {
    let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| *known == name)?.1.parse().ok()
}

/// Returns the key from which the response to a WebSocket is derived (RFC 6455, section 4.2.1).
fn websocket_key(request: &Request<Incoming>) -> Option<HeaderValue> {
    let upgrade = request.headers().get(UPGRADE)?;
    upgrade.as_bytes().eq_ignore_ascii_case(b"websocket").then_some(())?;
    request.headers().get(SEC_WEBSOCKET_KEY).cloned()
}

fn switching(key: &HeaderValue) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = derive_accept_key(key.as_bytes());
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(accept).expect("base64 is a field value"));
    response
}

/// Echoes every message until the peer closes or aborts the connection.
async fn send_back(upgrade: OnUpgrade) {
    let Ok(upgraded) = upgrade.await else { return };
    let io: TokioIo<Upgraded> = TokioIo::new(upgraded);
    let mut socket = WebSocketStream::from_raw_socket(io, Role::Server, None).await;
    while let Some(Ok(message)) = socket.next().await {
        // The library answers pings and closes while the next message is read or sent.
        if (message.is_text() || message.is_binary()) && socket.send(message).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    fn serve() -> DuplexStream {
        let (client, server) = tokio::io::duplex(1 << 16);
        let identity = Identity { pod: Some("web-1".into()), ..Identity::default() };
        let service = service_fn(move |request| {
            let identity = identity.clone();
            async move { Ok::<_, Infallible>(answer(request, &identity).await) }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(server), service);
        tokio::spawn(connection.with_upgrades());
        client
    }

    async fn ask(request: &str) -> String {
        let mut client = serve();
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn it_returns_its_name_and_the_request() {
        let answer =
            ask("POST /a?x=1 HTTP/1.1\r\nhost: h\r\nconnection: close\r\ncontent-length: 3\r\n\r\nabc").await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["pod"], "web-1");
        assert_eq!(body["path"], "/a?x=1");
        assert_eq!(body["method"], "POST");
        assert_eq!(body["body_length"], 3);
    }

    #[tokio::test]
    async fn the_query_sets_status_and_length() {
        let answer = ask("GET /?status=503&bytes=5 HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nxxxxx"), "{answer}");
    }

    #[tokio::test]
    async fn a_websocket_sends_messages_back() {
        let (mut socket, response) =
            tokio_tungstenite::client_async("ws://h/", serve()).await.expect("an upgrade");
        assert_eq!(response.status(), 101);
        socket.send("hello".into()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), "hello".into());
        socket.close(None).await.unwrap();
        while socket.next().await.is_some_and(|message| message.is_ok()) {}
    }
}
