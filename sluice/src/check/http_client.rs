//! The client that sends the checked requests: one HTTP/1.1 connection per request, to an address
//! that does not depend on the URL, with the URL's host in `Host` and in TLS.
//!
//! Certificates are not verified: the old controller may serve its own, and responses are compared,
//! not trusted.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, LOCATION, USER_AGENT};
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use sluice_gateway::tls::handshake_signature;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::requests::CheckedRequest;

/// Time limit for connecting, and for the head of the response.
const PATIENCE: Duration = Duration::from_secs(15);

/// The head of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResponseHead {
    pub(super) status: u16,
    pub(super) fields: HeaderMap,
}

impl ResponseHead {
    /// Returns a field as text.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        let values = self.fields.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()));
        let values: Vec<_> = values.collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    /// Replaces the port of the URL in `Location`; 80 and 443 are omitted.
    pub(super) fn rename_port(&mut self, port: u16, name: u16) {
        let Some(location) = self.field("location") else { return };
        let is_named = location.parse::<Uri>().is_ok_and(|url| url.port_u16() == Some(port));
        if !is_named {
            return;
        }
        let name = if matches!(name, 80 | 443) { String::new() } else { format!(":{name}") };
        if let Ok(renamed) = HeaderValue::try_from(location.replacen(&format!(":{port}"), &name, 1)) {
            self.fields.insert(LOCATION, renamed);
        }
    }
}

/// Reason why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoResponse {
    /// No connection.
    #[error("no connection: {0}")]
    Connect(io::Error),
    /// The TLS handshake fails.
    #[error("the TLS handshake failed: {0}")]
    Tls(io::Error),
    /// The request cannot be sent, or its response cannot be read.
    #[error("no HTTP response: {0}")]
    Http(#[from] hyper::Error),
    /// The host or the target cannot be sent.
    #[error("the request cannot be sent: {0}")]
    Request(#[from] http::Error),
    /// No response in time.
    #[error("no response within {} s", PATIENCE.as_secs())]
    Late,
}

/// The client.
#[derive(Clone)]
pub(super) struct HttpClient {
    tls: TlsConnector,
}

impl HttpClient {
    /// Creates a client.
    pub(super) fn new() -> Self {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            // Cannot fail: the provider has cipher suites for both versions.
            .unwrap_or_else(|error| unreachable!("{error}"))
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
            .with_no_client_auth();
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Sends a request to `address`, after `preface`, and returns the head of the response.
    ///
    /// # Errors
    /// See [`NoResponse`].
    pub(super) async fn send(
        &self,
        address: (&str, u16),
        preface: &[u8],
        request: &CheckedRequest,
    ) -> Result<ResponseHead, NoResponse> {
        timeout(PATIENCE, self.exchange(address, preface, request)).await.map_err(|_| NoResponse::Late)?
    }

    async fn exchange(
        &self,
        address: (&str, u16),
        preface: &[u8],
        request: &CheckedRequest,
    ) -> Result<ResponseHead, NoResponse> {
        let mut stream = TcpStream::connect(address).await.map_err(NoResponse::Connect)?;
        stream.write_all(preface).await.map_err(NoResponse::Connect)?;
        if !request.https {
            return respond(stream, request).await;
        }
        let name = ServerName::try_from(request.host().to_owned())
            .map_err(|error| NoResponse::Tls(io::Error::other(error)))?;
        let stream = self.tls.connect(name, stream).await.map_err(NoResponse::Tls)?;
        respond(stream, request).await
    }
}

async fn respond<S>(stream: S, request: &CheckedRequest) -> Result<ResponseHead, NoResponse>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await?;
    let mut message =
        Request::builder().method(request.method.clone()).uri(&request.target).body(Empty::new())?;
    let fields = message.headers_mut();
    fields.insert(USER_AGENT, HeaderValue::from_static(concat!("sluice-check/", env!("CARGO_PKG_VERSION"))));
    fields.extend(request.fields.iter().cloned());
    fields.insert(HOST, HeaderValue::from_str(&request.authority).map_err(http::Error::from)?);
    let driver = tokio::spawn(connection);
    let response = sender.send_request(message).await;
    driver.abort();
    let (head, _) = response?.into_parts();
    Ok(ResponseHead { status: head.status.as_u16(), fields: head.headers })
}

/// Accepts any certificate whose owner has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature::verify_1_2(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature::verify_1_3(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use sluice_testing::certificate::TestCertificate;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    #[tokio::test]
    async fn a_host_with_a_version_1_certificate_is_compared() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        for version in rustls::ALL_VERSIONS {
            let acceptor = TlsAcceptor::from(TestCertificate::of_version_1().server_config_of(&[*version]));
            let answer = async {
                let mut stream = acceptor.accept(listener.accept().await.unwrap().0).await?;
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await?;
                io::Result::Ok(stream)
            };
            let request = CheckedRequest {
                method: http::Method::GET,
                https: true,
                authority: "old.example".to_owned(),
                target: "/".to_owned(),
                client: [198, 51, 100, 1].into(),
                fields: Vec::new(),
                recorded: None,
            };
            let client = HttpClient::new();
            let (response, _served) = tokio::join!(client.send(("127.0.0.1", port), b"", &request), answer);
            assert_eq!(response.unwrap().status, 204, "{version:?}");
        }
    }
}
