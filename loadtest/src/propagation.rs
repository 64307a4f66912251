//! Changes of a cluster, and the delay until each is served.
//!
//! From before the write on, each request is sent as soon as the previous one is answered. Every
//! response must be the old or the new one. The figure is the time from the API's response to the
//! write until the first new response.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use rustls::ClientConfig;
use sluice_testing::certificate::TestCertificate;
use sluice_testing::gateway::Gateway;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::client::{Connection, GatewayTarget};
use crate::cluster::{Cluster, host};
use crate::report::{Bound, Report};
use crate::sightings::Sightings;
use crate::tls::trusting;

/// The responses of the two backends. Service 0 always uses the first, Service 1 the second.
pub const BACKENDS: [&str; 2] = ["one", "two"];
/// Minimum number of Ingresses for the changes.
pub const FEWEST: usize = 2 + BUSY + 2;

/// Number of the last Services, whose endpoints change constantly in busy runs and which get no
/// requests.
const BUSY: usize = 4;
/// The host and the Secret whose certificate is rotated.
const TLS: &str = "tls.example";
/// Time after which a write counts as lost.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between two writes, so that one has taken effect before the next.
const PAUSE: Duration = Duration::from_millis(40);
/// Aims for every kind of change, in milliseconds.
const MEAN: f64 = 15.0;
const LONGEST: f64 = 75.0;

/// The changes and their current state.
pub struct Changes {
    certificates: Vec<TestCertificate>,
    client: Arc<ClientConfig>,
    sightings: Sightings,
    /// The backend of a Service, if it is not the first.
    backends: HashMap<usize, usize>,
    /// The Service to which a host is routed: one of the first two.
    routes: HashMap<usize, usize>,
    rotations: usize,
    added: usize,
}

/// A response, compared with the expected ones.
enum Answer {
    Old,
    New,
    Wrong(String),
}

/// The results of the writes of one kind, or of all, in milliseconds.
#[derive(Default)]
struct Outcome {
    served: Vec<f64>,
    seen: Vec<f64>,
    answers: u64,
    wrong: Vec<String>,
    lost: usize,
}

impl Changes {
    /// Prepares an empty cluster.
    ///
    /// # Errors
    /// The API refuses something.
    pub async fn new(cluster: &mut Cluster) -> anyhow::Result<Self> {
        let certificates = (0..4).map(|_| TestCertificate::new(&[TLS])).collect::<Vec<_>>();
        cluster.grow(2).await?;
        cluster.point(1, 1).await?;
        cluster.add_secret(TLS, &certificates[0]).await?;
        cluster.add(TLS, 0, Some(TLS)).await?;
        let mut sightings = Sightings::new();
        sightings.watch(cluster.api::<EndpointSlice>());
        sightings.watch(cluster.api::<Ingress>());
        sightings.watch(cluster.api::<Secret>());
        Ok(Self {
            certificates,
            client: trusting(),
            sightings,
            backends: HashMap::new(),
            routes: HashMap::new(),
            rotations: 0,
            added: 0,
        })
    }

    /// Makes this number of changes of each kind, one after the other, and reports on them.
    ///
    /// # Errors
    /// The API or the gateway cannot be reached.
    pub async fn run(
        &mut self,
        report: &mut Report,
        run: &str,
        cluster: &Cluster,
        gateway: &Gateway,
        writes: usize,
    ) -> anyhow::Result<()> {
        let last = cluster.count().checked_sub(BUSY).context("too few Ingresses")?;
        ensure!(last >= 4, "too few Ingresses: {FEWEST} are needed");
        let mut asker = Asker { target: GatewayTarget::plain(gateway.http, TLS), connection: None };
        // Even Ingresses get other endpoints, odd ones other Services, spread over the cluster.
        let place = |write: usize, odd: usize| {
            let places = (last - 2) / 2;
            2 + 2 * (write * (places / writes.max(1)).max(1) % places) + odd
        };

        let mut all = Outcome::default();
        let mut outcome = Outcome::default();
        for write in 0..writes {
            let number = place(write, 0);
            let backend = self.backends.entry(number).or_default();
            let (old, new) = (BACKENDS[*backend], BACKENDS[1 - *backend]);
            *backend = 1 - *backend;
            let (host, change) = (host(number), cluster.point(number, *backend));
            let ask = async || asker.ask(&host, (200, old), (200, new)).await;
            outcome.take(&self.sightings, change, ask).await?;
        }
        outcome.report(report, run, "EndpointSlice", &mut all);

        let mut outcome = Outcome::default();
        for write in 0..writes {
            let number = place(write, 1);
            let route = self.routes.entry(number).or_default();
            let (old, new) = (BACKENDS[*route], BACKENDS[1 - *route]);
            *route = 1 - *route;
            let (host, change) = (host(number), cluster.route(number, *route));
            let ask = async || asker.ask(&host, (200, old), (200, new)).await;
            outcome.take(&self.sightings, change, ask).await?;
        }
        outcome.report(report, run, "Ingress changed", &mut all);

        let mut outcome = Outcome::default();
        for _ in 0..writes {
            self.added += 1;
            let host = format!("added-{}.example", self.added);
            let change = cluster.add(&host, 0, None);
            let ask = async || asker.ask(&host, (404, ""), (200, BACKENDS[0])).await;
            outcome.take(&self.sightings, change, ask).await?;
        }
        outcome.report(report, run, "Ingress added", &mut all);

        let mut outcome = Outcome::default();
        let target = GatewayTarget::tls(gateway.https, TLS, self.client.clone());
        for _ in 0..writes {
            let old = &self.certificates[self.rotations % self.certificates.len()];
            self.rotations += 1;
            let new = &self.certificates[self.rotations % self.certificates.len()];
            let ask = async || {
                Ok(match target.connect().await?.certificate() {
                    shown if shown == new.der => Answer::New,
                    shown if shown == old.der => Answer::Old,
                    _ => Answer::Wrong("a certificate that is neither the old nor the new one".to_owned()),
                })
            };
            outcome.take(&self.sightings, cluster.rotate(TLS, new), ask).await?;
        }
        outcome.report(report, run, "Secret", &mut all);
        all.report_all(report, run);
        Ok(())
    }
}

/// Changes the endpoints of Services without requests `rate` times per second, until it is dropped.
///
/// # Errors
/// The API refuses it.
pub async fn keep_busy(cluster: &Cluster, rate: u32) -> anyhow::Result<()> {
    let mut ticks = interval(Duration::from_secs(1) / rate.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for turn in 0_usize.. {
        ticks.tick().await;
        cluster.point(cluster.count() - 1 - turn % BUSY, (turn / BUSY) % 2).await?;
    }
    Ok(())
}

/// A client that keeps its connection as long as the gateway does.
struct Asker {
    target: GatewayTarget,
    connection: Option<Connection>,
}

impl Asker {
    async fn ask(&mut self, host: &str, old: (u16, &str), new: (u16, &str)) -> anyhow::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.target.connect().await?,
        };
        let answer = connection.get_from(host, "/").await?;
        self.connection = (!answer.close).then_some(connection);
        // The page for a missing host may have any content.
        let is = |(status, body): (u16, &str)| {
            answer.status == status && (status != 200 || answer.body == body.as_bytes())
        };
        Ok(if is(new) {
            Answer::New
        } else if is(old) {
            Answer::Old
        } else {
            let body = String::from_utf8_lossy(&answer.body);
            let body: String = body.chars().take(80).collect();
            Answer::Wrong(format!("{host}: {} {body:?}", answer.status))
        })
    }
}

impl Outcome {
    /// Makes one change and sends requests until it is served.
    async fn take(
        &mut self,
        sightings: &Sightings,
        change: impl Future<Output = anyhow::Result<String>>,
        mut ask: impl AsyncFnMut() -> anyhow::Result<Answer>,
    ) -> anyhow::Result<()> {
        sightings.forget();
        let served = async {
            loop {
                self.answers += 1;
                match ask().await? {
                    Answer::New => return anyhow::Ok(Instant::now()),
                    Answer::Old => {}
                    Answer::Wrong(what) => self.wrong.push(what),
                }
            }
        };
        let answered = async {
            let version = change.await?;
            anyhow::Ok((Instant::now(), version))
        };
        let both = timeout(TIMEOUT, async { tokio::try_join!(served, answered) }).await;
        match both {
            Ok(both) => {
                let (served, (answered, version)) = both?;
                let since = |moment: Instant| moment.saturating_duration_since(answered).as_secs_f64() * 1e3;
                self.served.push(since(served));
                self.seen.push(since(sightings.of(&version).await?));
            }
            Err(_) => self.lost += 1,
        }
        sleep(PAUSE).await;
        Ok(())
    }

    /// Reports the delays of one kind of writes, and adds its other results to `all`.
    fn report(mut self, report: &mut Report, run: &str, kind: &str, all: &mut Self) {
        let mut add = |name: &str, value: f64, bound| {
            report.add(run, &format!("{kind}: {name}"), value, "ms", bound);
        };
        let (mean, p99, max) = summary(&mut self.served);
        add("mean", mean, Bound::Aim(MEAN));
        add("p99", p99, Bound::None);
        add("max", max, Bound::Aim(LONGEST));
        let (mean, _, max) = summary(&mut self.seen);
        add("seen by the tool's own watch, mean", mean, Bound::None);
        add("seen by the tool's own watch, max", max, Bound::None);
        all.answers += self.answers;
        all.lost += self.lost;
        all.wrong.extend(self.wrong.into_iter().map(|wrong| format!("{kind}: {wrong}")));
    }

    /// Reports the results of all kinds.
    fn report_all(self, report: &mut Report, run: &str) {
        report.add(run, "answers", self.answers as f64, "", Bound::None);
        report.add(run, "answers neither old nor new", self.wrong.len() as f64, "", Bound::Exactly(0.0));
        report.add(run, "writes that were never served", self.lost as f64, "", Bound::Exactly(0.0));
        for wrong in self.wrong.into_iter().take(3) {
            report.remark(format!("{run}, {wrong}"));
        }
    }
}

/// Returns mean, 99th percentile and maximum.
fn summary(values: &mut [f64]) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let at = |share: f64| {
        let rank = (values.len() as f64 * share).ceil() as usize;
        values.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
    };
    (mean, at(0.99), at(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_of_all_values() {
        let mut values: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(summary(&mut values), (100.5, 198.0, 200.0));
        assert_eq!(summary(&mut [7.0]), (7.0, 7.0, 7.0));
        assert_eq!(summary(&mut []), (0.0, 0.0, 0.0));
    }
}
