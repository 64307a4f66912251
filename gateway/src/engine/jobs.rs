//! Jobs for the blocking pool, scheduled fairly among clients.
//!
//! Checking a password takes up to a second, so few jobs run at a time and others wait. A client
//! that sends wrong passwords creates a job per request and would fill a common queue. Each client
//! therefore has its own bounded queue, and the queues take turns: behind a flood, another client's
//! first job waits for one job of the flood. When all queue slots are taken, a client with few
//! waiting jobs replaces the newest job of the client with the most.
//!
//! A client is an IPv4 address or an IPv6 /64, the usual prefix of one subscriber. Only requests
//! with a job take the lock, for the time of a queue operation.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::pipeline::{Job, Reply};

/// Waiting jobs per running job. When many requests with one new password arrive together, all but
/// the first find the result cached.
const WAITING: usize = 512;
/// Maximum of waiting jobs per client: a page with as many parts as HTTP/2 has streams.
const WAITING_OF_ONE: usize = 128;
/// Maximum time that a job waits for its turn.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The job scheduler of the process.
#[derive(Debug)]
pub(super) struct Jobs {
    most_running: usize,
    most_waiting: usize,
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    running: usize,
    waiting: usize,
    /// Number of the last waiter.
    last: u64,
    /// Waiters by client, oldest first. No queue is empty.
    by_client: HashMap<IpAddr, VecDeque<Waiter>>,
    /// Clients with a queue, in the order of their turns.
    turns: VecDeque<IpAddr>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    /// Dropped without a message if another client takes the slot.
    go: oneshot::Sender<()>,
}

/// Permission to run a job; the next job starts when it is dropped.
#[derive(Debug)]
struct Permit(Arc<Jobs>);

/// A position in a queue.
struct QueueSlot {
    jobs: Arc<Jobs>,
    client: IpAddr,
    number: u64,
    go: oneshot::Receiver<()>,
    /// Whether the permit has been claimed.
    taken: bool,
}

enum Entered {
    Runs(Permit),
    Waits(QueueSlot),
    Full,
}

impl Jobs {
    pub(super) fn new(running: usize) -> Arc<Self> {
        let most_waiting = running * WAITING;
        Arc::new(Self { most_running: running, most_waiting, queues: Mutex::default() })
    }

    /// Runs a job of this client when its turn comes.
    pub(super) async fn run(self: &Arc<Self>, client: IpAddr, job: Job) -> Reply {
        let permit = match self.enter(network(client)) {
            Entered::Runs(permit) => permit,
            Entered::Waits(mut place) => match timeout(TIMEOUT, place.turn()).await {
                Ok(Some(permit)) => permit,
                _ => return Reply::Overloaded,
            },
            Entered::Full => return Reply::Overloaded,
        };
        let run = tokio::task::spawn_blocking(move || {
            // Returned when the work is done, even if its request has ended.
            let _permit = permit;
            job.run()
        });
        run.await.unwrap_or(Reply::Lost)
    }

    fn enter(self: &Arc<Self>, client: IpAddr) -> Entered {
        let mut queues = self.queues();
        // Below the limit nothing waits: a released permit goes to a waiter first.
        if queues.running < self.most_running {
            queues.running += 1;
            return Entered::Runs(Permit(self.clone()));
        }
        let own = queues.by_client.get(&client).map_or(0, VecDeque::len);
        if own >= WAITING_OF_ONE || queues.waiting >= self.most_waiting && !queues.make_room(own) {
            return Entered::Full;
        }
        queues.last += 1;
        let (number, (go, gone)) = (queues.last, oneshot::channel());
        if own == 0 {
            queues.turns.push_back(client);
        }
        queues.by_client.entry(client).or_default().push_back(Waiter { number, go });
        queues.waiting += 1;
        Entered::Waits(QueueSlot { jobs: self.clone(), client, number, go: gone, taken: false })
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        // Nothing panics while the lock is held.
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    /// Removes the newest waiter of the client with the most, for a client that has `own`. False if
    /// that would not be fairer.
    fn make_room(&mut self, own: usize) -> bool {
        let longest = self.by_client.iter().max_by_key(|(_, queue)| queue.len());
        let Some(client) = longest.filter(|(_, queue)| queue.len() > own + 1).map(|(client, _)| *client)
        else {
            return false;
        };
        let newest = self.by_client.get(&client).and_then(|queue| queue.back()).map(|waiter| waiter.number);
        newest.is_some_and(|newest| self.remove(client, newest))
    }

    /// Removes a waiter. False if its turn has come already.
    fn remove(&mut self, client: IpAddr, number: u64) -> bool {
        let Some(queue) = self.by_client.get_mut(&client) else { return false };
        let Some(at) = queue.iter().position(|waiter| waiter.number == number) else { return false };
        queue.remove(at);
        self.waiting -= 1;
        if queue.is_empty() {
            self.by_client.remove(&client);
            self.turns.retain(|other| *other != client);
        }
        true
    }

    /// Passes the permit of a finished job to the next client in turn.
    fn next(&mut self) {
        while let Some(client) = self.turns.pop_front() {
            let Some(queue) = self.by_client.get_mut(&client) else { continue };
            let Some(waiter) = queue.pop_front() else { continue };
            match queue.is_empty() {
                true => drop(self.by_client.remove(&client)),
                false => self.turns.push_back(client),
            }
            self.waiting -= 1;
            // If the waiter has left, its `QueueSlot` returns the permit.
            let _ = waiter.go.send(());
            return;
        }
        self.running -= 1;
    }
}

impl QueueSlot {
    /// Waits for the permit; `None` if another client took the slot.
    async fn turn(&mut self) -> Option<Permit> {
        (&mut self.go).await.ok()?;
        self.taken = true;
        Some(Permit(self.jobs.clone()))
    }
}

impl Drop for QueueSlot {
    fn drop(&mut self) {
        if self.taken {
            return;
        }
        let mut queues = self.jobs.queues();
        // The permit was sent and not received.
        if !queues.remove(self.client, self.number) && self.go.try_recv().is_ok() {
            queues.next();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.queues().next();
    }
}

/// Returns the network that counts as one client.
fn network(client: IpAddr) -> IpAddr {
    match client {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) & !u128::from(u64::MAX)).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::task::{JoinHandle, yield_now};

    use super::*;

    fn client(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn begin(jobs: &Arc<Jobs>, client: IpAddr, job: Job) -> JoinHandle<Reply> {
        let jobs = jobs.clone();
        tokio::spawn(async move { jobs.run(client, job).await })
    }

    fn waiting(jobs: &Arc<Jobs>) -> usize {
        jobs.queues().waiting
    }

    async fn until(jobs: &Arc<Jobs>, count: usize) {
        while waiting(jobs) != count {
            yield_now().await;
        }
    }

    /// Starts a job of an unrelated client that runs until the sender is used.
    async fn hold(jobs: &Arc<Jobs>) -> (mpsc::Sender<()>, JoinHandle<Reply>) {
        let (go, held) = mpsc::channel::<()>();
        let first = begin(jobs, client(255), Job::new(move || Reply::Checked(held.recv().is_ok())));
        while jobs.queues().running == 0 {
            yield_now().await;
        }
        (go, first)
    }

    #[tokio::test]
    async fn behind_a_flood_the_first_job_of_another_client_is_next() {
        let jobs = Jobs::new(1);
        let (go, first) = hold(&jobs).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let job = |who: u8| {
            let order = order.clone();
            Job::new(move || {
                order.lock().unwrap().push(who);
                Reply::Checked(true)
            })
        };
        let mut all = Vec::new();
        for index in 0..WAITING_OF_ONE {
            all.push(begin(&jobs, client(1), job(1)));
            until(&jobs, index + 1).await;
        }
        assert_eq!(jobs.run(client(1), job(1)).await, Reply::Overloaded, "a client has so many places");
        for other in [2, 3, 2] {
            let before = waiting(&jobs);
            all.push(begin(&jobs, client(other), job(other)));
            until(&jobs, before + 1).await;
        }
        go.send(()).unwrap();
        for one in all {
            assert_eq!(one.await.unwrap(), Reply::Checked(true));
        }
        assert_eq!(first.await.unwrap(), Reply::Checked(true));
        assert_eq!(order.lock().unwrap()[..6], [1, 2, 3, 1, 2, 1]);
        assert_eq!((waiting(&jobs), jobs.queues().running), (0, 0));
    }

    #[tokio::test]
    async fn the_client_with_most_jobs_makes_room_when_the_queue_is_full() {
        let jobs = Jobs::new(1);
        let (go, _first) = hold(&jobs).await;
        let mut floods = Vec::new();
        for index in 0..WAITING {
            let of = u8::try_from(index % (WAITING / WAITING_OF_ONE)).unwrap();
            floods.push(begin(&jobs, client(of), Job::new(|| Reply::Checked(false))));
            until(&jobs, index + 1).await;
        }
        let other = begin(&jobs, client(100), Job::new(|| Reply::Checked(true)));
        // One job of a flood is refused at once.
        while !floods.iter().any(JoinHandle::is_finished) {
            yield_now().await;
        }
        assert_eq!(waiting(&jobs), WAITING);
        go.send(()).unwrap();
        assert_eq!(other.await.unwrap(), Reply::Checked(true));
        let mut refused = 0;
        for one in floods {
            refused += usize::from(one.await.unwrap() == Reply::Overloaded);
        }
        assert_eq!(refused, 1);
    }

    #[tokio::test]
    async fn many_clients_with_one_job_each_take_no_place_of_one_another() {
        let jobs = Jobs::new(1);
        let (_go, _first) = hold(&jobs).await;
        let places: Vec<_> = (0..WAITING)
            .map(|index| match jobs.enter(IpAddr::from([10, 0, (index / 256) as u8, (index % 256) as u8])) {
                Entered::Waits(place) => place,
                _ => panic!("{index}"),
            })
            .collect();
        assert!(matches!(jobs.enter(client(1)), Entered::Full));
        // A client that leaves frees its slot.
        drop(places);
        let queues = jobs.queues();
        assert_eq!((queues.waiting, queues.by_client.len(), queues.turns.len()), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_client_that_leaves_passes_its_turn_to_the_next() {
        let jobs = Jobs::new(1);
        let Entered::Runs(permit) = jobs.enter(client(1)) else { panic!("it is free") };
        let Entered::Waits(leaves) = jobs.enter(client(2)) else { panic!("it is not free") };
        let Entered::Waits(mut stays) = jobs.enter(client(3)) else { panic!("it is not free") };
        drop(permit);
        drop(leaves);
        drop(stays.turn().await.unwrap());
        assert_eq!(jobs.queues().running, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_whose_turn_does_not_come_is_given_up() {
        let jobs = Jobs::new(1);
        let Entered::Runs(busy) = jobs.enter(client(1)) else { panic!("it is free") };
        assert_eq!(jobs.run(client(1), Job::new(|| Reply::Checked(true))).await, Reply::Overloaded);
        assert_eq!(waiting(&jobs), 0);
        drop(busy);
        assert_eq!(jobs.run(client(1), Job::new(|| Reply::Checked(true))).await, Reply::Checked(true));
    }

    #[tokio::test]
    async fn a_panicking_job_returns_its_permit() {
        let jobs = Jobs::new(1);
        assert_eq!(jobs.run(client(1), Job::new(|| panic!("on purpose"))).await, Reply::Lost);
        assert_eq!(jobs.run(client(1), Job::new(|| Reply::Checked(true))).await, Reply::Checked(true));
    }

    #[test]
    fn a_subscriber_of_ipv6_is_one_client() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
