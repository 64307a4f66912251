//! The client's address, and the fields that describe the client to an endpoint: `X-Real-IP`,
//! `X-Forwarded-*` and related ones.
//!
//! One function, [`ForwardedRules::client`], determines the client's address for all uses: the log,
//! limits, network lists, hashing and header fields. It starts at the nearest address and proceeds
//! towards the client for as long as each address is trusted to name the next one (nginx's
//! `real_ip_recursive`):
//!
//! | | nearest address | header fields |
//! |---|---|---|
//! | default | the peer | ignored |
//! | `use-forwarded-headers`, `enable-real-ip` | the peer | `forwarded-for-header`, from its end |
//! | `use-proxy-protocol` | the source in the PROXY header, if the peer is trusted | ignored |
//! | `use-proxy-protocol`, `use-forwarded-headers` | same | `forwarded-for-header`, from its end |
//!
//! With `use-proxy-protocol`, a connection from an untrusted peer is closed.
//!
//! By default, claims of a client about itself are not passed on as facts: the gateway's values
//! replace the received ones, which remain available as `X-Original-Forwarded-*`. With
//! `use-forwarded-headers`, the fields of the nearest peer are kept if that peer is trusted, and
//! its `X-Forwarded-Host` becomes the `Host` for endpoints. ingress-nginx accepts
//! `X-Forwarded-Proto`, `-Host` and `-Port` from any peer in that mode, so a client that bypasses
//! the proxies can avoid the redirect to https.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, HeaderValue};
use sluice_config::{Forwarded, GlobalSettings, TrustedPeers};

use super::networks::Networks;
use crate::connection::info::ConnectionInfo;
use crate::connection::info::address;
use crate::message::authority::is_authority;
use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;
use crate::message::hex::write_hex;

static PROXY: HeaderName = HeaderName::from_static("proxy");
static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
static X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
static X_FORWARDED_SCHEME: HeaderName = HeaderName::from_static("x-forwarded-scheme");
static X_ORIGINAL_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-original-forwarded-for");
static X_ORIGINAL_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-original-forwarded-host");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
static X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
static X_SCHEME: HeaderName = HeaderName::from_static("x-scheme");

/// Returns whether the gateway itself sets this field, whatever the client sent.
pub fn is_set_by_gateway(name: &HeaderName) -> bool {
    [
        &X_FORWARDED_FOR,
        &X_FORWARDED_HOST,
        &X_FORWARDED_PORT,
        &X_FORWARDED_PROTO,
        &X_FORWARDED_SCHEME,
        &X_ORIGINAL_FORWARDED_FOR,
        &X_REAL_IP,
        &X_REQUEST_ID,
        &X_SCHEME,
    ]
    .contains(&name)
}

/// Compiled trust settings. They are compiled once per change of the settings.
#[derive(Debug)]
pub struct ForwardedRules {
    /// `use-forwarded-headers`.
    uses_headers: bool,
    /// `enable-real-ip`.
    real_ip: bool,
    /// `compute-full-forwarded-for`.
    full: bool,
    peers: Peers,
    for_header: HeaderName,
    for_proxy_protocol_header: HeaderName,
    host_header: HeaderName,
}

#[derive(Debug)]
enum Peers {
    Any,
    These(Networks),
}

/// The client of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// The address in canonical form.
    pub address: IpAddr,
    /// Whether the `X-Forwarded-*` fields of the request are trusted.
    pub believed: bool,
}

/// Inputs for the forwarding fields of one request.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// The connection on which the request arrived.
    pub connection: &'a ConnectionInfo,
    /// The client of the request.
    pub client: Client,
    /// Host and port of the request.
    pub authority: &'a HeaderValue,
    /// The request ID, if there is one.
    pub request_id: Option<&'a HeaderValue>,
    /// The trust settings.
    pub rules: &'a ForwardedRules,
}

impl ForwardedRules {
    /// Compiles the settings.
    pub fn compile(settings: &Forwarded) -> Self {
        // Translation sends only valid field names.
        let name = |text: &str, otherwise: &HeaderName| text.parse().unwrap_or_else(|_| otherwise.clone());
        Self {
            uses_headers: settings.use_headers,
            real_ip: settings.real_ip,
            full: settings.compute_full,
            peers: match &settings.peers {
                TrustedPeers::Any => Peers::Any,
                TrustedPeers::These(networks) => Peers::These(Networks::compile(networks)),
            },
            for_header: name(&settings.for_header, &X_FORWARDED_FOR),
            for_proxy_protocol_header: name(
                &settings.for_proxy_protocol_header,
                &HeaderName::from_static("x-forwarded-for-proxy-protocol"),
            ),
            host_header: name(&settings.host_header, &X_FORWARDED_HOST),
        }
    }

    /// Returns whether `address`, in canonical form, is trusted to name the address before it.
    pub fn trusts(&self, address: IpAddr) -> bool {
        match &self.peers {
            Peers::Any => true,
            Peers::These(networks) => networks.contains(address),
        }
    }

    /// Returns whether the request claims that its client used https, but its peer is not trusted
    /// to claim it.
    pub fn distrusts_https(&self, headers: &impl Fields, client: Client) -> bool {
        self.uses_headers
            && !client.believed
            && headers.first(&X_FORWARDED_PROTO).is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
    }

    /// Determines the client of a request with these fields.
    pub fn client(&self, connection: &ConnectionInfo, headers: &impl Fields) -> Client {
        let mut client = connection.nearest();
        let reads_address = self.uses_headers || (self.real_ip && connection.proxied.is_none());
        if !reads_address || !self.trusts(client) {
            return Client { address: client, believed: false };
        }
        // From the nearest proxy to the farthest; stops at the first entry that is not an address.
        let lines = headers.lines(&self.for_header).rev();
        for address in lines.flat_map(entries_from_the_end).map_while(entry_address) {
            client = address;
            if !self.trusts(address) {
                break;
            }
        }
        Client { address: client, believed: self.uses_headers }
    }
}

impl Default for ForwardedRules {
    fn default() -> Self {
        Self::compile(&Forwarded::default())
    }
}

/// Splits a line of addresses at commas and blanks, as nginx does. Empty entries are skipped: a
/// proxy in front that appends to an empty list does not hide the addresses before them.
fn entries_from_the_end(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.rsplit(|byte| matches!(byte, b',' | b' ' | b'\t')).filter(|entry| !entry.is_empty())
}

fn entry_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(with_port).or_else(bracketed).map(|ip: IpAddr| ip.to_canonical())
}

/// Returns the scheme that the client used, from trusted fields or the connection.
pub fn access_scheme<'h>(connection: &ConnectionInfo, headers: &'h impl Fields, client: Client) -> &'h [u8] {
    if connection.was_https() {
        return b"https";
    }
    believed(headers, &X_FORWARDED_PROTO, client).unwrap_or(connection.scheme().as_bytes())
}

/// Returns the host that the client used, for redirects: a valid, trusted `X-Forwarded-Host`, else
/// the authority.
pub fn access_host<'h>(authority: &'h str, headers: &'h impl Fields, client: Client) -> &'h str {
    believed_host(headers, client)
        .filter(|value| is_authority(value))
        .and_then(|value| str::from_utf8(value).ok())
        .unwrap_or(authority)
}

/// Returns the port that the client used, for redirects: a valid, trusted `X-Forwarded-Port`, else
/// the port of the socket.
pub fn access_port(connection: &ConnectionInfo, headers: &impl Fields, client: Client) -> u16 {
    believed(headers, &X_FORWARDED_PORT, client)
        .and_then(|value| str::from_utf8(value).ok()?.parse().ok())
        .unwrap_or(connection.port)
}

/// Returns the client's request ID, or a new one of 32 hexadecimal digits.
pub fn request_id(headers: &impl Fields, settings: &GlobalSettings) -> Option<HeaderValue> {
    if let Some(value) = headers.first(&X_REQUEST_ID).filter(|value| !value.is_empty()) {
        return HeaderValue::from_bytes(value).ok();
    }
    if !settings.generate_request_id {
        return None;
    }
    let mut digits = [0; 32];
    write_hex(&fastrand::u128(..).to_be_bytes(), &mut digits);
    HeaderValue::from_bytes(&digits).ok()
}

/// Returns the value of a non-empty field, if the request came through a trusted proxy.
fn believed<'h>(headers: &'h impl Fields, name: &HeaderName, client: Client) -> Option<&'h [u8]> {
    if !client.believed {
        return None;
    }
    headers.first(name).filter(|value| !value.is_empty())
}

/// Returns the first host of a trusted `X-Forwarded-Host`: the one that the client used.
fn believed_host(headers: &impl Fields, client: Client) -> Option<&[u8]> {
    let value = believed(headers, &X_FORWARDED_HOST, client)?;
    let first = value.split(|byte| *byte == b',').next()?.trim_ascii();
    (!first.is_empty()).then_some(first)
}

impl Forwarding<'_> {
    /// Sets all fields on the head as received from the client.
    pub fn apply(&self, head: &mut impl FieldsMut) {
        let Self { connection, client, authority, request_id, rules } = self;
        let map = &*head;
        let value = |bytes: &[u8]| HeaderValue::from_bytes(bytes).ok();
        let host = believed_host(map, *client).and_then(value);
        let host = host.as_ref().unwrap_or(authority);
        let sent_host = believed_host(map, *client).filter(|host| is_authority(host)).and_then(value);
        let sent_host = sent_host.as_ref().unwrap_or(authority);
        let port = believed(map, &X_FORWARDED_PORT, *client).and_then(value);
        let port = port.as_ref().unwrap_or(&connection.texts.port);
        let proto = match access_scheme(connection, map, *client) {
            b"https" => HeaderValue::from_static("https"),
            b"http" => HeaderValue::from_static("http"),
            other => value(other).unwrap_or_else(|| HeaderValue::from_static(connection.scheme())),
        };
        let incoming_for = join(map, &rules.for_header);
        let incoming_host = join(map, &rules.host_header);
        let formatted;
        let address = match client.address == connection.nearest() {
            true => &connection.texts.nearest,
            false => {
                formatted = address(client.address);
                &formatted
            }
        };
        let full = match client.believed && rules.full {
            true => join(map, &X_FORWARDED_FOR).map(|before| appended(&before, &connection.texts.nearest)),
            false => None,
        };

        head.remove(&PROXY);
        head.set(&HOST, sent_host);
        match request_id {
            Some(id) => head.set(&X_REQUEST_ID, id),
            None => head.remove(&X_REQUEST_ID),
        }
        head.set(&X_REAL_IP, address);
        head.set(&X_FORWARDED_FOR, full.as_ref().unwrap_or(address));
        head.set(&X_FORWARDED_HOST, host);
        head.set(&X_FORWARDED_PORT, port);
        head.set(&X_FORWARDED_PROTO, &proto);
        head.set(&X_FORWARDED_SCHEME, &proto);
        head.set(&X_SCHEME, &proto);
        if rules.uses_headers && connection.proxied.is_some() {
            let taken_from = incoming_for.as_ref().filter(|_| client.believed);
            let taken_from = taken_from.unwrap_or(&connection.texts.nearest);
            head.set(&rules.for_proxy_protocol_header, taken_from);
        }
        keep(head, &X_ORIGINAL_FORWARDED_FOR, incoming_for);
        keep(head, &X_ORIGINAL_FORWARDED_HOST, incoming_host);
    }
}

fn keep(head: &mut impl FieldsMut, name: &HeaderName, value: Option<HeaderValue>) {
    match value {
        Some(value) => head.set(name, &value),
        None => head.remove(name),
    }
}

/// Returns all lines of a field as one value; `None` if it is empty.
fn join(head: &impl Fields, name: &HeaderName) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&head.joined(name)?).ok().filter(|value| !value.is_empty())
}

fn appended(before: &HeaderValue, address: &HeaderValue) -> HeaderValue {
    let mut list = before.as_bytes().to_vec();
    list.extend_from_slice(b", ");
    list.extend_from_slice(address.as_bytes());
    // Cannot fail: a valid value followed by an address is valid.
    HeaderValue::try_from(list).unwrap_or_else(|_| address.clone())
}

#[cfg(test)]
mod tests;
