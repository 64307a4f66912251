//! AdmissionReview requests and responses.

use std::borrow::Cow;
use std::time::Instant;

use jiff::Timestamp;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sluice_config::ObjectRef;
use tokio::sync::{mpsc, oneshot};

use super::decision::{Decision, decide};
use super::{OnReview, Reviewed};
use crate::input::{Input, Review};
use crate::options::Options;
use crate::store::{Prunable, Prune};

const API_VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";
/// The default annotation prefix.
const DEFAULT_PREFIX: &str = "nginx.ingress.kubernetes.io";
/// Placeholder for an object whose name the API server will generate.
const NAMELESS: &str = "without-a-name-yet";

/// Handles reviews.
pub(super) struct Reviewer {
    options: Options,
    inputs: mpsc::WeakSender<Input>,
    on_review: OnReview,
}

/// Why a review gets no verdict.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unanswered {
    #[error("this is not an AdmissionReview of {API_VERSION}: {0}")]
    Malformed(String),
    #[error("not everything that there is has been read yet; try again")]
    NotReady,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    uid: String,
    #[serde(default)]
    kind: GroupKind,
    #[serde(default)]
    operation: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
struct GroupKind {
    #[serde(default)]
    group: String,
    #[serde(default)]
    kind: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
struct Response {
    uid: String,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
    reason: &'static str,
    code: u16,
    message: String,
}

impl Reviewer {
    pub(super) fn new(options: &Options, inputs: mpsc::WeakSender<Input>, on_review: OnReview) -> Self {
        Self { options: options.clone(), inputs, on_review }
    }

    /// Handles a review. Returns the response in JSON.
    pub(super) async fn answer(&self, body: &[u8]) -> Result<Vec<u8>, Unanswered> {
        let begun = Instant::now();
        let malformed = |error: serde_json::Error| Unanswered::Malformed(error.to_string());
        let question: Question<'_> = serde_json::from_slice(body).map_err(malformed)?;
        if question.api_version != API_VERSION || question.kind != KIND {
            return Err(Unanswered::Malformed(format!("it is {} {}", question.api_version, question.kind)));
        }
        let request =
            question.request.ok_or_else(|| Unanswered::Malformed("there is no request in it".into()))?;
        let decision = self.decide(&request, body.len(), begun).await?;
        let response = Response {
            uid: request.uid,
            allowed: decision.refusal.is_none(),
            status: decision.refusal.map(|message| Status {
                status: "Failure",
                reason: "BadRequest",
                code: 400,
                message,
            }),
            warnings: decision.warnings,
        };
        let answer = Answer { api_version: API_VERSION, kind: KIND, response };
        serde_json::to_vec(&answer).map_err(malformed)
    }

    async fn decide(
        &self,
        request: &Request<'_>,
        bytes: usize,
        begun: Instant,
    ) -> Result<Decision, Unanswered> {
        let refused = |message: String| Decision { refusal: Some(message), warnings: Vec::new() };
        if request.operation == "DELETE" {
            return Ok(Decision::default());
        }
        if (&*request.kind.group, &*request.kind.kind) != ("networking.k8s.io", "Ingress") {
            let GroupKind { group, kind } = &request.kind;
            return Ok(refused(format!(
                "the review is of no Ingress but of {kind} {group} {} in namespace {}; send only Ingresses here",
                request.name, request.namespace
            )));
        }
        let object = request.object.map_or("null", RawValue::get);
        let mut ingress: networking::Ingress = match serde_json::from_str(object) {
            Ok(ingress) => ingress,
            Err(error) => return Ok(refused(format!("the Ingress cannot be read: {error}"))),
        };
        // The object is about to disappear, with all its faults. A rejection would keep its
        // finalizers, and its namespace, forever.
        if ingress.metadata.deletion_timestamp.is_some() {
            return Ok(Decision::default());
        }
        if let Some(uid) = ingress.metadata.uid.as_ref().filter(|uid| !is_uid(uid)) {
            return Ok(refused(format!("invalid object: metadata.uid {uid:?} is none")));
        }
        let meta = &mut ingress.metadata;
        // A generated name is not known yet. An object that is not stored yet counts as the
        // youngest.
        meta.name.get_or_insert_with(|| {
            if request.name.is_empty() { NAMELESS.into() } else { request.name.clone() }
        });
        meta.namespace.get_or_insert_with(|| request.namespace.clone());
        meta.creation_timestamp.get_or_insert_with(|| Time(Timestamp::now()));
        let foreign = self.foreign_annotation(&ingress);
        let pruned = match ingress.prune(&Prune::new(&self.options)) {
            Ok(Some(object)) => object,
            Ok(None) => return Ok(Decision::default()),
            Err(error) => return Ok(refused(format!("the Ingress cannot be read: {error}"))),
        };
        let name = pruned.name().clone();
        let (reply, answer) = oneshot::channel();
        let inputs = self.inputs.upgrade().ok_or(Unanswered::NotReady)?;
        let asked = inputs.send(Input::Review(Review { object: pruned, reply })).await;
        // Dropped at once: the control loop ends with its last sender.
        drop(inputs);
        asked.map_err(|_| Unanswered::NotReady)?;
        let verdict = answer.await.ok().flatten().ok_or(Unanswered::NotReady)?;
        let took = begun.elapsed();
        let object = ObjectRef { kind: "Ingress".into(), name: name.clone() };
        let mut decision = decide(&object, &verdict.problems);
        if let Some(foreign) = foreign.filter(|_| verdict.is_ours) {
            let rest = decision.refusal.take().map(|rest| format!("\n{rest}")).unwrap_or_default();
            decision.refusal = Some(format!("{foreign}{rest}"));
        }
        (self.on_review)(&Reviewed {
            name,
            allowed: decision.refusal.is_none(),
            bytes,
            looked_at: verdict.stats.ingresses + verdict.stats.hosts,
            verdict: took,
            total: begun.elapsed(),
        });
        Ok(decision)
    }

    /// Returns an error for an annotation with the default prefix if another prefix is configured:
    /// it would be ignored.
    fn foreign_annotation(&self, ingress: &networking::Ingress) -> Option<String> {
        let own = &self.options.annotations_prefix;
        if own == DEFAULT_PREFIX {
            return None;
        }
        let mut names = ingress.metadata.annotations.iter().flatten().map(|(name, _)| name);
        let name = names.find(|name| name.starts_with(DEFAULT_PREFIX))?;
        Some(format!(
            "this deployment has a custom annotation prefix defined. Use '{own}' instead of '{DEFAULT_PREFIX}': the \
             annotation {name} has no effect"
        ))
    }
}

/// Returns whether `text` has the form of a UUID.
fn is_uid(text: &str) -> bool {
    let hyphens = [8, 13, 18, 23];
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match hyphens.contains(&at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests;
