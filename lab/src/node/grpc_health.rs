//! Client of gRPC's health checking protocol: one call of `grpc.health.v1.Health/Check`.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, TE, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sluice_testing::grpc::message;
use tokio::net::TcpStream;

/// Encoded `HealthCheckResponse` with the status `SERVING`: field 1, varint, 1.
const SERVING: [u8; 2] = [0x08, 1];

/// Checks the health of a service, or with an empty name of the server.
///
/// # Errors
/// The reason why it does not count as healthy.
pub(super) async fn check(stream: TcpStream, service: &str) -> Result<(), String> {
    let authority = stream.peer_addr().map_err(|error| error.to_string())?;
    let request = Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header(CONTENT_TYPE, "application/grpc")
        .header(TE, "trailers")
        .header(USER_AGENT, "kube-probe/lab")
        .body(Full::new(message(&question(service))))
        .map_err(|error| error.to_string())?;
    let said = |error: hyper::Error| format!("gRPC: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .map_err(said)?;
    let exchange = async {
        let (head, body) = sender.send_request(request).await.map_err(said)?.into_parts();
        Ok::<_, String>((head, body.collect().await.map_err(said)?))
    };
    let (head, body) = tokio::select! {
        answer = exchange => answer?,
        closed = connection => return Err(format!("the connection was closed without an answer: {closed:?}")),
    };
    let status = body.trailers().and_then(grpc_status).or_else(|| grpc_status(&head.headers));
    if status != Some("0") {
        return Err(format!("gRPC's status is {status:?}, HTTP's {}", head.status));
    }
    let answer = body.to_bytes();
    if answer == message(&SERVING) { Ok(()) } else { Err(format!("it does not serve: {answer:?}")) }
}

fn grpc_status(fields: &HeaderMap) -> Option<&str> {
    fields.get("grpc-status")?.to_str().ok()
}

/// Encodes a `HealthCheckRequest`: field 1 is the name of the service.
fn question(service: &str) -> Bytes {
    let mut bytes = BytesMut::new();
    if !service.is_empty() {
        bytes.put_u8(0x0a);
        let mut length = service.len();
        while length > 0x7f {
            // The low seven bits, with a continuation bit.
            bytes.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        bytes.put_u8(length as u8);
        bytes.put_slice(service.as_bytes());
    }
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_name_is_a_varint() {
        assert!(question("").is_empty());
        assert_eq!(question("ab"), [0x0a, 2, b'a', b'b'].as_slice());
        let long = question(&"a".repeat(200));
        assert_eq!((&long[..3], long.len()), ([0x0a, 0xc8, 1].as_slice(), 203));
    }
}
