//! What an endpoint is told about the client: `X-Real-IP`, `X-Forwarded-*` and their relatives.
//!
//! By default nothing that a client says about itself is passed on as fact: our own values replace the
//! incoming ones, which stay readable as `X-Original-Forwarded-*`. With `use-forwarded-headers` there is a
//! trusted proxy in front of us and its values are kept; then the client's address is the leftmost of
//! `X-Forwarded-For`, as nginx finds it with `real_ip_recursive` and every peer trusted.

use std::net::{IpAddr, SocketAddr};

use http::header::{HOST, HeaderName, HeaderValue};
use sluice_config::Tuning;

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

/// What the fields of one request are made from.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    /// The connection the request came on.
    pub connection: &'a ConnectionInfo,
    /// The client ([`client_address`]).
    pub client: IpAddr,
    /// Host and port the request is for.
    pub authority: &'a HeaderValue,
    /// The request's id, if it has one.
    pub request_id: Option<&'a HeaderValue>,
    /// Global settings.
    pub tuning: &'a Tuning,
}

/// The client's address: the peer's, or what a trusted proxy in front of us says.
pub fn client_address(connection: &ConnectionInfo, headers: &impl Fields, tuning: &Tuning) -> IpAddr {
    let peer = connection.peer.ip().to_canonical();
    if !tuning.use_forwarded_headers {
        return peer;
    }
    // From the nearest proxy to the farthest, as far as there are addresses.
    let lines = headers.lines(&X_FORWARDED_FOR).rev();
    let entries = lines.flat_map(|line| line.rsplit(|byte| *byte == b','));
    entries.map_while(entry_address).last().unwrap_or(peer)
}

fn entry_address(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry.trim_ascii()).ok()?;
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    text.parse().ok().or_else(with_port).or_else(bracketed).map(|ip: IpAddr| ip.to_canonical())
}

/// The scheme that the client used, as far as we may believe it.
pub fn access_scheme<'h>(connection: &ConnectionInfo, headers: &'h impl Fields, tuning: &Tuning) -> &'h [u8] {
    trusted(headers, &X_FORWARDED_PROTO, tuning).unwrap_or(connection.scheme().as_bytes())
}

/// The host that the client used, for redirects: a trusted `X-Forwarded-Host` that is one, else the authority.
pub fn access_host<'h>(authority: &'h str, headers: &'h impl Fields, tuning: &Tuning) -> &'h str {
    trusted(headers, &X_FORWARDED_HOST, tuning)
        .filter(|value| is_authority(value))
        .and_then(|value| str::from_utf8(value).ok())
        .unwrap_or(authority)
}

/// The client's own request id, or a new one: 32 hexadecimal digits.
pub fn request_id(headers: &impl Fields, tuning: &Tuning) -> Option<HeaderValue> {
    if let Some(value) = headers.first(&X_REQUEST_ID).filter(|value| !value.is_empty()) {
        return HeaderValue::from_bytes(value).ok();
    }
    if !tuning.generate_request_id {
        return None;
    }
    let mut digits = [0; 32];
    super::affinity::write_hex(&fastrand::u128(..).to_be_bytes(), &mut digits);
    HeaderValue::from_bytes(&digits).ok()
}

/// A non-empty field of the request, if there is a trusted proxy to have set it.
fn trusted<'h>(headers: &'h impl Fields, name: &HeaderName, tuning: &Tuning) -> Option<&'h [u8]> {
    if !tuning.use_forwarded_headers {
        return None;
    }
    headers.first(name).filter(|value| !value.is_empty())
}

impl Forwarding<'_> {
    /// Sets all fields on the head as the client sent it.
    pub fn apply(&self, head: &mut impl FieldsMut) {
        let Self { connection, client, authority, request_id, tuning } = self;
        let map = &*head;
        let known = |name: &HeaderName| {
            trusted(map, name, tuning).and_then(|value| HeaderValue::from_bytes(value).ok())
        };
        let host = known(&X_FORWARDED_HOST);
        let host = host.as_ref().unwrap_or(authority);
        let port = known(&X_FORWARDED_PORT);
        let port = port.as_ref().unwrap_or(&connection.texts.port);
        let proto =
            known(&X_FORWARDED_PROTO).unwrap_or_else(|| HeaderValue::from_static(connection.scheme()));
        let incoming_for = join(map, &X_FORWARDED_FOR);
        let incoming_host = join(map, &X_FORWARDED_HOST);
        let told;
        let client = match *client == connection.peer.ip().to_canonical() {
            true => &connection.texts.client,
            false => {
                told = address(*client);
                &told
            }
        };
        let full = match &incoming_for {
            Some(before) if tuning.use_forwarded_headers && tuning.compute_full_forwarded_for => {
                Some(appended(before, &connection.texts.client))
            }
            _ => None,
        };

        head.remove(&PROXY);
        head.set(&HOST, authority);
        match request_id {
            Some(id) => head.set(&X_REQUEST_ID, id),
            None => head.remove(&X_REQUEST_ID),
        }
        head.set(&X_REAL_IP, client);
        head.set(&X_FORWARDED_FOR, full.as_ref().unwrap_or(client));
        head.set(&X_FORWARDED_HOST, host);
        head.set(&X_FORWARDED_PORT, port);
        head.set(&X_FORWARDED_PROTO, &proto);
        head.set(&X_FORWARDED_SCHEME, &proto);
        head.set(&X_SCHEME, &proto);
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
mod tests {
    use http::HeaderMap;
    use sluice_config::{BindProtocol, GroupId};

    use super::*;
    use crate::connection_info::Texts;
    use crate::connection_info::TlsInfo;

    fn connection(https: bool) -> ConnectionInfo {
        let peer = "[::ffff:192.0.2.7]:5000".parse().unwrap();
        ConnectionInfo {
            peer,
            texts: Texts::new(peer, if https { 443 } else { 80 }),
            group: GroupId::ingress(),
            declared_port: if https { 443 } else { 80 },
            port: if https { 8443 } else { 8080 },
            protocol: if https { BindProtocol::Https } else { BindProtocol::Http },
            tls: https.then_some(TlsInfo { server_name: None, version: "TLSv1.3", cipher: "x" }),
        }
    }

    fn sent(fields: &[(&'static str, &'static str)], https: bool, tuning: &Tuning) -> HeaderMap {
        let mut head = HeaderMap::new();
        for (name, value) in fields {
            HeaderMap::append(&mut head, *name, HeaderValue::from_static(value));
        }
        let connection = connection(https);
        let id = request_id(&head, tuning);
        let client = client_address(&connection, &head, tuning);
        let authority = HeaderValue::from_static("a.example:8080");
        let forwarding = Forwarding {
            connection: &connection,
            client,
            authority: &authority,
            request_id: id.as_ref(),
            tuning,
        };
        forwarding.apply(&mut head);
        head
    }

    const CLAIMS: [(&str, &str); 8] = [
        ("x-forwarded-for", "203.0.113.9, 198.51.100.1"),
        ("x-forwarded-host", "www.example"),
        ("x-forwarded-port", "8443"),
        ("x-forwarded-proto", "https"),
        ("x-original-forwarded-for", "1.1.1.1"),
        ("x-real-ip", "1.1.1.1"),
        ("proxy", "http://evil"),
        ("x-request-id", "mine"),
    ];

    #[test]
    fn claims_of_a_client_are_replaced() {
        let head = sent(&CLAIMS, false, &Tuning::default());
        for (name, value) in [
            ("host", "a.example:8080"),
            ("x-request-id", "mine"),
            ("x-real-ip", "192.0.2.7"),
            ("x-forwarded-for", "192.0.2.7"),
            ("x-forwarded-host", "a.example:8080"),
            ("x-forwarded-port", "80"),
            ("x-forwarded-proto", "http"),
            ("x-forwarded-scheme", "http"),
            ("x-scheme", "http"),
            ("x-original-forwarded-for", "203.0.113.9, 198.51.100.1"),
            ("x-original-forwarded-host", "www.example"),
        ] {
            assert_eq!(head.get_all(name).iter().collect::<Vec<_>>(), [value], "{name}");
        }
        assert!(!head.contains_key("proxy"));
    }

    #[test]
    fn a_trusted_proxy_is_believed() {
        let tuning = Tuning { use_forwarded_headers: true, ..Tuning::default() };
        let head = sent(&CLAIMS, false, &tuning);
        for (name, value) in [
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "www.example"),
            ("x-forwarded-port", "8443"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-scheme", "https"),
            ("x-scheme", "https"),
        ] {
            assert_eq!(head[name], value, "{name}");
        }
        let full = Tuning { compute_full_forwarded_for: true, ..tuning };
        let head = sent(&CLAIMS, false, &full);
        assert_eq!(head["x-forwarded-for"], "203.0.113.9, 198.51.100.1, 192.0.2.7");
        let head = sent(&[], false, &full);
        assert_eq!(head["x-forwarded-for"], "192.0.2.7");
    }

    #[test]
    fn appending_needs_trust() {
        let tuning = Tuning { compute_full_forwarded_for: true, ..Tuning::default() };
        assert_eq!(sent(&CLAIMS, false, &tuning)["x-forwarded-for"], "192.0.2.7");
    }

    #[test]
    fn https_is_told_with_the_declared_port() {
        let head = sent(&[], true, &Tuning::default());
        assert_eq!(head["x-forwarded-port"], "443");
        assert_eq!(head["x-forwarded-proto"], "https");
        assert!(!head.contains_key("x-original-forwarded-for"));
        assert!(!head.contains_key("x-original-forwarded-host"));
    }

    #[test]
    fn a_request_id_is_made_unless_that_is_off() {
        let made = sent(&[("x-request-id", "")], false, &Tuning::default());
        let made = made["x-request-id"].to_str().unwrap();
        assert_eq!(made.len(), 32);
        assert!(made.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')), "{made}");
        let off = Tuning { generate_request_id: false, ..Tuning::default() };
        assert!(!sent(&[], false, &off).contains_key("x-request-id"));
        assert_eq!(sent(&CLAIMS, false, &off)["x-request-id"], "mine");
    }

    #[test]
    fn the_client_is_the_farthest_address_in_an_unbroken_row() {
        let tuning = Tuning { use_forwarded_headers: true, ..Tuning::default() };
        for (lines, expected) in [
            (&["2001:db8::1, 10.0.0.1"][..], "2001:db8::1"),
            (&["1.1.1.1, unknown, 10.0.0.1:77"], "10.0.0.1"),
            (&["1.1.1.1", "10.0.0.1"], "1.1.1.1"),
            (&["[2001:db8::2]:99"], "2001:db8::2"),
            (&["nobody"], "192.0.2.7"),
            (&[], "192.0.2.7"),
        ] {
            let headers: HeaderMap =
                lines.iter().map(|line| (X_FORWARDED_FOR.clone(), line.parse().unwrap())).collect();
            let client = client_address(&connection(false), &headers, &tuning);
            assert_eq!(client.to_string(), expected, "{lines:?}");
        }
    }
}
