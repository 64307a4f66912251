//! WebSocket over HTTP/2 (RFC 8441): the response to an extended CONNECT, and the tunnel after it.

use http::StatusCode;
use http::header::SEC_WEBSOCKET_ACCEPT;

use super::Client;
use super::reply::Opened;
use crate::body::downstream::Passed;
use crate::downstream::http2::tunnel::TunnelStream;
use crate::engine::tunnel::{Switched, Tunnel};
use crate::io::alarm::Alarm;
use crate::io::flow::Flow;
use crate::io::write_buffer::WriteBuffer;
use crate::message::fields::{Fields, FieldsMut};
use crate::message::head::websocket::Accept;
use crate::message::response::Response;
use crate::pipeline::FailureKind;

impl Client {
    /// Sets the value with which the endpoint must accept the request, if it is an extended
    /// CONNECT.
    pub(in crate::downstream::http2) fn accepting(mut self, accept: Option<Accept>) -> Self {
        self.accept = accept;
        self
    }

    /// Relays between the client and an endpoint that has switched protocols.
    pub(in crate::downstream::http2) async fn tunnel(self: Box<Self>, switched: Switched, alarm: &mut Alarm) {
        let Self { open, body, reply, .. } = *self;
        // The head of the response was sent.
        let Some(Opened { stream, rest, head_sent, body_sent }) = reply.opened() else { return };
        let mut down = Flow::after(WriteBuffer::default(), body_sent);
        down.push(&rest);
        drop(rest);
        let tunnel = Tunnel::new(switched, StatusCode::OK, &[], down, head_sent);
        let mut client = TunnelStream::new(open, body, stream);
        let is_whole = tunnel.run(&mut client, alarm).await;
        client.end(is_whole);
    }

    /// Starts the response to an extended CONNECT that the endpoint has accepted. HTTP/2 does not
    /// have the fields of the handshake of HTTP/1.1 (RFC 8441 §5).
    pub(super) fn begin_tunnel(
        &mut self,
        response: &mut Response,
        bytes: &[u8],
    ) -> Result<Passed, FailureKind> {
        let is_accepted = |accept: &Accept| accept.is(response.fields.first(&SEC_WEBSOCKET_ACCEPT));
        if !self.accept.as_ref().is_some_and(is_accepted) {
            return Err(FailureKind::InvalidHead);
        }
        response.fields.remove(&SEC_WEBSOCKET_ACCEPT);
        self.reply.open(response, bytes)
    }
}
