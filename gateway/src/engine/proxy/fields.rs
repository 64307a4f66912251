//! Lets policies change Pingora's heads, which also preserve the case of names.

use std::sync::Arc;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::message::edit::{
    EditableMethod, EditableName, EditableStatus, HeadMut, RequestMut, RequestTarget, ResponseMut,
};
use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;
use crate::message::http2::path_and_query;
use crate::message::trailers::HiddenTrailers;

/// Ignores the results: an error requires an invalid name or value in text form, or more than
/// 32,768 fields, which is over a hundred times what a head may have.
macro_rules! fields {
    ($head:ty) => {
        impl Fields for $head {
            fn each(&self, visit: impl FnMut(&[u8], &[u8])) {
                self.headers.each(visit);
            }

            fn first(&self, name: &HeaderName) -> Option<&[u8]> {
                self.headers.first(name)
            }

            fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]> {
                self.headers.lines(name)
            }
        }

        impl FieldsMut for $head {
            fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
                let _ = self.insert_header(name, value);
            }

            fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
                let _ = self.append_header(name, value);
            }

            fn remove(&mut self, name: &HeaderName) {
                self.remove_header(name);
            }
        }

        impl HeadMut for $head {
            type Fields = Self;

            fn fields(&mut self) -> &mut Self {
                self
            }
        }
    };
}

/// Marks the head of a response whose endpoint has turned off buffering, on its way through
/// Pingora.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unbuffered;

fields!(RequestHeader);
fields!(ResponseHeader);

impl RequestMut for RequestHeader {
    fn method(&self) -> &Method {
        &self.method
    }

    /// Replaces the path. The authority of an HTTP/2 request is in `Host` by now.
    fn set_target(&mut self, target: &RequestTarget) {
        // Never fails with a path and a query.
        let _ = self.set_raw_path(path_and_query(target.as_str()).as_str().as_bytes());
    }

    fn set_method(&mut self, method: &EditableMethod) {
        RequestHeader::set_method(self, method.get().clone());
    }
}

impl ResponseMut for ResponseHeader {
    fn status(&self) -> StatusCode {
        self.status
    }

    fn set_status(&mut self, status: EditableStatus) {
        let _ = ResponseHeader::set_status(self, status.get());
        let _ = self.set_reason_phrase(None);
    }

    fn stop_buffering(&mut self) {
        self.extensions_mut().insert(Unbuffered);
    }

    fn hide_trailers(&mut self, names: impl FnOnce() -> Option<Arc<[EditableName]>>) {
        if let Some(names) = names() {
            self.extensions_mut().insert(HiddenTrailers(Some(names)));
        }
    }
}
