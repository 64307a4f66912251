//! Sends the requests to a rehearsal and, for a comparison, to the running controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};
use futures::StreamExt;
use sluice_config::{HostPattern, Snapshot};
use tokio::sync::Mutex;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::comparison::{self, DifferenceGroup, Verdict};
use super::effective::{EffectiveResponse, ResponseKind};
use super::hosts;
use super::http_client::{HttpClient, NoResponse, ResponseHead};
use super::rehearsal::{Endpoints, Rehearsal, Rehearsed};
use super::requests::{CheckedRequest, Requests, Skipped};
use crate::flags::{ComparisonArguments, ControllerAddress};

/// Number of requests in progress in a rehearsal, which is on this machine.
const REHEARSED_AT_ONCE: usize = 32;

/// The responses to all requests.
#[derive(Debug)]
pub(super) struct Responses {
    /// In the order of the requests.
    pub(super) responses: Vec<CheckedResponse>,
    /// Requests and lines that were not checked, by reason.
    pub(super) skipped: BTreeMap<&'static str, Skipped>,
    /// Number of requests that more than one host could have received.
    pub(super) ambiguous: u64,
    /// The comparison, if there was something to compare with.
    pub(super) comparison: Option<Comparison>,
}

/// The response to one request.
#[derive(Debug)]
pub(super) struct CheckedResponse {
    pub(super) request: CheckedRequest,
    /// Number of such requests.
    pub(super) count: u64,
    pub(super) effective: EffectiveResponse,
    pub(super) verdict: Option<Verdict>,
}

/// Summary of a comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Description of the old side.
    pub(super) old: String,
    /// Description of the new side.
    pub(super) new: String,
    pub(super) same: usize,
    pub(super) different: usize,
    pub(super) groups: Vec<DifferenceGroup>,
    /// Requests that could not be compared, by reason.
    pub(super) not_compared: BTreeMap<String, u64>,
}

impl Responses {
    /// Returns whether responses differ.
    pub(super) fn differ(&self) -> bool {
        self.comparison.as_ref().is_some_and(|comparison| comparison.different > 0)
    }

    /// Returns the number of requests of each kind of response.
    pub(super) fn kinds(&self) -> Vec<(ResponseKind, u64)> {
        let count = |kind| {
            let of_kind = self.responses.iter().filter(|response| response.effective.kind == kind);
            (kind, of_kind.map(|response| response.count).sum())
        };
        ResponseKind::ALL.into_iter().map(count).filter(|(_, count)| *count > 0).collect()
    }
}

/// Sends the requests and compares the responses.
///
/// # Errors
/// The rehearsal cannot start, or a controller cannot be reached.
pub(super) async fn send(
    mut requests: Requests,
    snapshot: &Snapshot,
    arguments: Option<&ComparisonArguments>,
) -> Result<Responses> {
    let in_process = arguments.is_some_and(|arguments| arguments.new.is_none());
    let endpoints = if in_process { Endpoints::Real } else { Endpoints::Stub };
    let rehearsal = Rehearsal::start(snapshot, endpoints).await?;
    let ambiguous = hosts::complete(&mut requests, snapshot, &rehearsal);
    let mut distinct = std::mem::take(&mut requests.distinct);
    let responses = match arguments {
        None => {
            let send = async |(request, count): (CheckedRequest, u64)| {
                rehearse(&rehearsal, snapshot, request, count).await
            };
            futures::stream::iter(distinct).map(send).buffered(REHEARSED_AT_ONCE).collect().await
        }
        Some(arguments) => {
            distinct.retain(|(request, _)| {
                if !request.is_safe() {
                    requests
                        .skip("not GET or HEAD, so not sent to a controller that serves", || request.url());
                }
                request.is_safe()
            });
            Compared::new(&rehearsal, snapshot, arguments, &distinct).await?.all(distinct).await
        }
    };
    let comparison = summary(&responses, arguments);
    Ok(Responses { responses, skipped: requests.skipped, ambiguous, comparison })
}

/// Has the rehearsal answer a request, and compares with the log if the request comes from one.
async fn rehearse(
    rehearsal: &Rehearsal,
    snapshot: &Snapshot,
    request: CheckedRequest,
    count: u64,
) -> CheckedResponse {
    let effective = match passthrough(snapshot, &request) {
        Some(service) => EffectiveResponse::passed_through(service, rehearsal.explain(&request)),
        None => EffectiveResponse::new(&rehearsal.send(&request).await, rehearsal.explain(&request)),
    };
    let verdict = request.recorded.as_ref().map(|recorded| comparison::with_record(recorded, &effective));
    CheckedResponse { request, count, effective, verdict }
}

/// Returns the Service that TLS connections for the host of the request are passed through to.
fn passthrough(snapshot: &Snapshot, request: &CheckedRequest) -> Option<String> {
    let host = request.host().to_ascii_lowercase();
    let stream = snapshot.hosts.values().filter(|_| request.https).find_map(|entry| {
        let matches = match &entry.key.pattern {
            HostPattern::Exact(name) => name.as_str() == host,
            HostPattern::OneLabel(name) => {
                host.split_once('.').is_some_and(|(_, rest)| rest == name.as_str())
            }
            HostPattern::Suffix(_) | HostPattern::Regex(_) | HostPattern::Any => false,
        };
        entry.passthrough.as_ref().filter(|_| matches)
    })?;
    Some(stream.service.to_string())
}

/// A comparison of two controllers in progress.
struct Compared<'r> {
    rehearsal: &'r Rehearsal,
    snapshot: &'r Snapshot,
    arguments: &'r ComparisonArguments,
    client: HttpClient,
    pace: Mutex<Interval>,
}

impl<'r> Compared<'r> {
    /// Checks that the controllers can be reached.
    async fn new(
        rehearsal: &'r Rehearsal,
        snapshot: &'r Snapshot,
        arguments: &'r ComparisonArguments,
        requests: &[(CheckedRequest, u64)],
    ) -> Result<Self> {
        let mut pace = interval(Duration::from_secs(1) / arguments.rate);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let this = Self { rehearsal, snapshot, arguments, client: HttpClient::new(), pace: Mutex::new(pace) };
        let new = arguments.new.iter().map(|address| ("--new", address));
        for (flag, address) in std::iter::once(("--against", &arguments.old)).chain(new) {
            for https in [false, true] {
                let Some((request, _)) = requests.iter().find(|(request, _)| request.https == https) else {
                    continue;
                };
                if let Err(error @ NoResponse::Connect(_)) = this.ask(address, request).await {
                    let (host, port) = if https { &address.https } else { &address.http };
                    bail!(
                        "{flag} {}: cannot reach {host}:{port} ({error}); check the address and the network, or forward the \
                         ports with: kubectl port-forward service/ingress-nginx-controller 8080:80 8443:443, and give {flag} \
                         127.0.0.1:8080,127.0.0.1:8443",
                        address.text
                    );
                }
            }
        }
        Ok(this)
    }

    async fn all(&self, requests: Vec<(CheckedRequest, u64)>) -> Vec<CheckedResponse> {
        let send = async |(request, count)| self.one(request, count).await;
        futures::stream::iter(requests).map(send).buffered(self.arguments.concurrency).collect().await
    }

    async fn one(&self, request: CheckedRequest, count: u64) -> CheckedResponse {
        self.pace.lock().await.tick().await;
        let explanation = self.rehearsal.explain(&request);
        let rehearsed = self.rehearsal.send(&request);
        let (old, rehearsed, new) = match &self.arguments.new {
            None => {
                let (old, rehearsed) = tokio::join!(self.ask(&self.arguments.old, &request), rehearsed);
                (old, rehearsed, None)
            }
            Some(address) => {
                let old = self.ask(&self.arguments.old, &request);
                let (old, new, rehearsed) = tokio::join!(old, self.ask(address, &request), rehearsed);
                (old, rehearsed, Some(new))
            }
        };
        let passthrough = passthrough(self.snapshot, &request);
        let effective = match passthrough {
            Some(service) => EffectiveResponse::passed_through(service, explanation),
            None => EffectiveResponse::new(&rehearsed, explanation),
        };
        let verdict = match new {
            None if effective.kind == ResponseKind::Unreachable => Verdict::NotCompared(
                "its endpoints cannot be reached from this machine; name the new controller with --new"
                    .to_owned(),
            ),
            None => comparison::of_responses(
                &old,
                &rehearsed.map(|Rehearsed { head, .. }| head),
                &self.arguments.headers,
            ),
            Some(new) => comparison::of_responses(&old, &new, &self.arguments.headers),
        };
        CheckedResponse { request, count, effective, verdict: Some(verdict) }
    }

    async fn ask(
        &self,
        address: &ControllerAddress,
        request: &CheckedRequest,
    ) -> Result<ResponseHead, NoResponse> {
        let (host, port) = if request.https { &address.https } else { &address.http };
        self.client.send((host, *port), b"", request).await
    }
}

/// Summarises the verdicts; `None` if nothing was compared.
fn summary(responses: &[CheckedResponse], arguments: Option<&ComparisonArguments>) -> Option<Comparison> {
    if responses.iter().all(|response| response.verdict.is_none()) {
        return None;
    }
    let (mut same, mut not_compared) = (0, BTreeMap::new());
    let different = responses.iter().filter_map(|response| {
        let CheckedResponse { request, count, effective, verdict } = response;
        match verdict.as_ref()? {
            Verdict::Different(differences) => Some((request, *count, effective, &differences[..])),
            Verdict::Same | Verdict::NotCompared(_) => None,
        }
    });
    let groups = comparison::groups(different);
    for response in responses {
        match &response.verdict {
            Some(Verdict::Same) => same += 1,
            Some(Verdict::NotCompared(reason)) => {
                *not_compared.entry(reason.clone()).or_default() += response.count
            }
            Some(Verdict::Different(_)) | None => {}
        }
    }
    let in_process = "this configuration, in the process of the check".to_owned();
    let (old, new) = match arguments {
        None => ("the access log".to_owned(), in_process),
        Some(ComparisonArguments { old, new, .. }) => {
            (old.text.clone(), new.as_ref().map_or(in_process, |new| new.text.clone()))
        }
    };
    let different = groups.iter().map(|group| group.distinct).sum();
    Some(Comparison { old, new, same, different, groups, not_compared })
}
