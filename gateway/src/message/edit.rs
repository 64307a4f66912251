//! How policies change a head: its target, method, fields and status, and nothing else.
//!
//! A rule is written by somebody who knows nothing of the connections it will be used on. Whoever could name a field
//! of framing, or turn a GET into a HEAD, would make us and an endpoint read two different messages from there on. So
//! policies change heads through [`Edit`] alone, whose arguments cannot be any of that: [`EditableName`] is no field
//! of framing, connection or routing, [`RequestTarget`] is a path that a request line can carry, and neither
//! [`EditableMethod`] nor [`EditableStatus`] changes whether a body follows. [`FieldsMut`] is for the engines' own
//! needs: hop-by-hop fields, `Host`, what is told about the client.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use sluice_config::OWN_FIELDS;

use crate::message::fields::{Fields, FieldsMut};

/// A head as an engine keeps it.
pub trait HeadMut {
    /// The type of its fields.
    type Fields: FieldsMut;

    /// Its fields.
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

/// The head of a request on its way to an endpoint.
pub trait RequestMut: HeadMut {
    /// The method as the client sent it.
    fn method(&self) -> &Method;
    /// Replaces path and query.
    fn set_target(&mut self, target: &RequestTarget);
    /// Replaces the method. Called only where the framing of neither message depends on it.
    fn set_method(&mut self, method: &EditableMethod);
}

/// The head of a response on its way to the client.
pub trait ResponseMut: HeadMut {
    /// The status.
    fn status(&self) -> StatusCode;
    /// Replaces the status. Called only where the framing does not depend on it.
    fn set_status(&mut self, status: EditableStatus);
}

/// What a policy may do to a head.
#[derive(Debug)]
pub struct Edit<'h, H>(&'h mut H);

/// The name of a field that a rule may change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditableName(HeaderName);

/// A method that a rule may give to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditableMethod(Method);

/// A status that a rule may give to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditableStatus(StatusCode);

/// Path and query as a request line carries them (RFC 9112 §3.2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTarget(String);

/// Why a text is no name that a rule may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// It is no field name.
    Malformed,
    /// The field belongs to the gateway.
    Own,
}

impl EditableName {
    /// Checks a name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| NameError::Malformed)?;
        match OWN_FIELDS.contains(&name.as_str()) {
            true => Err(NameError::Own),
            false => Ok(Self(name)),
        }
    }

    /// As `http` has it, to read.
    pub fn get(&self) -> &HeaderName {
        &self.0
    }

    /// A name in lower case that is known when the program is built.
    ///
    /// # Panics
    /// It is none that a rule may change; in a constant that is an error of the compiler.
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
    /// HEAD, CONNECT and TRACE have rules of their own for bodies (RFC 9110 §9.3).
    pub fn new(method: Method) -> Option<Self> {
        let own = [Method::HEAD, Method::CONNECT, Method::TRACE].contains(&method);
        (!own).then_some(Self(method))
    }

    /// As `http` has it.
    pub fn get(&self) -> &Method {
        &self.0
    }
}

impl EditableStatus {
    /// Statuses whose responses have no body have a framing of their own (RFC 9112 §6.3).
    pub fn new(status: StatusCode) -> Option<Self> {
        has_body(status).then_some(Self(status))
    }

    /// As `http` has it.
    pub fn get(self) -> StatusCode {
        self.0
    }
}

fn has_body(status: StatusCode) -> bool {
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT, StatusCode::NOT_MODIFIED];
    !status.is_informational() && status.as_u16() < 600 && !bodiless.contains(&status)
}

impl RequestTarget {
    /// Checks a target: a path without blanks, control characters or a fragment. As of clients, it may have more than
    /// ASCII in it.
    pub fn new(text: String) -> Option<Self> {
        let fits = |byte: u8| byte > b' ' && byte != 0x7f && byte != b'#';
        (text.starts_with('/') && text.bytes().all(fits)).then_some(Self(text))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'h, H: HeadMut> Edit<'h, H> {
    /// Lets a policy change this head.
    pub fn new(head: &'h mut H) -> Self {
        Self(head)
    }

    /// Its fields, to read.
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

    /// Replaces the method, but for that of a HEAD request, whose client waits for no body.
    pub fn set_method(&mut self, method: &EditableMethod) {
        if EditableMethod::new(self.0.method().clone()).is_some() {
            self.0.set_method(method);
        }
    }
}

impl<H: ResponseMut> Edit<'_, H> {
    /// Replaces the status, but for one that says that there is no body.
    pub fn set_status(&mut self, status: EditableStatus) {
        if has_body(self.0.status()) {
            self.0.set_status(status);
        }
    }
}

#[cfg(test)]
#[path = "edit/tests.rs"]
mod tests;
