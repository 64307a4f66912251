//! One exchange with an OCSP responder over HTTP (RFC 6960, appendix A).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::future::join;
use http::header::{CONNECTION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sluice_config::local_address::is_local;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Time limit of an exchange, with the look-up of the name.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum size of a response in bytes: many times that of real ones.
const MOST: usize = 64 << 10;
/// Maximum size of the head of a response in bytes.
const HEAD: usize = 16 << 10;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    /// The responder cannot be reached.
    #[error("cannot be reached: {0}")]
    Connect(#[from] io::Error),
    /// Its address is not permitted.
    #[error("has no permitted address")]
    Address,
    /// The exchange fails.
    #[error("does not answer: {0}")]
    Http(#[from] hyper::Error),
    /// The URL cannot be used in a request.
    #[error("cannot be asked: {0}")]
    Request(#[from] http::Error),
    /// The responder refuses.
    #[error("answers {0}")]
    Status(StatusCode),
    /// The response cannot be read, or is too large.
    #[error("sends no usable response: {0}")]
    Body(Box<dyn std::error::Error + Send + Sync>),
    /// The exchange takes too long.
    #[error("does not answer in time")]
    Timeout,
}

impl FetchError {
    /// Whether requests about other certificates would fail too.
    pub(super) fn is_of_responder(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Http(_) | Self::Timeout => true,
            Self::Status(status) => status.is_server_error(),
            Self::Address | Self::Request(_) | Self::Body(_) => false,
        }
    }
}

/// Sends a request to a responder, and returns its response. Only with `asks_local`, the responder
/// may have a local address: its URL comes from the owner of a certificate, who must not reach the
/// services of the node or the cloud by it.
///
/// # Errors
/// See [`FetchError`].
pub(super) async fn fetch(url: &Uri, request: Vec<u8>, asks_local: bool) -> Result<Bytes, FetchError> {
    let exchange = exchange(url, request, asks_local);
    timeout(PATIENCE, exchange).await.unwrap_or(Err(FetchError::Timeout))
}

async fn exchange(url: &Uri, request: Vec<u8>, asks_local: bool) -> Result<Bytes, FetchError> {
    let stream = TcpStream::connect(&*addresses(url, asks_local).await?).await?;
    let (mut sender, connection) =
        http1::Builder::new().max_buf_size(HEAD).handshake(TokioIo::new(stream)).await?;
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    let request = Request::builder()
        .method(Method::POST)
        .uri(target)
        .header(HOST, authority)
        .header(CONTENT_TYPE, "application/ocsp-request")
        .header(CONNECTION, "close")
        .body(Full::new(Bytes::from(request)))?;
    let answer = async move {
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => {}
            status => return Err(FetchError::Status(status)),
        }
        let body = Limited::new(response.into_body(), MOST).collect().await;
        Ok(body.map_err(FetchError::Body)?.to_bytes())
    };
    // An error of the connection is one of the exchange too.
    let (answer, _) = join(answer, connection).await;
    answer
}

async fn addresses(url: &Uri, asks_local: bool) -> Result<Vec<SocketAddr>, FetchError> {
    let host = url.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let found = lookup_host((host, url.port_u16().unwrap_or(80))).await?;
    let permitted = found.filter(|address| asks_local || !is_local(address.ip()));
    let permitted: Vec<SocketAddr> = permitted.collect();
    if permitted.is_empty() { Err(FetchError::Address) } else { Ok(permitted) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn local_addresses_are_not_asked_unless_permitted() {
        for url in ["http://169.254.169.254/latest", "http://127.0.0.1:15000/quit", "http://[::1]/"] {
            let url = url.parse().unwrap();
            assert!(matches!(addresses(&url, false).await, Err(FetchError::Address)), "{url}");
            assert_eq!(addresses(&url, true).await.unwrap().len(), 1);
        }
        let url = "http://192.0.2.1:8080/ocsp".parse().unwrap();
        assert_eq!(addresses(&url, false).await.unwrap(), [([192, 0, 2, 1], 8080).into()]);
    }
}
