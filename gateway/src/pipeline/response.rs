//! The response head on its way to the client.

use http::StatusCode;
use http::header::{SERVER, SET_COOKIE, STRICT_TRANSPORT_SECURITY};

use super::answer::PRODUCT;
use super::exchange::Exchange;
use crate::message::fields::FieldsMut;
use crate::message::hop_by_hop;
use crate::policy::HeaderEdits;

impl Exchange {
    /// Changes the response head for the client: hop-by-hop fields out, HSTS, session cookie, `Server`, then
    /// the rule's changes.
    pub fn response(&mut self, status: StatusCode, head: &mut impl FieldsMut) {
        hop_by_hop::response(head, status);
        if !head.has(&SERVER) {
            head.set(&SERVER, &PRODUCT);
        }
        let globals = self.globals();
        if let Some(hsts) = self.hsts(&globals) {
            head.set(&STRICT_TRANSPORT_SECURITY, hsts);
        }
        if let Some(cookie) = self.set_cookie.take() {
            head.append(&SET_COOKIE, &cookie);
        }
        for edits in self.edits() {
            edits.response(head);
        }
    }

    /// Header changes of the rule, then those of its backend.
    pub(super) fn edits(&self) -> impl Iterator<Item = &HeaderEdits> {
        let rule = self.route.as_ref().and_then(|route| route.edits());
        let backend = self.target.as_ref().and_then(|target| target.edits.as_deref());
        rule.into_iter().chain(backend)
    }
}
