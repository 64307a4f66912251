//! The duties against an API that fails in every way, on a paused clock: their requests are counted
//! over minutes and hours.

mod api;
mod events;
mod lease;
mod rights;
mod status;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sluice_config::Problem;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::{AtWork, Duty, DutyNews, DutyOptions, DutyScope, Findings, OwnPod};
use crate::input::{self, Input};
use api::SimulatedApi;

const NAMESPACE: &str = "edge";

/// The running duties of one replica.
struct Replica {
    leading: watch::Receiver<bool>,
    news: DutyNews,
    problems: Arc<Mutex<BTreeMap<Duty, Vec<Problem>>>>,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<()>,
    _inputs: mpsc::Sender<Input>,
}

/// Options with one fixed address.
fn options() -> DutyOptions {
    DutyOptions { publish_status_address: vec!["192.0.2.7".into()], ..DutyOptions::default() }
}

impl Replica {
    /// Starts a replica with the name of its Pod, by which the API also identifies its requests.
    fn start(api: &SimulatedApi, pod: &str, options: DutyOptions) -> Self {
        let (status, seen) = mpsc::unbounded_channel();
        let (events, news) = mpsc::unbounded_channel();
        let (stop, stopped) = oneshot::channel();
        let (lead, leading) = watch::channel(options.disable_leader_election);
        let (inputs, mut found) = input::channel();
        let problems = Arc::<Mutex<BTreeMap<_, _>>>::default();
        let at_work = AtWork {
            client: api.client(pod),
            options,
            pod: OwnPod { name: pod.into(), namespace: NAMESPACE.into() },
            scope: DutyScope::default(),
            findings: Findings::new(inputs.downgrade()),
        };
        let known = problems.clone();
        tokio::spawn(async move {
            while let Some(input) = found.recv().await {
                if let Input::Finding(duty, problems) = input {
                    known.lock().unwrap().insert(duty, problems);
                }
            }
        });
        let ended = tokio::spawn(at_work.run(lead, seen, news, stopped));
        let news = DutyNews { status: Some(status), events: Some(events) };
        Self { leading, news, problems, stop, ended, _inputs: inputs }
    }

    fn leads(&self) -> bool {
        *self.leading.borrow()
    }

    async fn until_it_leads(&mut self) {
        self.leading.wait_for(|leads| *leads).await.unwrap();
    }

    /// Ends the replica in order.
    async fn end(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap();
    }

    /// Returns all current problems as text.
    fn problems(&self) -> String {
        let problems = self.problems.lock().unwrap();
        problems.values().flatten().map(|problem| format!("{problem}\n")).collect()
    }
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}
