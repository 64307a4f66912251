//! DNS resolution of configured names outside the cluster: Services of type ExternalName, and hosts
//! of authorisation services and mirrors. The same thread answers look-ups of hosts that requests
//! determine ([`LookUps`]).
//!
//! The resolver runs on its own thread, outside the request path. A name is resolved again when the
//! time to live of its records ends. If that fails, its previous addresses stay in use for an hour:
//! long enough for a DNS outage, and short enough that an address with a new owner does not receive
//! requests indefinitely.

mod resolver;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use self::resolver::{LookupResult, Resolver};
use crate::input::Input;
use crate::store::{LookedUp, Resolved};

/// Minimum time to the next look-up. Some DNS servers return a time to live of zero.
const SHORTEST: Duration = Duration::from_secs(1);
/// Maximum time to the next look-up. A record with a time to live of a day may be wrong, and
/// /etc/hosts has none.
const LONGEST: Duration = Duration::from_secs(300);
/// Time to the next look-up after a failure. It doubles with each further failure, up to
/// [`RETRIES`] times.
const RETRY: Duration = Duration::from_secs(2);
const RETRIES: u32 = 3;
/// Maximum random increase of a delay, as a fraction. It spreads look-ups that happened together.
const SPREAD: f64 = 0.05;
/// Maximum number of concurrent look-ups, of configured names and of hosts of requests each:
/// clients that send many hosts do not delay configured names.
const AT_A_TIME: usize = 64;
/// Time for which addresses stay in use after look-ups start to fail.
const STALE: Duration = Duration::from_secs(3600);

/// The resolver thread. It ends when this is dropped.
#[derive(Debug)]
pub struct NameResolver {
    wanted: watch::Sender<Wanted>,
    look_ups: LookUps,
}

/// The names to resolve.
#[derive(Debug, Default)]
struct Wanted {
    /// By name: the number of the change that added it. A name that was removed and added again has
    /// another number, even if the thread sees both changes as one.
    names: BTreeMap<Arc<str>, u64>,
    /// Number of changes.
    changes: u64,
}

/// Looks up hosts that requests determine, on the resolver thread.
#[derive(Clone, Debug)]
pub struct LookUps(mpsc::Sender<Query>);

/// A look-up whose result a request awaits.
#[derive(Debug)]
struct Query {
    name: Arc<str>,
    reply: oneshot::Sender<Result<LookupResult, String>>,
}

impl LookUps {
    /// Returns the addresses of a name and their time to live, or `None` if it has none. Search
    /// domains do not apply, because clients choose the name. Dropping the future ends the look-up.
    pub async fn look_up(&self, name: &str) -> Option<(Vec<IpAddr>, Duration)> {
        let (reply, result) = oneshot::channel();
        self.0.send(Query { name: format!("{name}.").into(), reply }).await.ok()?;
        match result.await.ok()? {
            Ok(LookupResult { addresses, holds }) => Some((addresses, holds.clamp(SHORTEST, LONGEST))),
            Err(fault) => {
                tracing::debug!(name, fault, "the host of a request cannot be resolved");
                None
            }
        }
    }
}

impl NameResolver {
    /// Starts the thread. Results go to `inputs`. `resolv_conf` is the resolver configuration;
    /// `None` uses that of the system. `token` is dropped if the thread ends before this value is
    /// dropped, which indicates a fault.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn start(
        resolv_conf: Option<PathBuf>,
        inputs: mpsc::WeakSender<Input>,
        token: impl Send + 'static,
    ) -> io::Result<Self> {
        let (wanted, wanting) = watch::channel(Wanted::default());
        let (look_ups, queries) = mpsc::channel(AT_A_TIME);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let resolver = Resolver::new(resolv_conf.unwrap_or_else(|| resolver::usual().to_owned()));
        thread::Builder::new().name("names".to_owned()).spawn(move || {
            // A panic drops it.
            let token = token;
            runtime.block_on(run(resolver, wanting, queries, inputs));
            // The control plane has ended, which is reported elsewhere.
            std::mem::forget(token);
        })?;
        Ok(Self { wanted, look_ups: LookUps(look_ups) })
    }

    /// Sets the names to resolve, in place of the previous ones.
    pub fn want(&self, names: BTreeSet<Arc<str>>) {
        self.wanted.send_modify(|wanted| wanted.replace(names));
    }

    /// Returns a handle for look-ups of hosts that requests determine.
    pub fn look_ups(&self) -> LookUps {
        self.look_ups.clone()
    }
}

impl Wanted {
    fn replace(&mut self, names: BTreeSet<Arc<str>>) {
        self.changes += 1;
        let added = |name: &Arc<str>| self.names.get(name).copied().unwrap_or(self.changes);
        self.names = names.into_iter().map(|name| (name.clone(), added(&name))).collect();
    }

    /// Updates the resolved names. One that was added again starts anew: the translation has
    /// forgotten its result, and an equal one would not be sent.
    fn update(&self, names: &mut BTreeMap<Arc<str>, Kept>, now: Instant) {
        names.retain(|name, kept| self.names.get(name) == Some(&kept.added));
        for (name, added) in &self.names {
            names.entry(name.clone()).or_insert_with(|| Kept::new(*added, now));
        }
    }
}

/// A resolved name and its schedule.
#[derive(Debug)]
struct Kept {
    /// Number of the change that added it.
    added: u64,
    resolved: Option<Resolved>,
    /// Time of the last successful look-up.
    good: Option<Instant>,
    /// Number of failures since then.
    failures: u32,
    /// Time of the next look-up; `None` during a look-up.
    due: Option<Instant>,
}

impl Kept {
    fn new(added: u64, now: Instant) -> Self {
        Self { added, resolved: None, good: None, failures: 0, due: Some(now) }
    }

    /// Updates the state with the result of a look-up and schedules the next one. `chance` is from
    /// 0 to 1.
    fn found(&mut self, found: Result<LookupResult, String>, now: Instant, chance: f64) -> Resolved {
        let (resolved, until) = match found {
            Ok(LookupResult { addresses, holds }) => {
                (self.good, self.failures) = (Some(now), 0);
                (Resolved { addresses, fault: None }, holds.clamp(SHORTEST, LONGEST))
            }
            Err(fault) => {
                let wait = RETRY * 2_u32.pow(self.failures.min(RETRIES));
                self.failures = self.failures.saturating_add(1);
                let known = self.resolved.clone().unwrap_or_default();
                let holds = self.good.is_some_and(|good| now.duration_since(good) < STALE);
                let addresses = if holds { known.addresses } else { Vec::new() };
                (Resolved { addresses, fault: Some(fault.into()) }, wait)
            }
        };
        self.due = Some(now + until.mul_f64(1.0 + SPREAD * chance));
        resolved
    }
}

/// The result of a look-up.
struct Answered {
    name: Arc<str>,
    found: Result<LookupResult, String>,
}

async fn run(
    mut resolver: Resolver,
    mut wanting: watch::Receiver<Wanted>,
    mut queries: mpsc::Receiver<Query>,
    inputs: mpsc::WeakSender<Input>,
) {
    let mut names: BTreeMap<Arc<str>, Kept> = BTreeMap::new();
    let (mut looks, mut answers) = (JoinSet::new(), JoinSet::new());
    loop {
        let next = names.values().filter_map(|kept| kept.due).min();
        let wait = async {
            match next {
                Some(due) => sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = wanting.changed() => {
                if changed.is_err() {
                    return;
                }
                wanting.borrow_and_update().update(&mut names, Instant::now());
            }
            () = wait, if looks.len() < AT_A_TIME => {}
            Some(query) = queries.recv(), if answers.len() < AT_A_TIME => {
                answers.spawn(answer(resolver.current(), query));
            }
            Some(_) = answers.join_next() => {}
            Some(done) = looks.join_next() => {
                let Answered { name, found } = match done {
                    Ok(done) => done,
                    // Otherwise the name would never be resolved again.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
                let Some(kept) = names.get_mut(&name) else { continue };
                let resolved = kept.found(found, Instant::now(), fastrand::f64());
                if kept.resolved.as_ref() != Some(&resolved) {
                    kept.resolved = Some(resolved.clone());
                    let Some(inputs) = inputs.upgrade() else { return };
                    let _ = inputs.send(Input::Name(LookedUp { name, resolved, at: Instant::now() })).await;
                }
            }
        }
        begin(&mut names, &mut looks, &mut resolver);
    }
}

/// Looks a host up for a request, until the request no longer waits.
async fn answer(resolver: Result<TokioResolver, String>, query: Query) {
    let Query { name, mut reply } = query;
    let found = tokio::select! {
        found = async { resolver::look_up(resolver?, &name).await } => found,
        () = reply.closed() => return,
    };
    // The request may have left meanwhile.
    let _ = reply.send(found);
}

/// Starts the look-ups that are due, the oldest first, up to the limit.
fn begin(names: &mut BTreeMap<Arc<str>, Kept>, looks: &mut JoinSet<Answered>, resolver: &mut Resolver) {
    let now = Instant::now();
    let mut due: Vec<_> =
        names.iter_mut().filter(|(_, kept)| kept.due.is_some_and(|due| due <= now)).collect();
    due.sort_by_key(|(_, kept)| kept.due);
    due.truncate(AT_A_TIME.saturating_sub(looks.len()));
    if due.is_empty() {
        return;
    }
    let resolver = resolver.current();
    for (name, kept) in due {
        kept.due = None;
        let (name, resolver) = (name.clone(), resolver.clone());
        looks.spawn(async move {
            let found = match resolver {
                Ok(resolver) => resolver::look_up(resolver, &name).await,
                Err(fault) => Err(fault),
            };
            Answered { name, found }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn found(holds: Duration) -> Result<LookupResult, String> {
        Ok(LookupResult { addresses: vec![IpAddr::from([203, 0, 113, 7])], holds })
    }

    #[test]
    fn addresses_survive_an_outage_for_a_limited_time() {
        let began = Instant::now();
        let mut kept = Kept::new(1, began);
        let good = kept.found(found(LONGEST), began, 0.0);
        kept.resolved = Some(good.clone());
        for (after, addresses) in [(Duration::from_secs(3599), good.addresses.clone()), (STALE, Vec::new())] {
            let found = kept.found(Err("no answer".into()), began + after, 0.0);
            assert_eq!((found.addresses, found.fault.as_deref()), (addresses, Some("no answer")));
        }
        assert_eq!(kept.found(found(LONGEST), began + STALE, 0.0), good);
    }

    #[test]
    fn a_name_is_resolved_again_after_its_time_or_a_failure() {
        let now = Instant::now();
        let mut kept = Kept::new(1, now);
        let mut seconds = |found, chance| {
            kept.found(found, now, chance);
            kept.due.map(|due| (due - now).as_secs_f64())
        };
        for (holds, chance, expected) in
            [(0, 0.0, 1.0), (20, 0.0, 20.0), (20, 1.0, 21.0), (86_400, 0.0, 300.0)]
        {
            assert_eq!(seconds(found(Duration::from_secs(holds)), chance), Some(expected), "{holds}");
        }
        let waits: Vec<_> = (0..6).filter_map(|_| seconds(Err("no answer".into()), 0.0)).collect();
        assert_eq!(waits, [2.0, 4.0, 8.0, 16.0, 16.0, 16.0]);
        assert_eq!(seconds(found(Duration::from_secs(5)), 0.0), Some(5.0));
        assert_eq!(seconds(Err("no answer".into()), 0.0), Some(2.0), "from the beginning");
    }

    #[test]
    fn a_name_that_is_removed_and_added_again_is_sent_again() {
        let (mut wanted, mut names, now) = (Wanted::default(), BTreeMap::new(), Instant::now());
        let both = BTreeSet::from(["a.example".into(), "b.example".into()]);
        wanted.replace(both.clone());
        wanted.update(&mut names, now);
        for kept in names.values_mut() {
            kept.resolved = Some(kept.found(found(LONGEST), now, 0.0));
        }
        // The thread sees only the last state.
        wanted.replace(BTreeSet::from(["b.example".into()]));
        wanted.replace(both);
        wanted.update(&mut names, now);
        let again = &names["a.example"];
        assert_eq!((again.resolved.as_ref(), again.due), (None, Some(now)));
        assert!(names["b.example"].resolved.is_some());
    }

    #[tokio::test]
    async fn a_needed_name_is_resolved_and_an_invalid_one_is_reported() {
        let (inputs, mut received) = mpsc::channel(8);
        let names = NameResolver::start(None, inputs.downgrade(), ()).unwrap();
        names.want(BTreeSet::from(["localhost".into(), "a..b".into()]));
        let mut seen = BTreeMap::new();
        while seen.len() < 2 {
            let Some(Input::Name(LookedUp { name, resolved, .. })) = received.recv().await else {
                panic!("it ended")
            };
            seen.insert(name, resolved);
        }
        let local = &seen["localhost"];
        assert!(local.fault.is_none() && local.addresses.iter().all(IpAddr::is_loopback), "{local:?}");
        let none = &seen["a..b"];
        assert!(none.fault.is_some() && none.addresses.is_empty(), "{none:?}");
    }
}
