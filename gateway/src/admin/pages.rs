//! The documents of a server: what is offered, and the content.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{BoxStream, Stream};
use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::{Request, StatusCode, Uri};
use hyper::body::Incoming;

/// The documents that a server offers.
pub(super) trait Pages: Send + Sync + 'static {
    /// Returns the error document if the request is refused.
    fn refuse(&self, request: &Request<Incoming>) -> Option<Document>;

    /// Carries out a request of a method other than GET and HEAD; `None` if its path permits none.
    fn act(&self, _request: &Request<Incoming>) -> Option<Document> {
        None
    }

    /// Looks up a path. `fields` are those of the request, for a choice of formats.
    fn find(&self, uri: &Uri, fields: &HeaderMap) -> PageSource;

    /// Renders a document that `find` named. May block.
    fn make(&self, page: &str) -> Document;
}

/// The result of looking up a path.
pub(super) enum PageSource {
    /// A document that is available at once.
    Here(Document),
    /// A document that must be built first. Clients that wait for the same name share it.
    Page(Cow<'static, str>),
    /// Lines that are sent when they are available.
    Lines(LineStream),
}

/// Lines of JSON that are sent for some time. The number of streams is limited by what opens them,
/// not by the slots of the server.
pub(super) struct LineStream {
    /// How long it lasts.
    pub(super) limit: Duration,
    pub(super) lines: BoxStream<'static, Bytes>,
}

impl LineStream {
    pub(super) fn new(limit: Duration, lines: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self { limit, lines: lines.boxed() }
    }
}

/// A document. Clones share its body.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    /// Further fields.
    pub(super) fields: &'static [(HeaderName, HeaderValue)],
    pub(super) body: Bytes,
}

impl Document {
    pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", fields: &[], body: body.into().into() }
    }
}
