//! Streams of live requests from all replicas.

use std::collections::VecDeque;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Replica;
use super::replica::prefix;
use crate::admin_client::{encoded, lines};
use crate::flags::LiveRequests;
use crate::output::note;

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
    /// Reads a stream of all replicas at the same time, each on a thread that ends with the
    /// program. Returns once all have begun.
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
        let (mut begun, mut errors) = (Vec::new(), Vec::new());
        while begun.len() + errors.len() < replicas {
            match self.receiver.recv()? {
                (replica, LiveEvent::Begun) => begun.push(replica),
                (replica, LiveEvent::Failed(error)) if !begun.contains(&replica) => {
                    errors.push(format!("{}{error}", prefix(&replica)));
                }
                event => self.early.push_back(event),
            }
        }
        match errors.pop() {
            Some(error) if begun.is_empty() => bail!(error),
            last => errors.into_iter().chain(last).for_each(|error| note(format_args!("sluice: {error}"))),
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
    let read = replica.reach().and_then(|address| Ok((address, lines(address, page)?)));
    let (address, lines) = match read {
        Ok(read) => read,
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
            Err(error) => LiveEvent::Failed(format!("the stream of {address} broke: {error}")),
            Ok(line) if line.is_empty() => continue,
            Ok(line) => event(&line),
        };
        let is_last = matches!(event, LiveEvent::Ended(_) | LiveEvent::Failed(_));
        if !send(event) || is_last {
            return;
        }
    }
    send(LiveEvent::Failed(format!("{address} has ended the stream; does the gateway still run?")));
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

    fn events(sent: Vec<(&str, LiveEvent)>) -> LiveEvents {
        let (sender, receiver) = mpsc::channel();
        sent.into_iter().for_each(|(name, event)| sender.send((name.to_owned(), event)).unwrap());
        LiveEvents { receiver, early: VecDeque::new() }
    }

    #[test]
    fn the_replica_that_failed_first_was_not_named() {
        let failed = |name| (name, LiveEvent::Failed("refused".to_owned()));
        let error = events(vec![failed("edge/a"), failed("edge/b")]).await_begin(2).unwrap_err();
        assert_eq!(error.to_string(), "edge/b: refused");
        let error = events(vec![failed("")]).await_begin(1).unwrap_err();
        assert_eq!(error.to_string(), "refused", "the one of this machine");
    }

    #[test]
    fn a_replica_that_broke_off_early_was_taken_for_one_that_had_not_begun() {
        let broken = ("edge/a", LiveEvent::Failed("broken".to_owned()));
        let mut events = events(vec![("edge/a", LiveEvent::Begun), broken, ("edge/b", LiveEvent::Begun)]);
        events.await_begin(2).unwrap();
        assert!(matches!(events.next(), Some((name, LiveEvent::Failed(_))) if name == "edge/a"));
        assert!(events.next().is_none(), "it has waited for the other one");
    }

    #[test]
    fn lines_are_requests_losses_or_the_end() {
        assert!(matches!(event("{\"status\":200}"), LiveEvent::Request(_)));
        assert!(matches!(event("{\"lost\":3}"), LiveEvent::Lost(3)));
        assert!(matches!(event("{\"end\":\"over\"}"), LiveEvent::Ended(reason) if reason == "over"));
        assert!(matches!(event("{"), LiveEvent::Failed(_)));
    }
}
