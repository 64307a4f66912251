//! Limits that apply to all replicas of a gateway together, which the chart installs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use http::StatusCode;
use sluice_lab::harness::{Cluster, TestClass, deployment, shared};
use tokio::time::{MissedTickBehavior, interval};

use super::chart::{helm, pods, values};

const HOST: &str = "web.example";
/// Requests per second that the limit permits.
const LIMIT: u32 = 40;
/// Requests per second to each of three replicas, together three times the limit.
const RATE: u32 = 40;
/// Seconds of load that are counted.
const SECONDS: u32 = 10;

/// Returns the addresses of the replicas that are ready.
async fn addresses(cluster: &Cluster) -> Result<Vec<String>> {
    let pods = pods(cluster).await?;
    let address = |pod: &k8s_openapi::api::core::v1::Pod| pod.status.as_ref()?.pod_ip.clone();
    pods.iter().map(|pod| address(pod).context("a Pod without an address")).collect()
}

/// Returns how many other replicas a replica hears.
async fn heard(cluster: &Cluster, replica: &str) -> Result<u32> {
    let page = cluster.get(format!("{replica}:10254"), HOST, "/metrics").await?;
    let text = String::from_utf8_lossy(page.body()).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("sluice_limit_replicas{state=\"heard\"} "));
    Ok(line.context("no metric")?.parse()?)
}

/// Sends requests at a steady rate and returns how many were served in the last [`SECONDS`]. Before
/// that, the burst that the limit permits is used up.
async fn served(cluster: &Cluster, replica: &str) -> Result<u32> {
    let mut ticks = interval(Duration::from_secs(1) / RATE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (began, warm_up, mut served) = (Instant::now(), Duration::from_secs(3), 0);
    while began.elapsed() < warm_up + Duration::from_secs(SECONDS.into()) {
        ticks.tick().await;
        let answer = cluster.get(format!("{replica}:80"), HOST, "/").await?;
        let passed = answer.status() == StatusCode::OK;
        ensure!(passed || answer.status() == StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
        served += u32::from(passed && began.elapsed() > warm_up);
    }
    Ok(served)
}

#[test]
fn three_replicas_serve_what_the_limit_permits_one() {
    shared(async |cluster| {
        let class = TestClass::of(cluster);
        cluster.apply(&deployment("web", 1)).await?;
        cluster.available("web", 1).await?;
        let more = "  replicaCount: 3\n  config: {limit-across-replicas: \"true\"}\nreplicaLimits: {enabled: true}\n";
        helm(cluster, "install", &values(cluster, &class, more))?;
        let annotations = format!(
            "metadata: {{annotations: {{nginx.ingress.kubernetes.io/limit-rps: \"{LIMIT}\", \
             nginx.ingress.kubernetes.io/limit-burst-multiplier: \"1\"}}, "
        );
        cluster.apply(&class.ingress("web", HOST, "web").replace("metadata: {", &annotations)).await?;
        let replicas = addresses(cluster).await?;
        ensure!(replicas.len() == 3, "{replicas:?}");
        for replica in &replicas {
            cluster
                .until("the limit at every replica, and all others heard", async || {
                    let ready = cluster.get(format!("{replica}:80"), HOST, "/").await?.status();
                    let known = ready == StatusCode::OK || ready == StatusCode::SERVICE_UNAVAILABLE;
                    Ok((known && heard(cluster, replica).await? == 3).then_some(()))
                })
                .await?;
        }
        let [a, b, c] = &replicas[..] else { unreachable!() };
        let (a, b, c) = tokio::try_join!(served(cluster, a), served(cluster, b), served(cluster, c))?;
        let (all, limit) = (a + b + c, LIMIT * SECONDS);
        eprintln!("served {a}, {b} and {c} of {limit} permitted");
        ensure!(all <= limit + limit / 20, "{all} served, {limit} permitted");
        ensure!(all >= limit - limit / 5, "{all} served, {limit} permitted");
        Ok(())
    });
}
