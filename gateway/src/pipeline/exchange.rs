//! The state of one request from its head to its log line.
//!
//! The steps are in files of their own: `request` (route and verdict), `upstream` (endpoints,
//! attempts, failures), `response` (response heads) and `end` (log line and metrics).

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode, Version};
use sluice_config::GlobalSettings;

use super::call::Call;
use super::directive_state::DirectiveState;
use super::filled_sets::FilledSets;
use super::observed_request::ObservedRequest;
use super::question::Question;
use super::satisfy_any::SatisfyAny;
use super::session::BoundSession;
use super::trace_state::TraceState;
use crate::cache::{CacheStatus, CachedUrl};
use crate::connection::info::ConnectionInfo;
use crate::expression::STEP_LIMIT;
use crate::firewall::Inspection;
use crate::message::answer::Answer;
use crate::message::edit::RequestTarget;
use crate::policy::auth_reply::AuthReply;
use crate::policy::forwarded::Client;
use crate::policy::limits::{Permit, RateFields};
use crate::policy::outgoing::Outgoing;
use crate::route::{Route, RouteBackend};
use crate::state::State;
use crate::state::compiled_settings::CompiledSettings;
use crate::state::snapshot::{PublishedSnapshot, SnapshotPart};
use crate::telemetry::{LogLine, TargetMeters};

/// The state of one request, without sockets. If it is dropped without [`end`](Self::end), it ends
/// as a request whose client has left.
#[derive(Debug)]
pub struct Exchange {
    pub(super) snapshot: PublishedSnapshot,
    pub(super) connection: Arc<ConnectionInfo>,
    pub(super) began: Instant,
    /// Whether a head was read; otherwise method and version are meaningless.
    pub(super) head_was_read: bool,
    pub(super) method: Method,
    pub(super) version: Version,
    /// Bytes of the request head.
    pub(super) head_length: usize,
    pub(super) client: Client,
    /// Requests on the connection so far, including this one.
    pub(super) ordinal: u32,
    /// Number of gateways that the request has passed before this one.
    pub(super) hops: u8,
    pub(super) authority: HeaderValue,
    pub(super) request_id: Option<HeaderValue>,
    /// `None` when the request is not logged.
    pub(super) line: Option<LogLine>,
    /// Whether its line is written whatever its outcome is.
    pub(super) is_logged_anyway: bool,
    /// `None` when the request is not traced.
    pub(super) trace: Option<Box<TraceState>>,
    /// `None` when no reader of live requests follows the request.
    pub(super) observed: Option<Box<ObservedRequest>>,
    /// Whether no rule of an object matches the request, which the program's default backend then
    /// serves.
    pub(super) is_without_rule: bool,
    /// The rule that matched.
    pub(super) route: Option<SnapshotPart<Route>>,
    /// The backend, once it is chosen.
    pub(super) backend: Option<SnapshotPart<RouteBackend>>,
    /// Metrics of a host that no Ingress names.
    pub(super) undefined_host: Option<Arc<TargetMeters>>,
    /// The rewritten target, for every attempt.
    pub(super) outgoing: Option<Box<Outgoing>>,
    pub(super) session: Option<BoundSession>,
    /// The index of the stage that waits for the reply to its question.
    pub(super) asked: Option<u8>,
    /// The reply of the authorisation service that allowed the request.
    pub(super) authorised: Option<Arc<AuthReply>>,
    /// Fields for the rule's default backend, if the request goes there.
    pub(super) fallback: Option<Box<[(HeaderName, HeaderValue)]>>,
    /// Steps that expressions may still take by backtracking. Atomic because values of response
    /// fields, which are read from a shared exchange, reduce them.
    pub(super) steps: AtomicU32,
    /// State that few requests need.
    pub(super) extras: Option<Box<ExchangeExtras>>,
    /// The outcome of the cache, if the rule has one.
    pub(super) cache_status: Option<CacheStatus>,
    /// The session cookie that the response will set.
    pub(super) set_cookie: Option<HeaderValue>,
    pub(super) call: Call,
    pub(super) ended: bool,
}

/// State that only few exchanges need, allocated on demand.
#[derive(Debug, Default)]
pub(super) struct ExchangeExtras {
    /// `Access-Control-Allow-Origin` of the response, if the request's origin is accepted.
    pub(super) origin: Option<HeaderValue>,
    /// The normalised path, if it is not UTF-8: matching replaces such bytes.
    pub(super) exact_path: Option<Box<[u8]>>,
    /// The effects of snippet directives on the request.
    pub(super) directives: Option<Box<DirectiveState>>,
    /// Header fields whose values depend on the request.
    pub(super) headers: Option<Box<FilledSets>>,
    /// Fields of the endpoint's response that values of response fields refer to.
    pub(super) upstream_fields: Vec<(HeaderName, HeaderValue)>,
    /// The user that the credentials name, for FastCGI endpoints.
    pub(super) user: Option<Vec<u8>>,
    /// The inspection that waits for the body or for the response.
    pub(super) inspection: Option<Box<Inspection>>,
    /// The URL whose stored responses a success makes invalid.
    pub(super) invalidates: Option<CachedUrl>,
    /// The permits of limits on concurrent requests.
    pub(super) permits: Vec<Permit>,
    /// The fields of the response about the limits of rates.
    pub(super) rate_fields: Option<Box<RateFields>>,
    /// The results of checks with `satisfy: any`.
    pub(super) satisfy_any: SatisfyAny,
    /// Requests with this key go to the same endpoint, or group of endpoints.
    pub(super) hash_key: Option<UpstreamHashKey>,
    /// The name of the endpoint's certificate, if the request determines it and has one.
    pub(super) endpoint_name: Option<Arc<str>>,
    /// Whether the client misreads `SameSite=None`, which its session cookie then omits.
    pub(super) misreads_none: bool,
    /// The status of an endpoint's redirect that a page replaces.
    pub(super) replaced_redirect: Option<StatusCode>,
    /// The error page of the host in place of the refusal of the client's certificate.
    pub(super) certificate_page: CertificatePage,
}

/// Whether an error page replaces the refusal of the client's certificate.
#[derive(Debug, Default)]
pub(super) enum CertificatePage {
    /// The certificate was not refused, or no page of the host replaces the refusal.
    #[default]
    None,
    /// This page replaces the refusal.
    Offered(RequestTarget),
    /// The request is one for that page. The certificate is not checked for it, and no other page
    /// is reached.
    Served,
}

/// The key of `upstream-hash-by`.
#[derive(Debug)]
pub(super) struct UpstreamHashKey {
    pub(super) bytes: Vec<u8>,
    pub(super) subset: Option<NonZeroU32>,
}

/// The decision on a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered.
    Answer(Answer),
    /// It goes to an endpoint.
    Forward,
    /// A stage has a question. Execute it and call [`Exchange::resume`].
    Ask(Question),
}

impl Exchange {
    /// Creates an exchange that begins now, with only the connection and the client known.
    pub(super) fn new(snapshot: PublishedSnapshot, connection: &Arc<ConnectionInfo>, client: Client) -> Self {
        snapshot.state().telemetry.request_began();
        let mut exchange = Self::unrecorded(snapshot, connection, client);
        exchange.ordinal = connection.requests.fetch_add(1, Relaxed).wrapping_add(1);
        exchange.ended = false;
        exchange
    }

    /// Creates an exchange that is neither counted nor logged.
    pub(super) fn unrecorded(
        snapshot: PublishedSnapshot,
        connection: &Arc<ConnectionInfo>,
        client: Client,
    ) -> Self {
        Self {
            snapshot,
            connection: connection.clone(),
            began: Instant::now(),
            head_was_read: false,
            method: Method::GET,
            version: Version::HTTP_11,
            head_length: 0,
            client,
            ordinal: connection.requests.load(Relaxed).wrapping_add(1),
            hops: 0,
            authority: HeaderValue::from_static(""),
            request_id: None,
            line: None,
            is_logged_anyway: true,
            trace: None,
            observed: None,
            is_without_rule: false,
            route: None,
            backend: None,
            undefined_host: None,
            steps: AtomicU32::new(STEP_LIMIT),
            outgoing: None,
            session: None,
            asked: None,
            authorised: None,
            fallback: None,
            extras: None,
            cache_status: None,
            set_cookie: None,
            call: Call::default(),
            ended: true,
        }
    }

    /// State that does not change with the configuration.
    pub(super) fn state(&self) -> &State {
        self.snapshot.state()
    }

    /// Global settings.
    pub(crate) fn settings(&self) -> &GlobalSettings {
        &self.snapshot.compiled_settings.settings
    }

    /// The address of the client, behind trusted proxies.
    pub(crate) fn client(&self) -> IpAddr {
        self.client.address
    }

    /// The rule of an object that the request matches.
    pub(super) fn named_rule(&self) -> Option<&Route> {
        self.route.as_deref().filter(|route| !route.is_for_unmatched)
    }

    /// Global settings in their compiled form.
    pub(super) fn compiled_settings(&self) -> &CompiledSettings {
        &self.snapshot.compiled_settings
    }

    /// An answer with the standard page for a status.
    pub(super) fn answer(&self, status: StatusCode) -> Answer {
        self.with_response_headers(Answer::page(status))
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(super::ExchangeOutcome { aborted: true, ..super::ExchangeOutcome::default() });
    }
}
