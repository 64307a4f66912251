//! Fault injection works as documented, and `down` removes every trace of a lab.

use std::fs;
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use sluice_lab::addresses::NodeIndex;
use sluice_lab::client::connect;
use sluice_lab::control_plane::ApiOptions;
use sluice_lab::harness::{Cluster, deployment, is_ready, own, restarts, shared};
use sluice_lab::images::lab_program;
use sluice_lab::lab::{Lab, Options};
use sluice_lab::layout::{LabSettings, Layout};
use sluice_lab::name::LabName;
use sluice_lab::network;
use sluice_lab::process::Process;
use sluice_lab::wire::Behaviour;
use tokio::time::timeout;

fn settings() -> LabSettings {
    Options::default().settings
}

async fn note(cluster: &Cluster, client: &Client, name: &str) -> Result<String> {
    let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}}))?;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &cluster.namespace);
    api.create(&PostParams::default(), &map).await?.resource_version().context("no version")
}

/// Returns the error code with which a watch from `version` begins; `None` without an error.
async fn watch_error(
    cluster: &Cluster,
    client: &Client,
    how: &WatchParams,
    version: &str,
) -> Result<Option<u16>> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), &cluster.namespace);
    let mut events = match api.watch(how, version).await {
        Ok(events) => pin!(events),
        Err(kube::Error::Api(status)) => return Ok(Some(status.code)),
        Err(error) => return Err(error.into()),
    };
    note(cluster, client, &format!("after-{version}-{:x}", fastrand::u32(..))).await?;
    match timeout(Duration::from_secs(60), events.next()).await?.context("the watch has ended")? {
        Ok(WatchEvent::Error(status)) => Ok(Some(status.code)),
        Ok(_) => Ok(None),
        Err(kube::Error::Api(status)) => Ok(Some(status.code)),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn the_api_server_goes_and_comes_back_with_and_without_a_past() {
    own(settings(), async |cluster, lab| {
        cluster.apply(&deployment("web", 2)).await?;
        cluster.available("web", 2).await?;
        let endpoints = cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == 2).await?;

        lab.stop_api()?;
        assert!(cluster.api::<Pod>().list(&ListParams::default()).await.is_err(), "the API answers");
        for endpoint in &endpoints {
            assert_eq!(cluster.get((endpoint.address, 8080), "test", "/").await?.status(), 200);
        }
        let client = lab.start_api(ApiOptions::default()).await?;
        let version = note(cluster, &client, "before").await?;
        assert_eq!(watch_error(cluster, &client, &WatchParams::default(), &version).await?, None);

        // All components have reconnected: a new Pod passes scheduler, controllers and node.
        cluster.apply(&deployment("late", 1)).await?;
        cluster.available("late", 1).await?;

        let client = lab.expire_resource_versions().await?;
        assert_eq!(watch_error(cluster, &client, &WatchParams::default(), &version).await?, Some(410));

        let streaming = WatchParams::default().initial_events();
        assert_eq!(watch_error(cluster, &client, &streaming, "").await?, None);
        lab.stop_api()?;
        let client = lab.start_api(ApiOptions { streaming_lists: false }).await?;
        let refused = watch_error(cluster, &client, &streaming, "").await?;
        assert_eq!(refused, Some(422), "a server without streaming lists refuses them");
        Ok(())
    });
}

#[test]
fn a_frozen_node_takes_connections_and_does_not_answer() {
    own(settings(), async |cluster, lab| {
        cluster.apply(&deployment("web", 4)).await?;
        cluster.available("web", 4).await?;
        let endpoints = cluster.endpoints("web", |all| all.iter().filter(|e| e.ready).count() == 4).await?;
        let node = NodeIndex::new(1).context("there is a first node")?;
        let (frozen, others): (Vec<_>, Vec<_>) =
            endpoints.into_iter().partition(|endpoint| endpoint.zone == Some(node.zone()));
        assert!(!frozen.is_empty() && !others.is_empty(), "Pods stand on one node only");

        lab.freeze_node(node)?;
        for endpoint in &frozen {
            let address = (endpoint.address, 8080);
            timeout(Duration::from_secs(10), tokio::net::TcpStream::connect(address)).await??;
            let attempt = timeout(Duration::from_millis(300), cluster.get(address, "test", "/")).await;
            assert!(attempt.is_err(), "a frozen Pod has answered");
        }
        for endpoint in &others {
            assert_eq!(cluster.get((endpoint.address, 8080), "test", "/").await?.status(), 200);
        }
        lab.thaw_node(node)?;
        for endpoint in &frozen {
            assert_eq!(cluster.get((endpoint.address, 8080), "test", "/").await?.status(), 200);
        }

        // Pods end with their runner and are restarted at other addresses.
        lab.crash_node(node)?;
        for endpoint in &frozen {
            let name = endpoint.pod.as_deref().context("an endpoint without a Pod")?;
            let pod = cluster.wait::<Pod>(name, "back", |pod| restarts(pod) == 1 && is_ready(pod)).await?;
            let address = pod.status.and_then(|status| status.pod_ip).context("no address")?;
            assert_eq!(cluster.get((address, 8080), "test", "/").await?.status(), 200);
        }
        Ok(())
    });
}

#[test]
fn a_wire_cuts_and_delays_the_api() {
    shared(async |cluster| {
        let (wire, kubeconfig) = cluster.api_wire().await?;
        let client = connect(&kubeconfig).await?;
        let version = note(cluster, &client, "first").await?;
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), &cluster.namespace);
        // A controller adds a ConfigMap with the cluster's authority to the namespace at some time.
        let second = WatchParams::default().fields("metadata.name=second");
        let mut events = pin!(api.watch(&second, &version).await?);
        note(cluster, &client, "second").await?;
        let seen = timeout(Duration::from_secs(60), events.next()).await?.context("no event")??;
        assert!(matches!(seen, WatchEvent::Added(map) if map.name_any() == "second"));
        wire.cut();
        let ended = timeout(Duration::from_secs(60), events.next()).await?;
        assert!(!matches!(ended, Some(Ok(_))), "a cut watch goes on");

        wire.set(Behaviour::Delay(Duration::from_millis(200)));
        let begun = std::time::Instant::now();
        after_cut(&api).await?;
        assert!(begun.elapsed() >= Duration::from_millis(400), "there and back again is two delays");
        wire.set(Behaviour::Freeze);
        assert!(
            timeout(Duration::from_millis(300), api.get("first")).await.is_err(),
            "a frozen wire has answered"
        );
        wire.set(Behaviour::Pass);
        wire.cut();
        assert_eq!(after_cut(&api).await?.name_any(), "first");
        Ok(())
    });
}

/// Gets an object. A client may use a connection that was cut before it learns of that.
async fn after_cut(api: &Api<ConfigMap>) -> Result<ConfigMap> {
    Ok(match api.get("first").await {
        Err(kube::Error::Service(_)) => api.get("first").await?,
        first => first?,
    })
}

/// Returns the remains of a lab on this machine.
fn traces(name: &LabName) -> Vec<String> {
    let layout = Layout::new(name.clone());
    let mut found = network::all(&layout);
    if layout.dir().exists() {
        found.push(layout.dir().display().to_string());
    }
    let text = layout.dir().display().to_string() + "/";
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        if command.contains(&text) {
            found.push(command.replace('\0', " "));
        }
    }
    found
}

#[test]
fn two_labs_run_side_by_side_and_leave_nothing() {
    let settings = LabSettings { nodes: 1, dual_stack: true, images: Vec::new() };
    let mut second = None;
    own(settings, async |first, lab| {
        let name: LabName = format!("b{}", std::process::id()).parse()?;
        let options = Options { name: name.clone(), owner: Process::own(), ..Options::default() };
        second = Some((name, lab.layout().name().clone()));
        let other = tokio::task::spawn_blocking(move || Lab::up(&options)).await??;
        first.apply(&deployment("web", 1)).await?;
        first.available("web", 1).await?;

        // The same addresses belong to another cluster there.
        let node_count = |lab: &Lab| -> Result<usize> {
            let output = lab.command("kubectl").args(["get", "nodes", "-o", "name"]).output()?;
            Ok(String::from_utf8(output.stdout)?.lines().count())
        };
        assert_eq!(node_count(lab)?, 1);
        assert_eq!(node_count(&other)?, 2);
        let pods = other.command("kubectl").args(["get", "pods", "-A", "-o", "name"]).output()?;
        assert_eq!(String::from_utf8(pods.stdout)?, "");

        // The first lab is dual-stack.
        let pod = first.pods("app=web").await?.remove(0);
        let addresses = pod.status.and_then(|status| status.pod_ips).context("no addresses")?;
        assert_eq!(addresses.len(), 2);
        for address in &addresses {
            let address: std::net::IpAddr = address.ip.parse()?;
            assert_eq!(first.get((address, 8080), "test", "/").await?.status(), 200);
        }

        assert!(Lab::down(other.layout().name())?);
        assert_eq!(traces(other.layout().name()), Vec::<String>::new());
        assert_eq!(node_count(lab)?, 1, "the end of one lab has touched the other");
        Ok(())
    });
    let (other, first) = second.expect("the test has run");
    for name in [first, other] {
        assert_eq!(traces(&name), Vec::<String>::new());
        assert!(!Lab::down(&name).unwrap());
    }
}

#[test]
fn a_crashed_lab_is_cleared_away_with_its_orphans() {
    own(settings(), async |cluster, lab| {
        cluster.apply(&deployment("web", 2)).await?;
        cluster.available("web", 2).await?;
        // Kills everything that could clean up; the Pods' programs stay without a parent.
        for (role, process) in lab.roles() {
            if role != "guard" {
                process.with_context(|| format!("{role} has ended"))?.end(Duration::ZERO)?;
            }
        }
        let name = lab.layout().name().clone();
        let found = Lab::find(&name).err().context("a crashed lab is found as if it were up")?;
        assert!(found.to_string().contains("sluice-lab down"), "{found}");
        assert!(!traces(&name).is_empty());
        assert!(Lab::down(&name)?);
        assert_eq!(traces(&name), Vec::<String>::new());
        Ok(())
    });
}

#[test]
fn a_lab_goes_down_with_its_owner() {
    let name: LabName = format!("o{}", std::process::id()).parse().unwrap();
    let mut owner = Command::new("sleep").arg("3600").spawn().unwrap();
    let process = Process::of(i32::try_from(owner.id()).unwrap());
    let lab = Lab::up(&Options { name: name.clone(), owner: process, ..Options::default() }).unwrap();
    let guard =
        lab.roles().into_iter().find(|(role, _)| role == "guard").and_then(|(_, process)| process).unwrap();
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(guard.wait(Some(Duration::from_secs(60))).unwrap(), "the guard has not ended");
    assert_eq!(traces(&name), Vec::<String>::new());
}

#[test]
fn a_second_lab_of_one_name_is_refused() {
    own(settings(), async |cluster, lab| {
        let name = lab.layout().name().to_string();
        let output = Command::new(lab_program()?).args(["up", "--name", &name]).output()?;
        let message = String::from_utf8(output.stderr)?;
        if output.status.success() || !message.contains("is up already") {
            bail!("a second lab came up: {message}");
        }
        assert!(cluster.api::<Pod>().list(&ListParams::default()).await.is_ok(), "the first lab was harmed");
        Ok(())
    });
}
