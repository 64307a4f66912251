//! The rate of queries for access rights.

use tokio::time::Instant;

use super::api::{Failure, SimulatedApi};
use super::{Replica, options, seconds};

const REVIEWS: &str = "selfsubjectaccessreviews";

#[tokio::test(start_paused = true)]
async fn once_all_rights_are_there_they_are_looked_for_hourly() {
    let (api, begun) = (SimulatedApi::new(), Instant::now());
    let _replica = Replica::start(&api, "a", options());
    seconds(30).await;
    let at_first = api.asked(None, REVIEWS, begun).len();
    assert!(at_first > 3);
    seconds(3 * 3600).await;
    let count = api.asked(None, REVIEWS, begun).len();
    assert!((3 * at_first..=4 * at_first).contains(&count), "{count} reviews, {at_first} at first");
}

#[tokio::test(start_paused = true)]
async fn an_api_that_fails_is_not_asked_about_every_right() {
    for failure in [Failure::Hang, Failure::Status(500, None, "no"), Failure::Status(429, Some(30), "later")]
    {
        let (api, begun) = (SimulatedApi::new(), Instant::now());
        api.fail(None, REVIEWS, failure.clone());
        let _replica = Replica::start(&api, "a", options());
        seconds(600).await;
        let count = api.asked(None, REVIEWS, begun).len();
        assert!((3..=20).contains(&count), "{failure:?}: {count} reviews in ten minutes");
    }
}
