//! The lab's DNS server, on port 53 (UDP and TCP) of the bridge's address: names of Services for
//! Pods, and the hosts of Ingresses as external-dns would publish them, so that an ACME server
//! finds the gateway.
//!
//! Each query reads the API, and nothing is cached: queries are rare, and a cluster under
//! measurement has thousands of Services whose names are not used. Only A records exist; a query of
//! another type for an existing name returns no records.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tracing::warn;

use crate::addresses::GATEWAY;
use crate::client::connect;
use crate::layout::Layout;

/// The zone of Services.
const ZONE: &str = "cluster.local";
/// Length of a message header in bytes (RFC 1035 §4.1.1).
const HEADER: usize = 12;
/// Query type of IPv4 addresses.
const TYPE_A: [u8; 2] = [0, 1];
/// Time in seconds for which a response may be cached. Tests change the addresses of names.
const TTL: u32 = 1;
/// Maximum size in bytes of a query over UDP.
const LONGEST: usize = 1232;

/// Returns the `resolv.conf` of a Pod.
pub(crate) fn resolver(namespace: &str) -> String {
    format!("nameserver {GATEWAY}\nsearch {namespace}.svc.{ZONE} svc.{ZONE} {ZONE}\noptions ndots:5\n")
}

/// Serves until it is dropped.
///
/// # Errors
/// Returns an error if the lab's kubeconfig is missing, or the port is taken.
pub async fn run(layout: Layout) -> Result<()> {
    let client = connect(&layout.kubeconfig("admin")).await?;
    let address = (GATEWAY, 53);
    let datagrams = UdpSocket::bind(address).await.context("the port for names")?;
    let streams = TcpListener::bind(address).await.context("the port for names")?;
    let mut buffer = [0; LONGEST];
    // Errors below mean that a client is gone.
    loop {
        tokio::select! {
            received = datagrams.recv_from(&mut buffer) => {
                let Ok((length, from)) = received else { continue };
                let Some(answer) = reply(&client, &buffer[..length]).await else { continue };
                let _ = datagrams.send_to(&answer, from).await;
            }
            accepted = streams.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                tokio::spawn(converse(client.clone(), stream));
            }
        }
    }
}

/// Answers the queries of a TCP connection, in which each message is preceded by its length (RFC
/// 1035 §4.2.2).
async fn converse(client: Client, mut stream: TcpStream) -> Option<()> {
    loop {
        let mut message = vec![0; stream.read_u16().await.ok()?.into()];
        stream.read_exact(&mut message).await.ok()?;
        let answer = reply(&client, &message).await?;
        stream.write_u16(answer.len().try_into().ok()?).await.ok()?;
        stream.write_all(&answer).await.ok()?;
    }
}

/// Returns the response to a message, if that is a query.
async fn reply(client: &Client, message: &[u8]) -> Option<Vec<u8>> {
    let question = Question::read(message)?;
    let found = lookup(client, &question.name).await.unwrap_or_else(|error| {
        warn!(name = question.name, "{error:#}");
        Found::Failed
    });
    Some(question.answer(message, &found))
}

/// The result for a name.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Addresses(Vec<Ipv4Addr>),
    Nothing,
    Failed,
}

/// The only query of a message.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// The name in lower case, without the final dot.
    name: String,
    /// Offset of the end of the query in the message.
    end: usize,
    kind: [u8; 2],
}

impl Question {
    /// Parses a message with one query.
    fn read(message: &[u8]) -> Option<Self> {
        let (flags, count) = (message.get(2..4)?, message.get(4..6)?);
        if flags[0] & 0x80 != 0 || count != [0, 1] {
            return None;
        }
        let (mut labels, mut at) = (Vec::new(), HEADER);
        loop {
            let length = usize::from(*message.get(at)?);
            at += 1;
            match length {
                0 => break,
                // Compression pointers are not allowed in a query.
                64.. => return None,
                _ => {
                    labels.push(std::str::from_utf8(message.get(at..at + length)?).ok()?.to_ascii_lowercase())
                }
            }
            at += length;
        }
        let kind = message.get(at..at + 2)?.try_into().ok()?;
        Some(Self { name: labels.join("."), end: message.get(..at + 4)?.len(), kind })
    }

    /// Builds the response to `message`, from which this query was parsed.
    fn answer(&self, message: &[u8], found: &Found) -> Vec<u8> {
        let addresses = match found {
            Found::Addresses(addresses) if self.kind == TYPE_A => addresses.as_slice(),
            _ => &[],
        };
        let code = match found {
            Found::Addresses(_) => 0,
            Found::Failed => 2,
            Found::Nothing => 3,
        };
        let mut answer = message[..self.end].to_vec();
        // Authoritative response, recursion available.
        answer[2] = 0x84 | (message[2] & 0x01);
        answer[3] = 0x80 | code;
        let count = u16::try_from(addresses.len()).unwrap_or_default();
        answer[6..8].copy_from_slice(&count.to_be_bytes());
        answer[8..HEADER].fill(0);
        for address in addresses {
            // Pointer to the name in the query, directly after the header.
            answer.extend([0xc0, 12]);
            answer.extend([0, 1, 0, 1]);
            answer.extend(TTL.to_be_bytes());
            answer.extend([0, 4]);
            answer.extend(address.octets());
        }
        answer
    }
}

async fn lookup(client: &Client, name: &str) -> Result<Found> {
    let Some(inside) = name.strip_suffix(ZONE).and_then(|rest| rest.strip_suffix('.')) else {
        return host(client, name).await;
    };
    let Some((service, namespace)) = inside.strip_suffix(".svc").and_then(|name| name.split_once('.')) else {
        return Ok(Found::Nothing);
    };
    if namespace.contains('.') {
        return Ok(Found::Nothing);
    }
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let Some(spec) = services.get_opt(service).await?.and_then(|service| service.spec) else {
        return Ok(Found::Nothing);
    };
    match spec.cluster_ip.as_deref() {
        Some("None") => {
            let label = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
            let slices = Api::<EndpointSlice>::namespaced(client.clone(), namespace).list(&label).await?;
            let ready =
                slices.items.into_iter().flat_map(|slice| slice.endpoints.unwrap_or_default()).filter(
                    |endpoint| {
                        endpoint.conditions.as_ref().is_none_or(|conditions| conditions.ready != Some(false))
                    },
                );
            let addresses = ready.flat_map(|endpoint| endpoint.addresses);
            Ok(Found::Addresses(addresses.filter_map(|address| address.parse().ok()).collect()))
        }
        address => Ok(Found::Addresses(address.into_iter().filter_map(|ip| ip.parse().ok()).collect())),
    }
}

/// Returns the addresses in the status of the Ingresses with this host.
async fn host(client: &Client, name: &str) -> Result<Found> {
    let all = Api::<Ingress>::all(client.clone()).list(&ListParams::default()).await?;
    let named = |ingress: &Ingress| {
        let rules = ingress.spec.iter().flat_map(|spec| spec.rules.iter().flatten());
        rules.filter_map(|rule| rule.host.as_ref()).any(|host| host.eq_ignore_ascii_case(name))
    };
    let mut addresses: Vec<Ipv4Addr> = Vec::new();
    for ingress in all.items.into_iter().filter(named) {
        let balancer = ingress.status.and_then(|status| status.load_balancer);
        let given = balancer.and_then(|balancer| balancer.ingress).into_iter().flatten();
        addresses.extend(given.filter_map(|one| one.ip?.parse::<Ipv4Addr>().ok()));
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(if addresses.is_empty() { Found::Nothing } else { Found::Addresses(addresses) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(name: &str, kind: u8) -> Vec<u8> {
        let mut message = vec![0xab, 0xcd, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1];
        for label in name.split('.') {
            message.push(u8::try_from(label.len()).unwrap());
            message.extend(label.bytes());
        }
        message.extend([0, 0, kind, 0, 1]);
        // An OPT record, as resolvers add it.
        message.extend([0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
        message
    }

    #[test]
    fn an_answer_has_the_question_and_the_addresses() {
        let message = query("Web.Shop.svc.cluster.local", 1);
        let question = Question::read(&message).unwrap();
        assert_eq!(question.name, "web.shop.svc.cluster.local");
        let answer = question.answer(&message, &Found::Addresses(vec![Ipv4Addr::new(10, 96, 0, 7)]));
        assert_eq!(&answer[..HEADER], [0xab, 0xcd, 0x85, 0x80, 0, 1, 0, 1, 0, 0, 0, 0]);
        assert_eq!(&answer[HEADER..question.end], &message[HEADER..question.end]);
        assert_eq!(&answer[question.end..], [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 10, 96, 0, 7]);
    }

    #[test]
    fn another_type_of_a_known_name_is_answered_with_nothing_and_no_error() {
        let message = query("web", 28);
        let question = Question::read(&message).unwrap();
        let answer = question.answer(&message, &Found::Addresses(vec![Ipv4Addr::LOCALHOST]));
        assert_eq!((answer.len(), answer[3], &answer[6..8]), (question.end, 0x80, &[0, 0][..]));
        assert_eq!(question.answer(&message, &Found::Nothing)[3], 0x83);
    }

    #[test]
    fn malformed_queries_are_not_answered() {
        let message = query("web", 1);
        for end in 0..message.len() - 11 {
            assert_eq!(Question::read(&message[..end]), None, "{end} bytes");
        }
        let mut response = message.clone();
        response[2] |= 0x80;
        assert_eq!(Question::read(&response), None);
        let mut pointer = message;
        pointer[HEADER] = 0xc0;
        assert_eq!(Question::read(&pointer), None);
    }
}
