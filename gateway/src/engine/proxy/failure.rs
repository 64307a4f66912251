//! Converts Pingora's errors to the pipeline's [`Failure`].

use pingora_core::{Error, ErrorSource, ErrorType};

use super::connector::{ConnectStage, NO_ROOM};
use crate::pipeline::{Failure, FailureKind};

/// Pingora's text for a connection that ended before the first byte of the response. Its error
/// types do not distinguish this from an end within a head. The version is pinned, and a test fails
/// if the text changes.
const NOTHING_READ: &str = "bytes already read: 0";

/// Converts a failure to connect. `stage` is the phase that was reached.
pub(super) fn to_connect(error: &Error, stage: ConnectStage) -> Failure {
    let kind = match (error.etype(), stage) {
        (etype, _) if *etype == NO_ROOM => FailureKind::Shortage,
        (_, ConnectStage::Waiting) => FailureKind::Shortage,
        (ErrorType::ConnectTimedout, ConnectStage::Tcp) => FailureKind::ConnectTimeout,
        (_, ConnectStage::Tcp) => FailureKind::Connect,
        (ErrorType::ConnectTimedout | ErrorType::TLSHandshakeTimedout, ConnectStage::Tls) => {
            FailureKind::HandshakeTimeout
        }
        (_, ConnectStage::Tls) => FailureKind::Handshake,
    };
    before_connecting(kind)
}

/// Returns a failure before any attempt to connect.
pub(super) fn before_connecting(kind: FailureKind) -> Failure {
    Failure { kind, stale: false, sent: false, replayable: true, response_started: false }
}

/// Converts a failure after connecting. `known` is the client side's own failure, if it had one;
/// over an `untouched` connection, which is a pooled one, no interim response has arrived.
pub(super) fn while_proxying(
    error: &Error,
    known: Option<FailureKind>,
    untouched: bool,
    replayable: bool,
    response_started: bool,
) -> Failure {
    if *error.esource() == ErrorSource::Upstream && was_not_looked_at(error) && !response_started {
        return Failure { kind: FailureKind::Broken, stale: true, sent: false, replayable, response_started };
    }
    let kind = match (error.esource(), error.etype()) {
        (ErrorSource::Downstream, _) => known.unwrap_or(FailureKind::Client),
        (_, ErrorType::ReadTimedout) => FailureKind::ReadTimeout,
        (_, ErrorType::WriteTimedout) => FailureKind::SendTimeout,
        (
            ErrorSource::Upstream,
            ErrorType::ReadError | ErrorType::WriteError | ErrorType::ConnectionClosed,
        ) => FailureKind::Broken,
        _ => FailureKind::InvalidHead,
    };
    let stale = untouched && kind == FailureKind::Broken && !response_started && is_stale(error);
    Failure { kind, stale, sent: true, replayable, response_started }
}

/// Returns whether an HTTP/2 endpoint has not processed the request: it refused the stream, or was
/// about to close the connection (RFC 9113 §8.7).
fn was_not_looked_at(error: &Error) -> bool {
    let Some(error) = error.root_cause().downcast_ref::<h2::Error>() else { return false };
    let reason = error.reason();
    error.is_remote()
        && (error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM)
            || error.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
}

/// Returns whether the endpoint most likely had closed the pooled connection: it accepted no bytes,
/// or sent none.
fn is_stale(error: &Error) -> bool {
    let says = |words| error.context.as_ref().is_some_and(|context| context.as_str().contains(words));
    *error.etype() == ErrorType::WriteError || says(NOTHING_READ)
}

#[cfg(test)]
mod tests {
    use pingora_core::protocols::Stream;
    use pingora_core::protocols::http::v1::client::HttpSession;
    use pingora_http::RequestHeader;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::io::transport::tests::pair;

    /// Returns Pingora's error for an endpoint that closes after `answer`.
    async fn error_after(answer: &[u8]) -> Box<Error> {
        let (stream, mut endpoint) = pair().await;
        let stream: Stream = Box::new(pingora_core::protocols::l4::stream::Stream::from(stream));
        let mut session = HttpSession::new(stream);
        let request = RequestHeader::build("GET", b"/", None).unwrap();
        session.write_request_header(Box::new(request)).await.unwrap();
        // Reads the request, so that closing does not reset the connection.
        let mut head = [0; 18];
        endpoint.read_exact(&mut head).await.unwrap();
        endpoint.write_all(answer).await.unwrap();
        drop(endpoint);
        session.read_response().await.unwrap_err().into_up()
    }

    #[tokio::test]
    async fn only_an_untouched_pooled_connection_is_stale() {
        let error = error_after(b"").await;
        assert!(while_proxying(&error, None, true, true, false).stale);
        assert!(!while_proxying(&error, None, false, true, false).stale);
        let error = error_after(b"HTTP/1.1 2").await;
        assert!(!while_proxying(&error, None, true, true, false).stale);
        assert_eq!(while_proxying(&error, None, true, true, false).kind, FailureKind::Broken);
    }

    #[tokio::test]
    async fn a_write_into_a_closed_connection_is_stale() {
        let (client, endpoint) = tokio::io::duplex(64);
        drop(endpoint);
        let mut session = HttpSession::new(Box::new(client));
        let request = RequestHeader::build("GET", b"/", None).unwrap();
        let error = session.write_request_header(Box::new(request)).await.unwrap_err().into_up();
        assert!(while_proxying(&error, None, true, true, false).stale);
        assert!(!while_proxying(&error, None, false, true, false).stale);
    }

    #[test]
    fn kinds() {
        let up = |etype| Error::new(etype).into_up();
        let down = |etype| Error::new(etype).into_down();
        for (error, kind) in [
            (up(ErrorType::ReadTimedout), FailureKind::ReadTimeout),
            (up(ErrorType::WriteTimedout), FailureKind::SendTimeout),
            (up(ErrorType::ConnectionClosed), FailureKind::Broken),
            (up(ErrorType::InvalidHTTPHeader), FailureKind::InvalidHead),
            (down(ErrorType::ReadTimedout), FailureKind::Client),
            (down(ErrorType::ConnectionClosed), FailureKind::Client),
            (down(ErrorType::WriteTimedout), FailureKind::Client),
        ] {
            assert_eq!(while_proxying(&error, None, false, true, false).kind, kind);
        }
        let slow = Some(FailureKind::ClientTimeout);
        let failure = while_proxying(&down(ErrorType::ReadError), slow, false, true, false);
        assert_eq!(failure.kind, FailureKind::ClientTimeout, "the failure of the client's side counts");
        for (etype, stage, kind) in [
            (ErrorType::ConnectTimedout, ConnectStage::Tcp, FailureKind::ConnectTimeout),
            (ErrorType::ConnectError, ConnectStage::Tcp, FailureKind::Connect),
            (ErrorType::TLSHandshakeFailure, ConnectStage::Tls, FailureKind::Handshake),
            (ErrorType::TLSHandshakeTimedout, ConnectStage::Tls, FailureKind::HandshakeTimeout),
            (ErrorType::ConnectTimedout, ConnectStage::Tls, FailureKind::HandshakeTimeout),
            (ErrorType::ConnectTimedout, ConnectStage::Waiting, FailureKind::Shortage),
            (NO_ROOM, ConnectStage::Tcp, FailureKind::Shortage),
        ] {
            assert_eq!(to_connect(&up(etype.clone()), stage).kind, kind, "{etype:?} {stage:?}");
        }
    }
}
