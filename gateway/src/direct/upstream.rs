//! Connections to endpoints: made from an address, with TLS where the protocol says so.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context, Waker};
use std::time::Instant;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use sluice_config::UpstreamProtocol;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connection::transport::Transport;
use crate::pipeline::{FailureKind, Upstream};
use crate::tls::provider;

/// A connection to an endpoint.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Transport,
    pub(super) made: Instant,
    /// Requests that it has served.
    pub(super) served: u32,
    /// It came from the pool.
    pub(super) reused: bool,
}

impl Connection {
    /// Whether the endpoint has neither closed it nor said anything that nobody asked for. Asks the runtime,
    /// not the kernel: it costs no system call where nothing has happened.
    pub(super) fn is_quiet(&mut self) -> bool {
        let mut octet = [0];
        let mut cx = Context::from_waker(Waker::noop());
        Pin::new(&mut self.stream).poll_read(&mut cx, &mut ReadBuf::new(&mut octet)).is_pending()
    }
}

/// A new connection to an endpoint.
pub(super) async fn connect(upstream: &Upstream) -> Result<Connection, FailureKind> {
    let connect = open(upstream);
    let opened = match upstream.connect_timeout {
        Some(limit) => match tokio::time::timeout(limit, connect).await {
            Ok(opened) => opened,
            Err(_) => return Err(FailureKind::ConnectTimeout),
        },
        None => connect.await,
    };
    let stream = opened.map_err(|error| {
        tracing::debug!(address = %upstream.address, %error, "cannot connect to an endpoint");
        FailureKind::Connect
    })?;
    Ok(Connection { stream, made: Instant::now(), served: 0, reused: false })
}

async fn open(upstream: &Upstream) -> io::Result<Transport> {
    let stream = TcpStream::connect(upstream.address).await?;
    stream.set_nodelay(true)?;
    match upstream.protocol {
        UpstreamProtocol::Http => Ok(Transport::Plain(stream)),
        UpstreamProtocol::HttpsUnverified => {
            // An address is never sent as SNI (RFC 6066 §3), as with ingress-nginx.
            let name = ServerName::IpAddress(upstream.address.ip().into());
            let stream = TlsConnector::from(UNVERIFIED.clone()).connect(name, stream).await?;
            Ok(Transport::Tls(Box::new(stream.into())))
        }
    }
}

/// Takes any certificate. Sessions are not resumed, because they would be kept by address alone.
static UNVERIFIED: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(rustls::ALL_VERSIONS)
        // Our provider has suites for both versions.
        .unwrap_or_else(|error| unreachable!("{error}"))
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    Arc::new(config)
});

/// `proxy-ssl-verify: off`, which is ingress-nginx's default: whoever answers at the address is the endpoint.
#[derive(Debug)]
struct Unverified;

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
