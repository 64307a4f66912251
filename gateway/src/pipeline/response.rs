//! The response head on its way to the client.

use http::header::SERVER;

use super::answer::PRODUCT;
use super::exchange::Exchange;
use crate::message::edit::{Edit, EditableName, ResponseMut};
use crate::message::fields::Fields;
use crate::message::hop_by_hop;
use crate::policy::HeaderEdits;

static PRODUCT_FIELD: EditableName = EditableName::from_static("server");
static HSTS: EditableName = EditableName::from_static("strict-transport-security");
static SET_COOKIE: EditableName = EditableName::from_static("set-cookie");

impl Exchange {
    /// Changes the response head for the client: hop-by-hop fields out, HSTS, session cookie, `Server`, then
    /// the rule's changes.
    pub fn response(&mut self, head: &mut impl ResponseMut) {
        let status = head.status();
        hop_by_hop::response(head.fields(), status);
        let mut head = Edit::new(head);
        if !head.fields().has(&SERVER) {
            head.set(&PRODUCT_FIELD, &PRODUCT);
        }
        if let Some(hsts) = self.hsts() {
            head.set(&HSTS, hsts);
        }
        if let Some(cookie) = self.set_cookie.take() {
            head.append(&SET_COOKIE, &cookie);
        }
        for cookie in self.authorised_cookies(status) {
            head.append(&SET_COOKIE, cookie);
        }
        for edits in self.edits() {
            edits.response(&mut head);
        }
    }

    /// Header changes of the rule, then those of its backend.
    pub(super) fn edits(&self) -> impl Iterator<Item = &HeaderEdits> {
        let rule = self.route.as_ref().and_then(|route| route.edits());
        let backend = self.target.as_ref().and_then(|target| target.edits.as_deref());
        rule.into_iter().chain(backend)
    }
}
