//! The task that sends directives to the agent. It keeps a connection of its own, by whose end it
//! notices an agent that is gone; while there is none, requests do not try to reach the agent.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{SendRequest, handshake};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::agent::Agent;
use super::configuration::{ConfigurationFault, ConfigurationState, Configurations, FirewallConfiguration};
use super::stream::{INVALID_ARGUMENT, MessageStream, StreamFault, UNIMPLEMENTED, call};
use crate::message::grpc;

/// The method that compiles directives (`waf-agent/configurations.proto`).
const PUT: &str = "/sluice.waf.v1.Configurations/Put";
/// Time limit for compiling directives. The core rule set takes a second on a slow processor.
const COMPILE: Duration = Duration::from_secs(30);
/// The standard method of gRPC for health checks. An agent without it answers all the same.
const CHECK: &str = "/grpc.health.v1.Health/Check";
/// Time limit for connecting, and for a health check.
const DEADLINE: Duration = Duration::from_secs(3);
/// Time between two health checks: an agent that hangs does not close its connection.
const INTERVAL: Duration = Duration::from_secs(2);
/// The first pause between two connections; it doubles up to the last one.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What prevents inspections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeliveryFaults {
    /// Why the agent is not available; completes "the agent ...".
    pub(crate) agent: Option<String>,
    /// Directives that the agent cannot compile.
    pub(crate) configurations: Vec<ConfigurationFault>,
}

/// The text of directives, and its SHA-256: `google.protobuf.StringValue`.
#[derive(Clone, PartialEq, Message)]
struct StringValue {
    #[prost(string, tag = "1")]
    value: String,
}

/// A message of which no field is used.
#[derive(Clone, PartialEq, Message)]
struct Empty {}

/// A connection to the agent.
struct Connection {
    requests: SendRequest<Bytes>,
    task: JoinHandle<()>,
}

/// Sends the directives in use, and reports what prevents inspections. Does not return.
pub(crate) async fn deliver(agent: &Agent, configurations: &Configurations, report: impl Fn(DeliveryFaults)) {
    let mut pause = SHORTEST_PAUSE;
    loop {
        while configurations.in_use().is_empty() {
            report(DeliveryFaults::default());
            configurations.incomplete.notified().await;
        }
        let mut faults = Vec::new();
        let fault = match Connection::open(agent).await {
            Ok(mut connection) => {
                pause = SHORTEST_PAUSE;
                connection.serve(agent, configurations, &mut faults, &report).await
            }
            Err(fault) => fault,
        };
        set_all(configurations, ConfigurationState::Unavailable);
        report(DeliveryFaults { agent: Some(fault.to_string()), configurations: faults });
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn set_all(configurations: &Configurations, state: ConfigurationState) {
    configurations.in_use().iter().for_each(|configuration| configuration.set(state));
}

impl Connection {
    async fn open(agent: &Agent) -> Result<Self, StreamFault> {
        let open = async {
            let stream = TcpStream::connect(agent.address()).await.map_err(StreamFault::Io)?;
            stream.set_nodelay(true).map_err(StreamFault::Io)?;
            let (requests, connection) = handshake(stream).await?;
            let task = tokio::spawn(async move {
                // Requests report how it ends.
                let _ = connection.await;
            });
            Ok(Self { requests, task })
        };
        timeout(DEADLINE, open).await.unwrap_or(Err(StreamFault::Timeout))
    }

    /// Sends directives as they come into use, until the agent fails.
    async fn serve(
        &mut self,
        agent: &Agent,
        configurations: &Configurations,
        faults: &mut Vec<ConfigurationFault>,
        report: &impl Fn(DeliveryFaults),
    ) -> StreamFault {
        loop {
            let in_use = configurations.in_use();
            faults.retain(|fault| in_use.iter().any(|known| known.source == fault.source));
            for configuration in &in_use {
                if matches!(configuration.state(), ConfigurationState::Ready | ConfigurationState::Refused) {
                    continue;
                }
                faults.retain(|fault| fault.source != configuration.source);
                match self.put(agent, configuration).await {
                    Ok(None) => configuration.set(ConfigurationState::Ready),
                    Ok(Some(reason)) => {
                        configuration.set(ConfigurationState::Refused);
                        let (source, enforces) = (configuration.source.clone(), configuration.enforces);
                        faults.push(ConfigurationFault { source, enforces, reason });
                    }
                    Err(fault) => return fault,
                }
            }
            report(DeliveryFaults { agent: None, configurations: faults.clone() });
            tokio::select! {
                () = configurations.incomplete.notified() => {}
                fault = self.watch(agent) => return fault,
            }
        }
    }

    /// Sends directives. Returns why the agent cannot compile them.
    async fn put(
        &mut self,
        agent: &Agent,
        configuration: &FirewallConfiguration,
    ) -> Result<Option<String>, StreamFault> {
        let text = StringValue { value: configuration.directives.to_string() };
        match self.call::<StringValue>(agent, PUT, &text, COMPILE).await {
            Ok(_) => Ok(None),
            Err(StreamFault::Grpc { status: INVALID_ARGUMENT, message }) => Ok(Some(message)),
            // Another agent, with rules of its own.
            Err(StreamFault::Grpc { status: UNIMPLEMENTED, .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// Returns when the agent is gone or hangs.
    async fn watch(&mut self, agent: &Agent) -> StreamFault {
        loop {
            tokio::select! {
                () = sleep(INTERVAL) => {}
                _ = &mut self.task => return StreamFault::Io(io::ErrorKind::ConnectionReset.into()),
            }
            match self.call::<Empty>(agent, CHECK, &Empty {}, DEADLINE).await {
                Ok(_) | Err(StreamFault::Grpc { .. }) => {}
                Err(fault) => return fault,
            }
        }
    }

    /// Sends a message and returns the answer.
    async fn call<M: Message + Default>(
        &mut self,
        agent: &Agent,
        method: &str,
        message: &impl Message,
        time_limit: Duration,
    ) -> Result<M, StreamFault> {
        let answer = async {
            let requests = self.requests.clone().ready();
            let head = call(method, agent.address(), None);
            let (response, outgoing) = requests.await?.send_request(head, false)?;
            let mut stream = MessageStream::new(response, outgoing);
            stream.send(grpc::encoded(message), true).await?;
            stream.receive().await
        };
        timeout(time_limit, answer).await.unwrap_or(Err(StreamFault::Timeout))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}
