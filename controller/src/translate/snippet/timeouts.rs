//! Timeouts of endpoints: `proxy_*_timeout` and `grpc_*_timeout`, which are different directives in
//! nginx, each for the endpoints of its protocol.

use sluice_config::{Policies, Timeout};

use super::arguments::{parsed, put};
use super::fault::Fault;
use crate::translate::value;

/// Timeouts of both protocols.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TimeoutOverrides {
    proxy: ProtocolTimeouts,
    grpc: ProtocolTimeouts,
}

/// Timeouts of one protocol; `None` leaves that of the annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct ProtocolTimeouts {
    connect: Option<Timeout>,
    read: Option<Timeout>,
    send: Option<Timeout>,
}

/// Whether a directive is one of these.
pub(super) fn is_known(name: &str) -> bool {
    TimeoutOverrides::default().timeout(name).is_some()
}

impl TimeoutOverrides {
    /// Reads a directive. Returns whether it is the first one of its name; `None` if it is another
    /// directive.
    pub(super) fn read(&mut self, name: &str, arguments: &[String]) -> Result<Option<bool>, Fault> {
        let Some(timeout) = self.timeout(name) else { return Ok(None) };
        Ok(Some(put(timeout, Timeout::After(parsed(&value::some_time(), arguments)?))))
    }

    fn timeout(&mut self, name: &str) -> Option<&mut Option<Timeout>> {
        let (timeouts, name) = match name.split_once('_')? {
            ("proxy", name) => (&mut self.proxy, name),
            ("grpc", name) => (&mut self.grpc, name),
            _ => return None,
        };
        match name {
            "connect_timeout" => Some(&mut timeouts.connect),
            "read_timeout" => Some(&mut timeouts.read),
            "send_timeout" => Some(&mut timeouts.send),
            _ => None,
        }
    }

    /// Takes over the timeouts of a text of the same level that are not set yet.
    pub(super) fn extend(&mut self, other: &Self) {
        self.proxy = self.proxy.or(other.proxy);
        self.grpc = self.grpc.or(other.grpc);
    }

    /// Replaces the timeouts of the policies by those for the protocol of the endpoints, and by
    /// those for the other one whose siblings are absent, as with fields of the request.
    pub(super) fn apply(&self, passes_grpc: bool, policies: &mut Policies) {
        let ProtocolTimeouts { connect, read, send } = match passes_grpc {
            false => self.proxy.or(self.grpc),
            true => self.grpc.or(self.proxy),
        };
        let timeouts = &mut policies.timeouts;
        timeouts.connect = connect.unwrap_or(timeouts.connect);
        timeouts.read = read.unwrap_or(timeouts.read);
        timeouts.send = send.unwrap_or(timeouts.send);
    }
}

impl ProtocolTimeouts {
    fn or(self, other: Self) -> Self {
        Self {
            connect: self.connect.or(other.connect),
            read: self.read.or(other.read),
            send: self.send.or(other.send),
        }
    }
}
