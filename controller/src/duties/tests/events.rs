//! Events while the API refuses some of them.

use std::sync::Arc;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem, Uid};
use tokio::time::Instant;

use super::api::{Failure, SimulatedApi};
use super::{Replica, options, seconds};
use crate::problem::{ProblemChanges, error};

const QUOTA: &str =
    "events \"a\" is forbidden: exceeded quota: few, requested: count/events=1, used: 1, limited: 1";

fn problem(namespace: &str, name: &str) -> Arc<Problem> {
    let object = ObjectRef { kind: "Ingress".into(), name: NamespacedName::new(namespace, name) };
    let problem = error(Code::PathConflict, &object, "spec.rules[0]", "taken", "remove one of the two");
    Arc::new(Problem { uid: Some(Uid::new(name)), ..problem })
}

fn report(replica: &Replica, appeared: Vec<Arc<Problem>>) {
    replica.news.problems(&ProblemChanges { appeared, resolved: Vec::new() });
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_quota_refuses_blocks_no_other_namespace() {
    for failure in [Failure::Status(403, None, QUOTA), Failure::Hang, Failure::Status(500, None, "webhook")] {
        let api = SimulatedApi::new();
        api.fail(None, "/namespaces/full/events", failure.clone());
        let mut replica = Replica::start(&api, "a", options());
        replica.until_it_leads().await;
        let begun = Instant::now();
        report(&replica, (0..40).map(|n| problem("full", &format!("f{n}"))).collect());
        report(&replica, (0..40).map(|n| problem("shop", &format!("s{n}"))).collect());
        seconds(120).await;
        assert_eq!(api.objects("/namespaces/shop/events/").len(), 40, "{failure:?}");
        seconds(480).await;
        let count = api.asked(None, "/namespaces/full/events", begun).len();
        assert!((3..=12).contains(&count), "{failure:?}: {count} attempts in ten minutes");
        if let Failure::Status(403, ..) = failure {
            assert!(replica.problems().contains("exceeded quota"), "{}", replica.problems());
        }
        api.heal();
        seconds(400).await;
        assert_eq!(api.objects("/namespaces/full/events/").len(), 40, "{failure:?}");
        assert!(!replica.problems().contains("exceeded quota"), "{}", replica.problems());
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_a_webhook_denies_is_left_out_alone() {
    let api = SimulatedApi::new();
    api.fail(
        None,
        "POST /api/v1/namespaces/shop/events",
        Failure::Status(403, None, "admission webhook denied"),
    );
    let mut replica = Replica::start(&api, "a", options());
    replica.until_it_leads().await;
    let begun = Instant::now();
    report(&replica, (0..10).map(|n| problem("shop", &format!("s{n}"))).collect());
    seconds(60).await;
    assert_eq!(api.asked(None, "/events", begun).len(), 10, "each of them once");
}
