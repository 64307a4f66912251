//! An in-memory API server with objects, versions, conflicts, watches and injected faults.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tower::{BoxError, ServiceExt, service_fn};

use crate::source::kube::postponed;

/// Last elements of the paths of collections.
const COLLECTIONS: [&str; 7] = ["pods", "leases", "events", "ingresses", "services", "nodes", "deployments"];

type AnyBody = UnsyncBoxBody<Bytes, Infallible>;

/// The server. Clones share its state.
#[derive(Clone)]
pub(super) struct SimulatedApi {
    state: Arc<Mutex<State>>,
    /// Number of changes.
    changes: watch::Sender<u64>,
}

/// A version, the type of the change, the path, and the object.
type Change = (u64, &'static str, String, Value);

#[derive(Default)]
struct State {
    version: u64,
    objects: BTreeMap<String, Value>,
    log: Vec<Change>,
    faults: Vec<Fault>,
    asked: Vec<RecordedRequest>,
    latency: Duration,
}

/// A received request.
#[derive(Clone, Debug)]
pub(super) struct RecordedRequest {
    pub(super) at: Instant,
    pub(super) client: String,
    /// Method, path and query, such as `GET /api/v1/pods?limit=1`.
    pub(super) text: String,
}

/// An injected fault.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The request gets no response.
    Hang,
    /// A status, `Retry-After`, and a message.
    Status(u16, Option<u64>, &'static str),
    /// The task that sends the request panics.
    Panic,
}

#[derive(Clone, Debug)]
struct Fault {
    client: Option<String>,
    part: String,
    failure: Failure,
}

impl SimulatedApi {
    pub(super) fn new() -> Self {
        Self { state: Arc::default(), changes: watch::Sender::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns a client whose requests are recorded under `name`.
    pub(super) fn client(&self, name: &str) -> Client {
        let (api, name) = (self.clone(), name.to_owned());
        let service = service_fn(move |request| {
            let (api, name) = (api.clone(), name.clone());
            async move { Ok::<_, Infallible>(api.answer(name, request).await) }
        });
        let postponed = |result: Result<Response<AnyBody>, Infallible>| {
            result.map_err(BoxError::from).and_then(postponed::refuse)
        };
        Client::new(service.map_result(postponed), "default")
    }

    /// Makes requests with `part` in their text fail from now on, of one client or of all.
    pub(super) fn fail(&self, client: Option<&str>, part: &str, failure: Failure) {
        let fault = Fault { client: client.map(str::to_owned), part: part.into(), failure };
        self.lock().faults.push(fault);
    }

    /// Removes all faults.
    pub(super) fn heal(&self) {
        self.lock().faults.clear();
    }

    /// Sets the delay of every response.
    pub(super) fn set_latency(&self, latency: Duration) {
        self.lock().latency = latency;
    }

    /// Creates or replaces an object.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.lock().put(path, object);
        self.changes.send_modify(|count| *count += 1);
    }

    pub(super) fn delete(&self, path: &str) {
        let mut state = self.lock();
        state.version += 1;
        let (version, object) = (state.version, state.objects.remove(path).unwrap());
        state.log.push((version, "DELETED", path.to_owned(), object));
        drop(state);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Returns the objects with `part` in their path.
    pub(super) fn objects(&self, part: &str) -> Vec<Value> {
        let state = self.lock();
        state
            .objects
            .iter()
            .filter(|(path, _)| path.contains(part))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Returns the requests since a time with `part` in their text, of one client or of all.
    pub(super) fn asked(&self, client: Option<&str>, part: &str, since: Instant) -> Vec<RecordedRequest> {
        let state = self.lock();
        let is_it = |asked: &&RecordedRequest| {
            asked.at >= since && asked.text.contains(part) && client.is_none_or(|name| asked.client == name)
        };
        state.asked.iter().filter(is_it).cloned().collect()
    }

    /// Returns a stream of changes of objects with `part` in their path.
    pub(super) fn follow(&self, part: &str) -> impl stream::Stream<Item = (&'static str, Value)> + use<> {
        let (api, part) = (self.clone(), part.to_owned());
        let (changed, version) = (self.changes.subscribe(), self.lock().version);
        stream::unfold((version, changed), move |(mut version, mut changed)| {
            let (api, part) = (api.clone(), part.clone());
            async move {
                loop {
                    if let Some((at, what, _, object)) = api.change_after(version, &part) {
                        version = at;
                        return Some(((what, object), (version, changed)));
                    }
                    changed.changed().await.ok()?;
                }
            }
        })
    }

    fn change_after(&self, version: u64, part: &str) -> Option<Change> {
        let state = self.lock();
        state.log.iter().find(|(at, _, path, _)| *at > version && path.contains(part)).cloned()
    }

    async fn answer(&self, client: String, request: Request<Body>) -> Response<AnyBody> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let text = format!("{} {}", head.method, head.uri.path_and_query().unwrap());
        let (fault, latency) = {
            let mut state = self.lock();
            let fault = state.faults.iter().find(|fault| {
                text.contains(&fault.part) && fault.client.as_ref().is_none_or(|name| *name == client)
            });
            let fault = fault.map(|fault| fault.failure.clone());
            state.asked.push(RecordedRequest { at: Instant::now(), client, text });
            (fault, state.latency)
        };
        match fault {
            Some(Failure::Hang) => pending().await,
            Some(Failure::Panic) => panic!("on purpose"),
            Some(Failure::Status(status, retry_after, message)) => {
                return refusal(status, retry_after, message);
            }
            None => sleep(latency).await,
        }
        let path = head.uri.path().strip_suffix("/status").unwrap_or(head.uri.path()).to_owned();
        let query: BTreeMap<String, String> = head
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| {
                let (name, value) = pair.split_once('=')?;
                Some((name.to_owned(), value.replace("%3D", "=").replace("%2C", ",").replace("%2F", "/")))
            })
            .collect();
        let is_collection = path.rsplit('/').next().is_some_and(|last| COLLECTIONS.contains(&last));
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        match head.method {
            Method::GET if query.contains_key("watch") => self.watch(&path, &query),
            Method::GET if is_collection => self.list(&path, &query),
            Method::GET => self.lock().get(&path),
            Method::POST if path.ends_with("selfsubjectaccessreviews") => {
                let mut review = body;
                review["status"] = json!({"allowed": true});
                answer(201, &review)
            }
            method => {
                let response = self.lock().write(&method, &path, body);
                self.changes.send_modify(|count| *count += 1);
                response
            }
        }
    }

    fn list(&self, path: &str, query: &BTreeMap<String, String>) -> Response<AnyBody> {
        let state = self.lock();
        let prefix = format!("{path}/");
        let wanted: Vec<(&str, &str)> = query
            .get("labelSelector")
            .map(|selector| selector.split(',').filter_map(|pair| pair.split_once('=')).collect())
            .unwrap_or_default();
        let is_selected = |object: &&Value| {
            wanted.iter().all(|(name, value)| object["metadata"]["labels"][*name] == *value)
        };
        let all = state.objects.range(prefix.clone()..).take_while(|(path, _)| path.starts_with(&prefix));
        let items: Vec<&Value> = all.map(|(_, object)| object).filter(is_selected).collect();
        let metadata = json!({"resourceVersion": state.version.to_string()});
        answer(200, &json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items}))
    }

    fn watch(&self, path: &str, query: &BTreeMap<String, String>) -> Response<AnyBody> {
        let since: u64 =
            query["resourceVersion"].parse().unwrap_or_else(|_| panic!("a watch without a version"));
        let name = query["fieldSelector"].strip_prefix("metadata.name=").unwrap();
        let seconds: u64 = query["timeoutSeconds"].parse().unwrap();
        let path = format!("{path}/{name}");
        let backlog: Vec<_> = self
            .lock()
            .log
            .iter()
            .filter(|(at, _, other, _)| *at > since && *other == path)
            .cloned()
            .collect();
        let lines = stream::iter(backlog.into_iter().map(|(_, what, _, object)| (what, object)));
        let lines = lines.chain(self.follow(&path)).map(|(what, object)| {
            let line = format!("{}\n", json!({"type": what, "object": object}));
            Ok::<_, Infallible>(Frame::data(Bytes::from(line)))
        });
        let lines = lines.take_until(sleep(Duration::from_secs(seconds)));
        Response::builder().body(StreamBody::new(lines).boxed_unsync()).unwrap()
    }
}

impl State {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let old = self.objects.insert(path.to_owned(), object.clone());
        let what = if old.is_some() { "MODIFIED" } else { "ADDED" };
        self.log.push((self.version, what, path.to_owned(), object.clone()));
        object
    }

    fn get(&self, path: &str) -> Response<AnyBody> {
        match self.objects.get(path) {
            Some(object) => answer(200, object),
            None => refusal(404, None, "not found"),
        }
    }

    fn write(&mut self, method: &Method, path: &str, body: Value) -> Response<AnyBody> {
        let path = match *method {
            Method::POST => format!("{path}/{}", body["metadata"]["name"].as_str().unwrap()),
            _ => path.to_owned(),
        };
        let old = self.objects.get(&path).cloned();
        let (status, new) = match (method, old) {
            (&Method::POST, None) => (201, body),
            (&Method::POST, Some(_)) => return refusal(409, None, "already exists"),
            (_, None) => return refusal(404, None, "not found"),
            (&Method::PUT, Some(old)) => {
                if old["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return refusal(409, None, "the object has been modified");
                }
                (200, body)
            }
            (_, Some(old)) => {
                let mut new = old.clone();
                merge(&mut new, body);
                // A write without a difference does not change the version.
                if new == old {
                    return answer(200, &old);
                }
                (200, new)
            }
        };
        answer(status, &self.put(&path, new))
    }
}

fn merge(object: &mut Value, patch: Value) {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            for (key, value) in patch {
                merge(object.entry(key).or_insert(Value::Null), value);
            }
        }
        (object, patch) => *object = patch,
    }
}

fn answer(status: u16, body: &Value) -> Response<AnyBody> {
    let body = Full::new(Bytes::from(body.to_string())).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

fn refusal(status: u16, retry_after: Option<u64>, message: &str) -> Response<AnyBody> {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Test", "code": status});
    let mut response = answer(status, &body);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert("retry-after", seconds.into());
    }
    response
}
