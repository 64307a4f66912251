//! The web application firewall: an agent beside the gateway inspects requests by Envoy's external
//! processing protocol (`envoy.service.ext_proc.v3`, `docs/waf-agent.md`).
//!
//! One stream of gRPC is one request. The gateway sends the head, waits for the decision, sends the
//! body in pieces if the agent wants it, each with its decision, and then lets the request pass.
//! The same then happens to the response, if the agent wants it. Workers use the pool of HTTP/2
//! connections that requests to endpoints use. The directives are sent by a task of their own, once
//! for each distinct text.
//!
//! | file | content |
//! |---|---|
//! | `ext_proc` | the messages of the protocol, as far as they are used |
//! | `stream` | a stream of messages |
//! | `agent` | the agent, as workers use it |
//! | `inspection` | the inspection of one request |
//! | `configuration` | directives in use, and whether the agent has them |
//! | `delivery` | the task that sends directives |
//! | `policy` | the firewall of a rule |

mod agent;
mod configuration;
mod delivery;
mod ext_proc;
mod inspection;
mod policy;
mod stream;

pub(crate) use agent::{Agent, AgentLink};
pub(crate) use configuration::Configurations;
pub(crate) use delivery::{DeliveryFaults, deliver};
pub(crate) use ext_proc::{HeadMessage, InspectedHead, ResponseHeadMessage};
pub(crate) use inspection::{BodyResult, Denial, Inspection, InspectionRequest, InspectionResult, MOST_BODY};
pub(crate) use policy::Firewall;

#[cfg(test)]
mod tests;
