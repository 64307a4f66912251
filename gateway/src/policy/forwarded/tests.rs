use http::HeaderMap;
use sluice_config::Network;

use super::*;
use crate::connection::info::{ProxiedAddresses, Texts};
use crate::pipeline::tests::fixture::connection_from;

fn connection(https: bool) -> ConnectionInfo {
    connection_from("[::ffff:192.0.2.7]:5000", https)
}

/// Returns a connection that a load balancer relays for 198.51.100.7 on this port.
fn proxied(port: u16) -> ConnectionInfo {
    let source: SocketAddr = "198.51.100.7:7777".parse().unwrap();
    ConnectionInfo {
        proxied: Some(Box::new(ProxiedAddresses {
            source,
            destination: SocketAddr::new("203.0.113.1".parse().unwrap(), port),
        })),
        texts: Texts::new(source.ip(), port),
        ..connection(false)
    }
}

fn headers(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut head = HeaderMap::new();
    for (name, value) in fields {
        HeaderMap::append(&mut head, *name, HeaderValue::from_static(value));
    }
    head
}

fn forwarded_fields(
    connection: &ConnectionInfo,
    fields: &[(&'static str, &'static str)],
    settings: &Forwarded,
) -> HeaderMap {
    let mut head = headers(fields);
    let rules = ForwardedRules::compile(settings);
    let id = request_id(&head, &GlobalSettings::default());
    let authority = HeaderValue::from_static("a.example:8080");
    let forwarding = Forwarding {
        connection,
        client: rules.client(connection, &head),
        authority: &authority,
        request_id: id.as_ref(),
        rules: &rules,
    };
    forwarding.apply(&mut head);
    head
}

fn these(networks: &[(&str, u8)]) -> TrustedPeers {
    let network =
        |(address, prefix): &(&str, u8)| Network { address: address.parse().unwrap(), prefix: *prefix };
    TrustedPeers::These(networks.iter().map(network).collect())
}

fn believing() -> Forwarded {
    Forwarded { use_headers: true, ..Forwarded::default() }
}

const CLAIMS: [(&str, &str); 8] = [
    ("x-forwarded-for", "203.0.113.9, 198.51.100.1"),
    ("x-forwarded-host", "www.example, inner.example"),
    ("x-forwarded-port", "8443"),
    ("x-forwarded-proto", "https"),
    ("x-original-forwarded-for", "1.1.1.1"),
    ("x-real-ip", "1.1.1.1"),
    ("proxy", "http://evil"),
    ("x-request-id", "mine"),
];

const OWN: [(&str, &str); 11] = [
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
    ("x-original-forwarded-host", "www.example, inner.example"),
];

#[track_caller]
fn assert_fields(head: &HeaderMap, expected: &[(&str, &str)]) {
    for (name, value) in expected {
        assert_eq!(head.get_all(*name).iter().collect::<Vec<_>>(), [value], "{name}");
    }
}

#[test]
fn claims_of_a_client_are_replaced() {
    let head = forwarded_fields(&connection(false), &CLAIMS, &Forwarded::default());
    assert_fields(&head, &OWN);
    assert!(!head.contains_key("proxy"));
}

#[test]
fn a_peer_that_is_not_trusted_is_not_believed_about_anything() {
    let settings = Forwarded { peers: these(&[("10.0.0.0", 8)]), compute_full: true, ..believing() };
    assert_fields(&forwarded_fields(&connection(false), &CLAIMS, &settings), &OWN);
    let untrusted = Forwarded { peers: these(&[]), ..believing() };
    assert_fields(&forwarded_fields(&connection(false), &CLAIMS, &untrusted), &OWN);
}

#[test]
fn a_trusted_proxy_is_believed() {
    for peers in [TrustedPeers::Any, these(&[("192.0.2.0", 24), ("198.51.100.1", 32)])] {
        let settings = Forwarded { peers, ..believing() };
        let head = forwarded_fields(&connection(false), &CLAIMS, &settings);
        assert_fields(
            &head,
            &[
                ("host", "www.example"),
                ("x-real-ip", "203.0.113.9"),
                ("x-forwarded-for", "203.0.113.9"),
                ("x-forwarded-host", "www.example"),
                ("x-forwarded-port", "8443"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-scheme", "https"),
                ("x-scheme", "https"),
            ],
        );
    }
    let full = Forwarded { compute_full: true, ..believing() };
    let head = forwarded_fields(&connection(false), &CLAIMS, &full);
    assert_eq!(head["x-forwarded-for"], "203.0.113.9, 198.51.100.1, 192.0.2.7");
    assert_eq!(forwarded_fields(&connection(false), &[], &full)["x-forwarded-for"], "192.0.2.7");
}

#[test]
fn appending_needs_trust() {
    let settings = Forwarded { compute_full: true, ..Forwarded::default() };
    assert_eq!(forwarded_fields(&connection(false), &CLAIMS, &settings)["x-forwarded-for"], "192.0.2.7");
}

#[test]
fn the_real_address_alone_can_be_believed() {
    let settings = Forwarded { real_ip: true, compute_full: true, ..Forwarded::default() };
    let head = forwarded_fields(&connection(false), &CLAIMS, &settings);
    assert_fields(
        &head,
        &[
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "a.example:8080"),
            ("x-forwarded-port", "80"),
            ("x-forwarded-proto", "http"),
        ],
    );
}

#[test]
fn the_fields_have_the_names_that_were_set() {
    let settings = Forwarded {
        for_header: "CF-Connecting-IP".into(),
        host_header: "X-Host-Before".into(),
        ..believing()
    };
    let fields = [
        ("cf-connecting-ip", "203.0.113.9"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-forwarded-host", "www.example"),
        ("x-host-before", "before.example"),
    ];
    assert_fields(
        &forwarded_fields(&connection(false), &fields, &settings),
        &[
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-host", "www.example"),
            ("x-original-forwarded-for", "203.0.113.9"),
            ("x-original-forwarded-host", "before.example"),
            ("cf-connecting-ip", "203.0.113.9"),
        ],
    );
}

#[test]
fn https_is_forwarded_with_the_declared_port() {
    let head = forwarded_fields(&connection(true), &[], &Forwarded::default());
    assert_fields(&head, &[("x-forwarded-port", "443"), ("x-forwarded-proto", "https")]);
    assert!(!head.contains_key("x-original-forwarded-for"));
    assert!(!head.contains_key("x-original-forwarded-host"));
}

#[test]
fn a_proxied_connection_has_the_address_of_its_header() {
    let settings = Forwarded { proxy_protocol: true, ..Forwarded::default() };
    let head = forwarded_fields(&proxied(443), &CLAIMS, &settings);
    assert_fields(
        &head,
        &[
            ("x-real-ip", "198.51.100.7"),
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-port", "443"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "a.example:8080"),
        ],
    );
    assert!(!head.contains_key("x-forwarded-for-proxy-protocol"));
    assert_eq!(forwarded_fields(&proxied(80), &CLAIMS, &settings)["x-forwarded-proto"], "http");
    // With `enable-real-ip`, the PROXY header determines the address.
    let real_ip = Forwarded { real_ip: true, ..settings };
    assert_eq!(forwarded_fields(&proxied(80), &CLAIMS, &real_ip)["x-real-ip"], "198.51.100.7");
}

#[test]
fn fields_count_on_a_proxied_connection_where_its_source_is_trusted() {
    let both = Forwarded { proxy_protocol: true, compute_full: true, ..believing() };
    let head = forwarded_fields(&proxied(80), &CLAIMS, &both);
    assert_fields(
        &head,
        &[
            ("x-real-ip", "203.0.113.9"),
            ("x-forwarded-for", "203.0.113.9, 198.51.100.1, 198.51.100.7"),
            ("x-forwarded-for-proxy-protocol", "203.0.113.9, 198.51.100.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "www.example"),
        ],
    );
    let stranger = Forwarded { peers: these(&[("192.0.2.0", 24)]), ..both.clone() };
    let head = forwarded_fields(&proxied(80), &CLAIMS, &stranger);
    assert_fields(
        &head,
        &[
            ("x-real-ip", "198.51.100.7"),
            ("x-forwarded-for", "198.51.100.7"),
            ("x-forwarded-for-proxy-protocol", "198.51.100.7"),
            ("x-forwarded-proto", "http"),
        ],
    );
    let named = Forwarded { for_proxy_protocol_header: "X-Before".into(), ..both };
    assert_eq!(forwarded_fields(&proxied(80), &[], &named)["x-before"], "198.51.100.7");
}

#[test]
fn a_request_id_is_made_unless_that_is_off() {
    let made = request_id(&headers(&[("x-request-id", "")]), &GlobalSettings::default()).unwrap();
    let made = made.to_str().unwrap();
    assert_eq!(made.len(), 32);
    assert!(made.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')), "{made}");
    let off = GlobalSettings { generate_request_id: false, ..GlobalSettings::default() };
    assert_eq!(request_id(&headers(&[]), &off), None);
    assert_eq!(request_id(&headers(&CLAIMS), &off).unwrap(), "mine");
}

#[test]
fn the_client_is_the_farthest_address_in_an_unbroken_row_of_trusted_ones() {
    let everybody = ForwardedRules::compile(&believing());
    let inner = ForwardedRules::compile(&Forwarded {
        peers: these(&[("192.0.2.7", 32), ("10.0.0.0", 8), ("2001:db8::", 32)]),
        ..believing()
    });
    for (lines, farthest, first_stranger) in [
        (&["2001:db8::1, 10.0.0.1"][..], "2001:db8::1", "2001:db8::1"),
        (&["9.9.9.9, 2001:db8::1, 10.0.0.1"], "9.9.9.9", "9.9.9.9"),
        (&["9.9.9.9, 8.8.8.8, 10.0.0.1"], "9.9.9.9", "8.8.8.8"),
        (&["1.1.1.1, unknown, 10.0.0.1:77"], "10.0.0.1", "10.0.0.1"),
        (&["1.1.1.1", "10.0.0.1"], "1.1.1.1", "1.1.1.1"),
        (&["[2001:db8::2]:99"], "2001:db8::2", "2001:db8::2"),
        (&["::ffff:10.0.0.9"], "10.0.0.9", "10.0.0.9"),
        (&["untrusted"], "192.0.2.7", "192.0.2.7"),
        (&[], "192.0.2.7", "192.0.2.7"),
    ] {
        let fields: HeaderMap =
            lines.iter().map(|line| (X_FORWARDED_FOR.clone(), line.parse().unwrap())).collect();
        for (rules, expected) in [(&everybody, farthest), (&inner, first_stranger)] {
            let client = rules.client(&connection(false), &fields);
            assert_eq!(client.address.to_string(), expected, "{lines:?}");
        }
    }
}

#[test]
fn empty_entries_and_blanks_between_addresses_are_skipped_as_in_nginx() {
    let everybody = ForwardedRules::compile(&believing());
    for (lines, expected) in [
        (&["1.1.1.1,"][..], "1.1.1.1"),
        (&["1.1.1.1 , "], "1.1.1.1"),
        (&["1.1.1.1,,2.2.2.2"], "1.1.1.1"),
        (&["1.1.1.1, ,\t2.2.2.2"], "1.1.1.1"),
        (&["1.1.1.1 2.2.2.2"], "1.1.1.1"),
        (&["1.1.1.1", "", ",2.2.2.2"], "1.1.1.1"),
        (&["1.1.1.1, unknown,, 2.2.2.2"], "2.2.2.2"),
        (&["1.1.1.1 unknown 2.2.2.2"], "2.2.2.2"),
        (&[" , "], "192.0.2.7"),
    ] {
        let fields: HeaderMap =
            lines.iter().map(|line| (X_FORWARDED_FOR.clone(), line.parse().unwrap())).collect();
        let client = everybody.client(&connection(false), &fields);
        assert_eq!(client.address.to_string(), expected, "{lines:?}");
    }
}
