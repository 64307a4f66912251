//! The lab itself: Pods, rollouts, draining, logs and load balancer addresses, on which all other
//! cluster tests depend.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use sluice_lab::allocator::load_balancer_address;
use sluice_lab::forwarder::PROXY_PROTOCOL;
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{Cluster, GatewayPods, Program, TestClass, deployment, in_lab, is_ready, restarts};
use sluice_lab::images::lab_program;
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Runs kubectl and returns its output.
fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Result<String> {
    let output = cluster.kubectl().args(arguments).output()?;
    anyhow::ensure!(
        output.status.success(),
        "kubectl {arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the Pod that responds at an address.
async fn who(cluster: &Cluster, address: impl tokio::net::ToSocketAddrs) -> Result<String> {
    let answer = cluster.get(address, "test", "/").await?;
    let answer: Value = serde_json::from_slice(answer.body())?;
    Ok(answer["pod"].as_str().context("the answer names no Pod")?.to_owned())
}

fn pod_name(pod: &Pod) -> String {
    pod.name_any()
}

#[test]
fn a_deployment_of_three_is_served_by_three_pods() {
    in_lab(async |cluster, _| {
        cluster.apply(&deployment("web", 3)).await?;
        cluster.available("web", 3).await?;
        let endpoints = cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == 3).await?;
        assert_eq!(endpoints.len(), 3);
        let pods = cluster.pods("app=web").await?;
        for endpoint in &endpoints {
            assert!(endpoint.serving && !endpoint.terminating);
            let name = who(cluster, (endpoint.address, 8080)).await?;
            assert_eq!(endpoint.pod.as_ref(), Some(&name));
            let pod = pods.iter().find(|pod| pod.name_any() == name).context("an unknown Pod answers")?;
            let ip = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
            assert_eq!(ip, Some(endpoint.address.to_string()));
        }
        let zones: HashSet<_> = endpoints.iter().map(|endpoint| endpoint.zone.clone()).collect();
        assert_eq!(zones, HashSet::from([Some("zone-a".to_owned()), Some("zone-b".to_owned())]));
        Ok(())
    });
}

#[test]
fn a_rollout_restart_replaces_every_pod() {
    in_lab(async |cluster, _| {
        cluster.apply(&deployment("web", 3)).await?;
        cluster.available("web", 3).await?;
        let before: HashSet<String> = cluster.pods("app=web").await?.iter().map(pod_name).collect();
        kubectl(cluster, &["rollout", "restart", "deployment/web"])?;
        cluster.available("web", 3).await?;
        let endpoints = cluster
            .endpoints("web", |all| {
                all.len() == 3
                    && all.iter().all(|e| e.ready && e.pod.as_ref().is_some_and(|p| !before.contains(p)))
            })
            .await?;
        for endpoint in endpoints {
            assert!(!before.contains(&who(cluster, (endpoint.address, 8080)).await?));
        }
        Ok(())
    });
}

#[test]
fn a_draining_pod_serves_and_is_not_ready() {
    in_lab(async |cluster, _| {
        let manifests = deployment("web", 1)
            .replace("        env:\n", "        env:\n        - {name: DRAIN_MS, value: '600000'}\n");
        cluster.apply(&manifests).await?;
        cluster.available("web", 1).await?;
        let pod = cluster.pods("app=web").await?.remove(0).name_any();
        cluster.api::<Pod>().delete(&pod, &DeleteParams::default()).await?;
        let draining = |all: &[sluice_lab::harness::EndpointState]| {
            all.iter()
                .find(|e| e.pod.as_ref() == Some(&pod) && !e.ready && e.serving && e.terminating)
                .cloned()
        };
        let endpoints = cluster.endpoints("web", |all| draining(all).is_some()).await?;
        let endpoint = draining(&endpoints).context("the draining endpoint has gone")?;
        assert_eq!(who(cluster, (endpoint.address, 8080)).await?, pod);
        // It would drain for ten minutes; a second deletion without grace ends that.
        cluster.api::<Pod>().delete(&pod, &DeleteParams::default().grace_period(1)).await?;
        cluster.endpoints("web", |all| all.iter().all(|e| e.pod.as_ref() != Some(&pod))).await?;
        cluster
            .until("the Pod to be gone", async || {
                Ok(cluster.api::<Pod>().get_opt(&pod).await?.is_none().then_some(()))
            })
            .await?;
        Ok(())
    });
}

#[test]
fn logs_come_through_the_api() {
    in_lab(async |cluster, _| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let endpoint = cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?.remove(0);
        let pod = endpoint.pod.clone().context("an endpoint without a Pod")?;
        cluster.get((endpoint.address, 8080), "test", "/log/hello-from-the-test").await?;
        cluster
            .until("the line in the log", async || {
                let log = kubectl(cluster, &["logs", &pod])?;
                Ok(log.lines().any(|line| line == "hello-from-the-test").then_some(()))
            })
            .await?;
        let last = kubectl(cluster, &["logs", &pod, "--tail=1", "--timestamps"])?;
        let (time, line) = last.trim_end().split_once(' ').context("no time in front of the line")?;
        assert_eq!(line, "hello-from-the-test");
        assert!(time.parse::<jiff::Timestamp>().is_ok(), "{time}");

        // After a crash, the log of the earlier run is the previous one.
        assert!(cluster.get((endpoint.address, 8080), "test", "/crash").await.is_err());
        cluster.wait::<Pod>(&pod, "restarted and ready", |pod| restarts(pod) == 1 && is_ready(pod)).await?;
        assert!(kubectl(cluster, &["logs", &pod, "--previous"])?.contains("hello-from-the-test"));
        assert!(!kubectl(cluster, &["logs", &pod])?.contains("hello-from-the-test"));
        Ok(())
    });
}

#[test]
fn a_command_runs_in_the_container_with_its_streams_and_status() {
    in_lab(async |cluster, _| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let pod = cluster.pods("app=web").await?.remove(0).name_any();
        let script = "hostname; cat; echo problem >&2; exit 3";
        let mut exec = cluster.kubectl();
        let exec = exec.args(["exec", "--stdin", &pod, "--", "sh", "-c", script]);
        let mut exec = exec.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        exec.stdin.take().context("a pipe")?.write_all(b"input")?;
        let output = exec.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{pod}\ninput"), "{errors}");
        assert!(errors.starts_with("problem\n"), "{errors}");
        assert_eq!(output.status.code(), Some(3), "{errors}");
        Ok(())
    });
}

#[test]
fn a_forwarded_port_leads_into_its_pod_until_that_is_deleted() {
    in_lab(async |cluster, lab| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let pod = cluster.pods("app=web").await?.remove(0).name_any();
        // The port is reached at the loopback of the Pod.
        lab.plug_pod(&cluster.client, &cluster.namespace, &pod, false).await?;
        let mut forward = cluster.kubectl();
        let forward = forward.args(["port-forward", &format!("pod/{pod}"), ":8080"]);
        let mut forward = forward.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        let mut output = BufReader::new(forward.stdout.take().context("a pipe")?);
        output.read_line(&mut line)?;
        let address = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split(' ').next());
        let address = address.with_context(|| format!("no address in {line:?}"))?;
        for _ in 0..2 {
            assert_eq!(who(cluster, address).await?, pod);
        }
        cluster.api::<Pod>().delete(&pod, &DeleteParams::default().grace_period(0)).await?;
        cluster
            .until("the end of the forwarded port", async || {
                // kubectl ends only when it uses the connection.
                Ok(who(cluster, address).await.is_err().then_some(()))
            })
            .await?;
        forward.kill()?;
        forward.wait()?;
        Ok(())
    });
}

#[test]
fn a_followed_log_ends_with_its_container() {
    in_lab(async |cluster, _| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let endpoint = cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?.remove(0);
        let pod = endpoint.pod.clone().context("an endpoint without a Pod")?;
        let mut kubectl = cluster.kubectl();
        let mut follower = kubectl.args(["logs", "--follow", &pod]).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::new(follower.stdout.take().context("stdout is piped")?).lines();
        // The first line proves that it follows the container's first run.
        let (first, lines) = tokio::task::spawn_blocking(move || (lines.next(), lines)).await?;
        assert_eq!(first.context("no first line")??, "listening on port 8080");
        cluster.get((endpoint.address, 8080), "test", "/log/while-following").await?;
        assert!(cluster.get((endpoint.address, 8080), "test", "/crash").await.is_err());
        let rest: Vec<String> =
            tokio::task::spawn_blocking(move || lines.collect::<Result<_, _>>()).await??;
        assert!(rest.contains(&"while-following".to_owned()), "{rest:?}");
        assert!(follower.wait()?.success());
        Ok(())
    });
}

#[test]
fn a_pod_killed_without_grace_is_started_again() {
    in_lab(async |cluster, lab| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let pod = cluster.pods("app=web").await?.remove(0);
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone()).context("no address")?;
        lab.kill_pod(&cluster.client, &cluster.namespace, &pod.name_any()).await?;
        let again = cluster
            .wait::<Pod>(&pod.name_any(), "restarted and ready", |pod| restarts(pod) == 1 && is_ready(pod))
            .await?;
        let status = again.status.context("no status")?;
        assert_eq!(status.pod_ip.as_ref(), Some(&address), "a restarted container keeps its Pod's address");
        let last = &status.container_statuses.context("no container")?[0].last_state;
        let ended = last.as_ref().and_then(|state| state.terminated.as_ref()).context("no earlier run")?;
        assert_eq!((ended.exit_code, ended.signal), (137, Some(9)));
        let container = cluster.api::<Pod>();
        container.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        cluster
            .until("no answer from the deleted Pod's address", async || {
                let attempt = tokio::net::TcpStream::connect((address.as_str(), 8080));
                let outcome = timeout(Duration::from_millis(500), attempt).await;
                Ok((!matches!(outcome, Ok(Ok(_)))).then_some(()))
            })
            .await?;
        Ok(())
    });
}

#[test]
fn readiness_follows_the_probe() {
    in_lab(async |cluster, _| {
        let manifests =
            deployment("web", 1).replace("periodSeconds: 1}", "periodSeconds: 1, failureThreshold: 1}");
        cluster.apply(&manifests).await?;
        cluster.available("web", 1).await?;
        let endpoint = cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?.remove(0);
        cluster.get((endpoint.address, 8080), "test", "/unready").await?;
        cluster.endpoints("web", |all| all.iter().all(|e| !e.ready && !e.serving && !e.terminating)).await?;
        cluster.get((endpoint.address, 8080), "test", "/ready").await?;
        cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?;
        Ok(())
    });
}

/// The startup probe must pass before the Pod becomes ready, and the liveness probe must keep
/// passing.
#[test]
fn probes_by_grpc_decide_when_a_pod_is_started_ready_and_alive() {
    in_lab(async |cluster, _| {
        let ports = "env:\n        - {name: GRPC_PORT, value: \"9090\"}\n";
        let probes = "startupProbe: {grpc: {port: 9090}, periodSeconds: 1}\n        \
             livenessProbe: {grpc: {port: 9090, service: shop.Cart}, periodSeconds: 1, failureThreshold: 3}\n        \
             readinessProbe: {grpc: {port: 9090}, periodSeconds: 1, failureThreshold: 1}";
        let probe = "readinessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 1}";
        let plain = deployment("web", 1);
        let manifests = plain.replace(probe, probes).replace("env:\n", ports);
        assert!(manifests.contains("GRPC_PORT") && !manifests.contains("httpGet"), "{manifests}");
        cluster.apply(&manifests).await?;
        cluster.available("web", 1).await?;
        let endpoint = cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?.remove(0);
        cluster.get((endpoint.address, 8080), "test", "/unready").await?;
        cluster.endpoints("web", |all| all.iter().all(|e| !e.ready)).await?;
        // Unhealthy until it is restarted.
        let pod = endpoint.pod.context("an endpoint without a Pod")?;
        cluster.wait::<Pod>(&pod, "restarted", |pod| restarts(pod) >= 1).await?;
        cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?;
        Ok(())
    });
}

#[test]
fn a_failing_liveness_probe_restarts_the_container() {
    in_lab(async |cluster, _| {
        cluster
            .apply(
                r#"
apiVersion: v1
kind: Pod
metadata: {name: sick}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: shell
    command: [sh, -c, "touch /tmp/started; exec sleep 1d"]
    startupProbe: {exec: {command: [test, -e, /tmp/started]}, periodSeconds: 1}
    livenessProbe: {exec: {command: [test, -e, /tmp/healthy]}, periodSeconds: 1, failureThreshold: 2}
"#,
            )
            .await?;
        let pod = cluster.wait::<Pod>("sick", "restarted", |pod| restarts(pod) >= 1).await?;
        let state = pod.status.and_then(|s| s.container_statuses).context("no status")?.remove(0);
        let ended = state.last_state.or(state.state).and_then(|s| s.terminated).context("no earlier run")?;
        assert_eq!(
            ended.exit_code, 137,
            "`sleep` as first process heeds no SIGTERM, so it was killed after its grace"
        );
        Ok(())
    });
}

#[test]
fn environment_and_volumes_follow_the_pod() {
    in_lab(async |cluster, _| {
        cluster
            .apply(
                r#"
apiVersion: v1
kind: Pod
metadata: {name: reader, labels: {colour: blue}}
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 1000, fsGroup: 2000}
  containers:
  - name: main
    image: shell
    command: [sh, -c]
    args:
    - |
      echo "who=$(id -u):$(id -g) host=$(hostname) mine=$MINE key=$KEY colour=$COLOUR arg=$(MINE)"
      cat /etc/all/greeting /etc/all/deep/er
      cat /var/run/secrets/kubernetes.io/serviceaccount/namespace; echo
      wc -c < /var/run/secrets/kubernetes.io/serviceaccount/token
      touch /work/mine /usr/local/work/mine && ! touch /forbidden 2> /dev/null && ! touch /usr/forbidden 2> /dev/null && echo written
      while ! grep -q changed /etc/all/greeting; do sleep 0.1; done
      cat /etc/all/greeting
    env:
    - {name: MINE, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: KEY, valueFrom: {secretKeyRef: {name: late, key: key}}}
    - {name: COLOUR, valueFrom: {fieldRef: {fieldPath: "metadata.labels['colour']"}}}
    volumeMounts:
    - {name: all, mountPath: /etc/all, readOnly: true}
    - {name: work, mountPath: /work}
    - {name: work, mountPath: /usr/local/work}
    securityContext: {readOnlyRootFilesystem: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
  restartPolicy: Never
  volumes:
  - {name: work, emptyDir: {}}
  - name: all
    projected:
      sources:
      - configMap: {name: words}
      - secret: {name: late, items: [{key: key, path: deep/er}]}
"#,
            )
            .await?;
        // The Secret is created after the Pod, as is common.
        cluster
            .wait::<Pod>("reader", "waiting for its Secret", |pod| {
                let message = pod.status.as_ref().and_then(|status| status.message.as_deref());
                message.is_some_and(|message| {
                    message.contains("\"late\" is missing") || message.contains("\"words\" is missing")
                })
            })
            .await?;
        cluster
            .apply(
                "{apiVersion: v1, kind: ConfigMap, metadata: {name: words}, data: {greeting: \"hello\\n\"}}\n---\n\
                 {apiVersion: v1, kind: Secret, metadata: {name: late}, stringData: {key: \"secret\\n\"}}",
            )
            .await?;
        let pod = cluster.wait::<Pod>("reader", "running", is_ready).await?;
        let address = pod.status.and_then(|status| status.pod_ip).context("no address")?;
        cluster
            .until("the first words", async || {
                Ok(kubectl(cluster, &["logs", "reader"])?.contains("written").then_some(()))
            })
            .await?;
        cluster.apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: words}, data: {greeting: \"changed\\n\"}}").await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        cluster.wait::<Pod>("reader", "through", |pod| phase(pod).as_deref() == Some("Succeeded")).await?;
        let log = kubectl(cluster, &["logs", "reader"])?;
        let expected = format!(
            "who=1000:1000 host=reader mine={address} key=secret\n colour=blue arg={address}\nhello\nsecret\n{}\n",
            cluster.namespace
        );
        assert!(log.starts_with(&expected), "{log}");
        assert!(log.ends_with("written\nchanged\n"), "{log}");
        Ok(())
    });
}

#[test]
fn a_job_runs_its_init_containers_first_and_once() {
    in_lab(async |cluster, _| {
        cluster
            .apply(
                r#"
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  template:
    spec:
      restartPolicy: Never
      initContainers:
      - {name: first, image: shell, command: [sh, -c, "echo one >> /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
      - {name: beside, image: shell, restartPolicy: Always, command: [sleep, 1d]}
      containers:
      - {name: main, image: shell, command: [sh, -c, "echo two >> /work/order; cat /work/order"], volumeMounts: [{name: work, mountPath: /work}]}
      terminationGracePeriodSeconds: 1
      volumes: [{name: work, emptyDir: {}}]
"#,
            )
            .await?;
        let succeeded = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded) == Some(1);
        cluster.wait("once", "complete", succeeded).await?;
        assert_eq!(kubectl(cluster, &["logs", "job/once", "-c", "main"])?, "one\ntwo\n");
        Ok(())
    });
}

#[test]
fn a_hook_runs_before_the_program_is_asked_to_end() {
    in_lab(async |cluster, _| {
        cluster
            .apply(
                r#"
apiVersion: v1
kind: Pod
metadata: {name: polite}
spec:
  containers:
  - name: main
    image: shell
    command: [sh, -c, "trap 'cat /tmp/hook > /shared/seen; exit 0' TERM; while :; do sleep 0.05; done"]
    lifecycle: {preStop: {exec: {command: [sh, -c, "echo hook > /tmp/hook"]}}}
    volumeMounts: [{name: shared, mountPath: /shared}]
  - name: witness
    image: shell
    command: [sh, -c, "trap 'while ! test -s /shared/seen; do sleep 0.05; done; exit 0' TERM; while :; do sleep 0.05; done"]
    volumeMounts: [{name: shared, mountPath: /shared}]
  volumes: [{name: shared, emptyDir: {}}]
"#,
            )
            .await?;
        cluster.wait::<Pod>("polite", "ready", is_ready).await?;
        let begun = std::time::Instant::now();
        // The witness ends when the program has passed on the hook's output; otherwise both are
        // killed after an hour.
        cluster.api::<Pod>().delete("polite", &DeleteParams::default().grace_period(3600)).await?;
        cluster
            .until("the Pod to be gone", async || {
                Ok(cluster.api::<Pod>().get_opt("polite").await?.is_none().then_some(()))
            })
            .await?;
        assert!(begun.elapsed() < Duration::from_secs(3600));
        Ok(())
    });
}

#[test]
fn an_unknown_image_is_reported_in_the_status() {
    in_lab(async |cluster, _| {
        cluster
            .apply("{apiVersion: v1, kind: Pod, metadata: {name: odd}, spec: {containers: [{name: c, image: 'nginx:1.29'}]}}")
            .await?;
        cluster
            .wait::<Pod>("odd", "refused", |pod| {
                let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
                let waiting = statuses.and_then(|all| all.first()?.state.as_ref()?.waiting.as_ref());
                waiting.is_some_and(|waiting| {
                    waiting.reason.as_deref() == Some("ErrImagePull")
                        && waiting.message.as_deref().is_some_and(|message| message.contains("echo-basic"))
                })
            })
            .await?;
        Ok(())
    });
}

#[test]
fn a_load_balancer_address_reaches_the_pods() {
    in_lab(async |cluster, _| {
        let front = GatewayPods::start_image(cluster, "front", ("echo", 80), 2, &[]).await?;
        let pods: HashSet<String> = cluster.pods("app=front").await?.iter().map(pod_name).collect();
        assert_eq!(pods.len(), 2);
        cluster
            .until("both Pods to answer at the address", async || {
                let mut seen = HashSet::new();
                for _ in 0..4 {
                    seen.insert(who(cluster, (front.address, 80)).await?);
                }
                Ok((seen == pods).then_some(()))
            })
            .await?;

        let service = cluster.api::<Service>().get("front").await?;
        let own = service.spec.and_then(|spec| spec.cluster_ip).context("no clusterIP")?;
        let answer = async || Ok(Some(who(cluster, (own.as_str(), 80)).await?));
        assert!(pods.contains(&cluster.until("an answer at the Service's own address", answer).await?));
        Ok(())
    });
}

#[test]
fn a_load_balancer_sends_the_client_address_if_configured() {
    in_lab(async |cluster, _| {
        let class = TestClass::web(cluster, 1).await?;
        cluster
            .apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {use-proxy-protocol: 'true'}}")
            .await?;
        let settings = format!("--configmap={}/settings", cluster.namespace);
        let [controller, name] = class.flags();
        let gateway = GatewayPods::start(cluster, "gateway", 1, &[&controller, &name, &settings]).await?;
        let annotations = json!({"metadata": {"annotations": {PROXY_PROTOCOL: "true"}}});
        cluster.merge::<Service>("gateway", annotations).await?;
        let answer = cluster.served((gateway.address, 80).into(), "web.example", 200).await?;
        // The test's address is the lab's own; a load balancer's connection would come from the
        // bridge.
        let echo: Value = serde_json::from_slice(answer.body())?;
        let headers = echo["headers"].to_string();
        assert!(headers.contains(&gateway.address.to_string()), "{headers}");
        Ok(())
    });
}

#[test]
fn a_load_balancer_preserves_the_client_address_if_configured() {
    in_lab(async |cluster, _| {
        let class = TestClass::web(cluster, 1).await?;
        let [controller, name] = class.flags();
        let gateway = GatewayPods::start(cluster, "gateway", 2, &[&controller, &name]).await?;
        let address = (gateway.address, 80).into();
        cluster.served(address, "web.example", 200).await?;
        cluster.merge::<Service>("gateway", json!({"spec": {"externalTrafficPolicy": "Local"}})).await?;
        let seen = async || -> Result<Value> {
            let answer = cluster.served(address, "web.example", 200).await?;
            Ok(serde_json::from_slice::<Value>(answer.body())?["headers"].clone())
        };
        // The test connects from the lab itself, which has the load balancer's address.
        let own = gateway.address.to_string();
        cluster
            .until("the gateway to see the test", async || {
                Ok(seen().await?.to_string().contains(&own).then_some(()))
            })
            .await?;
        // A Pod connects over the bridge, where the gateway's Pods could respond directly.
        cluster
            .apply(&format!(
                r#"
apiVersion: v1
kind: Pod
metadata: {{name: client}}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: shell
    command: [sh, -c, "for i in 1 2 3 4 5 6; do curl -sf -m 20 -H 'Host: web.example' http://{own}/ || exit 1; done"]
"#
            ))
            .await?;
        let ended = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        let client = cluster.wait::<Pod>("client", "at its end", ended).await?;
        let client = client.status.and_then(|status| status.pod_ip).context("no address")?;
        let log = kubectl(cluster, &["logs", "client"])?;
        let answers = serde_json::Deserializer::from_str(&log).into_iter::<Value>();
        let answers = answers.collect::<Result<Vec<_>, _>>().context(log.clone())?;
        assert_eq!(answers.len(), 6, "{log}");
        for answer in &answers {
            assert!(answer["headers"].to_string().contains(&client), "{client} is not in {answer}");
        }
        Ok(())
    });
}

/// Returns the Pod that responded, and the client address that it received.
async fn ask_by_datagram(address: impl tokio::net::ToSocketAddrs) -> Result<(String, String)> {
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await?;
    socket.connect(address).await?;
    let mut answer = [0; 256];
    // Datagrams may be lost.
    for _ in 0..30 {
        socket.send(b"hello").await?;
        if let Ok(length) = timeout(Duration::from_secs(1), socket.recv(&mut answer)).await {
            let text = String::from_utf8_lossy(&answer[..length?]).into_owned();
            let words: Vec<&str> = text.split(' ').collect();
            let [pod, from, "hello"] = words[..] else { anyhow::bail!("{text:?}") };
            return Ok((pod.to_owned(), from.to_owned()));
        }
    }
    anyhow::bail!("no answer")
}

#[test]
fn datagrams_reach_pods_at_both_addresses_of_a_service() {
    in_lab(async |cluster, _| {
        let ports = "env:\n        - {name: UDP_PORT, value: \"5353\"}\n";
        cluster.apply(&deployment("names", 2).replace("env:\n", ports)).await?;
        cluster.available("names", 2).await?;
        let udp = json!({"spec": {"type": "LoadBalancer",
            "ports": [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "targetPort": 5353, "protocol": "UDP"}]}});
        cluster.merge::<Service>("names", udp).await?;
        let given = |service: &Service| load_balancer_address(service).is_some();
        let service = cluster.wait::<Service>("names", "given an address", given).await?;
        let own = service.spec.as_ref().and_then(|spec| spec.cluster_ip.clone()).context("no clusterIP")?;
        let balancer = load_balancer_address(&service).context("no address")?.to_string();
        let pods: HashSet<String> = cluster.pods("app=names").await?.iter().map(pod_name).collect();
        for address in [&own, &balancer] {
            cluster
                .until(&format!("both Pods to answer at {address}"), async || {
                    let mut seen = HashSet::new();
                    for _ in 0..8 {
                        seen.insert(ask_by_datagram((address.as_str(), 53)).await?.0);
                    }
                    Ok((seen == pods).then_some(()))
                })
                .await?;
        }
        Ok(())
    });
}

#[test]
fn a_pod_resolves_names_and_runs_as_non_root_if_required() {
    in_lab(async |cluster, _| {
        let class = TestClass::web(cluster, 1).await?;
        // A host of this test only: names are cluster-wide, and many tests use `web.example`.
        let host = format!("{}.example", cluster.namespace);
        cluster.apply(&class.ingress("named", &host, "web")).await?;
        let status = r#"{"status": {"loadBalancer": {"ingress": [{"ip": "10.97.0.250"}]}}}"#;
        kubectl(
            cluster,
            &["patch", "ingress", "named", "--subresource=status", "--type=merge", "--patch", status],
        )?;
        let asked = format!(
            "id -u; getent hosts {host}; getent hosts nobody.{host} || echo unknown; \
             curl --silent --fail http://web/ && curl --silent --fail http://web.$NAMESPACE.svc.cluster.local/"
        );
        cluster
            .apply(&format!(
                r#"
apiVersion: v1
kind: Pod
metadata: {{name: asks}}
spec:
  restartPolicy: Never
  securityContext: {{runAsNonRoot: true}}
  containers:
  - name: asks
    image: shell
    command: [sh, -c, "{asked}"]
    env: [{{name: NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}]
"#
            ))
            .await?;
        let ended = |pod: &Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            matches!(phase, Some("Succeeded" | "Failed"))
        };
        cluster.wait::<Pod>("asks", "at its end", ended).await?;
        let log = kubectl(cluster, &["logs", "asks"])?;
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines[0], "65532", "{log}");
        assert!(lines[1].starts_with("10.97.0.250"), "{log}");
        assert_eq!(lines[2], "unknown", "{log}");
        assert_eq!(log.matches("\"pod\"").count(), 2, "{log}");
        Ok(())
    });
}

#[test]
fn an_unplugged_pod_does_not_respond() {
    in_lab(async |cluster, lab| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let endpoint = cluster.endpoints("web", |all| all.iter().any(|e| e.ready)).await?.remove(0);
        let pod = endpoint.pod.clone().context("an endpoint without a Pod")?;
        let (lab, client, namespace) = (lab, &cluster.client, &cluster.namespace);
        lab.plug_pod(client, namespace, &pod, false).await?;
        let attempt = cluster.get((endpoint.address, 8080), "test", "/");
        assert!(timeout(Duration::from_millis(500), attempt).await.is_err(), "it answered");
        lab.plug_pod(client, namespace, &pod, true).await?;
        cluster.until("an answer", async || Ok(Some(who(cluster, (endpoint.address, 8080)).await?))).await?;
        Ok(())
    });
}

#[test]
fn a_pod_reaches_the_api_with_its_token_and_nothing_outside() {
    in_lab(async |cluster, _| {
        cluster
            .apply(
                r#"
apiVersion: v1
kind: Pod
metadata: {name: inside}
spec:
  restartPolicy: Never
  containers:
  - name: main
    image: shell
    command: [sh, -c]
    args:
    - |
      cd /var/run/secrets/kubernetes.io/serviceaccount
      curl -sS --cacert ca.crt -H "Authorization: Bearer $(cat token)" \
        "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/apis/authentication.k8s.io/v1/selfsubjectreviews" \
        -H 'Content-Type: application/json' -d '{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}'
      cat /proc/net/route
"#,
            )
            .await?;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        cluster.wait::<Pod>("inside", "through", |pod| phase(pod).as_deref() == Some("Succeeded")).await?;
        let log = kubectl(cluster, &["logs", "inside"])?;
        let account = format!("system:serviceaccount:{}:default", cluster.namespace);
        assert!(log.contains(&account), "{log}");
        let routes: Vec<&str> =
            log.lines().filter_map(|line| line.strip_prefix("eth0\t")?.split('\t').next()).collect();
        assert!(!routes.is_empty() && !routes.contains(&"00000000"), "a default route: {routes:?}");
        Ok(())
    });
}

#[test]
fn a_test_runs_programs_inside_the_lab() {
    in_lab(async |cluster, _| {
        let port = sluice_testing::ports::reserve();
        let program = Program::start(cluster, &lab_program()?, ["echo", "--port", &port.to_string()])?;
        let answer = cluster
            .until("the program to answer", async || {
                Ok(Some(cluster.get(("127.0.0.1", port), "here", "/x").await?))
            })
            .await?;
        let answer: Value = serde_json::from_slice(answer.body())?;
        assert_eq!(answer["path"], json!("/x"));
        let status = program.end(Duration::from_secs(30)).await?;
        assert!(status.success());
        Ok(())
    });
}

/// Fault tests rely on this load: it detects and describes every failure, and does not accept
/// responses of another Deployment.
#[test]
fn a_load_counts_what_fails() {
    in_lab(async |cluster, lab| {
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let pod = cluster.endpoints("web", |all| all.len() == 1 && all[0].ready).await?.remove(0);
        let name = pod.pod.context("an endpoint without a Pod")?;
        let address = (pod.address, 8080).into();

        let load = Load::new(cluster, address, [LoadTarget::new("web.example", "web")]).start().await?;
        load.more(100).await?;
        let good = load.so_far();
        good.none_failed()?;
        assert_eq!(good.by(&name), good.served);
        lab.kill_pod(&cluster.client, &cluster.namespace, &name).await?;
        load.until("the Pod to be back", |tally| tally.failed > 0 && tally.by(&name) > good.served + 50)
            .await?;
        let tally = load.stop("a Pod killed without another attempt").await?;
        let message = tally.none_failed().unwrap_err().to_string();
        assert!(message.contains("connection"), "{message}");

        let wrong = Load::new(cluster, address, [LoadTarget::new("web.example", "other")]).start().await;
        let message = wrong.err().context("another Deployment's answers were taken")?.to_string();
        assert!(message.contains("a wrong backend has answered"), "{message}");
        let bad = LoadTarget::new("web.example", "web").path("/?status=503");
        let message = Load::new(cluster, address, [bad]).start().await.err().context("503 is no failure")?;
        assert!(message.to_string().contains("status 503"), "{message}");
        Ok(())
    });
}
