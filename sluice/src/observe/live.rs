//! Streams of live requests from all replicas.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Replica;
use crate::admin_client::{encoded, lines};
use crate::flags::LiveRequests;

/// What a replica reports.
#[derive(Debug)]
pub(super) enum LiveEvent {
    /// Its stream has begun.
    Begun,
    /// A request.
    Request(Value),
    /// So many requests were not read in time.
    Lost(u64),
    /// Its stream has ended for this reason.
    Ended(String),
    /// Its stream failed.
    Failed(String),
}

/// Events of all replicas, each with the name of its replica, which is empty for that of this
/// machine.
#[derive(Debug)]
pub(super) struct LiveEvents {
    receiver: Receiver<(String, LiveEvent)>,
    /// Events that came while others were waited for.
    early: VecDeque<(String, LiveEvent)>,
}

impl LiveEvents {
    /// Reads a stream of all replicas at the same time, each on a thread that ends with the program.
    /// Returns once all have begun.
    ///
    /// # Errors
    /// No replica can be read.
    pub(super) fn read(replicas: &[Replica], path: &str, requests: &LiveRequests) -> Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let page = page(path, requests);
        for replica in replicas {
            let (replica, page, sender) = (replica.clone(), page.clone(), sender.clone());
            thread::spawn(move || follow(&replica, &page, &sender));
        }
        let mut events = Self { receiver, early: VecDeque::new() };
        events.await_begin(replicas.len())?;
        Ok(events)
    }

    fn await_begin(&mut self, replicas: usize) -> Result<()> {
        let (mut begun, mut errors) = (0, Vec::new());
        while begun + errors.len() < replicas {
            match self.receiver.recv()? {
                (_, LiveEvent::Begun) => begun += 1,
                (_, LiveEvent::Failed(error)) => errors.push(error),
                event => self.early.push_back(event),
            }
        }
        match errors.pop() {
            Some(error) if begun == 0 => bail!(error),
            last => errors.into_iter().chain(last).for_each(|error| eprintln!("sluice: {error}")),
        }
        Ok(())
    }

    /// Waits for the next event; `None` when all streams have ended.
    pub(super) fn next(&mut self) -> Option<(String, LiveEvent)> {
        self.early.pop_front().or_else(|| self.receiver.recv().ok())
    }
}

/// Returns the path with its query.
fn page(path: &str, requests: &LiveRequests) -> String {
    let mut page = format!("{path}?seconds={}", requests.time.as_secs());
    for (name, value) in &requests.parameters {
        page += &format!("&{name}={}", encoded(value));
    }
    page
}

fn follow(replica: &Replica, page: &str, sender: &Sender<(String, LiveEvent)>) {
    let send = |event| sender.send((replica.name.clone(), event)).is_ok();
    let lines = match lines(replica.address, page) {
        Ok(lines) => lines,
        Err(error) => {
            send(LiveEvent::Failed(error.to_string()));
            return;
        }
    };
    if !send(LiveEvent::Begun) {
        return;
    }
    for line in lines {
        let event = match line {
            Err(error) => LiveEvent::Failed(format!("the stream of {} broke: {error}", replica.address)),
            Ok(line) if line.is_empty() => continue,
            Ok(line) => event(&line),
        };
        let is_last = matches!(event, LiveEvent::Ended(_) | LiveEvent::Failed(_));
        if !send(event) || is_last {
            return;
        }
    }
    send(LiveEvent::Failed(format!("{} has ended the stream; does the gateway still run?", replica.address)));
}

fn event(line: &str) -> LiveEvent {
    match serde_json::from_str::<Value>(line) {
        Err(error) => LiveEvent::Failed(format!("an invalid line: {error}")),
        Ok(value) => match (value["end"].as_str(), value["lost"].as_u64()) {
            (Some(reason), _) => LiveEvent::Ended(reason.to_owned()),
            (None, Some(lost)) => LiveEvent::Lost(lost),
            (None, None) => LiveEvent::Request(value),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn parameters_become_one_query() {
        let requests = LiveRequests {
            parameters: vec![("path", "/a b".to_owned()), ("client", "::1".to_owned())],
            time: Duration::from_secs(30),
        };
        assert_eq!(page("tap", &requests), "tap?seconds=30&path=/a%20b&client=%3A%3A1");
    }

    #[test]
    fn lines_are_requests_losses_or_the_end() {
        assert!(matches!(event("{\"status\":200}"), LiveEvent::Request(_)));
        assert!(matches!(event("{\"lost\":3}"), LiveEvent::Lost(3)));
        assert!(matches!(event("{\"end\":\"over\"}"), LiveEvent::Ended(reason) if reason == "over"));
        assert!(matches!(event("{"), LiveEvent::Failed(_)));
    }
}
