//! Pingora's heads as the pipeline changes them. Going through Pingora keeps the case of names that stay.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::pipeline::Fields;

impl Fields for RequestHeader {
    fn map(&self) -> &HeaderMap {
        &self.headers
    }

    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        // Fails for names and values that do not parse only; these are parsed.
        let _ = self.insert_header(name, value);
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) {
        let _ = self.append_header(name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }
}

impl Fields for ResponseHeader {
    fn map(&self) -> &HeaderMap {
        &self.headers
    }

    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        let _ = self.insert_header(name, value);
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) {
        let _ = self.append_header(name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        self.remove_header(name);
    }
}
