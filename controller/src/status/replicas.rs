//! The replicas of this gateway: the Pods that its own selector gives, and whether others follow
//! when it ends.
//!
//! The selector is made of the labels of our own Pod, which needs no right to read the object that
//! made it. Only labels that an upgrade does not change are part of it. It is remembered, because a
//! Pod that is deleted by force is gone while its containers still end.

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::OnceCell;

use super::selector::selector;
use crate::cluster::OwnPod;
use crate::cluster::api::{self, Refused};

/// Knows how to find them.
pub(super) struct Replicas {
    client: Client,
    pod: OwnPod,
    /// What gives them, once it is known.
    selection: OnceCell<ListParams>,
}

/// What a replica that ends sees of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Others {
    /// There are others, or others will follow.
    Some,
    /// There are none.
    None,
    /// That cannot be seen.
    Unknown,
}

/// The object that keeps up the number of our Pods.
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

    /// All of them; `None` where our own Pod was never there to say how they are selected.
    pub(super) async fn list(&self) -> Result<Option<Vec<Pod>>, Refused> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &self.pod.namespace);
        let read = async {
            let own = api::ask(api.get(&self.pod.name)).await?;
            Ok(match selector(own.metadata.labels.as_ref()) {
                Some(labels) => ListParams::default().labels(&labels),
                None => ListParams::default().fields(&format!("metadata.name={}", self.pod.name)),
            })
        };
        match self.selection.get_or_try_init(|| read).await {
            Ok(selection) => Ok(Some(api::ask(api.list(selection)).await?.items)),
            Err(Refused::NotFound) => Ok(None),
            Err(refused) => Err(refused),
        }
    }

    /// Whether there are others beside this one, which ends.
    pub(super) async fn others(&self) -> Result<Others, Refused> {
        let Some(pods) = self.list().await? else { return Ok(Others::Unknown) };
        let is_own = |pod: &&Pod| pod.metadata.name.as_deref() == Some(&self.pod.name);
        let own = pods.iter().find(is_own);
        match own {
            _ if pods.len() > usize::from(own.is_some()) => Ok(Others::Some),
            // Deleted by force: the next one may be about to be made.
            None => Ok(Others::Unknown),
            Some(own) => match Workload::of(&own.metadata) {
                Some(workload) => self.follow(&workload).await,
                None => Ok(Others::None),
            },
        }
    }

    /// Whether a workload makes another Pod in place of this one, as in an upgrade that ends the
    /// old one first.
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

impl Workload {
    /// The workload of a Pod. A Deployment's comes through a ReplicaSet, whose name is made of the
    /// Deployment's.
    fn of(pod: &ObjectMeta) -> Option<Self> {
        let owner = pod.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))?;
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

    fn of(kind: &str, name: &str, labels: Value) -> Option<Workload> {
        let owners =
            json!([{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": "1", "controller": true}]);
        let metadata = json!({"name": "a", "labels": labels, "ownerReferences": owners});
        Workload::of(&serde_json::from_value(metadata).unwrap())
    }

    #[test]
    fn the_workload_is_found_without_reading_its_replicaset() {
        let hash = json!({"pod-template-hash": "5d8f9"});
        assert_eq!(of("ReplicaSet", "edge-5d8f9", hash), Some(Workload::Deployment("edge".into())));
        assert_eq!(of("ReplicaSet", "edge", json!({})), None, "made by hand");
        assert_eq!(of("DaemonSet", "edge", json!({})), Some(Workload::DaemonSet("edge".into())));
        assert_eq!(of("Rollout", "edge", json!({})), None);
    }
}
