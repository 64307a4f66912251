//! Header fields that policies read and change, whatever type the driver keeps them in.
//!
//! Values go in and out as bytes or by reference, so that a driver may keep the text of a head as it came and
//! build no map of it.

use http::header::{HeaderMap, HeaderName, HeaderValue};

/// The fields of a head, to read.
pub trait Fields {
    /// The first value of `name`.
    fn first(&self, name: &HeaderName) -> Option<&[u8]>;
    /// All values of `name`, in order.
    fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]>;

    /// Gives each field with its value to `visit`, in order.
    fn each(&self, visit: impl FnMut(&[u8], &[u8]));

    /// Whether there is a field of this name.
    fn has(&self, name: &HeaderName) -> bool {
        self.first(name).is_some()
    }
}

/// The fields of a head, to change: `http`'s map, or a type of the driver that also keeps the case of names. For what
/// the gateway itself must do to every head; policies have [`Edit`](crate::message::edit::Edit).
pub trait FieldsMut: Fields {
    /// Replaces all values of `name`.
    fn set(&mut self, name: &HeaderName, value: &HeaderValue);
    /// Adds a value to `name`.
    fn append(&mut self, name: &HeaderName, value: &HeaderValue);
    /// Removes all values of `name`.
    fn remove(&mut self, name: &HeaderName);
}

impl Fields for HeaderMap {
    fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        self.get(name).map(HeaderValue::as_bytes)
    }

    fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]> {
        self.get_all(name).into_iter().map(HeaderValue::as_bytes)
    }

    fn each(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        self.iter().for_each(|(name, value)| visit(name.as_str().as_bytes(), value.as_bytes()));
    }
}

/// The fields of a message that we make ourselves.
impl Fields for Vec<(HeaderName, HeaderValue)> {
    fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        self.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_bytes())
    }

    fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]> {
        self.iter().filter(move |(field, _)| field == name).map(|(_, value)| value.as_bytes())
    }

    fn each(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        self.iter().for_each(|(name, value)| visit(name.as_str().as_bytes(), value.as_bytes()));
    }
}

impl FieldsMut for Vec<(HeaderName, HeaderValue)> {
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        FieldsMut::remove(self, name);
        self.push((name.clone(), value.clone()));
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.push((name.clone(), value.clone()));
    }

    fn remove(&mut self, name: &HeaderName) {
        self.retain(|(field, _)| field != name);
    }
}

impl FieldsMut for HeaderMap {
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.insert(name, value.clone());
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        HeaderMap::append(self, name, value.clone());
    }

    fn remove(&mut self, name: &HeaderName) {
        HeaderMap::remove(self, name);
    }
}
