//! The task that follows the configuration: which replicas exist, and what they identify themselves
//! with.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use sluice_config::Replicas;
use tokio::sync::{broadcast, mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};

use super::identity::ReplicaIdentity;
use super::own_replica::OwnReplica;
use super::publisher::{self, QUEUE};
use super::subscriber::{ReplicaState, subscribe};
use crate::policy::limits::{LimitShare, Limiter};
use crate::telemetry::LimitUse;
use crate::tls::{Identity, are_same};

/// The replicas that the configuration names.
#[derive(Clone, Debug)]
pub(crate) struct WantedReplicas {
    pub(crate) replicas: Arc<Replicas>,
    /// The content of their Secret; `None` while it is unusable.
    pub(crate) identity: Option<Arc<Identity>>,
}

/// State of the synchronisation with other replicas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplicaReport {
    /// Number of replicas, this one included; 0 while limits are not shared.
    pub(crate) replicas: u32,
    /// Number of those whose use is known, this one included.
    pub(crate) heard: u32,
    /// Replicas that are not heard, with the reasons.
    pub(crate) unreachable: Vec<(SocketAddr, String)>,
    /// Why this replica does not report its use: the place of the fault, and its reason.
    pub(crate) not_published: Option<(String, String)>,
}

/// Synchronises the use of limits with other replicas.
pub(crate) struct LimitSync<R> {
    own: OwnReplica,
    report: R,
    session: Option<SyncSession>,
}

/// A synchronisation with one identity on one address. Its tasks end when it is dropped.
struct SyncSession {
    wanted: WantedReplicas,
    /// `None` while replicas cannot communicate.
    identity: Option<Arc<ReplicaIdentity>>,
    tasks: JoinSet<()>,
    subscriptions: BTreeMap<SocketAddr, Subscription>,
    /// Sent by the tasks.
    news: mpsc::UnboundedSender<News>,
    received: mpsc::UnboundedReceiver<News>,
    not_published: Option<(String, String)>,
}

/// The subscription to one replica.
struct Subscription {
    state: ReplicaState,
    task: Option<AbortHandle>,
}

enum News {
    Replica(SocketAddr, ReplicaState),
    /// Why the address cannot be bound, if it cannot.
    NotBound(Option<String>),
}

impl<R: Fn(&ReplicaReport)> LimitSync<R> {
    /// A synchronisation that calls `report` with every change.
    pub(crate) fn new(limiter: Arc<Limiter>, counts: LimitUse, report: R) -> Self {
        let own = OwnReplica { limiter, counts, instance: fastrand::u64(..) };
        Self { own, report, session: None }
    }

    /// Follows the configuration, which `read` returns, at every update. Returns when updates end.
    pub(crate) async fn run(
        mut self,
        mut updates: watch::Receiver<()>,
        read: impl Fn() -> Option<WantedReplicas>,
    ) {
        self.follow(read());
        loop {
            let news = async {
                match &mut self.session {
                    Some(session) => session.received.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = updates.changed() => match changed {
                    Ok(()) => self.follow(read()),
                    Err(_) => return,
                },
                Some(news) = news => self.take(news),
            }
        }
    }

    /// Adapts the tasks to the configuration.
    fn follow(&mut self, wanted: Option<WantedReplicas>) {
        let Some(wanted) = wanted else {
            if self.session.take().is_some() {
                self.publish_share();
            }
            return;
        };
        match &mut self.session {
            Some(session) if session.serves(&wanted) => {
                if session.wanted.replicas.addresses == wanted.replicas.addresses {
                    return;
                }
                session.wanted = wanted;
            }
            _ => self.session = Some(SyncSession::start(wanted, &self.own)),
        }
        if let Some(session) = &mut self.session {
            session.subscribe(&self.own);
        }
        self.publish_share();
    }

    fn take(&mut self, news: News) {
        let Some(session) = &mut self.session else { return };
        match news {
            News::Replica(address, state) => {
                // A subscription may have ended meanwhile.
                let Some(subscription) = session.subscriptions.get_mut(&address) else { return };
                if std::mem::replace(&mut subscription.state, state.clone()) == state {
                    return;
                }
            }
            News::NotBound(reason) => {
                let address = session.wanted.replicas.listen.to_string();
                session.not_published = reason.map(|reason| (address, reason));
            }
        }
        self.publish_share();
    }

    /// Puts the share in force, and reports it.
    fn publish_share(&self) {
        let report = self.session.as_ref().map(SyncSession::report).unwrap_or_default();
        let share = match report.replicas {
            0 => LimitShare::ALONE,
            replicas => LimitShare { replicas, heard: report.heard },
        };
        self.own.limiter.sharing.set_share(share);
        (self.report)(&report);
    }
}

impl SyncSession {
    fn start(wanted: WantedReplicas, own: &OwnReplica) -> Self {
        let (news, received) = mpsc::unbounded_channel();
        let mut this = Self {
            identity: None,
            tasks: JoinSet::new(),
            subscriptions: BTreeMap::new(),
            news,
            received,
            not_published: None,
            wanted,
        };
        // Without a Secret, the control plane has reported that.
        let Some(identity) = &this.wanted.identity else { return this };
        match ReplicaIdentity::new(identity, &this.wanted.replicas.name) {
            Ok(identity) => {
                own.limiter.sharing.set_key(identity.hash_key);
                this.publish(Arc::new(identity), own);
            }
            Err(reason) => this.not_published = Some(("--replica-secret".to_owned(), reason)),
        }
        this
    }

    /// Returns whether the tasks remain those that `wanted` needs.
    fn serves(&self, wanted: &WantedReplicas) -> bool {
        let same_identity = are_same(self.wanted.identity.as_ref(), wanted.identity.as_ref());
        let (one, other) = (&self.wanted.replicas, &wanted.replicas);
        same_identity && one.listen == other.listen && one.name == other.name
    }

    fn publish(&mut self, identity: Arc<ReplicaIdentity>, own: &OwnReplica) {
        let batches = broadcast::Sender::new(QUEUE);
        let news = self.news.clone();
        // The receiver may be gone during a change of the configuration.
        let report = move |reason| drop(news.send(News::NotBound(reason)));
        let greeting = identity.greeting(own.instance);
        let listen = self.wanted.replicas.listen;
        self.tasks.spawn(publisher::collect(own.clone(), batches.clone()));
        self.tasks.spawn(publisher::publish(listen, identity.clone(), greeting, batches, report));
        self.identity = Some(identity);
    }

    /// Begins and ends subscriptions, so that there is one for each address.
    fn subscribe(&mut self, own: &OwnReplica) {
        let addresses = &self.wanted.replicas.addresses;
        self.subscriptions.retain(|address, subscription| {
            let stays = addresses.contains(address);
            if !stays && let Some(task) = &subscription.task {
                task.abort();
            }
            stays
        });
        while self.tasks.try_join_next().is_some() {}
        for address in addresses.iter().copied() {
            if self.subscriptions.contains_key(&address) {
                continue;
            }
            let task = self.identity.clone().map(|identity| {
                let news = self.news.clone();
                // The receiver may be gone during a change of the configuration.
                let report = move |state| drop(news.send(News::Replica(address, state)));
                self.tasks.spawn(subscribe(address, identity, own.clone(), report))
            });
            self.subscriptions.insert(address, Subscription { state: ReplicaState::Silent, task });
        }
    }

    fn report(&self) -> ReplicaReport {
        let states = || self.subscriptions.values().map(|subscription| &subscription.state);
        let number = |counts: fn(&ReplicaState) -> bool| {
            u32::try_from(states().filter(|state| counts(state)).count()).unwrap_or(u32::MAX - 1)
        };
        let others = match self.identity {
            Some(_) => number(|state| *state != ReplicaState::Own),
            // One of the addresses is probably that of this replica.
            None => number(|_| true).saturating_sub(1),
        };
        let unreachable = self.subscriptions.iter().filter_map(|(address, subscription)| {
            let ReplicaState::Unreachable(reason) = &subscription.state else { return None };
            Some((*address, reason.clone()))
        });
        ReplicaReport {
            replicas: others + 1,
            heard: number(|state| *state == ReplicaState::Heard) + 1,
            unreachable: unreachable.collect(),
            not_published: self.not_published.clone(),
        }
    }
}
