//! The control plane on a fake API server, and what a data plane would have of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use sluice_config::{Change, Delta, Problem, Report, Snapshot};
use sluice_controller::input;
use sluice_controller::source::kube::{ApiAccess, KubeSource};
use sluice_controller::store::References;
use sluice_controller::{Controller, Observe, Options, ProblemChanges};
use tokio::sync::mpsc::UnboundedSender;

use crate::fake::Fake;

/// Long enough for a busy machine; a test that works never waits that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A control plane that runs until it is dropped.
pub(crate) struct Plane {
    seen: Arc<Watched>,
    _source: KubeSource,
}

#[derive(Default)]
struct Watched {
    seen: Mutex<Seen>,
    changed: Condvar,
}

/// What the data plane has, and what has become of it on the way.
#[derive(Clone, Default)]
pub(crate) struct Seen {
    pub(crate) state: Snapshot,
    /// All problems as they are now.
    standing: BTreeSet<Arc<Problem>>,
    /// The same as one text.
    pub(crate) problems: String,
    /// Everything that was ever removed, and every endpoint set that was ever emptied.
    pub(crate) lost: Vec<String>,
    /// What the first complete state had.
    pub(crate) first: Option<Snapshot>,
}

struct Observer {
    seen: Arc<Watched>,
    references: UnboundedSender<References>,
}

impl Plane {
    pub(crate) fn start(fake: &Fake, options: Options) -> Self {
        // The API server writes the default class into Ingresses that have none.
        let options = Options { apply_default_class: false, ..options };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let access = ApiAccess::Server { url: fake.url(), authority: None };
        let (sender, inputs) = input::channel();
        let source = runtime.block_on(KubeSource::start(access, &options, sender)).unwrap();
        let seen = Arc::new(Watched::default());
        let mut observer = Observer { seen: seen.clone(), references: source.references() };
        let data = seen.clone();
        thread::spawn(move || {
            let apply = |delta: Delta| {
                data.change(|seen| seen.apply(&delta));
                Report::Applied {
                    generation: delta.generation,
                    took: Duration::ZERO,
                    refused: Vec::new(),
                    accepted: Vec::new(),
                }
            };
            sluice_controller::run(Controller::new(options), inputs, apply, &mut observer);
        });
        Self { seen, _source: source }
    }

    /// Waits until what is seen fulfils a condition.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&Seen) -> bool) -> Seen {
        let waiting =
            self.seen.changed.wait_timeout_while(self.seen.lock(), PATIENCE, |seen| !condition(seen));
        let (seen, timeout) = waiting.unwrap();
        assert!(!timeout.timed_out(), "waited for {what}: {}", seen.words());
        seen.clone()
    }

    pub(crate) fn now(&self) -> Seen {
        self.seen.lock().clone()
    }
}

impl Seen {
    fn apply(&mut self, delta: &Delta) {
        self.state.apply(delta);
        let removed = |words: Vec<Option<String>>| words.into_iter().flatten();
        self.lost.extend(removed(delta.hosts.iter().map(gone).collect()));
        self.lost.extend(removed(delta.certificates.iter().map(gone).collect()));
        self.lost.extend(removed(delta.endpoint_sets.iter().map(gone).collect()));
        for change in &delta.endpoint_sets {
            if let Change::Put(key, set) = change
                && set.endpoints.is_empty()
            {
                self.lost.push(format!("the endpoints of {key}"));
            }
        }
        if self.first.is_none() && delta.complete {
            self.first = Some(self.state.clone());
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.state.complete
    }

    /// Everything in one line: hosts, endpoints, names of certificates, the redirect code.
    pub(crate) fn words(&self) -> String {
        let words = words(&self.state);
        format!("{words}; problems: {}; lost: {:?}", self.problems, self.lost)
    }

    pub(crate) fn has(&self, text: &str) -> bool {
        words(&self.state).split(' ').any(|word| word == text)
    }
}

/// Hosts, endpoints, names of certificates and the redirect code, with blanks between them.
pub(crate) fn words(state: &Snapshot) -> String {
    let hosts = state.hosts.keys().map(|key| key.pattern.to_string());
    let endpoints = state.endpoint_sets.values().flat_map(|set| &set.endpoints);
    let endpoints = endpoints.map(|endpoint| endpoint.address.ip().to_string());
    let names = state.certificates.values().flat_map(|one| one.facts.names.iter());
    let names = names.map(|name| format!("cert:{name}"));
    let code = format!("code:{}", state.settings.http_redirect_code);
    hosts.chain(endpoints).chain(names).chain([code]).collect::<Vec<_>>().join(" ")
}

fn gone<K: std::fmt::Display, V>(change: &Change<K, V>) -> Option<String> {
    match change {
        Change::Put(..) => None,
        Change::Remove(key) => Some(key.to_string()),
    }
}

impl Watched {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }
}

impl Observe for Observer {
    fn problems(&mut self, changes: &ProblemChanges) {
        self.seen.change(|seen| {
            for problem in &changes.resolved {
                assert!(seen.standing.remove(problem), "{problem}");
            }
            for problem in &changes.appeared {
                assert!(seen.standing.insert(problem.clone()), "{problem}");
            }
            let texts: Vec<String> = seen.standing.iter().map(ToString::to_string).collect();
            seen.problems = texts.join("\n");
        });
    }

    fn references(&mut self, changes: References) {
        // A source that has ended needs to know nothing more.
        let _ = self.references.send(changes);
    }
}
