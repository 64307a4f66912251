//! The head of a request's copy for a mirror (`mirror-target`).
//!
//! The copy is the request as an endpoint would receive it: with forwarding fields, the fields of
//! the authorisation service and the rule's changes, and without credentials for the gateway. Only
//! the target and `Host` differ. Conditions and ranges are kept; an upgrade is not.

use http::Method;
use http::header::{
    CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use super::ask::target;
use super::exchange::Exchange;
use super::stages::StageInput;
use super::subrequest::Subrequest;
use crate::message::edit::{EditableMethod, HeadMut, RequestMut, RequestTarget};
use crate::message::fields::FieldsMut;
use crate::message::request_head::RequestHead;
use crate::pipeline::Originator;
use crate::policy::Mirror;
use crate::policy::call_destination::ResolvedDestination;
use crate::router::normalise;

/// Fields about a body, which the sender of the copy writes, and of an upgrade.
static NOT_COPIED: [HeaderName; 6] =
    [CONNECTION, CONTENT_LENGTH, EXPECT, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Bytes of a response body that are read and dropped, to keep the connection.
const MOST_BODY: usize = 1024 * 1024;

/// The copy of a request.
#[derive(Debug)]
pub struct MirroredRequest {
    /// The request, without its body.
    pub subrequest: Subrequest,
    /// Whether the copy has the body.
    pub body: bool,
}

/// A head that is changed like one for an endpoint.
struct Head {
    method: Method,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl HeadMut for Head {
    type Fields = Vec<(HeaderName, HeaderValue)>;

    fn fields(&mut self) -> &mut Self::Fields {
        &mut self.fields
    }
}

impl RequestMut for Head {
    fn method(&self) -> &Method {
        &self.method
    }

    /// Does nothing: the mirror has its own target.
    fn set_target(&mut self, _: &RequestTarget) {}

    fn set_method(&mut self, method: &EditableMethod) {
        self.method = method.get().clone();
    }
}

impl Exchange {
    /// Returns the mirror, if the request is copied.
    pub(super) fn mirror(&self) -> Option<&Mirror> {
        // A gateway that mirrors to itself must not loop.
        let copies = self.loop_detected().is_none();
        self.route.as_deref()?.compiled.as_deref()?.mirror.as_ref().filter(|_| copies)
    }

    /// Returns the copy of a request that is about to be forwarded, if its head can be built.
    pub fn mirrored(&self, head: &RequestHead<'_>) -> Option<MirroredRequest> {
        self.with_own_steps(|| self.copy(head))
    }

    fn copy(&self, head: &RequestHead<'_>) -> Option<MirroredRequest> {
        let (mirror, route) = (self.mirror()?, self.route.as_ref()?);
        let compiled_settings = self.compiled_settings();
        let path = normalise(head.path()).ok()?;
        let input = StageInput { head, path: &path, compiled_settings };
        let context = self.template_context(Some(route), &input);
        let target = target(mirror.target.fill(&context))?;
        let host = HeaderValue::try_from(mirror.host.fill(&context)).ok()?;
        let ResolvedDestination { to, server_name, .. } = mirror.to.resolve(&context)?;
        let mut copied = Head { method: head.method.clone(), fields: Vec::with_capacity(32) };
        copied.fields.extend(head.headers.parsed());
        self.upstream_request(&mut copied);
        let Head { method, mut fields } = copied;
        for name in &NOT_COPIED {
            FieldsMut::remove(&mut fields, name);
        }
        fields.set(&HOST, &host);
        let subrequest = Subrequest {
            to,
            method,
            target,
            fields,
            server_name,
            keep_alive: None,
            most_body: MOST_BODY,
            needs_body: false,
            is_copy: true,
            is_single: false,
            route: self.route.clone(),
            settings: compiled_settings.settings.clone(),
        };
        Some(MirroredRequest { subrequest, body: mirror.body })
    }
}
