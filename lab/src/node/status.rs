//! Conversion of a Pod's state into its status in the API.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus, Pod,
    PodCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::pod_state::{ContainerPhase, ContainerState, Ended, PodState};

/// The last transition time of each condition.
#[derive(Debug, Default)]
pub struct Transitions(HashMap<String, (bool, Timestamp)>);

impl Transitions {
    /// Returns the times that the node's predecessor has posted.
    pub fn of(pod: &Pod) -> Self {
        let conditions =
            pod.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        let since = |c: &PodCondition| Some((c.status == "True", c.last_transition_time.as_ref()?.0));
        Self(conditions.iter().filter_map(|c| Some((c.type_.clone(), since(c)?))).collect())
    }

    fn since(&mut self, condition: &str, status: bool) -> Timestamp {
        let now = Timestamp::now();
        let entry = self.0.entry(condition.to_owned()).or_insert((status, now));
        if entry.0 != status {
            *entry = (status, now);
        }
        entry.1
    }
}

/// Returns the status as a strategic merge patch.
pub fn pod_status(pod: &Pod, state: &PodState, node: Ipv4Addr, transitions: &mut Transitions) -> Value {
    let ready = !state.containers.is_empty() && state.containers.iter().all(|c| c.ready);
    let phase = phase(pod, state);
    let over = matches!(phase, "Succeeded" | "Failed");
    let conditions: Vec<Value> = [
        ("PodReadyToStartContainers", !state.addresses.is_empty() && !over),
        ("Initialized", state.initialized),
        ("ContainersReady", ready),
        ("Ready", ready),
    ]
    .into_iter()
    .map(|(condition, status)| {
        let since = transitions.since(condition, status);
        let unready = (!status && condition.ends_with("Ready")).then_some(if over {
            "PodCompleted"
        } else {
            "ContainersNotReady"
        });
        json!({
            "type": condition,
            "status": if status { "True" } else { "False" },
            "reason": unready,
            "lastTransitionTime": Time(since),
        })
    })
    .collect();
    // Addresses are merged by address: without the directive, a Pod with a new address would have
    // two of a family.
    let mut addresses = vec![json!({"$patch": "replace"})];
    addresses.extend(state.addresses.iter().map(|ip| json!({"ip": ip})));
    json!({
        "phase": phase,
        "startTime": Time(state.accepted),
        "hostIP": node.to_string(),
        "hostIPs": [{"$patch": "replace"}, {"ip": node.to_string()}],
        "podIP": state.addresses.first().map(ToString::to_string).unwrap_or_default(),
        "podIPs": addresses,
        "message": state.obstacle,
        "conditions": conditions,
        "initContainerStatuses": statuses(&state.init, pod),
        "containerStatuses": statuses(&state.containers, pod),
    })
}

fn phase(pod: &Pod, state: &PodState) -> &'static str {
    let policy = pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).unwrap_or("Always");
    let failed = |c: &ContainerState| matches!(&c.phase, ContainerPhase::Ended(ended) if ended.code != 0);
    if !state.initialized {
        return if policy == "Never" && state.init.iter().any(failed) { "Failed" } else { "Pending" };
    }
    let all_ended = state.containers.iter().all(|c| matches!(c.phase, ContainerPhase::Ended(_)));
    let any_failed = state.containers.iter().any(failed);
    let begun = |c: &ContainerState| {
        !matches!(c.phase, ContainerPhase::Waiting("ContainerCreating", _)) || c.restarts > 0
    };
    match (all_ended, policy) {
        (true, "Never") if any_failed => "Failed",
        (true, "Never" | "OnFailure") if !any_failed => "Succeeded",
        _ if state.containers.iter().any(begun) => "Running",
        _ => "Pending",
    }
}

fn statuses(containers: &[ContainerState], pod: &Pod) -> Vec<ContainerStatus> {
    containers.iter().map(|container| status(container, pod)).collect()
}

fn status(container: &ContainerState, pod: &Pod) -> ContainerStatus {
    let uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let mut state = k8s_openapi::api::core::v1::ContainerState::default();
    match &container.phase {
        ContainerPhase::Waiting(reason, message) => {
            state.waiting =
                Some(ContainerStateWaiting { reason: Some((*reason).to_owned()), message: message.clone() });
        }
        ContainerPhase::Running(since) => {
            state.running = Some(ContainerStateRunning { started_at: Some(Time(*since)) })
        }
        ContainerPhase::Ended(ended) => state.terminated = Some(terminated(ended)),
    }
    ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        image_id: format!("sluice-lab://{}", container.image),
        container_id: container
            .phase
            .has_begun()
            .then(|| format!("sluice-lab://{uid}/{}/{}", container.name, container.restarts)),
        last_state: container.last.as_ref().map(|last| k8s_openapi::api::core::v1::ContainerState {
            terminated: Some(terminated(last)),
            ..Default::default()
        }),
        ready: container.ready,
        restart_count: container.restarts,
        started: Some(container.started),
        state: Some(state),
        ..Default::default()
    }
}

fn terminated(ended: &Ended) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: ended.code,
        signal: ended.signal,
        reason: Some(if ended.code == 0 { "Completed" } else { "Error" }.to_owned()),
        started_at: Some(Time(ended.began)),
        finished_at: Some(Time(ended.ended)),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::board::Board;

    fn pod(policy: &str) -> Pod {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "uid": "u"},
            "spec": {"restartPolicy": policy, "containers": [{"name": "a", "image": "echo"}, {"name": "b", "image": "echo"}]},
        });
        serde_json::from_value(pod).unwrap()
    }

    fn ended(code: i32) -> ContainerPhase {
        ContainerPhase::Ended(Ended {
            code,
            signal: None,
            began: Timestamp::UNIX_EPOCH,
            ended: Timestamp::UNIX_EPOCH,
        })
    }

    fn phase_of(policy: &str, phases: [ContainerPhase; 2]) -> &'static str {
        let pod = pod(policy);
        let mut result = "";
        Board::new(&pod).update(|state| {
            state.initialized = true;
            for (container, phase) in state.containers.iter_mut().zip(phases) {
                container.phase = phase;
            }
            result = phase(&pod, state);
        });
        result
    }

    #[test]
    fn the_phase_follows_containers_and_policy() {
        let running = ContainerPhase::Running(Timestamp::UNIX_EPOCH);
        let creating = ContainerPhase::Waiting("ContainerCreating", None);
        assert_eq!(phase_of("Always", [creating.clone(), creating]), "Pending");
        assert_eq!(phase_of("Always", [running.clone(), ended(1)]), "Running");
        assert_eq!(phase_of("Always", [ended(0), ended(0)]), "Running");
        assert_eq!(phase_of("Never", [ended(0), running]), "Running");
        assert_eq!(phase_of("Never", [ended(0), ended(0)]), "Succeeded");
        assert_eq!(phase_of("Never", [ended(0), ended(1)]), "Failed");
        assert_eq!(phase_of("OnFailure", [ended(0), ended(1)]), "Running");
    }

    #[test]
    fn a_condition_keeps_its_time_until_it_changes() {
        let mut transitions = Transitions::default();
        let first = transitions.since("Ready", true);
        assert_eq!(transitions.since("Ready", true), first);
        assert!(transitions.since("Ready", false) >= first);
        assert!(!transitions.0["Ready"].0);
    }

    #[test]
    fn a_pod_is_ready_when_all_its_containers_are() {
        let pod = pod("Always");
        let node = Ipv4Addr::new(10, 244, 0, 11);
        let board = Board::new(&pod);
        let ready = |board: &Board| {
            let mut status = Value::Null;
            board.update(|state| status = pod_status(&pod, state, node, &mut Transitions::default()));
            status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap()["status"]
                .clone()
        };
        assert_eq!(ready(&board), "False");
        board.update(|state| state.containers[0].ready = true);
        assert_eq!(ready(&board), "False");
        board.update(|state| state.containers[1].ready = true);
        assert_eq!(ready(&board), "True");
    }
}
