//! The entries of a ConfigMap of TCP or UDP services: `"5432": "shop/db:5432:PROXY:PROXY"`.
//!
//! The syntax and its leniency are those of ingress-nginx (`getStreamServices`): an entry that
//! cannot be read is skipped, and the others are served.

use std::collections::BTreeMap;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem, TransportProtocol, Uid};

use super::{config_map, flag};
use crate::options::Options;
use crate::problem::{error, warning};
use crate::store::{ConfigMap, DataFields};
use crate::translate::view::View;

/// The usable entries of a ConfigMap, by port.
pub(crate) type StreamServices = BTreeMap<u16, StreamEntry>;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamEntry {
    /// The Service.
    pub(crate) service: NamespacedName,
    /// Number or name of its port.
    pub(crate) port: Box<str>,
    /// First `:PROXY`: connections begin with a PROXY protocol header.
    pub(crate) accepts_proxy: bool,
    /// Second `:PROXY`: connections to endpoints begin with one.
    pub(crate) sends_proxy: bool,
    /// The uid of the ConfigMap, which problems of the entry have.
    pub(crate) config_map: Option<Uid>,
}

const SYNTAX: &str = "write namespace/name:port, for TCP optionally followed by :PROXY or :PROXY:PROXY";

/// Reads the ConfigMap of a transport protocol.
pub(crate) fn read(view: &View<'_>, transport: TransportProtocol) -> (StreamServices, Vec<Problem>) {
    let Some(name) = config_map(view.options, transport) else { return Default::default() };
    let Some(map) = view.config_map(name, DataFields::All) else {
        let missing = warning(
            Code::ConfigMapNotFound,
            &ObjectRef::new("Flag", "", flag(transport)),
            name.to_string(),
            format!("this ConfigMap does not exist; no {transport} services are served"),
            "create it, or remove the flag; it is taken up when it appears",
        );
        return (StreamServices::new(), vec![missing]);
    };
    let mut reader = Reader { map, transport, options: view.options, problems: Vec::new() };
    let entries = map.data.iter().filter_map(|(port, text)| reader.entry(port, text)).collect();
    (entries, reader.problems)
}

struct Reader<'v> {
    map: &'v ConfigMap,
    transport: TransportProtocol,
    options: &'v Options,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn entry(&mut self, key: &str, text: &str) -> Option<(u16, StreamEntry)> {
        let port = self.port(key)?;
        let mut parts = text.split(':');
        let (Some(service), Some(service_port)) = (parts.next().and_then(object_name), parts.next()) else {
            self.skip(key, format!("{text:?} is not a reference to a Service and its port"), SYNTAX);
            return None;
        };
        if service_port.is_empty() {
            self.skip(key, format!("{text:?} names no port of Service {service}"), SYNTAX);
            return None;
        }
        let options: Vec<&str> = parts.collect();
        let is_proxy =
            |index: usize| options.get(index).is_some_and(|word| word.eq_ignore_ascii_case("PROXY"));
        let is_tcp = self.transport == TransportProtocol::Tcp;
        let accepts_proxy = is_tcp && is_proxy(0);
        // As in ingress-nginx, the second word counts only at the end.
        let sends_proxy = is_tcp && is_proxy(1) && options.len() == 2;
        let used = [accepts_proxy || (sends_proxy && options[0].is_empty()), sends_proxy];
        let ignored = options.iter().zip(used.into_iter().chain(std::iter::repeat(false)));
        let ignored: Vec<&str> = ignored.filter(|(_, used)| !used).map(|(word, _)| *word).collect();
        if !ignored.is_empty() {
            let ignored = ignored.join(":");
            self.warn(
                key,
                format!("{text:?} ends with {ignored:?}, which is ignored"),
                match is_tcp {
                    true => SYNTAX,
                    false => "remove it: the PROXY protocol is for TCP services only",
                },
            );
        }
        let (port_name, config_map) = (service_port.into(), self.map.identity.uid.clone());
        Some((port, StreamEntry { service, port: port_name, accepts_proxy, sends_proxy, config_map }))
    }

    fn port(&mut self, key: &str) -> Option<u16> {
        let Some(port) = key.parse().ok().filter(|port| *port != 0) else {
            self.skip(
                key,
                format!("{key:?} is not a port number"),
                "use a number from 1 to 65535 as the key",
            );
            return None;
        };
        if let Some((_, flag)) = self.options.reserved_ports.iter().find(|(own, _)| *own == port) {
            let reason = format!("port {port} is reserved for the gateway itself ({flag})");
            self.problem(Code::StreamPortReserved, key, reason, "use another port as the key");
            return None;
        }
        Some(port)
    }

    fn skip(&mut self, key: &str, reason: String, remedy: &str) {
        self.problem(Code::StreamInvalid, key, reason, remedy);
    }

    fn problem(&mut self, code: Code, key: &str, reason: String, remedy: &str) {
        let message = format!("{reason}; the entry is skipped");
        self.problems.push(error(code, &object(&self.map.name), field(key), message, remedy));
    }

    fn warn(&mut self, key: &str, message: String, remedy: &str) {
        self.problems.push(warning(
            Code::StreamInvalid,
            &object(&self.map.name),
            field(key),
            message,
            remedy,
        ));
    }
}

pub(super) fn object(name: &NamespacedName) -> ObjectRef {
    ObjectRef { kind: "ConfigMap".into(), name: name.clone() }
}

pub(super) fn field(key: &str) -> String {
    format!("data[{key}]")
}

fn object_name(text: &str) -> Option<NamespacedName> {
    let (namespace, name) = text.split_once('/')?;
    let is_name = |part: &str| !part.is_empty() && !part.contains('/');
    (is_name(namespace) && is_name(name)).then(|| NamespacedName::new(namespace, name))
}
