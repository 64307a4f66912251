//! Connections to endpoints, and what can be told about them.

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

use crate::descriptors::DescriptorPermit;
use crate::io::transport::Transport;
use crate::tls::provider;

/// A connection to an endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Transport,
    pub(crate) made: Instant,
    /// Requests that it has served.
    pub(crate) served: u32,
    /// It came from the pool.
    pub(crate) reused: bool,
    /// Its place among the descriptors.
    pub(crate) place: DescriptorPermit,
}

impl Connection {
    /// Whether the endpoint has neither closed it nor said anything that nobody asked for. Asks the runtime,
    /// not the kernel: it costs no system call where nothing has happened.
    pub(crate) fn is_quiet(&mut self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
    }

    /// The same, asked of the kernel: what came since the runtime last looked counts.
    pub(crate) fn is_quiet_now(&mut self) -> bool {
        let mut byte = [MaybeUninit::uninit()];
        let peeked = SockRef::from(self.stream.tcp()).peek(&mut byte);
        matches!(peeked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether the endpoint's side has certainly received none of the last bytes that were sent. To be asked
    /// once the endpoint has ended the connection in order: its end carries an acknowledgement of all that had
    /// come before (RFC 9293 §3.10.7.4), so what that leaves out came too late to be read by anybody.
    pub(crate) fn has_delivered_none_of(&self, bytes: u64) -> bool {
        undelivered(self.stream.descriptor()) >= bytes
    }
}

/// How many of the last bytes that were sent over a TCP connection the other side has not acknowledged.
pub(super) fn undelivered(descriptor: RawFd) -> u64 {
    let Ok(info) = get_tcp_info(descriptor) else { return 0 };
    let sent = info.tcpi_bytes_sent.saturating_sub(info.tcpi_bytes_retrans);
    // The kernel counts the acknowledgement of our SYN as one byte.
    let acknowledged = info.tcpi_bytes_acked.saturating_sub(1);
    sent.saturating_sub(acknowledged)
}

/// Takes any certificate. Sessions are not resumed, because they would be kept by address alone.
pub(crate) static UNVERIFIED: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| unverified(&[]));

/// The same for HTTP/2, which is asked for (RFC 9113 §3.2).
pub(super) static UNVERIFIED_HTTP2: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| unverified(&[HTTP2]));

/// The name of HTTP/2 in TLS (ALPN).
pub(super) const HTTP2: &[u8] = b"h2";

fn unverified(protocols: &[&[u8]]) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        // Our provider has suites for both versions.
        .unwrap_or_else(|error| unreachable!("{error}"))
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Arc::new(config)
}

/// `proxy-ssl-verify: off`, which is ingress-nginx's default: whoever answers at the address is the endpoint.
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

    /// Not looked at either: certificates that no longer parse would fail here, and nobody asked who it is.
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

    /// A connection that has served a request, and the endpoint's side of it.
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

    /// Sends another, reads the end, and asks.
    async fn has_delivered_none(mut connection: Connection) -> bool {
        connection.stream.write_all(REQUEST).await.unwrap();
        assert_eq!(connection.stream.read(&mut [0]).await.unwrap(), 0);
        connection.has_delivered_none_of(REQUEST.len() as u64)
    }

    #[tokio::test]
    async fn what_came_after_the_endpoint_had_closed_was_read_by_nobody() {
        let (connection, endpoint) = used().await;
        drop(endpoint);
        assert!(has_delivered_none(connection).await);
    }

    #[tokio::test]
    async fn what_the_endpoint_could_still_read_it_may_have_read() {
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
    async fn the_kernel_knows_of_an_end_before_the_runtime_does() {
        let (mut connection, endpoint) = used().await;
        assert!(connection.is_quiet() && connection.is_quiet_now());
        drop(endpoint);
        // The runtime has had no turn in between.
        assert!(!connection.is_quiet_now());
    }
}
