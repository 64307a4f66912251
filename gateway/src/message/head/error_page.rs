//! The request for an error page of the host, which takes the place of the client's request.

use std::mem;

use http::Method;
use http::header::{CONTENT_LENGTH, EXPECT, HeaderName, TRAILER, TRANSFER_ENCODING, UPGRADE};

use crate::message::edit::RequestTarget;
use crate::message::fields::FieldsMut;
use crate::message::framing::Framing;
use crate::message::head::{Head, Received};
use crate::message::request_head::ReceivedLine;

/// Fields about the client's request body, and about a switch to another protocol.
static OF_THE_REQUEST_ALONE: [HeaderName; 5] = [CONTENT_LENGTH, EXPECT, TRAILER, TRANSFER_ENCODING, UPGRADE];

impl Head {
    /// Turns the head into the request for an error page. As with nginx's `error_page`, the method
    /// becomes GET, and HEAD stays. The request has no body and does not ask for another protocol.
    /// The client's request line is kept for the log. Must be called before the head is changed.
    pub(crate) fn become_error_page(&mut self, target: &RequestTarget) {
        let method = match self.method {
            Method::HEAD => Method::HEAD,
            _ => Method::GET,
        };
        let start = self.fields.text().len();
        self.fields.push_text(target.as_str());
        self.received = Some(Box::new(Received {
            method: mem::replace(&mut self.method, method),
            target: mem::replace(&mut self.target, start..start + target.as_str().len()),
        }));
        (self.framing, self.expects_continue) = (Framing::NONE, false);
        for name in &OF_THE_REQUEST_ALONE {
            self.fields.remove(name);
        }
    }

    /// Returns the client's request line, if an error page has replaced it.
    pub(crate) fn received(&self) -> Option<ReceivedLine<'_>> {
        let Received { method, target } = self.received.as_deref()?;
        Some(ReceivedLine { method, target: self.text_of(target) })
    }
}

#[cfg(test)]
mod tests {
    use http::Version;

    use super::*;
    use crate::message::field_names::FieldNames;
    use crate::message::request;

    fn replaced(text: &str, target: &str) -> Head {
        let mut head = Head::read(text.as_bytes(), FieldNames::PLAIN).unwrap();
        head.become_error_page(&RequestTarget::new(target.to_owned()).unwrap());
        head
    }

    fn written(head: &Head) -> String {
        let mut out = Vec::new();
        request::write(head, Version::HTTP_11, &mut out, false);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_page_is_requested_with_get_and_without_a_body() {
        let head = replaced(
            "POST /secret?a=1 HTTP/1.1\r\nHost: a.example\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\
             Cookie: b=2\r\n\r\n",
            "/denied?why=certificate",
        );
        assert_eq!(
            written(&head),
            "GET /denied?why=certificate HTTP/1.1\r\nHost: a.example\r\nCookie: b=2\r\n\r\n"
        );
        assert_eq!((head.framing, head.expects_continue), (Framing::NONE, false));
        let view = request::view(&head);
        assert_eq!(
            (view.method, view.path(), view.query()),
            (&Method::GET, "/denied", Some("why=certificate"))
        );
        assert_eq!(view.received, Some(ReceivedLine { method: &Method::POST, target: "/secret?a=1" }));
        assert_eq!(view.received_target(), "/secret?a=1");
    }

    #[test]
    fn chunks_and_upgrades_go_and_head_stays() {
        let chunked = "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n";
        assert_eq!(written(&replaced(chunked, "/p")), "GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
        let upgrade = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
        assert!(!request::asks_for_upgrade(&replaced(upgrade, "/p")));
        let head = replaced("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", "/p");
        assert_eq!(written(&head), "HEAD /p HTTP/1.1\r\nHost: a\r\n\r\n");
    }

    #[test]
    fn a_page_survives_a_further_attempt() {
        let mut head = replaced("GET /secret HTTP/1.1\r\nHost: a\r\n\r\n", "/p");
        head.keep();
        let name = HeaderName::from_static("x-added");
        head.fields.set(&name, &http::HeaderValue::from_static("1"));
        head.restore();
        assert_eq!(written(&head), "GET /p HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(head.received().map(|received| received.target), Some("/secret"));
    }
}
