//! The server of a node, called by the API server for `kubectl logs`, `port-forward` and `exec`:
//! HTTPS with client certificates of the lab's authority.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context, Result};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tracing::{debug, warn};

use super::response::{Body, text};
use super::{NodeContext, log_server, streams};
use crate::addresses::NODE_PORT;

/// Binds the node's listening socket.
///
/// # Errors
/// Returns an error if the address is taken.
pub async fn listen(node: &NodeContext) -> Result<TcpListener> {
    let address = (node.index.address(), NODE_PORT);
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {}:{}", address.0, address.1))
}

/// Serves the API server until it is dropped.
pub async fn serve(listener: TcpListener, node: Arc<NodeContext>) {
    let acceptor = match tls(&node) {
        Ok(config) => TlsAcceptor::from(Arc::new(config)),
        Err(error) => {
            warn!("no logs can be served: {error:#}");
            return;
        }
    };
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, node) = (acceptor.clone(), node.clone());
        tokio::spawn(async move {
            let stream = match acceptor.accept(stream).await {
                Ok(stream) => TokioIo::new(stream),
                Err(error) => return debug!(%error, "a client of the node"),
            };
            let service = service_fn(async |request| Ok::<_, Infallible>(answer(&node, request).await));
            let server = hyper::server::conn::http1::Builder::new();
            if let Err(error) = server.serve_connection(stream, service).with_upgrades().await {
                debug!(%error, "a client of the node");
            }
        });
    }
}

fn tls(node: &NodeContext) -> Result<ServerConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(node.layout.pki("ca.crt"))?)?;
    let own = node.index.name();
    let certificate = CertificateDer::from_pem_file(node.layout.pki(&format!("{own}.crt")))?;
    let key = PrivateKeyDer::from_pem_file(node.layout.pki(&format!("{own}.key")))?;
    let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build()?;
    Ok(ServerConfig::builder()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)?)
}

async fn answer(node: &NodeContext, request: Request<Incoming>) -> Response<Body> {
    let uri = request.uri().clone();
    let path: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    match path[..] {
        ["containerLogs", namespace, pod, container] => {
            log_server::answer(node, namespace, pod, container, &uri)
        }
        ["portForward", namespace, pod] => streams::port_forward(node, namespace, pod, request).await,
        ["exec", namespace, pod, container] => streams::exec(node, namespace, pod, container, request).await,
        _ => text(StatusCode::NOT_FOUND, "the lab's nodes serve logs, port-forward and exec only".into()),
    }
}
