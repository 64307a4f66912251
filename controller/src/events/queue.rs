//! The queue of Events: which ones to write and when. It has no clock and does no I/O.
//!
//! If a namespace accepts none, because of a quota, a missing right or a hanging webhook, its
//! Events wait separately: one of them is retried at growing intervals, and the others follow once
//! it is accepted.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{NamespacedName, Problem, Uid};
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::problem::ProblemChanges;
use crate::store::Kind;

/// Number of Events that may be written at once.
const BURST: u32 = 50;
/// Interval between Events after that.
const PACE: Duration = Duration::from_millis(200);
/// Minimum interval between writes of the same Event.
const SAME: Duration = Duration::from_secs(20);
/// Interval between attempts in a namespace that accepts none.
const CLOSED: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_secs(300));
/// Interval between attempts while the API server does not respond, for all namespaces.
const AWAY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// Maximum number of waiting Events. Beyond it the oldest are dropped.
const LONGEST: usize = 10_000;
/// Maximum number of Events whose count is kept.
const COUNTED: usize = 8_192;
/// Maximum number of bytes of an Event's message.
const MESSAGE: usize = 1_000;
/// Maximum number of bytes of an object's name in the name of its Event.
const NAME: usize = 200;

/// One Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Note {
    /// The name of the Event, derived from its content.
    pub(super) id: String,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) api_version: String,
    pub(super) uid: Option<Uid>,
    pub(super) type_: &'static str,
    pub(super) reason: &'static str,
    pub(super) action: &'static str,
    pub(super) message: String,
    /// How often it was reported, including this time.
    pub(super) count: u32,
    /// What it was made from, in case it has to wait again.
    subject: Subject,
}

/// The subject of an Event. The queue holds subjects; an Event's content is created when it is
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    Problem(Arc<Problem>),
    Sync(NamespacedName, Option<Uid>),
}

/// The queue.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: VecDeque<Subject>,
    standing: BTreeSet<Arc<Problem>>,
    reported: HashMap<String, Reported>,
    /// When the bucket of [`BURST`] Events will be full.
    full: Instant,
    /// Namespaces that accept no Events at present.
    closed: HashMap<Arc<str>, Closed>,
    /// Consecutive attempts without a response.
    failures: u32,
    /// No Event is written before this time, because the API server did not respond.
    not_before: Option<Instant>,
}

/// A namespace that accepts no Events at present.
#[derive(Debug)]
struct Closed {
    /// Consecutive refusals.
    refusals: u32,
    /// Time of the next attempt. `None` while it is in progress.
    until: Option<Instant>,
    waiting: VecDeque<Subject>,
}

#[derive(Debug)]
struct Reported {
    count: u32,
    at: Instant,
}

impl Queue {
    pub(super) fn new(now: Instant) -> Self {
        let (waiting, standing, reported, closed) = Default::default();
        Self { waiting, standing, reported, full: now, closed, failures: 0, not_before: None }
    }

    /// Processes changed problems. Problems of files, flags and the API itself concern no object
    /// that could have an Event.
    pub(super) fn problems(&mut self, changes: &ProblemChanges, leads: bool) {
        for problem in &changes.resolved {
            self.standing.remove(problem);
        }
        for problem in &changes.appeared {
            let is_of_the_cluster = Kind::named(&problem.object.kind).is_some() && problem.uid.is_some();
            if is_of_the_cluster && self.standing.insert(problem.clone()) && leads {
                self.push(Subject::Problem(problem.clone()));
            }
        }
    }

    /// Adds a Sync Event for each of these Ingresses.
    pub(super) fn edited(&mut self, ingresses: Vec<(NamespacedName, Option<Uid>)>) {
        ingresses.into_iter().for_each(|(name, uid)| self.push(Subject::Sync(name, uid)));
    }

    fn push(&mut self, subject: Subject) {
        let waiting = match self.closed.get_mut(subject.namespace()) {
            Some(closed) => &mut closed.waiting,
            None => &mut self.waiting,
        };
        waiting.push_front(subject);
        waiting.truncate(LONGEST);
    }

    /// Queues all standing problems once more, behind new ones.
    pub(super) fn renew(&mut self) {
        let closed = &self.closed;
        let all = self.standing.iter().filter(|problem| !closed.contains_key(&problem.object.name.namespace));
        let room = LONGEST.saturating_sub(self.waiting.len());
        self.waiting.extend(all.take(room).cloned().map(Subject::Problem));
    }

    /// Empties the queue: another replica leads.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.closed.clear();
    }

    /// Returns the time of the next Event, if any waits.
    pub(super) fn next(&self) -> Option<Instant> {
        let tokens = PACE * (BURST - 1);
        let paced = self.full.checked_sub(tokens).unwrap_or(self.full);
        let open = (!self.waiting.is_empty()).then_some(paced);
        let closed = self.closed.values().filter(|closed| !closed.waiting.is_empty());
        let next = closed.filter_map(|closed| closed.until).chain(open).min()?;
        Some(self.not_before.map_or(next, |at| at.max(next)).max(paced))
    }

    /// Records a response of the API server. `taken`: the namespace accepts Events again.
    pub(super) fn answered(&mut self, namespace: &str, taken: bool) {
        (self.failures, self.not_before) = (0, None);
        if taken && let Some(closed) = self.closed.remove(namespace) {
            self.waiting.extend(closed.waiting);
            self.waiting.truncate(LONGEST);
        }
    }

    /// Records that there was no response: nothing is tried for a while.
    pub(super) fn failed(&mut self, retry_after: Option<Duration>, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(now + AWAY.wait(self.failures).max(retry_after.unwrap_or_default()));
    }

    /// Queues a note again that was refused for a temporary reason that affects its namespace.
    pub(super) fn put_back(&mut self, note: Note, now: Instant) {
        match note.count {
            1 => drop(self.reported.remove(&note.id)),
            count => {
                let reported = Reported { count: count - 1, at: now.checked_sub(SAME).unwrap_or(now) };
                self.reported.insert(note.id, reported);
            }
        }
        let namespace = note.subject.namespace().clone();
        if !self.closed.contains_key(&namespace) {
            let (own, others) =
                std::mem::take(&mut self.waiting).into_iter().partition(|one| *one.namespace() == namespace);
            self.waiting = others;
            self.closed.insert(namespace.clone(), Closed { refusals: 0, until: None, waiting: own });
        }
        if let Some(closed) = self.closed.get_mut(&namespace) {
            closed.refusals = closed.refusals.saturating_add(1);
            closed.until = Some(now + CLOSED.wait(closed.refusals));
        }
        self.push(note.subject);
    }

    /// Returns the next Event if it may be written.
    pub(super) fn pop(&mut self, now: Instant) -> Option<Note> {
        while self.next().is_some_and(|at| at <= now) {
            let note = match self.take(now)? {
                Subject::Problem(problem) if self.standing.contains(&problem) => of_problem(problem),
                // Resolved meanwhile.
                Subject::Problem(_) => continue,
                Subject::Sync(name, uid) => of_sync(name, uid),
            };
            let reported = self.reported.get(&note.id);
            if reported.is_some_and(|reported| now < reported.at + SAME) {
                continue;
            }
            let count = reported.map_or(1, |reported| reported.count.saturating_add(1));
            if self.reported.len() >= COUNTED && !self.reported.contains_key(&note.id) {
                // The next write of such an Event finds the existing one by its name.
                self.reported.clear();
            }
            self.reported.insert(note.id.clone(), Reported { count, at: now });
            self.full = self.full.max(now) + PACE;
            if let Some(closed) = self.closed.get_mut(note.subject.namespace()) {
                closed.until = None;
            }
            return Some(Note { count, ..note });
        }
        None
    }

    /// Returns the next subject: one of a closed namespace that is due for an attempt, or else the
    /// first in the queue.
    fn take(&mut self, now: Instant) -> Option<Subject> {
        let due = |closed: &&mut Closed| closed.until.is_some_and(|at| at <= now);
        let probe = self.closed.values_mut().filter(due).find_map(|closed| closed.waiting.pop_front());
        probe.or_else(|| self.waiting.pop_front())
    }
}

impl Subject {
    fn namespace(&self) -> &Arc<str> {
        match self {
            Self::Problem(problem) => &problem.object.name.namespace,
            Self::Sync(name, _) => &name.namespace,
        }
    }
}

fn of_problem(problem: Arc<Problem>) -> Note {
    let NamespacedName { namespace, name } = &problem.object.name;
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    let mut message = format!("{field}{}; {}", problem.message, problem.remedy);
    if message.len() > MESSAGE {
        message.truncate(message.floor_char_boundary(MESSAGE));
        message.push_str("...");
    }
    Note {
        id: id(name, &(&problem.object, &problem.uid, problem.code, &problem.field, &problem.message)),
        namespace: namespace.to_string(),
        name: name.to_string(),
        kind: problem.object.kind.to_string(),
        api_version: Kind::named(&problem.object.kind).map(api_version).unwrap_or_default(),
        uid: problem.uid.clone(),
        type_: "Warning",
        reason: problem.code.as_str(),
        action: "Translate",
        message,
        count: 1,
        subject: Subject::Problem(problem),
    }
}

fn of_sync(name: NamespacedName, uid: Option<Uid>) -> Note {
    Note {
        id: id(&name.name, &("Sync", &name, &uid)),
        namespace: name.namespace.to_string(),
        name: name.name.to_string(),
        kind: Kind::Ingress.as_str().to_owned(),
        api_version: api_version(Kind::Ingress),
        uid: uid.clone(),
        type_: "Normal",
        reason: "Sync",
        action: "Sync",
        message: "Scheduled for sync".to_owned(),
        count: 1,
        subject: Subject::Sync(name, uid),
    }
}

fn api_version(kind: Kind) -> String {
    if kind.group().is_empty() { "v1".to_owned() } else { format!("{}/v1", kind.group()) }
}

/// Returns the name of an Event. Equal content gives equal names in every replica of the same
/// version.
fn id(name: &str, says: &impl Hash) -> String {
    // `DefaultHasher::new` uses fixed keys.
    let mut hasher = DefaultHasher::new();
    says.hash(&mut hasher);
    // Names are ASCII. A cut name may end in a character that is not allowed at the end.
    let short = name[..name.floor_char_boundary(NAME)].trim_end_matches(['-', '.']);
    format!("{short}.{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use sluice_config::{Code, ObjectRef};

    use super::*;
    use crate::problem::error;

    fn problem(name: &str, message: &str) -> Arc<Problem> {
        let object = ObjectRef::new("Ingress", "shop", name);
        let problem = error(Code::PathConflict, &object, "spec.rules[0]", message, "remove one of the two");
        Arc::new(Problem { uid: Some(Uid::new(name)), ..problem })
    }

    fn appeared(problems: &[Arc<Problem>]) -> ProblemChanges {
        ProblemChanges { appeared: problems.to_vec(), resolved: Vec::new() }
    }

    fn resolved(problems: &[Arc<Problem>]) -> ProblemChanges {
        ProblemChanges { appeared: Vec::new(), resolved: problems.to_vec() }
    }

    #[test]
    fn an_event_has_the_code_as_reason_with_field_fault_and_remedy() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.problems(&appeared(&[problem("web", "taken")]), true);
        let note = queue.pop(now).unwrap();
        assert_eq!((note.reason, note.type_, note.count), ("PathConflict", "Warning", 1));
        assert_eq!((&*note.kind, &*note.api_version), ("Ingress", "networking.k8s.io/v1"));
        assert_eq!(note.message, "spec.rules[0]: taken; remove one of the two");
        assert!(note.id.starts_with("web.") && note.id.len() < 30, "{}", note.id);
        assert_eq!(queue.pop(now), None);
    }

    #[test]
    fn a_problem_that_comes_and_goes_is_one_event_with_a_count() {
        let mut now = Instant::now();
        let mut queue = Queue::new(now);
        let (one, other) = (problem("web", "taken"), problem("web", "taken by another"));
        queue.problems(&appeared(std::slice::from_ref(&one)), true);
        let first = queue.pop(now).unwrap();
        for _ in 0..3 {
            queue.problems(&resolved(std::slice::from_ref(&one)), true);
            queue.problems(&appeared(std::slice::from_ref(&one)), true);
            assert_eq!(queue.pop(now), None, "it was reported just now");
        }
        now += SAME;
        queue.renew();
        let again = queue.pop(now).unwrap();
        assert_eq!((&again.id, again.count), (&first.id, 2));
        queue.problems(&appeared(&[other]), true);
        assert_ne!(queue.pop(now).unwrap().id, first.id);
    }

    #[test]
    fn resolved_problems_and_those_without_an_object_have_no_event() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        let gone = problem("gone", "x");
        queue.problems(&appeared(std::slice::from_ref(&gone)), true);
        queue.problems(&resolved(&[gone]), true);
        let file = error(Code::FileIgnored, &ObjectRef::new("File", "", "a.yaml"), "", "x", "y");
        let unknown = Problem { uid: None, ..(*problem("a", "x")).clone() };
        queue.problems(&appeared(&[Arc::new(file), Arc::new(unknown)]), true);
        assert_eq!(queue.pop(now), None);
    }

    #[test]
    fn a_flood_is_paced_and_bounded_and_the_newest_come_first() {
        let mut now = Instant::now();
        let mut queue = Queue::new(now);
        let many: Vec<_> = (0..LONGEST + 10).map(|n| problem(&format!("i{n}"), "x")).collect();
        queue.problems(&appeared(&many), true);
        assert_eq!(queue.waiting.len(), LONGEST);
        let burst = std::iter::from_fn(|| queue.pop(now)).count();
        assert_eq!(burst, BURST as usize);
        now = queue.next().unwrap();
        assert!(queue.pop(now).is_some() && queue.pop(now).is_none());
        queue.edited(vec![(NamespacedName::new("shop", "new"), None)]);
        now = queue.next().unwrap();
        assert_eq!(queue.pop(now).unwrap().reason, "Sync");
    }

    fn elsewhere(name: &str) -> Arc<Problem> {
        let object = ObjectRef::new("Ingress", "other", name);
        let problem = error(Code::PathConflict, &object, "spec.rules[0]", "taken", "remove one of the two");
        Arc::new(Problem { uid: Some(Uid::new(name)), ..problem })
    }

    #[test]
    fn a_namespace_with_a_used_up_quota_holds_up_no_other() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.problems(&appeared(&[elsewhere("b"), problem("web", "taken")]), true);
        let note = queue.pop(now).unwrap();
        assert_eq!(note.namespace, "shop");
        queue.put_back(note.clone(), now);
        queue.problems(&appeared(&[problem("new", "taken")]), true);
        assert_eq!(queue.pop(now).unwrap().name, "b", "of another namespace");
        assert_eq!(queue.pop(now), None);
        // One Event is tried, and the next attempt comes later.
        let later = now + CLOSED.longest(1);
        let probe = queue.pop(later).unwrap();
        assert_eq!(queue.pop(later), None, "one at a time");
        queue.put_back(probe, later);
        assert!(queue.next().unwrap() > later + CLOSED.longest(1) / 2);
        let later = later + CLOSED.longest(2);
        let probe = queue.pop(later).unwrap();
        queue.answered("shop", true);
        let rest = queue.pop(later).unwrap();
        let mut names = [probe.name, rest.name];
        names.sort();
        assert_eq!(names, ["new", "web"]);
        // A renewed Event keeps its count.
        let renewal = later + SAME;
        queue.renew();
        let renewed = std::iter::from_fn(|| queue.pop(renewal)).find(|note| note.name == "web").unwrap();
        assert_eq!(renewed.count, 2);
        queue.put_back(renewed.clone(), renewal);
        assert_eq!(queue.pop(renewal + CLOSED.longest(1)), Some(renewed));
    }

    #[test]
    fn without_a_response_attempts_pause_for_a_growing_time() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.problems(&appeared(&[elsewhere("b"), problem("web", "taken")]), true);
        queue.failed(None, now);
        assert!(queue.next().unwrap() > now && queue.pop(now).is_none());
        queue.failed(Some(Duration::from_secs(60)), now);
        assert_eq!(queue.next(), Some(now + Duration::from_secs(60)), "Retry-After");
        queue.answered("shop", false);
        assert!(queue.pop(now).is_some());
    }

    #[test]
    fn a_follower_writes_no_events_and_tracks_all() {
        let now = Instant::now();
        let mut queue = Queue::new(now);
        queue.problems(&appeared(&[problem("web", "taken")]), false);
        assert_eq!(queue.pop(now), None);
        queue.renew();
        assert!(queue.pop(now).is_some());
    }
}
