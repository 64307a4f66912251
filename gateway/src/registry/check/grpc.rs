//! The standard gRPC health protocol (`grpc.health.v1.Health/Check`), which Pingora does not
//! implement.
//!
//! Each check opens a connection of its own, like the other kinds: an open connection does not
//! prove that the endpoint accepts new ones.

use async_trait::async_trait;
use bytes::Bytes;
use h2::client;
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, Method, Request, Uri};
use pingora_core::connectors::TransportConnector;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, ErrorType};
use pingora_load_balancing::Backend;
use pingora_load_balancing::health_check::HealthCheck;

use super::AGENT;
use crate::message::grpc::{self, GrpcStatus, HEADER};

const METHOD: &str = "/grpc.health.v1.Health/Check";

/// Encoded status `SERVING` of a response: field 1, varint, 1.
const SERVING: [u8; 2] = [0x08, 0x01];

/// Maximum number of bytes read of a response. A status takes two.
const MOST: usize = 1024;

/// A check that calls the health service of an endpoint.
pub(super) struct GrpcHealthCheck {
    peer: HttpPeer,
    connector: TransportConnector,
    request: Request<()>,
    message: Bytes,
    /// Consecutive results that change the state: failures, successes.
    thresholds: [usize; 2],
}

impl GrpcHealthCheck {
    /// Creates a check of `service` with the authority `host`. `None` if that is not an authority.
    pub(super) fn new(
        peer: HttpPeer,
        connector: TransportConnector,
        host: &str,
        service: &str,
        thresholds: [usize; 2],
    ) -> Option<Self> {
        let scheme = if peer.is_tls() { "https" } else { "http" };
        let uri = Uri::builder().scheme(scheme).authority(host).path_and_query(METHOD).build().ok()?;
        let request = Request::builder()
            .method(Method::POST)
            .uri(uri)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, AGENT)
            .body(())
            .ok()?;
        // `HealthCheckRequest` has one field, of the form of a string's.
        let message = grpc::encoded(&service.to_owned());
        Some(Self { peer, connector, request, message, thresholds })
    }

    async fn ask(&self, target: &Backend) -> Result<(), Box<Error>> {
        let mut peer = self.peer.clone();
        peer._address = target.addr.clone();
        let stream = self.connector.new_stream(&peer).await?;
        let (mut sender, connection) = client::handshake(stream).await.map_err(failed)?;
        let exchange = async {
            let (response, mut body) = sender.send_request(self.request.clone(), false).map_err(failed)?;
            body.send_data(self.message.clone(), true).map_err(failed)?;
            let response = response.await.map_err(failed)?;
            if response.status() != 200 {
                let status = response.status().as_u16();
                return Error::e_explain(ErrorType::CustomCode("HTTP status", status), "of a health service");
            }
            // The head of a failed call contains its status.
            check_status(response.headers())?;
            let mut body = response.into_body();
            let mut answer = Vec::new();
            while let Some(piece) = body.data().await {
                let piece = piece.map_err(failed)?;
                answer.extend_from_slice(&piece);
                if answer.len() > MOST {
                    return Error::e_explain(
                        ErrorType::InternalError,
                        "too long a response of the health service",
                    );
                }
                body.flow_control().release_capacity(piece.len()).map_err(failed)?;
            }
            check_status(&body.trailers().await.map_err(failed)?.unwrap_or_default())?;
            match answer.split_at_checked(HEADER) {
                Some((prefix, status)) if prefix[0] == 0 && status.ends_with(&SERVING) => Ok(()),
                _ => Error::e_explain(ErrorType::InternalError, "the health service does not report SERVING"),
            }
        };
        tokio::select! {
            result = exchange => result,
            ended = connection => match ended {
                Ok(()) => Error::e_explain(ErrorType::ConnectionClosed, "before an answer"),
                Err(error) => Err(failed(error)),
            },
        }
    }
}

#[async_trait]
impl HealthCheck for GrpcHealthCheck {
    async fn check(&self, target: &Backend) -> Result<(), Box<Error>> {
        self.ask(target).await
    }

    fn health_threshold(&self, success: bool) -> usize {
        self.thresholds[usize::from(success)]
    }
}

/// Fails if these fields contain a gRPC status other than 0.
fn check_status(fields: &HeaderMap) -> Result<(), Box<Error>> {
    match GrpcStatus::of(fields).filter(|status| !status.is_ok()) {
        None => Ok(()),
        Some(GrpcStatus { code, message }) => Error::e_explain(
            ErrorType::InternalError,
            format!("gRPC status {code} of a health service: {message}"),
        ),
    }
}

fn failed(error: h2::Error) -> Box<Error> {
    Error::because(ErrorType::H2Error, "in a health check", error)
}
