//! The rights that the duties need, each with the feature that it is for. The API server is asked about each at the start,
//! so that an operator reads which ones are missing before something has been left undone; again while one is; and now
//! and then for as long as the program runs, because a right can be taken away long before it is needed.
//!
//! What is watched for serving needs no such question: a watch that is refused says so by itself.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use sluice_config::{Code, ObjectRef, Problem};
use tokio::time::sleep;

use super::api::ask;
use super::{Duty, DutyOptions, Findings, OwnPod};
use crate::problem::error;

/// Between two looks while a right is missing.
const AGAIN: Duration = Duration::from_secs(10);
/// Between two looks while none is. What a duty is refused with is told at once.
const REGULARLY: Duration = Duration::from_secs(60);

/// One right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Right {
    verb: &'static str,
    group: &'static str,
    resource: &'static str,
    subresource: &'static str,
    /// `None` for all.
    namespace: Option<String>,
    name: Option<String>,
    feature: &'static str,
    /// How to do without it.
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

/// All that these flags need.
pub(super) fn needed(options: &DutyOptions, pod: &OwnPod, watch_namespace: Option<&str>) -> Vec<Right> {
    let scope = watch_namespace.map(str::to_owned);
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
    for verb in ["create", "patch"] {
        rights.push(Right { verb, namespace: scope.clone(), ..EVENTS });
    }
    rights
}

/// Asks about all of them, for as long as the program runs.
pub(super) async fn watch(client: Client, rights: Vec<Right>, findings: Findings) {
    let reviews = Api::<SelfSubjectAccessReview>::all(client);
    loop {
        let (mut missing, mut unknown) = (Vec::new(), false);
        for right in &rights {
            let review = SelfSubjectAccessReview { spec: right.review(), ..Default::default() };
            match ask(reviews.create(&PostParams::default(), &review)).await {
                Ok(review) if review.status.as_ref().is_some_and(|status| !status.allowed) => {
                    missing.push(right.problem());
                }
                Ok(_) => {}
                // Whatever is refused later is told then.
                Err(_) => unknown = true,
            }
        }
        let wait = if missing.is_empty() && !unknown { REGULARLY } else { AGAIN };
        findings.set(Duty::Rights, missing).await;
        sleep(wait).await;
    }
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

    /// As rules of roles spell it.
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
        let pod = OwnPod { name: "sluice-0".into(), namespace: "system".into() };
        let one = |right: Right| {
            let (scope, name) =
                (right.namespace.clone().unwrap_or_default(), right.name.clone().unwrap_or_default());
            format!("{} {}/{} {scope} {name}", right.verb, right.group, right.resource())
        };
        needed(options, &pod, watch).into_iter().map(one).collect()
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
    fn a_missing_right_says_which_what_for_and_how_to_give_it() {
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
