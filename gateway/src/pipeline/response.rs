//! The response head on its way to the client.

use http::header::{HeaderValue, SERVER};
use sluice_config::ServerField;

use super::exchange::Exchange;
use crate::message::edit::{Edit, EditableName, HeadMut, ResponseMut};
use crate::message::fields::Fields;
use crate::message::hop_by_hop;
use crate::policy::HeaderEdits;

/// The `Server` field of a response that passes on none of an endpoint.
const PRODUCT: HeaderValue = HeaderValue::from_static("sluice");
static PRODUCT_FIELD: EditableName = EditableName::from_static("server");
static HSTS: EditableName = EditableName::from_static("strict-transport-security");
static SET_COOKIE: EditableName = EditableName::from_static("set-cookie");

impl Exchange {
    /// Changes the response head for the client: removes hop-by-hop and hidden fields, replaces cookies and redirects of
    /// the endpoint, sets `Server` and HSTS, adds the operator's fields and cookies of the gateway, then applies the
    /// rule's changes.
    pub(super) fn change_response(&mut self, head: &mut impl ResponseMut) {
        let status = head.status();
        self.log_upstream(head.fields());
        hop_by_hop::response(head.fields(), status);
        let mut head = Edit::new(head);
        self.hide_headers(&mut head);
        self.replace(&mut head);
        self.name_server(&mut head);
        if let Some(hsts) = self.hsts() {
            head.set(&HSTS, hsts);
        }
        self.set_response_headers(&mut head);
        if let Some(cookie) = self.set_cookie.take() {
            head.append(&SET_COOKIE, &cookie);
        }
        for cookie in self.authorised_cookies(status) {
            head.append(&SET_COOKIE, cookie);
        }
        self.share_with_origin(&mut head);
        for edits in self.edits() {
            edits.response(&mut head);
        }
        self.log_sent(head.fields());
    }

    /// `Server`, of the endpoint or of ours, as far as the operator wants either to be seen.
    pub(super) fn name_server(&self, head: &mut Edit<'_, impl HeadMut>) {
        let ServerField { of_endpoints, own } = self.settings().server_field;
        match head.fields().has(&SERVER) {
            true if of_endpoints => {}
            _ if own => head.set(&PRODUCT_FIELD, &PRODUCT),
            true => head.remove(&PRODUCT_FIELD),
            false => {}
        }
    }

    /// Says whether a page of another origin may read the response.
    pub(super) fn share_with_origin(&self, head: &mut Edit<'_, impl HeadMut>) {
        let compiled = self.route.as_ref().and_then(|route| route.compiled.as_ref());
        if let Some(cors) = compiled.and_then(|compiled| compiled.cors.as_ref()) {
            let extras = self.extras.as_ref();
            cors.response(extras.and_then(|extras| extras.origin.as_ref()), head);
        }
    }

    /// Header changes of the rule, then those of its backend.
    pub(super) fn edits(&self) -> impl Iterator<Item = &HeaderEdits> {
        let rule = self.route.as_ref().and_then(|route| route.edits());
        let backend = self.target.as_ref().and_then(|target| target.edits.as_deref());
        rule.into_iter().chain(backend)
    }
}
