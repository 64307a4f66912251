//! Limits that apply to all replicas of a gateway together, which the chart installs.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::FutureExt;
use futures::future::try_join_all;
use http::StatusCode;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use sluice_lab::harness::{Cluster, TestClass, deployment, is_ready, shared};
use tokio::time::{MissedTickBehavior, interval};

use super::chart::{helm, pods, values};

const HOST: &str = "web.example";
/// Requests per second that the limit permits.
const LIMIT: u32 = 40;
/// Requests per second to each of three replicas, together three times the limit.
const RATE: u32 = 40;
/// Requests to each replica that are counted, ten seconds of load.
const MEASURED: u32 = 10 * RATE;
/// Time within which replicas hear a new one that is ready (`docs/limits.md`).
const HEARD_WITHIN: Duration = Duration::from_secs(8);

/// A Pod of the gateway.
#[derive(Clone, Debug)]
struct Replica {
    pod: String,
    address: String,
}

/// Starts a gateway of three replicas with one limit, all of which hear each other.
async fn replicas_with_limit(cluster: &Cluster) -> Result<Vec<Replica>> {
    let class = TestClass::of(cluster);
    cluster.apply(&deployment("web", 1)).await?;
    cluster.available("web", 1).await?;
    let more =
        "  replicaCount: 3\n  config: {limit-across-replicas: \"true\"}\nreplicaLimits: {enabled: true}\n";
    helm(cluster, "install", &values(cluster, &class, more))?;
    let annotations = format!(
        "metadata: {{annotations: {{nginx.ingress.kubernetes.io/limit-rps: \"{LIMIT}\", \
         nginx.ingress.kubernetes.io/limit-burst-multiplier: \"1\"}}, "
    );
    cluster.apply(&class.ingress("web", HOST, "web").replace("metadata: {", &annotations)).await?;
    let replicas = replicas(cluster).await?;
    ensure!(replicas.len() == 3, "{replicas:?}");
    for replica in &replicas {
        cluster
            .until("the limit at every replica, and all others heard", async || {
                let ready = cluster.get(replica.http(), HOST, "/").await?.status();
                let known = ready == StatusCode::OK || ready == StatusCode::SERVICE_UNAVAILABLE;
                Ok((known && replica.counted(cluster).await? == (3, 3)).then_some(()))
            })
            .await?;
    }
    Ok(replicas)
}

/// Returns the replicas that are not ending.
async fn replicas(cluster: &Cluster) -> Result<Vec<Replica>> {
    let replica = |pod: &Pod| {
        let address = pod.status.as_ref()?.pod_ip.clone()?;
        Some(Replica { pod: pod.name_any(), address })
    };
    pods(cluster).await?.iter().map(|pod| replica(pod).context("a Pod without an address")).collect()
}

impl Replica {
    fn http(&self) -> String {
        format!("{}:80", self.address)
    }

    /// Returns how many replicas it knows, and how many of them it hears.
    async fn counted(&self, cluster: &Cluster) -> Result<(u32, u32)> {
        let page = cluster.get(format!("{}:10254", self.address), HOST, "/metrics").await?;
        let text = String::from_utf8_lossy(page.body()).into_owned();
        let number = |state: &str| {
            let name = format!("sluice_limit_replicas{{state=\"{state}\"}} ");
            let line = text.lines().find_map(|line| line.strip_prefix(&*name));
            Ok::<u32, anyhow::Error>(line.with_context(|| format!("no metric {name}"))?.parse()?)
        };
        Ok((number("known")?, number("heard")?))
    }
}

/// Requests to a replica at a steady rate.
struct Load<'r> {
    replica: &'r Replica,
    /// When each request ended, and whether it was served.
    requests: Mutex<Vec<(Instant, bool)>>,
}

impl<'r> Load<'r> {
    fn new(replica: &'r Replica) -> Self {
        Self { replica, requests: Mutex::default() }
    }

    /// Sends requests while `goes_on`.
    async fn run(&self, cluster: &Cluster, goes_on: impl Fn() -> bool) -> Result<()> {
        let mut ticks = interval(Duration::from_secs(1) / RATE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
        while goes_on() {
            ticks.tick().await;
            let answer = cluster.get(self.replica.http(), HOST, "/").await?;
            let is_served = answer.status() == StatusCode::OK;
            ensure!(is_served || answer.status() == StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
            self.requests.lock().unwrap().push((Instant::now(), is_served));
        }
        Ok(())
    }

    /// Returns how many requests have ended in a time, and how many of them were served.
    fn within(&self, begin: Instant, end: Instant) -> (u32, u32) {
        let requests = self.requests.lock().unwrap();
        let all = requests.iter().filter(|(at, _)| (begin..end).contains(at));
        all.fold((0, 0), |(sent, served), (_, is_served)| (sent + 1, served + u32::from(*is_served)))
    }

    /// Waits until so many requests have ended since a time.
    async fn until(&self, cluster: &Cluster, begin: Instant, requests: u32) -> Result<()> {
        let what = format!("{requests} requests to {}", self.replica.pod);
        let sent = || self.within(begin, Instant::now()).0;
        cluster.until(&what, async || Ok((sent() >= requests).then_some(()))).await
    }

    /// Waits until a request has been refused: the burst has been used up.
    async fn until_refused(&self, cluster: &Cluster) -> Result<()> {
        let is_refused = || self.requests.lock().unwrap().iter().any(|(_, is_served)| !is_served);
        let what = format!("a refused request to {}", self.replica.pod);
        cluster.until(&what, async || Ok(is_refused().then_some(()))).await
    }
}

/// Returns how many requests of all replicas have ended in a time, and how many were served.
fn within(loads: &[Load<'_>], begin: Instant, end: Instant) -> (u32, u32) {
    let each = loads.iter().map(|load| load.within(begin, end));
    each.fold((0, 0), |(sent, served), (more, more_served)| (sent + more, served + more_served))
}

/// Returns what the limit permits in a time.
fn permitted(begin: Instant, end: Instant) -> f64 {
    f64::from(LIMIT) * end.duration_since(begin).as_secs_f64()
}

#[test]
fn three_replicas_serve_what_the_limit_permits_one() {
    shared(async |cluster| {
        let replicas = replicas_with_limit(cluster).await?;
        let loads: Vec<Load> = replicas.iter().map(Load::new).collect();
        let stop = AtomicBool::new(false);
        let measured = async {
            for load in &loads {
                load.until_refused(cluster).await?;
            }
            let begin = Instant::now();
            for load in &loads {
                load.until(cluster, begin, MEASURED).await?;
            }
            anyhow::Ok((begin, Instant::now()))
        };
        let measured = measured.inspect(|_| stop.store(true, Relaxed));
        let sent = try_join_all(loads.iter().map(|load| load.run(cluster, || !stop.load(Relaxed))));
        let ((begin, end), _) = tokio::try_join!(measured, sent)?;
        let (sent, served) = within(&loads, begin, end);
        let (served, limit) = (f64::from(served), permitted(begin, end));
        let each: Vec<u32> = loads.iter().map(|load| load.within(begin, end).1).collect();
        eprintln!("served {each:?} of {sent}, {limit:.0} permitted");
        ensure!(served <= limit * 1.05, "{served} served, {limit} permitted");
        ensure!(served >= limit.min(sent.into()) * 0.8, "{served} served, {limit} permitted");
        Ok(())
    });
}

/// While its replacement starts, the others may serve two thirds of the limit; afterwards all of
/// it.
#[test]
fn the_others_serve_what_a_deleted_pod_has_served() {
    shared(async |cluster| {
        let replicas = replicas_with_limit(cluster).await?;
        let loads: Vec<Load> = replicas.iter().map(Load::new).collect();
        let (deleted, others) = loads.split_last().context("three replicas")?;
        let stop = AtomicBool::new(false);
        let change = async {
            for load in &loads {
                load.until_refused(cluster).await?;
            }
            let begin = Instant::now();
            cluster.api::<Pod>().delete(&deleted.replica.pod, &DeleteParams::default()).await?;
            let replaced = until_replaced(cluster, &deleted.replica.pod).await?;
            for load in others {
                let what = format!("{} to hear the replacement", load.replica.pod);
                let is_heard = async || Ok((load.replica.counted(cluster).await? == (3, 3)).then_some(()));
                cluster.until(&what, is_heard).await?;
            }
            let heard = Instant::now();
            ensure!(heard - replaced < HEARD_WITHIN, "heard only after {:?}", heard - replaced);
            for load in others {
                load.until(cluster, heard, MEASURED / 2).await?;
            }
            Ok([begin, heard, Instant::now()])
        };
        let change = change.inspect(|_| stop.store(true, Relaxed));
        let goes_on = || !stop.load(Relaxed);
        let sent = try_join_all(others.iter().map(|load| load.run(cluster, goes_on)));
        // It refuses connections once it has ended.
        let until_deleted = deleted.run(cluster, goes_on).map(|_| Ok(()));
        let ([begin, heard, end], ..) = tokio::try_join!(change, sent, until_deleted)?;

        let (limit, served) = (permitted(begin, end), f64::from(within(&loads, begin, end).1));
        let (limit_after, (sent_after, after)) = (permitted(heard, end), within(&loads, heard, end));
        eprintln!("served {served} of {limit:.0} permitted, {after} of {limit_after:.0} after the change");
        ensure!(served <= limit * 1.05, "{served} served, {limit} permitted");
        let least = limit_after.min(sent_after.into()) * 0.8;
        ensure!(f64::from(after) >= least, "{after} served after the change, {limit_after} permitted");
        // At no time is there no limit, or a limit of zero.
        let window = Duration::from_secs(2);
        let mut at = begin;
        while at + window < end {
            let (sent, served) = within(&loads, at, at + window);
            let when = at - begin;
            ensure!(sent < LIMIT || served > 0, "none of {sent} served in two seconds, after {when:?}");
            // What is permitted in two seconds, and the burst.
            ensure!(served <= 3 * LIMIT, "{served} served in two seconds, after {when:?}");
            at += window / 4;
        }
        Ok(())
    });
}

/// Waits until a Pod has gone and another one is ready.
async fn until_replaced(cluster: &Cluster, pod: &str) -> Result<Instant> {
    cluster
        .until("a replacement", async || {
            let is_gone = cluster.api::<Pod>().get_opt(pod).await?.is_none();
            let ready = pods(cluster).await?.iter().filter(|pod| is_ready(pod)).count();
            Ok((is_gone && ready == 3).then_some(()))
        })
        .await?;
    Ok(Instant::now())
}
