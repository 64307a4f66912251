//! The head that an endpoint would receive, for explanations: without a client, an endpoint, a log
//! line or a sample.

use std::sync::Arc;

use super::exchange::Exchange;
use super::originator::Originator;
use super::request::is_lossy;
use super::stages::{PipelineStage, StageInput};
use crate::connection::info::ConnectionInfo;
use crate::expression::within_steps;
use crate::message::field_names::FieldNames;
use crate::message::head::{Head, HeadFault};
use crate::message::request;
use crate::policy::{forwarded, hops};
use crate::router::{RequestView, host_of, normalise};
use crate::state::snapshot::PublishedSnapshot;

/// A request as an endpoint would receive it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestPreview {
    /// The method.
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    /// The fields in order.
    pub(crate) fields: Vec<(String, String)>,
    /// The backend, as `namespace-service-port`.
    pub(crate) backend: String,
}

impl Exchange {
    /// Returns the request that an endpoint would receive; `None` if no rule forwards it. Checks
    /// are skipped, snippets are not run, and an authorisation service, which may add fields, is
    /// not asked. Of several backends, the canary that a header or cookie selects counts, else the
    /// rule's first one.
    ///
    /// # Errors
    /// `text` is not a request head.
    pub(crate) fn preview(
        snapshot: PublishedSnapshot,
        connection: &Arc<ConnectionInfo>,
        text: &[u8],
    ) -> Result<Option<RequestPreview>, HeadFault> {
        let settings = snapshot.compiled_settings.settings.clone();
        let received = Head::read(text, FieldNames::of(&settings))?;
        let mut outgoing = Head::read(text, FieldNames::of(&settings))?;
        let head = request::view(&received);
        let client = snapshot.compiled_settings.forwarded.client(connection, head.headers);
        let mut exchange = Self::unrecorded(snapshot, connection, client);
        exchange.method = head.method.clone();
        exchange.version = head.version;
        exchange.hops = hops::count(head.headers);
        exchange.authority = super::request::authority(&head);
        exchange.request_id = forwarded::request_id(head.headers, &settings);
        let Ok(path) = normalise(head.path()) else { return Ok(None) };
        exchange.keep_exact_path(&head, is_lossy(&path));
        let view = RequestView {
            path: &path,
            method: head.method.as_str(),
            headers: head.headers,
            query: head.query(),
        };
        let mut steps = *exchange.steps.get_mut();
        let route = within_steps(&mut steps, || exchange.rule(&host_of(head.authority), &view));
        let Some(route) = route else { return Ok(None) };
        exchange.route = Some(route.clone());
        let snapshot = exchange.snapshot.clone();
        let input = StageInput { head: &head, path: &path, compiled_settings: &snapshot.compiled_settings };
        let is_forwarded = within_steps(&mut steps, || {
            exchange.fill_headers(Some(&route), &input);
            exchange.run_stage(PipelineStage::Rewrite, &route, &input).is_continue()
                && exchange.forward_without_draw(&route, &input).is_continue()
                && exchange.check_default_backend().is_continue()
        });
        let Some(backend) = exchange.backend.clone().filter(|_| is_forwarded && steps > 0) else {
            return Ok(None);
        };
        exchange.upstream_request(&mut outgoing);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Some(RequestPreview {
            method: outgoing.outgoing_method().to_string(),
            target: outgoing.outgoing_target().to_owned(),
            fields: outgoing.fields.iter().map(|(name, value)| (text(name), text(value))).collect(),
            backend: if backend.alternative.is_empty() { &backend.name } else { &backend.alternative }
                .to_string(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::Balance;

    use super::*;
    use crate::pipeline::tests::fixture::{Plane, connection};

    fn preview(plane: &Plane, text: &str) -> Result<Option<RequestPreview>, HeadFault> {
        Exchange::preview(PublishedSnapshot::take(&plane.state), &connection(false), text.as_bytes())
    }

    #[test]
    fn a_preview_has_the_fields_of_a_forwarded_request_and_counts_nothing() {
        let plane = Plane::with_policies(Balance::RoundRobin, &[1], Default::default());
        let text =
            "GET /cart?x=1 HTTP/1.1\r\nHost: a.example\r\nConnection: x-hop\r\nX-Hop: 1\r\nX-Own: 2\r\n\r\n";
        let preview = preview(&plane, text).unwrap().unwrap();
        assert_eq!(
            (&*preview.method, &*preview.target, &*preview.backend),
            ("GET", "/cart?x=1", "shop-web-80")
        );
        let value = |name: &str| {
            preview
                .fields
                .iter()
                .find(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| &**value)
        };
        assert_eq!(value("x-own"), Some("2"));
        assert_eq!(value("x-hop"), None, "it is for the client's connection only");
        assert_eq!(value("x-forwarded-for"), Some("192.0.2.7"));
        let metrics = plane.metrics();
        assert!(metrics.contains("nginx_process_requests_total") && plane.lines().is_empty());
        assert!(!metrics.contains("nginx_ingress_controller_requests{"), "{metrics}");
        assert_eq!(plane.state.telemetry.status().requests, 0);
    }

    #[test]
    fn a_request_without_a_rule_or_with_a_malformed_head_has_no_preview() {
        let plane = Plane::with_policies(Balance::RoundRobin, &[1], Default::default());
        assert_eq!(preview(&plane, "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n").unwrap(), None);
        assert!(preview(&plane, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").is_err());
    }
}
