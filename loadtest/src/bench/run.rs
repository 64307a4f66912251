//! A run: rounds of scenarios with peers.

use std::time::Duration;

use sluice_testing::certificate::TestCertificate;

use super::child::Running;
use super::load::handshakes::Handshakes;
use super::load::paced::Paced;
use super::load::tcp::Tcp;
use super::load::{Work, udp, websocket};
use super::machine::Cores;
use super::origin::Origin;
use super::peer::Peer;
use super::sample::Sample;
use super::scenario::{Scenario, Traffic};
use super::setup::{HOST, Setup};
use super::{changes, idle};

/// Duration of the load before measurement, which warms connections, pools and code pages.
const WARM_UP: Duration = Duration::from_secs(1);
/// Estimated time to start and end a load.
const OVERHEAD: Duration = Duration::from_millis(1400);
/// Estimated time to open and close thousands of connections.
const CROWD: Duration = Duration::from_secs(6);

/// Clients that open one TLS connection after the other.
const HANDSHAKES: Handshakes = Handshakes { rate: None, clients: 32, resumes: false, time_limit: TIMEOUT };
/// Time limit of a client for a response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct BenchRun {
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// The proxies.
    pub peers: Vec<Peer>,
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of each load in seconds.
    pub seconds: u64,
    /// The cores to use.
    pub cores: Cores,
}

impl BenchRun {
    /// Returns the approximate duration of the run.
    pub fn estimate(&self) -> Duration {
        let each = |scenario: &Scenario| {
            let count = self.peers.iter().filter(|peer| scenario.takes(peer)).count();
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            match scenario.traffic {
                Traffic::Idle(_) => (OVERHEAD + CROWD) * count,
                _ => (self.length(scenario) + WARM_UP + OVERHEAD) * count,
            }
        };
        self.scenarios.iter().map(each).sum::<Duration>() * u32::try_from(self.rounds).unwrap_or(u32::MAX)
    }

    fn length(&self, scenario: &Scenario) -> Duration {
        Duration::from_secs(self.seconds.max(scenario.seconds))
    }

    /// Runs all rounds, and reports each sample as it completes.
    ///
    /// # Errors
    /// The origin or a load generator cannot be run. A proxy that fails is reported on standard
    /// error and left out of that scenario.
    pub async fn samples(&self, mut tell: impl FnMut(&Sample)) -> anyhow::Result<Vec<Sample>> {
        let origin = Origin::start().await?;
        let certificate = TestCertificate::new(&[HOST]);
        let mut samples = Vec::new();
        for round in 0..self.rounds {
            for (place, scenario) in self.scenarios.iter().enumerate() {
                let mut peers: Vec<&Peer> = self.peers.iter().filter(|peer| scenario.takes(peer)).collect();
                let count = peers.len().max(1);
                peers.rotate_left((round + place) % count);
                for peer in peers {
                    let setup = Setup::new(scenario.setting, origin.address, certificate.clone())?;
                    match self.sample(round, scenario, peer, setup).await {
                        Ok(sample) => {
                            tell(&sample);
                            samples.push(sample);
                        }
                        Err(error) => eprintln!("{} in {}: {error:#}", peer.name(), scenario.name),
                    }
                }
            }
        }
        Ok(samples)
    }

    async fn sample(
        &self,
        round: usize,
        scenario: &Scenario,
        peer: &Peer,
        setup: Setup,
    ) -> anyhow::Result<Sample> {
        let running = Running::start(peer, setup, self.cores.proxy, &[]).await?;
        let at_rest = running.memory()?;
        let mut sample = Sample {
            round,
            scenario: scenario.name,
            peer: peer.name().to_owned(),
            work: Work::default(),
            usage: running.cpu_time(),
            at_rest,
            under_load: at_rest,
            unlogged: 0,
            idle: None,
        };
        if let Traffic::Idle(protocol) = scenario.traffic {
            sample.idle = Some(idle::measure(&running, protocol).await?);
        } else {
            let length = self.length(scenario);
            let warm_up = apply(scenario.traffic, &running, WARM_UP).await?;
            let before = running.cpu_time();
            let watched = async {
                tokio::time::sleep(length.mul_f64(0.8)).await;
                running.memory()
            };
            let (work, memory) = tokio::join!(apply(scenario.traffic, &running, length), watched);
            (sample.work, sample.under_load) = (work?, memory?);
            sample.usage = running.cpu_time().since(before);
            anyhow::ensure!(sample.work.served > 0, "not one request was answered with 200");
            sample.unlogged = warm_up.served + sample.work.served;
        }
        let setup = running.setup.clone();
        running.stop().await?;
        // Connections and sessions cause one line, however much they carry.
        sample.unlogged = match scenario.traffic {
            Traffic::WebSocket | Traffic::Tcp(Tcp::Throughput) | Traffic::Udp => 0,
            _ if !scenario.setting.access_log => 0,
            _ => sample.unlogged.saturating_sub(setup.log_lines()?),
        };
        Ok(sample)
    }
}

/// Applies a load to a proxy for `duration`.
async fn apply(traffic: Traffic, running: &Running, duration: Duration) -> anyhow::Result<Work> {
    let setup = running.setup.clone();
    // Loads that wait for another program or block need a separate thread.
    let blocking = move || match traffic {
        Traffic::Wrk(wrk) => wrk.run(&setup, duration),
        Traffic::H2load(h2load) => h2load.run(&setup, duration),
        Traffic::Paced { rate, .. } => {
            let paced = Paced { rate, connections: 64, wait: TIMEOUT, time_limit: TIMEOUT, host: HOST };
            paced.run(setup.http, duration)
        }
        Traffic::Udp => udp::run(setup.stream, duration),
        Traffic::Handshakes { .. } | Traffic::WebSocket | Traffic::Tcp(_) | Traffic::Idle(_) => {
            unreachable!("they need no thread")
        }
    };
    match traffic {
        Traffic::Handshakes { resumes } => {
            Handshakes { resumes, ..HANDSHAKES }.run(running.setup.https, duration).await
        }
        Traffic::WebSocket => websocket::run(&running.setup, duration).await,
        Traffic::Tcp(tcp) => tcp.run(running.setup.stream, duration).await,
        Traffic::Paced { changes, .. } if changes > 0 => {
            let changing = changes::make(&running.setup, changes, duration);
            let (work, changed) = tokio::join!(tokio::task::spawn_blocking(blocking), changing);
            changed?;
            work?
        }
        _ => tokio::task::spawn_blocking(blocking).await?,
    }
}
