//! The explanation of a request that was served: the rule as for a hypothetical one, and the
//! results that its checks, its attempts and its response had in fact.

use std::sync::Arc;
use std::time::Duration;

use http::Version;
use serde_json::{Map, Value, json};
use sluice_config::redaction;

use super::checks;
use super::outcome::CheckOutcome;
use super::{Query, explain_query};
use crate::admin::format;
use crate::message::target;
use crate::pipeline::{ORDER, PipelineStage};
use crate::state::State;
use crate::tap::{AttemptStep, CheckResult, CheckStep, FieldLines, RequestSteps, TappedRequest};

/// Returns the explanation as JSON, without the values of secret fields and parameters.
pub(in crate::admin) fn explain_observed(state: &Arc<State>, request: &TappedRequest) -> Value {
    let Some(steps) = &request.steps else { return Value::Null };
    let received = &steps.received;
    let query = Query {
        group: received.group.clone(),
        host: request.host.clone(),
        target: steps.page.as_ref().unwrap_or(&received.target).clone(),
        method: request.method.clone(),
        headers: received.fields.clone(),
        https: received.https,
        client: Some(request.client),
    };
    // A request whose path is malformed has no rule.
    let mut value = explain_query(state, query).unwrap_or_else(|_| json!({ "taken": null, "hosts": [] }));
    let (path, query) = target::split(&request.target);
    value["request"] = json!({
        "host": request.host,
        "path": path,
        "query": query,
        "method": request.method,
        "https": received.https,
        "version": version(received.version),
        "fields": fields(&FieldLines::of(&received.fields)),
    });
    if !value["taken"].is_null() {
        let taken = &mut value["taken"];
        if let Some(results) = taken["checks"].as_array_mut() {
            results.iter_mut().for_each(|check| set_result(check, &steps.checks));
            let is_stopped = results.iter().any(checks::stops);
            if let Some(cache) = results.last_mut().filter(|_| is_stopped) {
                (cache["outcome"], cache["says"]) = (CheckOutcome::NotReached.name().into(), "".into());
            }
        }
        taken["sent"] = sent(request, steps);
    }
    value["attemptDetails"] = steps.attempts.iter().map(attempt).collect();
    value["response"] = json!({ "bytesSent": steps.bytes_sent, "fields": fields(&steps.response) });
    value
}

/// Replaces the expected result of a check with the one that it had.
fn set_result(check: &mut Value, steps: &[CheckStep]) {
    let Some(at) = ORDER.iter().position(|stage| check["check"] == checks::name(*stage)) else { return };
    let expected = check["outcome"].as_str().unwrap_or_default().to_owned();
    let says = check["says"].as_str().unwrap_or_default().to_owned();
    let is_new = expected == CheckOutcome::NotReached.name();
    let Some(step) = steps.iter().rfind(|step| step.stage == at) else {
        let is_behind = steps.last().is_some_and(|last| last.stage < at && last.result.ends());
        let outcome = if is_behind { CheckOutcome::NotReached } else { CheckOutcome::Nothing };
        (check["outcome"], check["says"]) = (outcome.name().into(), "".into());
        return;
    };
    let (outcome, mut words) = match step.result {
        CheckResult::Passed if expected == CheckOutcome::Nothing.name() => (CheckOutcome::Nothing, says),
        CheckResult::Passed if expected == CheckOutcome::Passes.name() => (CheckOutcome::Passes, says),
        CheckResult::Passed if is_new => (CheckOutcome::Nothing, String::new()),
        CheckResult::Passed => match ORDER[at] {
            PipelineStage::Server | PipelineStage::Location => {
                (CheckOutcome::Passes, "the directives ran".to_owned())
            }
            _ if expected == CheckOutcome::Depends.name() => (CheckOutcome::Passes, says),
            // The configuration has changed since, or a snippet has chosen another rule.
            _ => (CheckOutcome::Passes, String::new()),
        },
        CheckResult::Refused if expected == CheckOutcome::Nothing.name() => (CheckOutcome::Nothing, says),
        CheckResult::Refused => (CheckOutcome::Refuses, says),
        CheckResult::Answered(status) => {
            let status = status.to_string();
            let words = if says.starts_with(&status) { says } else { format!("{status}: {says}") };
            (CheckOutcome::Stops, words.trim_end_matches([':', ' ']).to_owned())
        }
        CheckResult::Unanswered => (CheckOutcome::Stops, "the request ended before the reply".to_owned()),
    };
    if let Some(waited) = step.waited {
        let separator = if words.is_empty() { "" } else { "; " };
        words += &format!("{separator}the reply took {}", format::took(waited));
    }
    // Texts name targets.
    let words = redaction::target(&redaction::without_user(&words)).into_owned();
    (check["outcome"], check["says"]) = (outcome.name().into(), words.into());
}

impl CheckResult {
    /// Returns whether the pipeline ended with this result.
    fn ends(self) -> bool {
        matches!(self, Self::Answered(_) | Self::Unanswered)
    }
}

fn sent(request: &TappedRequest, steps: &RequestSteps) -> Value {
    let Some(sent) = &steps.sent else { return Value::Null };
    json!({
        "method": sent.method,
        "target": sent.target,
        "backend": request.backend,
        "fields": fields(&sent.fields),
    })
}

fn attempt(attempt: &AttemptStep) -> Value {
    let AttemptStep { address, after, connected, head, time, status, failure } = attempt;
    let millis = |time: Duration| format::millis(time);
    let mut value = Map::new();
    value.insert("address".to_owned(), json!(address));
    value.insert("afterMillis".to_owned(), json!(millis(*after)));
    value.insert("connectMillis".to_owned(), json!(connected.map(millis)));
    value.insert("headMillis".to_owned(), json!(head.map(millis)));
    value.insert("millis".to_owned(), json!(millis(*time)));
    value.insert("status".to_owned(), json!(status));
    value.insert("failure".to_owned(), json!(failure));
    Value::Object(value)
}

fn fields(lines: &FieldLines) -> Value {
    lines.0.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect()
}

fn version(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}
