//! The request that an endpoint would receive.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use http::header::HOST;
use serde_json::{Value, json};
use sluice_config::BindProtocol;
use sluice_config::redaction;

use super::Query;
use crate::connection::info::{ConnectionInfo, Texts, TlsInfo};
use crate::pipeline::{Exchange, RequestPreview};
use crate::state::State;
use crate::state::snapshot::PublishedSnapshot;

/// Returns the request as JSON, without the values of secret fields; null if nothing is forwarded.
/// Without an address of the client, 0.0.0.0 stands for it.
pub(super) fn sent(state: &Arc<State>, asked: &Query) -> Value {
    let connection = Arc::new(connection(state, asked));
    match Exchange::preview(PublishedSnapshot::of_now(state), &connection, &head(asked)) {
        Ok(Some(RequestPreview { method, target, fields, backend })) => {
            let field = |(name, value): &(String, String)| {
                let value = if redaction::is_secret(name) { redaction::HIDDEN } else { value };
                json!({ "name": name, "value": value })
            };
            let fields: Vec<_> = fields.iter().map(field).collect();
            json!({ "method": method, "target": target, "backend": backend, "fields": fields })
        }
        Ok(None) | Err(_) => Value::Null,
    }
}

/// Writes the head that the client sends.
fn head(asked: &Query) -> Vec<u8> {
    let Query { host, target, method, headers, .. } = asked;
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n").into_bytes();
    for (name, value) in headers.iter().filter(|(name, _)| **name != HOST) {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
}

/// Returns the connection of a client that uses the listeners of Ingresses directly.
pub(super) fn connection(state: &State, asked: &Query) -> ConnectionInfo {
    let (protocol, usual_port) = match asked.https {
        true => (BindProtocol::Https, 443),
        false => (BindProtocol::Http, 80),
    };
    let group = asked.group.clone();
    let configuration = state.configuration.load();
    let binds = configuration.groups.get(&group).into_iter().flat_map(|group| &group.binds);
    let bind = binds.into_iter().find(|bind| bind.protocol == protocol);
    let (port, declared_port) = bind.map_or((usual_port, usual_port), |bind| (bind.port, bind.declared_port));
    let client = asked.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    ConnectionInfo {
        peer: (client, 0).into(),
        proxied: None,
        group,
        declared_port,
        port,
        protocol,
        tls: asked.https.then(|| {
            Box::new(TlsInfo {
                server_name: None,
                version: "TLSv1.3",
                cipher: "",
                alpn: "",
                resumed: false,
                client: None,
                progress: None,
            })
        }),
        texts: Texts::new(client, declared_port),
        number: 0,
        opened: Instant::now(),
        requests: AtomicU32::new(0),
        retired: AtomicBool::new(false),
    }
}
