//! Connections to endpoints, and checks of their state.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::time::Instant;

use pingora_core::protocols::l4::ext::get_tcp_info;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use socket2::SockRef;
use tokio::io::{AsyncRead, ReadBuf};

use crate::io::transport::Transport;
use crate::process::descriptors::DescriptorPermit;
use crate::tls::provider;

/// A connection to an endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    pub(crate) made: Instant,
    /// Number of requests served.
    pub(crate) served: u32,
    /// Whether the connection came from the pool.
    pub(crate) reused: bool,
    /// Its permit for a file descriptor.
    pub(crate) place: DescriptorPermit,
}

impl Connection {
    /// Returns whether the endpoint has neither closed the connection nor sent unsolicited bytes.
    /// Asks the runtime instead of the kernel, so it costs no system call unless something
    /// happened.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// Same as [`is_quiet`](Self::is_quiet), but asks the kernel, which also reports events that
    /// the runtime has not seen yet.
    pub(crate) fn is_quiet_now(&mut self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let peeked = SockRef::from(self.stream.tcp()).peek(&mut byte);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns whether the endpoint has certainly received none of the last `bytes` bytes. Only
    /// valid after the endpoint has closed the connection in order: its FIN acknowledges all data
    /// received before (RFC 9293 §3.10.7.4), so the endpoint cannot have read unacknowledged data.
    pub(crate) fn has_delivered_none_of(&self, bytes: u64) -> bool {
        undelivered(self.stream.descriptor()) >= bytes
    }
}

/// Returns how many of the bytes sent over a TCP connection the peer has not acknowledged.
pub(super) fn undelivered(descriptor: RawFd) -> u64 {
    let Ok(info) = get_tcp_info(descriptor) else { return 0 };
    let sent = info.tcpi_bytes_sent.saturating_sub(info.tcpi_bytes_retrans);
    // The kernel counts the acknowledgement of the gateway's SYN as one byte.
    let acknowledged = info.tcpi_bytes_acked.saturating_sub(1);
    sent.saturating_sub(acknowledged)
}

/// Accepts any certificate. Session resumption is off, because sessions would be stored by address
/// only.
pub(crate) static UNVERIFIED: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| unverified(&[]));

/// The same for HTTP/2, negotiated by ALPN (RFC 9113 §3.2).
pub(super) static UNVERIFIED_HTTP2: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| unverified(&[HTTP2]));

/// ALPN identifier of HTTP/2.
pub(super) const HTTP2: &[u8] = b"h2";

fn unverified(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        // Cannot fail: the provider has cipher suites for both versions.
        .unwrap_or_else(|error| unreachable!("{error}"))
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

/// `proxy-ssl-verify: off`, the default of ingress-nginx: any peer at the address is accepted.
#[derive(Debug)]
pub(super) struct Unverified;

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

    /// Signatures are not checked either: a certificate that does not parse would fail here,
    /// although no identity is required.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;
    use std::net::{Shutdown, TcpListener};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;

    const REQUEST: &[u8] = b"POST / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 0\r\n\r\n";

    /// Returns a connection that has served a request, and the endpoint's side of it.
    pub(crate) async fn used() -> (Connection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut endpoint, _) = listener.accept().unwrap();
        stream.write_all(REQUEST).await.unwrap();
        endpoint.read_exact(&mut [0; REQUEST.len()]).unwrap();
        let stream = Transport::Plain(stream);
        let place = DescriptorPermit::for_open();
        (Connection { stream, made: Instant::now(), served: 1, reused: true, place }, endpoint)
    }

    /// Sends another request, reads the end of the connection, and returns the result of the check.
    async fn has_delivered_none(mut connection: Connection) -> bool {
        connection.stream.write_all(REQUEST).await.unwrap();
        assert_eq!(connection.stream.read(&mut [0]).await.unwrap(), 0);
        connection.has_delivered_none_of(REQUEST.len() as u64)
    }

    #[tokio::test]
    async fn bytes_after_the_endpoint_closed_were_never_read() {
        let (connection, endpoint) = used().await;
        drop(endpoint);
        assert!(has_delivered_none(connection).await);
    }

    #[tokio::test]
    async fn bytes_that_the_endpoint_could_read_may_have_been_read() {
        let (connection, endpoint) = used().await;
        endpoint.shutdown(Shutdown::Write).unwrap();
        assert!(!has_delivered_none(connection).await);
        let (mut connection, mut endpoint) = used().await;
        connection.stream.write_all(REQUEST).await.unwrap();
        endpoint.read_exact(&mut [0; REQUEST.len()]).unwrap();
        drop(endpoint);
        assert_eq!(connection.stream.read(&mut [0]).await.unwrap(), 0);
        assert!(!connection.has_delivered_none_of(REQUEST.len() as u64));
    }

    #[tokio::test]
    async fn the_kernel_reports_an_end_before_the_runtime() {
        let (mut connection, endpoint) = used().await;
        assert!(connection.is_quiet() && connection.is_quiet_now());
        drop(endpoint);
        // The runtime has not run in between.
        assert!(!connection.is_quiet_now());
    }
}
