//! Looks names up that configuration asks for and the cluster does not know: of Services of type ExternalName, and hosts
//! of authorisation services and of mirrors.
//!
//! It does so beside the request path, on a thread of its own, with the system's resolver: that honours what the Pod says
//! about DNS, as every other program in it does, which a resolver of our own would have to learn. It does not tell how
//! long an answer holds, so that each name is looked up again every few seconds. A name that cannot be looked up
//! keeps the addresses that it had for an hour: long enough for an outage of DNS, and not so long that an address that
//! is somebody else's by now gets requests for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::lookup_host;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::input::Input;

/// Between two looks at what is due.
const TICK: Duration = Duration::from_secs(3);
/// Ticks between two look-ups of a name that is known.
const REFRESH: u32 = 5;
/// How long one look-up may take.
const LONGEST: Duration = Duration::from_secs(20);
/// Look-ups at a time.
const AT_A_TIME: usize = 8;
/// How long addresses stay in use when the name cannot be looked up any more.
const STALE: Duration = Duration::from_secs(3600);
/// Addresses of one name.
const MOST: usize = 64;

/// What is known of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resolved {
    /// Sorted, each once: those of the last good look-up.
    pub addresses: Vec<IpAddr>,
    /// Why the last look-up was not good.
    pub fault: Option<Arc<str>>,
}

/// A name has been looked up, and something else is known of it than before.
#[derive(Clone, Debug)]
pub struct LookedUp {
    /// The name.
    pub name: Arc<str>,
    /// What is known of it.
    pub resolved: Resolved,
    /// When the look-up was over.
    pub at: Instant,
}

/// The thread that looks names up. It ends with this value.
#[derive(Debug)]
pub struct Names {
    wanted: watch::Sender<BTreeSet<Arc<str>>>,
}

impl Names {
    /// Starts it. What it finds goes to `inputs`. `token` is dropped when the thread ends before this value is dropped,
    /// which it should not.
    ///
    /// # Errors
    /// There can be no such thread.
    pub fn start(inputs: mpsc::WeakSender<Input>, token: impl Send + 'static) -> io::Result<Self> {
        let (wanted, wanting) = watch::channel(BTreeSet::new());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .max_blocking_threads(AT_A_TIME)
            .build()?;
        thread::Builder::new().name("names".to_owned()).spawn(move || {
            // A panic drops it.
            let token = token;
            runtime.block_on(run(wanting, inputs));
            // It ends because the control plane has, which speaks for itself.
            std::mem::forget(token);
            // A look-up may hang for as long as the system's resolver likes.
            runtime.shutdown_background();
        })?;
        Ok(Self { wanted })
    }

    /// From now on these are looked up, and no others.
    pub fn want(&self, names: BTreeSet<Arc<str>>) {
        self.wanted.send_replace(names);
    }
}

/// What is kept of a name.
#[derive(Debug, Default)]
struct Kept {
    resolved: Option<Resolved>,
    /// When a look-up was last good.
    good: Option<Instant>,
    /// A look-up is under way.
    asked: bool,
    /// Ticks until the next one.
    left: u32,
}

impl Kept {
    /// What a look-up means for what was known.
    fn found(&mut self, found: Result<Vec<IpAddr>, String>, now: Instant) -> Resolved {
        match found {
            Ok(addresses) => {
                (self.good, self.left) = (Some(now), REFRESH);
                Resolved { addresses, fault: None }
            }
            Err(fault) => {
                self.left = 1;
                let known = self.resolved.clone().unwrap_or_default();
                let holds = self.good.is_some_and(|good| now.duration_since(good) < STALE);
                let addresses = if holds { known.addresses } else { Vec::new() };
                Resolved { addresses, fault: Some(fault.into()) }
            }
        }
    }
}

async fn run(mut wanting: watch::Receiver<BTreeSet<Arc<str>>>, inputs: mpsc::WeakSender<Input>) {
    let mut names: BTreeMap<Arc<str>, Kept> = BTreeMap::new();
    let mut looks = JoinSet::new();
    let mut ticks = interval(TICK);
    loop {
        tokio::select! {
            changed = wanting.changed() => {
                if changed.is_err() {
                    return;
                }
                let wanted = wanting.borrow_and_update().clone();
                names.retain(|name, _| wanted.contains(name));
                for name in wanted {
                    names.entry(name).or_default();
                }
            }
            _ = ticks.tick() => names.values_mut().for_each(|kept| kept.left = kept.left.saturating_sub(1)),
            Some(done) = looks.join_next() => {
                let Answered { name, found } = match done {
                    Ok(done) => done,
                    // A name whose look-up went wrong in this way would never be looked up again.
                    Err(error) => std::panic::resume_unwind(error.into_panic()),
                };
                let Some(kept) = names.get_mut(&name) else { continue };
                kept.asked = false;
                let resolved = kept.found(found, Instant::now());
                if kept.resolved.as_ref() != Some(&resolved) {
                    kept.resolved = Some(resolved.clone());
                    let Some(inputs) = inputs.upgrade() else { return };
                    let _ = inputs.send(Input::Name(LookedUp { name, resolved, at: Instant::now() })).await;
                }
            }
        }
        for (name, kept) in names.iter_mut().filter(|(_, kept)| !kept.asked && kept.left == 0) {
            kept.asked = true;
            looks.spawn(look_up(name.clone()));
        }
    }
}

/// What a look-up came to.
struct Answered {
    name: Arc<str>,
    found: Result<Vec<IpAddr>, String>,
}

async fn look_up(name: Arc<str>) -> Answered {
    let found = match timeout(LONGEST, lookup_host((&*name, 0))).await {
        Err(_) => Err("the resolver does not answer".to_owned()),
        Ok(Err(error)) => Err(error.to_string()),
        Ok(Ok(found)) => {
            let addresses: BTreeSet<IpAddr> = found.map(|address| address.ip().to_canonical()).collect();
            match addresses.is_empty() {
                true => Err("it has no addresses".to_owned()),
                false => Ok(addresses.into_iter().take(MOST).collect()),
            }
        }
    };
    Answered { name, found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_outlive_an_outage_and_not_for_ever() {
        let (mut kept, began) = (Kept::default(), Instant::now());
        let address = IpAddr::from([203, 0, 113, 7]);
        kept.resolved = Some(kept.found(Ok(vec![address]), began));
        for (after, addresses) in [(Duration::from_secs(3599), vec![address]), (STALE, Vec::new())] {
            let found = kept.found(Err("no answer".into()), began + after);
            assert_eq!((found.addresses, found.fault.as_deref()), (addresses, Some("no answer")));
        }
        let again = kept.found(Ok(vec![address]), began + STALE);
        assert_eq!(again, Resolved { addresses: vec![address], fault: None });
    }

    #[tokio::test]
    async fn a_name_is_looked_up_when_it_is_wanted_and_one_that_is_none_is_told_so() {
        let (inputs, mut received) = mpsc::channel(8);
        let names = Names::start(inputs.downgrade(), ()).unwrap();
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
