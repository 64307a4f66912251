//! The changes that policies may make to a head: target, method, fields and status.
//!
//! The author of a rule does not control the connections on which it is applied. A rule that
//! changed a field of the framing, or turned a GET into a HEAD, would make the gateway and an
//! endpoint interpret the following bytes differently. Policies therefore change heads only through
//! [`Edit`], whose arguments exclude that: [`EditableName`] is never a field of framing, connection
//! or routing, [`RequestTarget`] is a path that is valid in a request line, and neither
//! [`EditableMethod`] nor [`EditableStatus`] changes whether a body follows. [`FieldsMut`] is for
//! the engines: hop-by-hop fields, `Host` and forwarding fields.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use sluice_config::OWN_FIELDS;

use crate::message::fields::{Fields, FieldsMut};
use crate::message::target;

/// A head in the representation of an engine.
pub trait HeadMut {
    /// The type of the fields.
    type Fields: FieldsMut;

    /// Returns the fields.
    fn fields(&mut self) -> &mut Self::Fields;
}

impl HeadMut for Vec<(HeaderName, HeaderValue)> {
    type Fields = Self;

    fn fields(&mut self) -> &mut Self {
        self
    }
}

impl HeadMut for HeaderMap {
    type Fields = Self;

    fn fields(&mut self) -> &mut Self {
        self
    }
}

/// The head of a request to an endpoint.
pub trait RequestMut: HeadMut {
    /// Returns the method as the client sent it.
    fn method(&self) -> &Method;
    /// Replaces path and query.
    fn set_target(&mut self, target: &RequestTarget);
    /// Replaces the method. Called only if the framing of request and response does not depend on
    /// it.
    fn set_method(&mut self, method: &EditableMethod);
}

/// The head of a response to the client.
pub trait ResponseMut: HeadMut {
    /// Returns the status.
    fn status(&self) -> StatusCode;
    /// Replaces the status. Called only if the framing does not depend on it.
    fn set_status(&mut self, status: EditableStatus);
    /// Records that the response is not buffered, because its endpoint has turned that off.
    fn stop_buffering(&mut self);
    /// Hides trailers of these names from the client; of the standard names without any. `names` is
    /// called only if there may be trailers.
    fn hide_trailers(&mut self, names: impl FnOnce() -> Option<Arc<[EditableName]>>);
}

/// Access of a policy to a head.
#[derive(Debug)]
pub struct Edit<'h, H>(&'h mut H);

/// The name of a field that rules may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditableName(HeaderName);

/// A method that rules may set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditableMethod(Method);

/// A status that rules may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditableStatus(StatusCode);

/// Path and query of a request line (RFC 9112 §3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget(String);

/// Why rules may not change a field of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The text is not a field name.
    Malformed,
    /// The field is managed by the gateway.
    Own,
}

impl EditableName {
    /// Validates a name.
    ///
    /// # Errors
    /// The text is not a field name (RFC 9110 §5.1), or names a field that the gateway manages.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| NameError::Malformed)?;
        match OWN_FIELDS.contains(&name.as_str()) {
            true => Err(NameError::Own),
            false => Ok(Self(name)),
        }
    }

    /// Returns the name, for reading.
    pub fn get(&self) -> &HeaderName {
        &self.0
    }

    /// Creates a name from a lowercase constant.
    ///
    /// # Panics
    /// If rules may not change this field. In a constant this is a compile-time error.
    pub const fn from_static(name: &'static str) -> Self {
        let mut at = 0;
        while at < OWN_FIELDS.len() {
            assert!(!equal(name.as_bytes(), OWN_FIELDS[at].as_bytes()), "this field belongs to the gateway");
            at += 1;
        }
        Self(HeaderName::from_static(name))
    }
}

const fn equal(a: &[u8], b: &[u8]) -> bool {
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

impl EditableMethod {
    /// Returns `None` for HEAD, CONNECT and TRACE, which have body rules of their own (RFC 9110
    /// §9.3).
    pub fn new(method: Method) -> Option<Self> {
        let own = [Method::HEAD, Method::CONNECT, Method::TRACE].contains(&method);
        (!own).then_some(Self(method))
    }

    /// Returns the method.
    pub fn get(&self) -> &Method {
        &self.0
    }
}

impl EditableStatus {
    /// Returns `None` for statuses whose responses have no body (RFC 9112 §6.3).
    pub fn new(status: StatusCode) -> Option<Self> {
        has_body(status).then_some(Self(status))
    }

    /// Returns the status.
    pub fn get(self) -> StatusCode {
        self.0
    }
}

/// Returns whether a target is in origin form (RFC 9112 §3.2.1): without blanks, control characters
/// and fragment. Bytes outside ASCII are not valid in a URI, but clients send them and nginx
/// accepts them.
pub(crate) fn is_path(target: &str) -> bool {
    target.starts_with('/') && is_target_text(target)
}

/// Returns whether text may be a part of a target.
pub(crate) fn is_target_text(text: &str) -> bool {
    !text.bytes().any(|byte| byte <= b' ' || byte == 0x7f || byte == b'#')
}

fn has_body(status: StatusCode) -> bool {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    !status.is_informational() && status.as_u16() < 600 && !bodiless.contains(&status)
}

impl RequestTarget {
    /// The target `/`.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// Returns the target if it is a path with an optional query.
    pub fn new(text: String) -> Option<Self> {
        is_path(&text).then_some(Self(text))
    }

    /// Returns the target as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the target without its query.
    pub fn path(&self) -> &str {
        target::split(&self.0).0
    }
}

impl<'h, H: HeadMut> Edit<'h, H> {
    /// Gives a policy access to this head.
    pub fn new(head: &'h mut H) -> Self {
        Self(head)
    }

    /// Returns the fields, for reading.
    pub fn fields(&mut self) -> &impl Fields {
        self.0.fields()
    }

    /// Replaces all values of a field.
    pub fn set(&mut self, EditableName(name): &EditableName, value: &HeaderValue) {
        self.0.fields().set(name, value);
    }

    /// Adds a value to a field.
    pub fn append(&mut self, EditableName(name): &EditableName, value: &HeaderValue) {
        self.0.fields().append(name, value);
    }

    /// Removes a field.
    pub fn remove(&mut self, EditableName(name): &EditableName) {
        self.0.fields().remove(name);
    }
}

impl<H: RequestMut> Edit<'_, H> {
    /// Replaces path and query.
    pub fn set_target(&mut self, target: &RequestTarget) {
        self.0.set_target(target);
    }

    /// Replaces the method, except that of a HEAD request, whose client expects no body.
    pub fn set_method(&mut self, method: &EditableMethod) {
        if EditableMethod::new(self.0.method().clone()).is_some() {
            self.0.set_method(method);
        }
    }
}

impl<H: ResponseMut> Edit<'_, H> {
    /// Replaces the status, except one that excludes a body.
    pub fn set_status(&mut self, status: EditableStatus) {
        if has_body(self.0.status()) {
            self.0.set_status(status);
        }
    }
}

#[cfg(test)]
#[path = "edit/tests.rs"]
mod tests;
