//! The replicas of this gateway: the Pods that match a selector, and whether others follow at its
//! end.
//!
//! The selector is built from the labels of this Pod, which needs no right to read its workload. It
//! contains only labels that an upgrade does not change. It is remembered, because a force-deleted
//! Pod is gone while its containers are still terminating.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use super::selector::selector;
use crate::cluster::OwnPod;
use crate::cluster::api::{self, Refused};

/// Lists the replicas.
pub(super) struct Replicas {
    client: Client,
    pod: OwnPod,
    /// The selector, once it is known.
    selection: OnceCell<ListParams>,
}

/// What a terminating replica finds about others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// There are others, or others will follow.
    Some,
    /// There are none.
    None,
    /// Unknown.
    Unknown,
}

/// What maintains the number of Pods.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    /// Nothing: the Pod was created by hand.
    None,
    /// A workload that can be read.
    Workload(Workload),
    /// An owner of another kind.
    Unknown,
}

/// The workload that maintains the number of Pods.
#[derive(Debug, PartialEq, Eq)]
enum Workload {
    Deployment(String),
    DaemonSet(String),
    StatefulSet(String),
}

impl Replicas {
    pub(super) fn new(client: Client, pod: OwnPod) -> Self {
        Self { client, pod, selection: OnceCell::new() }
    }

    /// Returns all replicas; `None` if this Pod was never found, so that its labels are unknown.
    pub(super) async fn list(&self) -> Result<Option<Vec<Pod>>, Refused> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &self.pod.namespace);
        let read = async {
            let own = api::execute(api.get(&self.pod.name)).await?;
            Ok(match selector(own.metadata.labels.as_ref()) {
                Some(labels) => ListParams::default().labels(&labels),
                None => ListParams::default().fields(&format!("metadata.name={}", self.pod.name)),
            })
        };
        match self.selection.get_or_try_init(|| read).await {
            Ok(selection) => Ok(Some(api::execute(api.list(selection)).await?.items)),
            Err(Refused::NotFound) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Returns whether there are replicas other than this one, which is terminating.
    pub(super) async fn others(&self) -> Result<Others, Refused> {
        let Some(pods) = self.list().await? else { return Ok(Others::Unknown) };
        let is_own = |pod: &&Pod| pod.metadata.name.as_deref() == Some(&self.pod.name);
        let own = pods.iter().find(is_own);
        match own {
            _ if pods.len() > usize::from(own.is_some()) => Ok(Others::Some),
            // The Pod was force-deleted, and its successor may not exist yet.
            None => Ok(Others::Unknown),
            Some(own) => match Owner::of(&own.metadata) {
                Owner::Workload(workload) => self.follow(&workload).await,
                Owner::None => Ok(Others::None),
                Owner::Unknown => Ok(Others::Unknown),
            },
        }
    }

    /// Returns whether the workload will create a successor of this Pod, as in an upgrade that
    /// first ends the old one.
    async fn follow(&self, workload: &Workload) -> Result<Others, Refused> {
        let (client, namespace) = (self.client.clone(), &self.pod.namespace);
        let wanted = |replicas: Option<i32>| replicas.unwrap_or(1) > 0;
        let state = match workload {
            Workload::Deployment(name) => {
                let api = Api::<Deployment>::namespaced(client, namespace);
                let found = api::found(api.get(name)).await?;
                found.map(|one| (one.metadata, wanted(one.spec.replicas)))
            }
            Workload::StatefulSet(name) => {
                let api = Api::<StatefulSet>::namespaced(client, namespace);
                let found = api::found(api.get(name)).await?;
                found.map(|one| (one.metadata, wanted(one.spec.replicas)))
            }
            Workload::DaemonSet(name) => {
                let api = Api::<DaemonSet>::namespaced(client, namespace);
                api::found(api.get(name)).await?.map(|one| (one.metadata, true))
            }
        };
        let goes_on = state.is_some_and(|(metadata, wanted)| metadata.deletion_timestamp.is_none() && wanted);
        Ok(if goes_on { Others::Some } else { Others::None })
    }
}

impl Owner {
    /// Returns the owner of a Pod.
    fn of(pod: &ObjectMeta) -> Self {
        let Some(owner) = pod.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
        else {
            return Self::None;
        };
        Workload::of(pod, owner).map_or(Self::Unknown, Self::Workload)
    }
}

impl Workload {
    /// Returns the workload of a Pod with this owner. Other API groups have kinds of the same
    /// names. A Deployment is found by the name of its ReplicaSet, which is derived from the
    /// Deployment's.
    fn of(pod: &ObjectMeta, owner: &OwnerReference) -> Option<Self> {
        if !owner.api_version.starts_with("apps/") {
            return None;
        }
        let name = owner.name.clone();
        match owner.kind.as_str() {
            "ReplicaSet" => {
                let hash = pod.labels.as_ref()?.get("pod-template-hash")?;
                let deployment = name.strip_suffix(hash.as_str())?.strip_suffix('-')?;
                Some(Self::Deployment(deployment.to_owned()))
            }
            "DaemonSet" => Some(Self::DaemonSet(name)),
            "StatefulSet" => Some(Self::StatefulSet(name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn of(api_version: &str, kind: &str, name: &str, labels: Value) -> Owner {
        let owners =
            json!([{"apiVersion": api_version, "kind": kind, "name": name, "uid": "1", "controller": true}]);
        let metadata = json!({"name": "a", "labels": labels, "ownerReferences": owners});
        Owner::of(&serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn the_workload_is_found_without_reading_its_replicaset() {
        let hash = json!({"pod-template-hash": "5d8f9"});
        let deployment = Owner::Workload(Workload::Deployment("edge".into()));
        assert_eq!(of("apps/v1", "ReplicaSet", "edge-5d8f9", hash), deployment);
        let daemon_set = Owner::Workload(Workload::DaemonSet("edge".into()));
        assert_eq!(of("apps/v1", "DaemonSet", "edge", json!({})), daemon_set);
        assert_eq!(Owner::of(&ObjectMeta::default()), Owner::None, "created by hand");
    }

    #[test]
    fn an_owner_that_is_not_recognised_is_not_taken_for_none() {
        let rollout = json!({"rollouts-pod-template-hash": "5d8f9"});
        assert_eq!(of("apps/v1", "ReplicaSet", "edge-5d8f9", rollout), Owner::Unknown);
        assert_eq!(of("argoproj.io/v1alpha1", "Rollout", "edge", json!({})), Owner::Unknown);
        for kind in ["DaemonSet", "StatefulSet"] {
            assert_eq!(of("apps.kruise.io/v1beta1", kind, "edge", json!({})), Owner::Unknown, "{kind}");
        }
    }
}
