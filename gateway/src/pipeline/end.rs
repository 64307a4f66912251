//! The last step: one log line and one sample per request.

use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderValue};
use smallvec::SmallVec;

use super::call::Attempt;
use super::exchange::Exchange;
use super::outcome::ExchangeOutcome;
use super::question::Reply;
use super::subrequest::OwnCall;
use crate::message::answer::Answer;
use crate::message::fields::Fields;
use crate::message::request_head::RequestHead;
use crate::otel::{LoggedLine, shortened_line};
use crate::policy::access_log::LineChoice;
use crate::policy::forwarded;
use crate::policy::template::TemplateContext;
use crate::route::{DEFAULT_BACKEND, Route, RouteAction, RouteBackend};
use crate::telemetry::{LogFormat, LogLine, RequestSample, TargetMeters};
use crate::variable::{HeadValues, RequestRecord, UpstreamAttempt, basic_user};

/// nginx's status for a client that left before its response.
const CLIENT_CLOSED_REQUEST: u16 = 499;

impl Exchange {
    /// Ends the exchange: access log, metrics. Call once; further calls have no effect.
    pub fn end(&mut self, outcome: ExchangeOutcome) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        self.call.in_flight = None;
        self.end_cache(outcome.status);
        self.extras = None;
        let now = outcome.ended.unwrap_or_else(Instant::now);
        let time = now - self.began;
        let status = outcome.status.map_or(CLIENT_CLOSED_REQUEST, |status| status.as_u16());
        if let Some(attempt) = self.call.attempts.last_mut() {
            attempt.ended.get_or_insert_with(|| now - attempt.began);
        }
        self.record(&outcome, status, time);
        self.end_trace(&outcome, status, time);
        self.end_observation(&outcome, status, time);
        self.write_line(&outcome, status, time);
        self.state().telemetry.request_ended();
    }

    fn record(&self, outcome: &ExchangeOutcome, status: u16, time: Duration) {
        let Some(meters) = self.meters() else { return };
        let last = self.call.attempts.last();
        meters.record(
            &self.method,
            status,
            &RequestSample {
                connect: last.and_then(|attempt| attempt.connected),
                header: last.and_then(|attempt| attempt.header),
                response: last.and_then(|attempt| attempt.ended),
                request: time,
                request_size: self.head_length as u64 + outcome.body_received,
                bytes_sent: outcome.bytes_sent,
                trace: self.sampled_trace(),
            },
        );
    }

    fn meters(&self) -> Option<&TargetMeters> {
        let backend = self.backend.as_ref().and_then(|backend| backend.meters.as_deref());
        backend
            .or_else(|| Some(self.named_rule()?.meters(self.state().telemetry.requests()?)))
            .or(self.undefined_host.as_deref())
    }

    fn write_line(&mut self, outcome: &ExchangeOutcome, status: u16, time: Duration) {
        let Some(line) = self.line.take() else { return };
        let Some(format) = self.log_format() else { return };
        if self.is_filtered_out(status, time) {
            return;
        }
        let attempts = logged(&self.call.attempts, outcome.upstream_received);
        self.send_line(format, &line, &self.final_record(outcome, status, time, &attempts));
    }

    /// Begins the line of this request, unless it is known already that it will not be written.
    pub(super) fn open_line(&mut self, begin: impl FnOnce(&Self, &LogFormat) -> LogLine) {
        let choice = self.compiled_settings().log.choose(|| fastrand::u64(..));
        self.line = match choice {
            LineChoice::Omitted => None,
            LineChoice::Written | LineChoice::ByOutcome => {
                self.log_format().map(|format| begin(self, format))
            }
        };
        self.is_logged_anyway = choice == LineChoice::Written;
    }

    /// Returns whether the filters of the access log omit a line with this status and time.
    fn is_filtered_out(&self, status: u16, time: Duration) -> bool {
        !self.is_logged_anyway && !self.compiled_settings().log.selects(status, time)
    }

    /// Sends a line to the output of the log, and to the collector if it receives lines.
    fn send_line(&self, format: &LogFormat, line: &LogLine, record: &RequestRecord<'_>) {
        self.state().telemetry.access_log.send(|out| format.write(line, record, out));
        if self.compiled_settings().log.to_collector {
            let mut text = Vec::new();
            format.write(line, record, &mut text);
            self.state().log_records.push(LoggedLine {
                time: SystemTime::now(),
                line: shortened_line(&text),
                status: record.status,
                context: record.trace.cloned(),
            });
        }
    }

    /// What is known of the request at its end.
    pub(super) fn final_record<'a>(
        &'a self,
        outcome: &ExchangeOutcome,
        status: u16,
        time: Duration,
        attempts: &'a [UpstreamAttempt],
    ) -> RequestRecord<'a> {
        RequestRecord {
            status,
            body_sent: outcome.body_sent,
            bytes_sent: outcome.bytes_sent,
            request_length: self.head_length as u64 + outcome.body_received,
            request_time: time,
            is_whole: !outcome.aborted,
            ..self.facts_of_line(attempts)
        }
    }

    /// Returns whether requests to authorisation services have their own log lines
    /// (`enable-auth-access-log`).
    pub(crate) fn logs_questions(&self) -> bool {
        self.line.is_some() && self.settings().access_log.authorisation
    }

    /// Writes the log line of such a request, as nginx does for a subrequest: the line of the
    /// client's request with the result of the subrequest. `$uri` is the path that the service was
    /// asked for.
    pub(crate) fn log_question(
        &self,
        head: &RequestHead<'_>,
        own_call: &OwnCall,
        reply: &Reply,
        time: Duration,
    ) {
        let Some(format) = self.log_format() else { return };
        let path = own_call.subrequest.target.as_str().split('?').next().map(str::as_bytes);
        let mut line = self.with_own_steps(|| self.begin_line(format, head, path));
        let status = match reply {
            Reply::Response(response) => {
                if format.needs_response() {
                    format.upstream(&mut line, &response.fields);
                }
                response.status
            }
            Reply::NoResponse(failure) => failure.status(),
            Reply::Checked(_) | Reply::Inspected(_) | Reply::Waited | Reply::Overloaded | Reply::Lost => {
                return;
            }
        };
        if self.is_filtered_out(status.as_u16(), time) {
            return;
        }
        let attempts = logged(&own_call.call.attempts, 0);
        let record = RequestRecord {
            status: status.as_u16(),
            request_time: time,
            is_whole: matches!(reply, Reply::Response(_)),
            ..self.facts_of_line(&attempts)
        };
        self.send_line(format, &line, &record);
    }

    /// The line of a request with this head.
    pub(super) fn begin_line(
        &self,
        format: &LogFormat,
        head: &RequestHead<'_>,
        path: Option<&[u8]>,
    ) -> LogLine {
        let values = self.head_values(head, path);
        let computed = &self.compiled_settings().computed;
        format.request(&values, |name, out| {
            let context = TemplateContext {
                record: self.facts_of_line(&[]),
                head: values,
                computed,
                assigned: None,
                authorised: None,
            };
            computed.write(name, &context, out);
        })
    }

    /// What variables say of the head.
    pub(super) fn head_values<'h>(
        &self,
        head: &'h RequestHead<'h>,
        path: Option<&'h [u8]>,
    ) -> HeadValues<'h> {
        HeadValues {
            head,
            path,
            query: head.query(),
            received: head.received,
            access_scheme: forwarded::access_scheme(&self.connection, head.headers, self.client),
            access_host: forwarded::access_host(head.authority, head.headers, self.client),
            client: self.client.address,
            user: basic_user,
        }
    }

    /// What lines say of the request, however it ends.
    pub(super) fn facts_of_line<'a>(&'a self, attempts: &'a [UpstreamAttempt]) -> RequestRecord<'a> {
        let route = self.named_rule();
        RequestRecord {
            client: self.client.address,
            requests: self.ordinal,
            method: self.head_was_read.then_some(&self.method),
            version: self.version,
            authority: self.authority.to_str().unwrap_or_default(),
            request_length: self.head_length as u64,
            upstream: match self.named_backend() {
                Some(backend) => &backend.name,
                None if self.is_without_rule => DEFAULT_BACKEND,
                // The server of ingress-nginx sets it before a location is found; the one that
                // redirects to another host does not.
                None if route
                    .is_some_and(|route| !matches!(route.action, RouteAction::RedirectToHost(_))) =>
                {
                    "-"
                }
                None => "",
            },
            alternative: self.backend.as_ref().map_or("", |backend| &backend.alternative),
            attempts,
            cache_status: self.cache_status,
            request_id: self.request_id.as_ref().map_or(b"", |id| id.as_bytes()),
            origin: route.map(|route| &*route.origin),
            server_name: route.map_or("_", Route::server_name),
            service: route.and_then(|route| self.service(route)),
            locations: Some(&self.state().locations),
            client_identity: self.client_identity(),
            trace: self.trace.as_ref().map(|trace| &trace.context),
            ..RequestRecord::at_start(&self.connection)
        }
    }

    /// Returns the chosen backend, or the first one of the rule: nginx sets
    /// `$proxy_upstream_name` before it can redirect or refuse a request.
    fn named_backend(&self) -> Option<&RouteBackend> {
        self.backend.as_deref().or_else(|| self.route.as_ref()?.first_backend())
    }

    /// Returns whether the line of this request has its body.
    pub(crate) fn logs_body(&self) -> bool {
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        self.line.is_some() && format.is_some_and(LogFormat::needs_body)
    }

    /// Saves the body for the line, unless it is longer than the buffer that is configured.
    pub(crate) fn keep_body(&mut self, body: &[u8]) {
        let bodies = self.route.as_ref().map(|route| &route.policies.bodies);
        let most = bodies.and_then(|bodies| bodies.memory).unwrap_or(self.settings().body_buffer);
        if body.len() as u64 <= most
            && let Some(line) = &mut self.line
        {
            line.keep_body(body);
        }
    }

    /// Saves the fields of an endpoint's response that the log format needs.
    pub(super) fn log_upstream(&mut self, fields: &impl Fields) {
        self.log_response(|format, line| format.upstream(line, fields));
    }

    /// Returns whether the log format, the name of the span or a reader needs the fields of the
    /// client's response.
    pub(super) fn needs_sent_fields(&self) -> bool {
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        self.line.is_some() && format.is_some_and(LogFormat::needs_response)
            || self.names_span_by_response()
            || self.observed.as_ref().is_some_and(|observed| observed.has_steps())
    }

    /// Saves the fields of the client's response that the log format and readers need.
    pub(crate) fn log_sent(&mut self, fields: &impl Fields) {
        self.note_response(fields);
        self.log_response(|format, line| format.sent(line, fields));
    }

    /// Saves the fields of the gateway's own answer that the log format needs, before it is sent.
    pub(crate) fn log_answer(&mut self, answer: &Answer) {
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        let is_wanted = self.line.is_some() && format.is_some_and(LogFormat::needs_response);
        if !(is_wanted && answer.has_length()) {
            return self.log_sent(&answer.fields);
        }
        // The client side adds it to the head.
        let mut fields = answer.fields.clone();
        fields.push((CONTENT_LENGTH, HeaderValue::from(answer.body.len())));
        self.log_sent(&fields);
    }

    fn log_response(&mut self, put: impl Fn(&LogFormat, &mut LogLine)) {
        self.name_response(&put);
        let format = self.snapshot.compiled_settings.log.format.as_ref();
        if let Some(format) = format.filter(|format| format.needs_response())
            && let Some(line) = &mut self.line
        {
            put(format, line);
        }
    }
}

/// Attempts as a line has them, of which the last has received so many bytes.
pub(super) fn logged(attempts: &[Attempt], received: u64) -> SmallVec<[UpstreamAttempt; 2]> {
    let one = |(index, attempt): (usize, &Attempt)| UpstreamAttempt {
        address: attempt.address,
        status: attempt.status.as_ref().map(StatusCode::as_u16),
        length: if index + 1 == attempts.len() { received } else { 0 },
        time: attempt.ended.unwrap_or_else(|| attempt.began.elapsed()),
        connect: attempt.connected,
        header: attempt.header,
    };
    attempts.iter().enumerate().map(one).collect()
}
