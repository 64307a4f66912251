//! A fake API server with lists, watches, versions and selectors by name. Tests can inject faults.
//!
//! One thread per connection, one lock for everything. As with a real API server, a watch reports
//! neither changes before its version nor, for a future version, anything at all.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

/// A running server. Ends when it is dropped.
pub(crate) struct Fake {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    revision: u64,
    resources: BTreeMap<String, Resource>,
    closed: bool,
}

/// The objects of one resource and how requests for them are answered.
#[derive(Default)]
struct Resource {
    objects: BTreeMap<(String, String), Value>,
    log: Vec<(u64, &'static str, Value)>,
    /// Watches from an earlier version get 410, Gone.
    oldest: u64,
    no_streaming: bool,
    /// Cuts streamed lists before their end.
    cut_lists: bool,
    /// A counter; every watch ends when it changes.
    cuts: u64,
    /// Status that replaces every response.
    refused: Option<u16>,
    /// Same for lists of a single object.
    refused_one: Option<u16>,
    /// Same for watches.
    refused_watch: Option<u16>,
    /// Status of the event with which every watch ends that follows a list.
    watch_error: Option<u16>,
    /// Number of watches that were opened without an error event.
    watched: u64,
    /// Delayed responses to lists of one object: how many more to delay, how many were delayed, and
    /// how many of those may be sent.
    hold: usize,
    held: usize,
    released: usize,
    asked: u64,
}

struct Asked {
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    parameters: BTreeMap<String, String>,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let accepting = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.lock().closed {
                    return;
                }
                let (Ok(stream), shared) = (stream, accepting.clone()) else { continue };
                // A client may disconnect before its response is complete.
                thread::spawn(move || drop(shared.serve(stream)));
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, resource: &str, mut object: Value) {
        self.shared.change(|state| {
            state.revision += 1;
            let revision = state.revision;
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.insert("resourceVersion".into(), revision.to_string().into());
            }
            let resource = state.resource(resource);
            let old = resource.objects.insert(key(&object), object.clone());
            let what = if old.is_some() { "MODIFIED" } else { "ADDED" };
            resource.log.push((revision, what, object));
        });
    }

    pub(crate) fn delete(&self, resource: &str, namespace: &str, name: &str) {
        self.shared.change(|state| {
            state.revision += 1;
            let revision = state.revision;
            let resource = state.resource(resource);
            let mut object = resource.objects.remove(&(namespace.into(), name.into())).unwrap();
            object["metadata"]["resourceVersion"] = revision.to_string().into();
            resource.log.push((revision, "DELETED", object));
        });
    }

    /// Returns to an earlier version, as a restore of the store does: later changes are lost.
    pub(crate) fn restore(&self, revision: u64) {
        self.shared.change(|state| {
            state.revision = revision;
            for resource in state.resources.values_mut() {
                resource.cuts += 1;
                resource.oldest = revision;
                resource.log.clear();
                resource.objects.retain(|_, object| version(object) <= revision);
            }
        });
    }

    pub(crate) fn revision(&self) -> u64 {
        self.shared.lock().revision
    }

    /// Answers every request for a resource with this status until it is reset. Open watches
    /// continue.
    pub(crate) fn refuse(&self, resource: &str, status: Option<u16>) {
        self.shared.change(|state| state.resource(resource).refused = status);
    }

    /// Same for requests for one object by name.
    pub(crate) fn refuse_one(&self, resource: &str, status: Option<u16>) {
        self.shared.change(|state| state.resource(resource).refused_one = status);
    }

    /// Same for watches, and not for lists in pages.
    pub(crate) fn refuse_watches(&self, resource: &str, status: Option<u16>) {
        self.shared.change(|state| state.resource(resource).refused_watch = status);
    }

    /// Ends every watch that follows a list with an error event.
    pub(crate) fn fail_watches(&self, resource: &str, status: Option<u16>) {
        self.shared.change(|state| state.resource(resource).watch_error = status);
    }

    pub(crate) fn without_streaming(&self, resource: &str) {
        self.shared.change(|state| state.resource(resource).no_streaming = true);
    }

    /// Breaks the connection of every streamed list behind its objects.
    pub(crate) fn cut_streamed_lists(&self, resource: &str) {
        self.shared.change(|state| state.resource(resource).cut_lists = true);
    }

    /// Ends every watch of a resource.
    pub(crate) fn cut(&self, resource: &str) {
        self.shared.change(|state| state.resource(resource).cuts += 1);
    }

    /// Ends every watch of a resource and discards earlier versions.
    pub(crate) fn expire(&self, resource: &str) {
        self.shared.change(|state| {
            state.revision += 1;
            let revision = state.revision;
            let resource = state.resource(resource);
            (resource.oldest, resource.cuts) = (revision, resource.cuts + 1);
        });
    }

    /// Delays this many responses to requests for one object. Each has the state at the time of its
    /// request.
    pub(crate) fn hold(&self, resource: &str, count: usize) {
        self.shared.change(|state| state.resource(resource).hold += count);
    }

    /// Waits until this many responses are delayed.
    pub(crate) fn until_held(&self, resource: &str, count: usize) {
        self.shared.until(|state| state.resource(resource).held >= count);
    }

    /// Sends this many more of the delayed responses, in the order of their requests.
    pub(crate) fn release(&self, resource: &str, count: usize) {
        self.shared.change(|state| state.resource(resource).released += count);
    }

    /// Returns the number of watches that were opened without an error event.
    pub(crate) fn watched(&self, resource: &str) -> u64 {
        self.shared.lock().resource(resource).watched
    }

    /// Waits until this many watches were opened.
    pub(crate) fn until_watched(&self, resource: &str, count: u64) {
        self.shared.until(|state| state.resource(resource).watched >= count);
    }

    /// Returns the number of requests for a resource.
    pub(crate) fn asked(&self, resource: &str) -> u64 {
        self.shared.lock().resource(resource).asked
    }

    /// Waits for this many more requests for a resource.
    pub(crate) fn until_asked(&self, resource: &str, more: u64) {
        let wanted = self.shared.lock().resource(resource).asked + more;
        self.shared.until(|state| state.resource(resource).asked >= wanted);
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.shared.change(|state| state.closed = true);
        // The acceptor checks when a connection arrives.
        drop(TcpStream::connect(self.address));
    }
}

impl State {
    fn resource(&mut self, name: &str) -> &mut Resource {
        self.resources.entry(name.to_owned()).or_default()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn until(&self, condition: impl Fn(&mut State) -> bool) {
        let waiting = self.changed.wait_timeout_while(self.lock(), crate::plane::PATIENCE, |state| {
            !state.closed && !condition(state)
        });
        let (state, timeout) = waiting.unwrap();
        drop(state);
        assert!(!timeout.timed_out(), "the API server waited for requests that did not come");
    }

    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut input = BufReader::new(stream.try_clone()?);
        let mut head = String::new();
        while input.read_line(&mut head)? > 2 {}
        let target = head.split(' ').nth(1).unwrap_or_default();
        let asked = Asked::parse(target);
        let refused = {
            let mut state = self.lock();
            let resource = state.resource(&asked.resource);
            resource.asked += 1;
            let of_one = resource.refused_one.filter(|_| asked.name.is_some());
            let of_watch = resource.refused_watch.filter(|_| asked.parameters.contains_key("watch"));
            resource.refused.or(of_one).or(of_watch)
        };
        self.changed.notify_all();
        match refused {
            Some(status) => refuse(stream, status, "you may not, or it cannot be"),
            None if asked.parameters.contains_key("watch") => self.watch(stream, &asked),
            None => self.list(stream, &asked),
        }
    }

    fn list(&self, stream: TcpStream, asked: &Asked) -> std::io::Result<()> {
        let mut state = self.lock();
        let revision = state.revision;
        let resource = state.resource(&asked.resource);
        let all: Vec<Value> =
            resource.objects.values().filter(|object| asked.covers(object)).cloned().collect();
        let limit = asked.number("limit").unwrap_or(u64::MAX) as usize;
        let from = asked.number("continue").unwrap_or(0) as usize;
        let page: Vec<&Value> = all.iter().skip(from).take(limit).collect();
        let rest = (from + page.len() < all.len()).then(|| (from + page.len()).to_string());
        let metadata = json!({"resourceVersion": revision.to_string(), "continue": rest.unwrap_or_default()});
        let answer = json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": page});
        if asked.name.is_some() && resource.hold > 0 {
            let number = resource.held;
            (resource.hold, resource.held) = (resource.hold - 1, number + 1);
            self.changed.notify_all();
            let name = asked.resource.clone();
            let kept = |state: &mut State| !state.closed && state.resource(&name).released <= number;
            drop(self.changed.wait_while(state, kept));
        } else {
            drop(state);
        }
        answer_with(stream, 200, &answer)
    }

    fn watch(&self, mut stream: TcpStream, asked: &Asked) -> std::io::Result<()> {
        let streaming = asked.parameters.contains_key("sendInitialEvents");
        let mut lines = Vec::new();
        let mut line = |what: &str, object: &Value| {
            lines.push(format!("{}\n", json!({"type": what, "object": object})));
        };
        let mut state = self.lock();
        let revision = state.revision;
        let resource = state.resource(&asked.resource);
        let cuts = resource.cuts;
        if streaming && resource.no_streaming {
            drop(state);
            return refuse(stream, 422, "sendInitialEvents is forbidden for watch");
        }
        let mut sent = asked.number("resourceVersion").unwrap_or(revision);
        let is_cut = streaming && resource.cut_lists;
        if streaming {
            for object in resource.objects.values().filter(|object| asked.covers(object)) {
                line("ADDED", object);
            }
            let notes = json!({"k8s.io/initial-events-end": "true"});
            if !is_cut {
                line(
                    "BOOKMARK",
                    &json!({"metadata": {"resourceVersion": revision.to_string(), "annotations": notes}}),
                );
            }
            sent = revision;
            resource.watched += 1;
        } else if sent < resource.oldest {
            let status = json!({"kind": "Status", "code": 410, "message": "too old resource version"});
            line("ERROR", &status);
        } else if let Some(status) = resource.watch_error {
            line("ERROR", &json!({"kind": "Status", "code": status, "message": "it cannot be decoded"}));
        } else {
            resource.watched += 1;
            self.changed.notify_all();
        }
        drop(state);
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
        )?;
        loop {
            for line in lines.drain(..) {
                write!(stream, "{:x}\r\n{line}\r\n", line.len())?;
            }
            if is_cut {
                return Ok(());
            }
            let waiting = self.changed.wait_while(self.lock(), |state| {
                let resource = state.resource(&asked.resource);
                let news = resource.log.iter().any(|(version, _, _)| *version > sent);
                let cut = resource.cuts != cuts;
                !state.closed && !cut && !news
            });
            let mut state = waiting.unwrap_or_else(PoisonError::into_inner);
            if state.closed || state.resource(&asked.resource).cuts != cuts {
                return Ok(());
            }
            for (version, what, object) in &state.resource(&asked.resource).log {
                if *version > sent {
                    sent = *version;
                    if asked.covers(object) {
                        lines.push(format!("{}\n", json!({"type": what, "object": object})));
                    }
                }
            }
        }
    }
}

impl Asked {
    fn parse(target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parameters: BTreeMap<String, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), decoded(value)))
            .collect();
        let parts: Vec<&str> = path.split('/').collect();
        let namespace =
            parts.windows(3).find(|three| three[0] == "namespaces").map(|three| three[1].to_owned());
        let fields = parameters.get("fieldSelector").map(String::as_str).unwrap_or_default();
        let name =
            fields.split(',').find_map(|field| field.strip_prefix("metadata.name=")).map(str::to_owned);
        Self { resource: (*parts.last().unwrap()).to_owned(), namespace, name, parameters }
    }

    fn number(&self, parameter: &str) -> Option<u64> {
        self.parameters.get(parameter)?.parse().ok()
    }

    fn covers(&self, object: &Value) -> bool {
        let (namespace, name) = key(object);
        self.namespace.as_ref().is_none_or(|wanted| *wanted == namespace)
            && self.name.as_ref().is_none_or(|wanted| *wanted == name)
    }
}

fn refuse(stream: TcpStream, status: u16, message: &str) -> std::io::Result<()> {
    let body = json!({"kind": "Status", "status": "Failure", "code": status, "message": message});
    answer_with(stream, status, &body)
}

fn answer_with(mut stream: TcpStream, status: u16, body: &Value) -> std::io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn key(object: &Value) -> (String, String) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    (text("namespace"), text("name"))
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            b'+' => b' ',
            other => other,
        });
    }
    String::from_utf8(bytes).unwrap()
}
