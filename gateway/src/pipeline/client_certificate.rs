//! The stage that checks the client's certificate, with nginx's answers.

use std::mem;

use bytes::Bytes;
use http::StatusCode;

use super::exchange::{CertificatePage, Exchange, Verdict};
use super::stages::{StageInput, Step};
use crate::message::answer::Answer;
use crate::message::edit::RequestTarget;
use crate::message::fields::FieldsMut;
use crate::policy::client_certificates::{CertificateDecision, ClientCertificates, ErrorPage};
use crate::policy::https_redirect;
use crate::route::Route;
use crate::tls::ClientIdentity;

/// Body of the answer to a client whose subject is not accepted.
const UNAUTHORIZED: &str = "client certificate unauthorized";

impl Exchange {
    pub(super) fn check_client_certificate(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(policy) = route.client_certificates() else { return Step::Continue(()) };
        if policy.is_newer_than(&self.connection, &self.authority) {
            self.connection.retire();
        }
        let answer = match policy.decide(&self.connection, &self.authority) {
            CertificateDecision::Accepted => return Step::Continue(()),
            // A later stage redirects to https, unless the rule is exempt for certificate
            // authorities.
            CertificateDecision::Unencrypted
                if self.redirects_to_https(route, input)
                    || https_redirect::is_exempt(&input.compiled_settings.settings, &route.origin.path) =>
            {
                return Step::Continue(());
            }
            CertificateDecision::Unencrypted | CertificateDecision::Missing => {
                self.without_certificate(policy, Answer::certificate_missing())
            }
            CertificateDecision::Invalid => self.without_certificate(policy, Answer::certificate_invalid()),
            CertificateDecision::Subject => {
                Answer::text(StatusCode::FORBIDDEN, None, Bytes::from_static(UNAUTHORIZED.as_bytes()))
            }
            // RFC 9110 §15.5.20.
            CertificateDecision::Misdirected => {
                let close = self.connection.is_retired();
                Answer { close, ..Answer::page(StatusCode::MISDIRECTED_REQUEST) }
            }
            CertificateDecision::Closed => Answer::page(StatusCode::FORBIDDEN),
        };
        Step::Break(Verdict::Answer(self.with_response_headers(answer)))
    }

    /// Returns the answer to a client without an acceptable certificate, and offers the error page
    /// if it is one of the host. A connection of HTTP/1 ends, as in nginx: its next request would
    /// be refused too, and the next handshake may present another certificate.
    fn without_certificate(&mut self, policy: &ClientCertificates, refusal: Answer) -> Answer {
        let refusal = Answer { close: true, ..refusal };
        match &policy.error_page {
            None => refusal,
            Some(ErrorPage::Url(url)) => {
                Answer { close: true, ..Answer::redirect(StatusCode::FOUND, url.clone()) }
            }
            Some(ErrorPage::Path(target)) => {
                let page = &mut self.extras.get_or_insert_default().certificate_page;
                if let CertificatePage::None = page {
                    *page = CertificatePage::Offered(target.clone());
                }
                refusal
            }
        }
    }

    /// Returns the error page that replaces the refusal of the client's certificate, if the host
    /// has one. Its request begins with [`begin_certificate_page`](Self::begin_certificate_page). A
    /// page is returned once per request; without a call, the refusal stands.
    pub(crate) fn take_certificate_page(&mut self) -> Option<RequestTarget> {
        let page = &mut self.extras.as_mut()?.certificate_page;
        match mem::take(page) {
            CertificatePage::Offered(target) => {
                *page = CertificatePage::Served;
                Some(target)
            }
            other => {
                *page = other;
                None
            }
        }
    }

    /// Returns the client's verified identity; `None` if the rule's host requests no certificate.
    pub(super) fn client_identity(&self) -> Option<ClientIdentity<'_>> {
        Some(self.route.as_deref()?.client_certificates()?.identity(&self.connection, &self.authority))
    }

    /// Sets the fields about the client's certificate, if the rule's host requests one.
    pub(super) fn set_client_certificate(&self, fields: &mut impl FieldsMut) {
        if let Some(policy) = self.route.as_deref().and_then(Route::client_certificates) {
            policy.set_fields(&self.connection, &self.authority, fields);
        }
    }
}
