//! The head of a request of the gateway's own.

use http::header::{HeaderName, HeaderValue};
use http::{Method, Version};

use crate::message::field_list::FieldList;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::{Edited, Head};

impl Head {
    /// Returns an HTTP/1.1 head with these fields and those of `framing`.
    pub(crate) fn own(
        method: &Method,
        target: &str,
        fields: &[(HeaderName, HeaderValue)],
        framing: Framing,
    ) -> Self {
        let mut list = FieldList::default();
        list.push_text(method.as_str());
        list.push_text(" ");
        let start = list.text().len();
        list.push_text(target);
        list.push_text(" HTTP/1.1\r\n");
        for (name, value) in fields {
            list.push_line(name.as_str().as_bytes(), value.as_bytes());
        }
        // RFC 9110 §8.6: a request whose method gives content a meaning states that it has none.
        let expects_content = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
        match framing.left() {
            Some(0) if !expects_content => {}
            Some(length) => list.push_line(b"Content-Length", itoa::Buffer::new().format(length).as_bytes()),
            None => list.push_line(b"Transfer-Encoding", b"chunked"),
        }
        list.push_text("\r\n");
        Self {
            version: Version::HTTP_11,
            framing,
            expects_continue: false,
            method: method.clone(),
            target: start..start + target.len(),
            received: None,
            edited: Edited::default(),
            length: list.text().len(),
            fields: list,
            names: FieldNames::ANY,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::HOST;

    use super::*;

    #[test]
    fn a_request_states_its_length_where_its_method_expects_content() {
        let host = [(HOST, HeaderValue::from_static("a.example"))];
        for (method, framing, expected) in [
            (Method::GET, Framing::NONE, ""),
            (Method::POST, Framing::NONE, "Content-Length: 0\r\n"),
            (Method::GET, Framing::Length(3), "Content-Length: 3\r\n"),
            (Method::PUT, Framing::CHUNKED, "Transfer-Encoding: chunked\r\n"),
        ] {
            let text = format!("{method} /a?b HTTP/1.1\r\nhost: a.example\r\n{expected}\r\n");
            let head = Head::own(&method, "/a?b", &host, framing);
            assert_eq!(str::from_utf8(head.text()), Ok(&*text));
            assert_eq!(head.target(), "/a?b");
        }
    }
}
