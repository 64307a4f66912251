//! One request from its head to its log line: the state that the steps share.
//!
//! The steps are in files of their own: `request` (what becomes of it), `upstream` (endpoints, attempts,
//! failures), `response` (the head on its way back) and `end` (log line and metrics).

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use http::header::{HeaderName, HeaderValue, SET_COOKIE};
use http::{Method, StatusCode, Version};
use sluice_config::GlobalSettings;

use super::admission::SatisfyAny;
use super::call::Call;
use super::header_sets::FilledSets;
use super::question::Question;
use super::session::BoundSession;
use crate::compiled_settings::CompiledSettings;
use crate::connection_info::ConnectionInfo;
use crate::message::answer::Answer;
use crate::message::edit::Edit;
use crate::policy::external_auth::AuthReply;
use crate::policy::forwarded::Client;
use crate::policy::limits::Permit;
use crate::policy::rewrite::Outgoing;
use crate::route::{Route, Target};
use crate::snapshot::{Held, Snapshot};
use crate::state::State;
use crate::telemetry::{LogLine, TargetMeters};

/// The state of one request. Plain data; a driver keeps it next to the stream. Should the driver drop it
/// without [`end`](Self::end), it ends as a request whose client went away.
#[derive(Debug)]
pub struct Exchange {
    pub(super) snapshot: Snapshot,
    pub(super) connection: Arc<ConnectionInfo>,
    pub(super) began: Instant,
    /// Whether there is a head; without one, the method and the version mean nothing.
    pub(super) head_was_read: bool,
    pub(super) method: Method,
    pub(super) version: Version,
    /// Bytes of the request head.
    pub(super) head_length: usize,
    pub(super) client: Client,
    /// Requests on the connection so far, including this one.
    pub(super) ordinal: u32,
    /// Gateways that the request has come through before this one.
    pub(super) hops: u8,
    pub(super) authority: HeaderValue,
    pub(super) request_id: Option<HeaderValue>,
    /// `None` when the request is not logged.
    pub(super) line: Option<LogLine>,
    /// The rule, where one took the request.
    pub(super) route: Option<Held<Route>>,
    /// The backend, once it is drawn.
    pub(super) target: Option<Held<Target>>,
    /// Meters of a host that no Ingress names.
    pub(super) undefined_host: Option<Arc<TargetMeters>>,
    /// What the rule's rewriting makes of the head, for every attempt.
    pub(super) outgoing: Option<Box<Outgoing>>,
    pub(super) session: Option<BoundSession>,
    /// The stage, by its place in the order, that waits for the reply to its question.
    pub(super) asked: Option<u8>,
    /// What an authorisation service has said, where it let the request pass.
    pub(super) authorised: Option<Arc<AuthReply>>,
    /// The request goes to the rule's own default backend, which is told this.
    pub(super) fallback: Option<Box<[(HeaderName, HeaderValue)]>>,
    /// What most requests have nothing of.
    pub(super) extras: Option<Box<ExchangeExtras>>,
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
    /// Header fields whose values depend on the request.
    pub(super) headers: Option<Box<FilledSets>>,
    /// The place of the request among those that its client has under way, where that is limited.
    pub(super) permit: Option<Permit>,
    /// What was said of the client so far, where any of several checks lets it in.
    pub(super) satisfy_any: SatisfyAny,
    /// Requests with this key go to the same endpoint, or group of endpoints.
    pub(super) hash_key: Option<HashKey>,
    /// `SameSite=None` is to be left out of the session cookie.
    pub(super) misreads_none: bool,
}

/// What `upstream-hash-by` makes of a request.
#[derive(Debug)]
pub(super) struct HashKey {
    pub(super) bytes: Vec<u8>,
    pub(super) subset: Option<NonZeroU32>,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum Verdict {
    /// It is answered at once.
    Answer(Answer),
    /// It goes to an endpoint.
    Forward,
    /// A stage must know something first. Carry it out and call [`Exchange::resume`].
    Ask(Question),
}

impl Exchange {
    /// What does not change with the configuration.
    pub(super) fn state(&self) -> &State {
        self.snapshot.state()
    }

    /// Global settings, without what is made of them.
    pub(crate) fn settings(&self) -> &GlobalSettings {
        &self.snapshot.compiled_settings.settings
    }

    /// The client, as far as it is known behind proxies.
    pub(crate) fn client(&self) -> IpAddr {
        self.client.address
    }

    /// Global settings.
    pub(super) fn compiled_settings(&self) -> &CompiledSettings {
        &self.snapshot.compiled_settings
    }

    /// An answer with the standard page for a status.
    pub(super) fn answer(&self, status: StatusCode) -> Answer {
        self.with_response_headers(Answer::page(status, self.hsts()))
    }

    /// An answer of our own with the header changes of the operator and the rule, which hold for every response.
    pub(super) fn with_response_headers(&self, mut answer: Answer) -> Answer {
        let mut head = Edit::new(&mut answer.fields);
        self.name_server(&mut head);
        self.set_response_headers(&mut head);
        let cookies = self.authorised_cookies(answer.status);
        answer.fields.extend(cookies.iter().map(|cookie| (SET_COOKIE, cookie.clone())));
        let mut head = Edit::new(&mut answer.fields);
        self.share_with_origin(&mut head);
        for edits in self.edits() {
            edits.response(&mut head);
        }
        answer
    }

    /// The HSTS value, where the client came over https.
    pub(super) fn hsts(&self) -> Option<&HeaderValue> {
        self.compiled_settings().hsts.as_ref().filter(|_| self.connection.is_https())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.end(super::Outcome { aborted: true, ..super::Outcome::default() });
    }
}
