//! Header fields that policies may change, whatever type the driver keeps them in.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// A mutable head: `http`'s map, or a type of the driver that also keeps the case of names.
pub trait Fields {
    /// All fields, to read.
    fn map(&self) -> &HeaderMap;
    /// Replaces all values of `name`.
    fn set(&mut self, name: HeaderName, value: HeaderValue);
    /// Adds a value to `name`.
    fn append(&mut self, name: HeaderName, value: HeaderValue);
    /// Removes all values of `name`.
    fn remove(&mut self, name: &HeaderName);
}

impl Fields for HeaderMap {
    fn map(&self) -> &HeaderMap {
        self
    }

    fn set(&mut self, name: HeaderName, value: HeaderValue) {
        self.insert(name, value);
    }

    fn append(&mut self, name: HeaderName, value: HeaderValue) {
        HeaderMap::append(self, name, value);
    }

    fn remove(&mut self, name: &HeaderName) {
        HeaderMap::remove(self, name);
    }
}
