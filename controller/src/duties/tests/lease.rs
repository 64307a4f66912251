//! The rate of requests for the Lease, and the end of leadership with the term.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::api::{Failure, SimulatedApi};
use super::{Replica, options, seconds};
use crate::cluster::DutyOptions;

const LEASES: &str = "/leases";

fn failures() -> [Failure; 6] {
    [
        Failure::Hang,
        Failure::Status(401, None, "Unauthorized"),
        Failure::Status(403, None, "leases is forbidden"),
        Failure::Status(409, None, "the object has been modified"),
        Failure::Status(429, Some(30), "too many requests"),
        Failure::Status(500, None, "etcd is away"),
    ]
}

/// The Lease was read and written in each round, every 100 ms as long as the failure lasted.
#[tokio::test(start_paused = true)]
async fn an_api_that_fails_is_not_flooded_with_requests_for_the_lease() {
    for failure in failures() {
        let api = SimulatedApi::new();
        let mut leader = Replica::start(&api, "a", options());
        leader.until_it_leads().await;
        let follower = Replica::start(&api, "b", options());
        seconds(60).await;
        api.fail(None, LEASES, failure.clone());
        let begun = Instant::now();
        seconds(600).await;
        for pod in ["a", "b"] {
            let count = api.asked(Some(pod), LEASES, begun).len();
            println!("{failure:?}: {count} requests of {pod} in ten minutes");
            assert!((5..=60).contains(&count), "{failure:?}: {count} requests of {pod}");
        }
        assert!(!leader.leads() && !follower.leads());
        api.heal();
        seconds(120).await;
        assert!(leader.leads() != follower.leads(), "{failure:?}: one of them leads again");
    }
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_between_requests_for_the_lease() {
    let api = SimulatedApi::new();
    api.fail(None, LEASES, Failure::Status(503, Some(45), "overloaded"));
    let begun = Instant::now();
    let _replica = Replica::start(&api, "a", options());
    seconds(45 * 5 - 5).await;
    assert_eq!(api.asked(None, LEASES, begun).len(), 5);
}

#[tokio::test(start_paused = true)]
async fn two_replicas_never_lead_at_once_while_requests_hang() {
    for ttl in [3, 10, 30] {
        let api = SimulatedApi::new();
        let ttl = Duration::from_secs(ttl);
        let options = DutyOptions { election_ttl: ttl, ..options() };
        let mut leader = Replica::start(&api, "a", options.clone());
        leader.until_it_leads().await;
        let follower = Replica::start(&api, "b", options);
        sleep(ttl * 3).await;
        assert!(leader.leads() && !follower.leads());
        api.fail(Some("a"), LEASES, Failure::Hang);
        let begun = Instant::now();
        while !follower.leads() {
            sleep(Duration::from_millis(10)).await;
            assert!(!(leader.leads() && follower.leads()), "both lead after {:?}", begun.elapsed());
            assert!(begun.elapsed() < ttl * 2, "no replica leads");
        }
        assert!(!leader.leads());
    }
}

#[tokio::test(start_paused = true)]
async fn one_request_that_hangs_does_not_end_a_term() {
    let api = SimulatedApi::new();
    let mut leader = Replica::start(&api, "a", options());
    leader.until_it_leads().await;
    for _ in 0..5 {
        let begun = Instant::now();
        api.fail(None, LEASES, Failure::Hang);
        while api.asked(None, LEASES, begun).is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        api.heal();
        for _ in 0..300 {
            sleep(Duration::from_millis(100)).await;
            assert!(leader.leads());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_that_watches_sends_next_to_no_requests() {
    let api = SimulatedApi::new();
    let mut leader = Replica::start(&api, "a", options());
    leader.until_it_leads().await;
    let follower = Replica::start(&api, "b", options());
    seconds(60).await;
    let begun = Instant::now();
    seconds(3600).await;
    let (led, followed) = (api.asked(Some("a"), "", begun).len(), api.asked(Some("b"), "", begun).len());
    println!("in an hour: {led} requests of the leader, {followed} of a follower");
    assert!(led <= 3600 / 7 + 20, "{led} requests of the leader");
    assert!(followed <= 50, "{followed} requests of a follower");
    assert!(leader.leads() && !follower.leads());
}

#[tokio::test(start_paused = true)]
async fn without_the_right_to_watch_a_follower_reads_the_lease_and_succeeds() {
    let api = SimulatedApi::new();
    api.fail(None, "leases?&watch", Failure::Status(403, None, "forbidden"));
    api.fail(None, "watch=true", Failure::Status(403, None, "forbidden"));
    let mut leader = Replica::start(&api, "a", options());
    leader.until_it_leads().await;
    let mut follower = Replica::start(&api, "b", options());
    let begun = Instant::now();
    seconds(600).await;
    let count = api.asked(Some("b"), LEASES, begun).len();
    assert!((60..=100).contains(&count), "{count} requests of a follower in ten minutes");
    leader.end().await;
    let begun = Instant::now();
    follower.until_it_leads().await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_released_is_taken_at_once() {
    let api = SimulatedApi::new();
    let mut leader = Replica::start(&api, "a", options());
    leader.until_it_leads().await;
    let mut followers: Vec<_> =
        ["b", "c", "d"].map(|pod| Replica::start(&api, pod, options())).into_iter().collect();
    seconds(60).await;
    leader.end().await;
    let begun = Instant::now();
    while !followers.iter().any(Replica::leads) {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    seconds(60).await;
    assert_eq!(followers.iter().filter(|one| one.leads()).count(), 1);
    followers.clear();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_duty_ends_the_leadership_and_clears_nothing() {
    let api = SimulatedApi::new();
    let mut replica = Replica::start(&api, "a", options());
    replica.until_it_leads().await;
    let path = super::status::ingress(&api, "shop", "web", &["192.0.2.7"]);
    super::status::report(&replica, super::status::served(&api, &path), true);
    seconds(60).await;
    let begun = Instant::now();
    api.fail(None, LEASES, Failure::Panic);
    seconds(60).await;
    assert!(!replica.leads());
    assert!(replica.problems().contains("a task has panicked"), "{}", replica.problems());
    api.heal();
    replica.end().await;
    assert!(api.asked(None, "PATCH", begun).is_empty());
}
