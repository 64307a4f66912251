//! The reply of an authorisation service.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::HeaderValue;

use crate::message::edit::EditableName;

/// The authorisation service's reply to a request.
#[derive(Debug)]
pub struct AuthReply {
    /// 2xx, 401 or 403.
    pub status: StatusCode,
    /// Header fields for the endpoint; `None` removes the request's field of that name.
    pub fields: Vec<(EditableName, Option<HeaderValue>)>,
    /// `Set-Cookie`.
    pub cookies: Vec<HeaderValue>,
    /// `WWW-Authenticate` of a 401.
    pub challenges: Vec<HeaderValue>,
    /// How long the reply may be cached; `None` if not at all.
    pub holds: Option<Duration>,
    /// Fields that variables of directives refer to.
    pub kept: Vec<(Arc<str>, HeaderValue)>,
    /// Whether the cookies are added to every response, whatever its status.
    pub always_set_cookie: bool,
}

impl AuthReply {
    /// Returns the value of a field that variables of directives refer to.
    pub fn kept(&self, name: &str) -> Option<&HeaderValue> {
        self.kept.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Returns the cookies to add to a response of this status, following the rules of nginx's
    /// `add_header`.
    pub fn cookies(&self, status: StatusCode) -> &[HeaderValue] {
        let usual = matches!(status.as_u16(), 200 | 201 | 204 | 206 | 301..=304 | 307 | 308);
        if usual || self.always_set_cookie { &self.cookies } else { &[] }
    }
}
