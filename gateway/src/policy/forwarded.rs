//! Who a client is, and what an endpoint is told about it: `X-Real-IP`, `X-Forwarded-*` and their relatives.
//!
//! One function, [`ForwardedRules::client`], decides the client's address, for the log, limits, lists of networks,
//! hashing and fields alike. It walks from who is nearest to us towards the client, as far as each is trusted to
//! name the next (nginx's `real_ip_recursive`):
//!
//! | | nearest | fields |
//! |---|---|---|
//! | nothing set | the peer | mean nothing |
//! | `use-forwarded-headers`, `enable-real-ip` | the peer | `forwarded-for-header`, from its end |
//! | `use-proxy-protocol` | what the header of the connection says; its peer is trusted, or the connection would have been closed | mean nothing |
//! | `use-proxy-protocol`, `use-forwarded-headers` | the same | `forwarded-for-header`, from its end |
//!
//! By default nothing that a client says about itself is passed on as fact: our own values replace
//! the incoming ones, which stay readable as `X-Original-Forwarded-*`. With `use-forwarded-headers`
//! the fields of the nearest peer are kept where it is trusted, and its `X-Forwarded-Host` is the
//! `Host` that endpoints get. ingress-nginx believes anybody's `X-Forwarded-Proto`, `-Host` and
//! `-Port` then; so a client that comes past the proxies could skip the redirect to https.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, HeaderValue};
use sluice_config::{Forwarded, GlobalSettings, TrustedPeers};

use super::networks::Networks;
use crate::connection_info::ConnectionInfo;
use crate::connection_info::address;
use crate::message::authority::is_authority;
use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

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

/// What is believed, compiled. Made once for each change of the settings.
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
    Everybody,
    These(Networks),
}

/// Who has sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Its address, in its canonical form.
    pub address: IpAddr,
    /// Whether the `X-Forwarded-*` fields of the request are believed.
    pub believed: bool,
}

/// What the fields of one request are made from.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// The connection the request came on.
    pub connection: &'a ConnectionInfo,
    /// Who has sent it.
    pub client: Client,
    /// Host and port the request is for.
    pub authority: &'a HeaderValue,
    /// The request's id, if it has one.
    pub request_id: Option<&'a HeaderValue>,
    /// What is believed.
    pub rules: &'a ForwardedRules,
}

impl ForwardedRules {
    /// Compiles the settings.
    pub fn compile(settings: &Forwarded) -> Self {
        // Translation passes on names of fields only.
        let name = |text: &str, otherwise: &HeaderName| text.parse().unwrap_or_else(|_| otherwise.clone());
        Self {
            uses_headers: settings.use_headers,
            real_ip: settings.real_ip,
            full: settings.compute_full,
            peers: match &settings.peers {
                TrustedPeers::Everybody => Peers::Everybody,
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

    /// Whether this address, in its canonical form, may say for whom it speaks.
    pub fn trusts(&self, address: IpAddr) -> bool {
        match &self.peers {
            Peers::Everybody => true,
            Peers::These(networks) => networks.contains(address),
        }
    }

    /// Whether the request says that its client used https, and this counts for nothing because of
    /// its peer.
    pub fn distrusts_https(&self, headers: &impl Fields, client: Client) -> bool {
        self.uses_headers
            && !client.believed
            && headers.first(&X_FORWARDED_PROTO).is_some_and(|proto| proto.eq_ignore_ascii_case(b"https"))
    }

    /// Who has sent a request with these fields.
    pub fn client(&self, connection: &ConnectionInfo, headers: &impl Fields) -> Client {
        let mut client = connection.nearest();
        let reads_address = self.uses_headers || (self.real_ip && connection.proxied.is_none());
        if !reads_address || !self.trusts(client) {
            return Client { address: client, believed: false };
        }
        // From the nearest proxy to the farthest, as far as there are addresses.
        let lines = headers.lines(&self.for_header).rev();
        let entries = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
        for address in entries.map_while(entry_address) {
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

fn entry_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(with_port).or_else(bracketed).map(|ip: IpAddr| ip.to_canonical())
}

/// The scheme that the client used, as far as we may believe it.
pub fn access_scheme<'h>(connection: &ConnectionInfo, headers: &'h impl Fields, client: Client) -> &'h [u8] {
    if connection.was_https() {
        return b"https";
    }
    believed(headers, &X_FORWARDED_PROTO, client).unwrap_or(connection.scheme().as_bytes())
}

/// The host that the client used, for redirects: a trusted `X-Forwarded-Host` that is one, else the authority.
pub fn access_host<'h>(authority: &'h str, headers: &'h impl Fields, client: Client) -> &'h str {
    believed_host(headers, client)
        .filter(|value| is_authority(value))
        .and_then(|value| str::from_utf8(value).ok())
        .unwrap_or(authority)
}

/// The client's own request id, or a new one: 32 hexadecimal digits.
pub fn request_id(headers: &impl Fields, settings: &GlobalSettings) -> Option<HeaderValue> {
    if let Some(value) = headers.first(&X_REQUEST_ID).filter(|value| !value.is_empty()) {
        return HeaderValue::from_bytes(value).ok();
    }
    if !settings.generate_request_id {
        return None;
    }
    let mut digits = [0; 32];
    super::affinity::write_hex(&fastrand::u128(..).to_be_bytes(), &mut digits);
    HeaderValue::from_bytes(&digits).ok()
}

/// A non-empty field of the request, if there is a trusted proxy to have set it.
fn believed<'h>(headers: &'h impl Fields, name: &HeaderName, client: Client) -> Option<&'h [u8]> {
    if !client.believed {
        return None;
    }
    headers.first(name).filter(|value| !value.is_empty())
}

/// Of several hosts, the one that the client named.
fn believed_host(headers: &impl Fields, client: Client) -> Option<&[u8]> {
    let value = believed(headers, &X_FORWARDED_HOST, client)?;
    let first = value.split(|byte| *byte == b',').next()?.trim_ascii();
    (!first.is_empty()).then_some(first)
}

impl Forwarding<'_> {
    /// Sets all fields on the head as the client sent it.
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
        let told;
        let address = match client.address == connection.nearest() {
            true => &connection.texts.nearest,
            false => {
                told = address(client.address);
                &told
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

/// All values of a field as one (RFC 9110 §5.3).
fn join(head: &impl Fields, name: &HeaderName) -> Option<HeaderValue> {
    let mut lines = head.lines(name);
    let mut joined = lines.next()?.to_vec();
    for line in lines {
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    HeaderValue::try_from(joined).ok().filter(|value| !value.is_empty())
}

fn appended(before: &HeaderValue, address: &HeaderValue) -> HeaderValue {
    let mut list = before.as_bytes().to_vec();
    list.extend_from_slice(b", ");
    list.extend_from_slice(address.as_bytes());
    // A value with an address behind it is a value.
    HeaderValue::try_from(list).unwrap_or_else(|_| address.clone())
}

#[cfg(test)]
mod tests;
