//! The access rights that the duties need, each with the feature that needs it. At the start the
//! API server is queried for each, so that operators see missing rights before anything fails.
//! Missing ones are queried again at short intervals, and all of them every hour, because a right
//! can be revoked long before it is needed.
//!
//! Watches for serving need no such query: a refused watch is reported by itself.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sluice_config::{Code, ObjectRef, Problem};
use tokio::time::sleep;

use super::DutyScope;
use crate::backoff::Backoff;
use crate::cluster::api::{Refused, execute};
use crate::cluster::{DutyOptions, Findings, OwnPod};
use crate::problem::{Duty, error};

/// Interval between queries for missing rights.
const AGAIN: Duration = Duration::from_secs(10);
/// Average interval between queries for all rights, with jitter between replicas. Refused requests
/// are reported immediately in any case.
const REGULARLY: Duration = Duration::from_secs(60 * 60);
/// Wait while the API server does not respond.
const AWAY: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(120));

/// One access right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// `None` for all namespaces.
    namespace: Option<String>,
    name: Option<String>,
    feature: &'static str,
    /// The alternative without this right.
    otherwise: &'static str,
}

const ELECTION: Right = Right {
    verb: "",
    group: "coordination.k8s.io",
    resource: "leases",
    subresource: "",
    namespace: None,
    name: None,
    feature: "leader election, without which nothing is written to the cluster",
    otherwise: "with one replica, --disable-leader-election does without it",
};
const STATUS: Right = Right {
    group: "networking.k8s.io",
    resource: "ingresses",
    subresource: "status",
    verb: "patch",
    feature: "the addresses in the status of Ingresses",
    otherwise: "--update-status=false does without it",
    ..ELECTION
};
const ADDRESSES: Right = Right {
    group: "",
    subresource: "",
    feature: "the addresses that go into the status of Ingresses",
    otherwise: "--publish-status-address does without it",
    ..STATUS
};
const LAST: Right = Right {
    feature: "clearing the status of Ingresses at the end of the last replica",
    otherwise: "--update-status-on-shutdown=false does without it",
    ..ADDRESSES
};
const EVENTS: Right = Right {
    group: "",
    resource: "events",
    feature: "Events on objects with problems",
    otherwise: "without it the problems are in the log and in `sluice problems`",
    ..ELECTION
};

/// Returns the rights that these options require.
pub(super) fn needed(options: &DutyOptions, pod: &OwnPod, scope: &DutyScope) -> Vec<Right> {
    let DutyScope { namespace: scope, further } = scope;
    let own = Some(pod.namespace.clone());
    let mut rights = Vec::new();
    if !options.disable_leader_election {
        let lease = Right { namespace: own.clone(), ..ELECTION };
        let name = Some(options.election_id.clone());
        rights.push(Right { verb: "get", name: name.clone(), ..lease.clone() });
        rights.push(Right { verb: "update", name, ..lease.clone() });
        rights.push(Right { verb: "create", ..lease });
    }
    let from_nodes = options.publish_service.is_none() && options.publish_status_address.is_empty();
    if options.update_status {
        rights.push(Right { namespace: scope.clone(), ..STATUS });
        match &options.publish_service {
            _ if !options.publish_status_address.is_empty() => {}
            Some(service) => rights.push(Right {
                verb: "get",
                resource: "services",
                namespace: Some(service.namespace.to_string()),
                name: Some(service.name.to_string()),
                ..ADDRESSES
            }),
            None => rights.push(Right { verb: "get", resource: "nodes", ..ADDRESSES }),
        }
        if from_nodes || options.update_status_on_shutdown {
            let pods =
                Right { resource: "pods", namespace: own, ..if from_nodes { ADDRESSES } else { LAST } };
            rights.push(Right { verb: "get", ..pods.clone() });
            rights.push(Right { verb: "list", ..pods });
        }
    }
    let further = further.iter().filter(|name| scope.as_ref().is_some_and(|scope| scope != *name));
    for namespace in [scope.clone()].into_iter().chain(further.cloned().map(Some)) {
        for verb in ["create", "patch"] {
            rights.push(Right { verb, namespace: namespace.clone(), ..EVENTS });
        }
    }
    rights
}

/// Queries all rights periodically while it is polled.
pub(super) async fn watch(client: Client, rights: Vec<Right>, findings: Findings) {
    let reviews = Api::<SelfSubjectAccessReview>::all(client);
    loop {
        let mut open: Vec<&Right> = rights.iter().collect();
        let mut failures = 0;
        while !open.is_empty() {
            let wait = match look(&reviews, &mut open).await {
                Ok(()) => {
                    failures = 0;
                    AGAIN
                }
                // Rights that were not queried are reported in a later round.
                Err(refused) => {
                    failures += 1;
                    AWAY.wait(failures).max(refused.retry_after().unwrap_or_default())
                }
            };
            if failures == 0 {
                findings.set(Duty::Rights, open.iter().map(|right| right.problem()).collect());
            }
            if !open.is_empty() {
                sleep(wait).await;
            }
        }
        sleep(REGULARLY.mul_f64(0.9 + fastrand::f64() / 5.0)).await;
    }
}

/// Reduces `open` to the missing rights. Stops at the first query without a response.
async fn look(reviews: &Api<SelfSubjectAccessReview>, open: &mut Vec<&Right>) -> Result<(), Refused> {
    let mut missing = Vec::new();
    for right in open.iter() {
        let review = SelfSubjectAccessReview { spec: right.review(), ..Default::default() };
        let review = execute(reviews.create(&PostParams::default(), &review)).await?;
        if review.status.is_some_and(|status| !status.allowed) {
            missing.push(*right);
        }
    }
    *open = missing;
    Ok(())
}

impl Right {
    fn review(&self) -> SelfSubjectAccessReviewSpec {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            verb: some(self.verb),
            group: some(self.group),
            resource: some(self.resource),
            subresource: some(self.subresource),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            ..ResourceAttributes::default()
        };
        SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() }
    }

    /// Returns the resource in the notation of RBAC rules.
    fn resource(&self) -> String {
        match self.subresource {
            "" => self.resource.to_owned(),
            sub => format!("{}/{sub}", self.resource),
        }
    }

    fn problem(&self) -> Problem {
        let resource = self.resource();
        let full =
            if self.group.is_empty() { resource.clone() } else { format!("{resource}.{}", self.group) };
        let (place, role) = match &self.namespace {
            Some(namespace) => {
                (format!(" in namespace {namespace}"), format!("a Role in namespace {namespace}"))
            }
            None => (String::new(), "a ClusterRole".to_owned()),
        };
        let name = self.name.as_ref().map(|name| format!(" {name}")).unwrap_or_default();
        error(
            Code::RightMissing,
            &ObjectRef::new("KubernetesApi", "", &full),
            self.verb,
            format!("no right to {} {full}{name}{place}; it is for {}", self.verb, self.feature),
            format!(
                "give the ServiceAccount {role} with the rule {{apiGroups: [{:?}], resources: [{resource:?}], verbs: [{:?}]}}; \
                 it is picked up without a restart; {}",
                self.group, self.verb, self.otherwise
            ),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(options: &DutyOptions, watch: Option<&str>) -> Vec<String> {
        let scope = DutyScope { namespace: watch.map(str::to_owned), ..DutyScope::default() };
        shown_in(options, &scope)
    }

    fn shown_in(options: &DutyOptions, scope: &DutyScope) -> Vec<String> {
        let pod = OwnPod { name: "sluice-0".into(), namespace: "system".into() };
        let one = |right: Right| {
            let (scope, name) =
                (right.namespace.clone().unwrap_or_default(), right.name.clone().unwrap_or_default());
            format!("{} {}/{} {scope} {name}", right.verb, right.group, right.resource())
        };
        needed(options, &pod, scope).into_iter().map(one).collect()
    }

    #[test]
    fn flags_say_which_rights_are_needed() {
        let options = DutyOptions {
            publish_service: Some(sluice_config::NamespacedName::new("system", "lb")),
            ..DutyOptions::default()
        };
        assert_eq!(
            shown(&options, None),
            [
                "get coordination.k8s.io/leases system sluice-leader",
                "update coordination.k8s.io/leases system sluice-leader",
                "create coordination.k8s.io/leases system ",
                "patch networking.k8s.io/ingresses/status  ",
                "get /services system lb",
                "get /pods system ",
                "list /pods system ",
                "create /events  ",
                "patch /events  ",
            ]
        );
        let options = DutyOptions { disable_leader_election: true, ..DutyOptions::default() };
        assert_eq!(
            shown(&options, Some("shop")),
            [
                "patch networking.k8s.io/ingresses/status shop ",
                "get /nodes  ",
                "get /pods system ",
                "list /pods system ",
                "create /events shop ",
                "patch /events shop ",
            ]
        );
        let options =
            DutyOptions { update_status: false, disable_leader_election: true, ..DutyOptions::default() };
        assert_eq!(shown(&options, None), ["create /events  ", "patch /events  "]);
    }

    #[test]
    fn events_are_also_written_where_flags_name_objects() {
        let options =
            DutyOptions { update_status: false, disable_leader_election: true, ..DutyOptions::default() };
        let further = ["certificates", "shop"].map(str::to_owned).into();
        let scope = DutyScope { namespace: Some("shop".into()), further };
        assert_eq!(
            shown_in(&options, &scope),
            [
                "create /events shop ",
                "patch /events shop ",
                "create /events certificates ",
                "patch /events certificates ",
            ]
        );
        assert_eq!(
            shown_in(&options, &DutyScope { namespace: None, ..scope }),
            ["create /events  ", "patch /events  "],
            "everywhere is enough"
        );
    }

    #[test]
    fn a_missing_right_is_reported_with_purpose_and_remedy() {
        let problem = Right { namespace: Some("shop".into()), ..STATUS }.problem().to_string();
        for part in [
            "no right to patch ingresses/status.networking.k8s.io in namespace shop",
            "the addresses in the status",
            "a Role in namespace shop",
            "{apiGroups: [\"networking.k8s.io\"], resources: [\"ingresses/status\"], verbs: [\"patch\"]}",
            "[RightMissing]",
        ] {
            assert!(problem.contains(part), "{part}\n{problem}");
        }
    }
}
