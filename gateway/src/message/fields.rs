//! Header fields that policies read and change, independent of the representation that an engine
//! uses.
//!
//! Values are passed as bytes or references, so an engine may keep the original text of a head and
//! needs no map.

use std::borrow::Cow;

use http::header::{COOKIE, HeaderMap, HeaderName, HeaderValue};

/// Read access to the fields of a head.
pub trait Fields {
    /// Returns the first value of `name`.
    fn first(&self, name: &HeaderName) -> Option<&[u8]>;
    /// Returns all values of `name`, in order.
    fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]>;

    /// Calls `visit` with each field's name and value, in order.
    fn each(&self, visit: impl FnMut(&[u8], &[u8]));

    /// Returns whether there is a field of this name.
    fn has(&self, name: &HeaderName) -> bool {
        self.first(name).is_some()
    }

    /// Returns all values of `name` as one, separated as in nginx's `$http_<name>` (RFC 9110 §5.3).
    fn joined<'f>(&'f self, name: &'f HeaderName) -> Option<Cow<'f, [u8]>> {
        let mut lines = self.lines(name);
        let mut joined = Cow::Borrowed(lines.next()?);
        for line in lines {
            let joined = joined.to_mut();
            joined.extend_from_slice(separator(name));
            joined.extend_from_slice(line);
        }
        Some(joined)
    }

    /// Returns false if no name has one of these lengths: bit n stands for n bytes, modulo 64. True
    /// also if that is not known without a look at each field.
    fn may_have_lengths(&self, _lengths: u64) -> bool {
        true
    }

    /// Returns whether the comma-separated list `name` contains `token`, in any case.
    fn has_token(&self, name: &HeaderName, token: &[u8]) -> bool {
        self.lines(name)
            .flat_map(|line| line.split(|byte| *byte == b','))
            .any(|element| element.trim_ascii().eq_ignore_ascii_case(token))
    }
}

/// Returns what separates the values of a field that are joined: cookies form no comma-separated
/// list (RFC 6265 §5.4).
pub(crate) fn separator(name: &HeaderName) -> &'static [u8] {
    if *name == COOKIE { b"; " } else { b", " }
}

/// Write access to the fields of a head, for changes that the gateway makes to every head. Policies
/// use [`Edit`](crate::message::edit::Edit). Implemented by `http`'s map and by types that keep the
/// case of names.
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

/// The fields of a message that Sluice generates.
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
