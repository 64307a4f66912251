//! Bodies as pieces of content, as HTTP/2 carries them: without the coding of HTTP/1.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use http::HeaderMap;

use crate::io::failure::FailureKind;
use crate::message::field_names::FieldNames;
use crate::message::framing::Framing;
use crate::message::head::Head;
use crate::message::http2::map;
use crate::message::trailers::Section;

/// Size in bytes up to which small pieces are joined.
pub(super) const JOIN: usize = 16 * 1024;

/// The next part of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Non-empty content. `ends` is true if the body ends with it.
    Data { content: Bytes, ends: bool },
    /// The end of the body, with trailers.
    Trailers(HeaderMap),
    /// The end of the body, without trailers.
    End,
}

/// Removes the coding of HTTP/1 from a request body.
#[derive(Debug)]
pub(crate) struct Decoder {
    framing: Framing,
    names: FieldNames,
    section: Section,
}

impl Decoder {
    /// Returns a decoder for the body of the request with this head, from its start.
    pub(crate) fn new(head: &Head) -> Self {
        Self { framing: head.framing, names: head.names, section: Section::default() }
    }

    /// Returns whether the body has ended.
    pub(super) fn is_done(&self) -> bool {
        self.framing.is_done()
    }

    /// Decodes the next bytes, of which `data` are content. Returns `None` if they have none.
    pub(super) fn decode(&mut self, bytes: &[u8], data: usize) -> Result<Option<Piece>, FailureKind> {
        let Self { framing, section, .. } = self;
        let mut content = BytesMut::with_capacity(data);
        let taken = framing.read_all(
            bytes,
            |piece| content.extend_from_slice(piece),
            |trailer| section.push(trailer),
        );
        taken.map_err(|_| FailureKind::ClientMalformed)?;
        if content.is_empty() {
            return Ok(None);
        }
        let ends = framing.is_done() && section.is_empty();
        Ok(Some(Piece::Data { content: content.freeze(), ends }))
    }

    /// Returns the end of the body.
    pub(super) fn end(&self) -> Piece {
        let trailers = map(self.section.fields(&self.names), 0);
        if trailers.is_empty() { Piece::End } else { Piece::Trailers(trailers) }
    }
}

/// Returns the available content of an HTTP/2 body in one piece, or `None` at its end. Small pieces
/// are joined, because a piece costs more than the bytes in it.
pub(crate) fn poll_joined(
    cx: &mut Context<'_>,
    body: &mut RecvStream,
) -> Poll<Option<Result<Bytes, h2::Error>>> {
    let first = match ready!(body.poll_data(cx)) {
        Some(Ok(first)) if first.len() < JOIN => first,
        other => return Poll::Ready(other),
    };
    let Poll::Ready(Some(Ok(second))) = body.poll_data(cx) else { return Poll::Ready(Some(Ok(first))) };
    let mut joined = BytesMut::with_capacity(JOIN.max(first.len() + second.len()));
    joined.extend_from_slice(&first);
    joined.extend_from_slice(&second);
    while joined.len() < JOIN
        && let Poll::Ready(Some(Ok(next))) = body.poll_data(cx)
    {
        joined.extend_from_slice(&next);
    }
    Poll::Ready(Some(Ok(joined.freeze())))
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::body::downstream::Downstream;
    use crate::body::fake::Fake;

    fn head(framing: &str) -> Head {
        let text = format!("POST / HTTP/1.1\r\nHost: a.example\r\n{framing}\r\n\r\n");
        Head::read(text.as_bytes(), FieldNames::PLAIN).unwrap()
    }

    /// Decodes a body: its content, whether the last piece was marked as such, and its trailers.
    fn decode(framing: &str, pieces: &[&[u8]]) -> (Vec<u8>, bool, Option<HeaderMap>) {
        let head = head(framing);
        let (mut from, mut decoder) = (Fake::new(head.framing, pieces), Decoder::new(&head));
        let mut cx = Context::from_waker(Waker::noop());
        let (mut body, mut ended) = (Vec::new(), false);
        loop {
            match from.poll_piece(&mut cx, &mut decoder) {
                Poll::Pending => {}
                Poll::Ready(Ok(Piece::Data { content, ends })) => {
                    assert!(!content.is_empty() && !ended);
                    body.extend_from_slice(&content);
                    ended = ends;
                }
                Poll::Ready(Ok(Piece::Trailers(trailers))) => return (body, ended, Some(trailers)),
                Poll::Ready(Ok(Piece::End)) => return (body, ended, None),
                Poll::Ready(Err(kind)) => panic!("{kind:?}"),
            }
        }
    }

    #[test]
    fn content_is_decoded() {
        let chunked = "Transfer-Encoding: chunked";
        assert_eq!(decode("Content-Length: 5", &[b"he", b"", b"llo"]), (b"hello".to_vec(), true, None));
        assert_eq!(
            decode(chunked, &[b"2\r\nhe\r\n3", b"\r\nllo\r\n", b"0\r\n\r\n"]),
            (b"hello".to_vec(), false, None)
        );
        assert_eq!(decode(chunked, &[b"5\r\nhello\r\n0\r\n\r\n"]), (b"hello".to_vec(), true, None));
        assert_eq!(decode("Content-Length: 0", &[]), (Vec::new(), false, None));
    }

    #[test]
    fn trailers_come_behind_it_as_far_as_they_pass() {
        let (body, ended, trailers) = decode(
            "Transfer-Encoding: chunked",
            &[b"5\r\nhello\r\n0\r\nX-Su", b"m: 1\r\nHost: b.example\r\n\r\n"],
        );
        let trailers = trailers.unwrap();
        assert_eq!((&body[..], ended, trailers.len()), (&b"hello"[..], false, 1));
        assert_eq!(trailers["x-sum"], "1");
    }
}
