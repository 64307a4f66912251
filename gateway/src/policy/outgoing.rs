//! What a rewrite changes in a request to an endpoint.

use http::header::HeaderValue;

use crate::message::edit::{Edit, EditableName, RequestMut, RequestTarget};

static X_FORWARDED_PREFIX: EditableName = EditableName::from_static("x-forwarded-prefix");

/// Changes of the head of a request to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    pub(super) target: RequestTarget,
    /// Value of `X-Forwarded-Prefix`; an empty value removes the field.
    pub(super) forwarded_prefix: Option<HeaderValue>,
}

impl Outgoing {
    /// Returns the path and query for the endpoint.
    pub(crate) fn target(&self) -> &str {
        self.target.as_str()
    }

    /// Edits the head of an attempt.
    pub fn apply(&self, head: &mut Edit<'_, impl RequestMut>) {
        head.set_target(&self.target);
        match &self.forwarded_prefix {
            Some(prefix) if prefix.is_empty() => head.remove(&X_FORWARDED_PREFIX),
            Some(prefix) => head.set(&X_FORWARDED_PREFIX, prefix),
            None => {}
        }
    }
}
