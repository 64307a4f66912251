use std::sync::Arc;

use proptest::prelude::*;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use super::*;
use crate::tls::provider;

/// A ClientHello of rustls, with its post-quantum key share.
fn hello(name: &str) -> Vec<u8> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), name.to_owned().try_into().unwrap()).unwrap();
    let mut bytes = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut bytes).unwrap();
    }
    bytes
}

/// The same message in records of this size.
fn split(hello: &[u8], size: usize) -> Vec<u8> {
    hello[RECORD_HEADER..].chunks(size).flat_map(record).collect()
}

fn record(part: &[u8]) -> Vec<u8> {
    let length = u16::try_from(part.len()).unwrap().to_be_bytes();
    [&[HANDSHAKE, 3, 1], &length[..], part].concat()
}

/// A hello with so many bytes of padding (RFC 7685).
fn padded(name: &str, padding: usize) -> Vec<u8> {
    let name = [
        &[0, 0, 0, (name.len() + 5) as u8, 0, (name.len() + 3) as u8, 0, 0, name.len() as u8],
        name.as_bytes(),
    ];
    let padding_extension =
        [&[0, 21][..], &u16::try_from(padding).unwrap().to_be_bytes(), &vec![0; padding]].concat();
    let extensions = [padding_extension, name.concat()].concat();
    let length = u16::try_from(extensions.len()).unwrap().to_be_bytes();
    let body = [&[3, 3][..], &[7; 32], &[0], &[0, 2, 0x13, 1], &[1, 0], &length, &extensions].concat();
    let size = u32::try_from(body.len()).unwrap().to_be_bytes();
    let message = [&[CLIENT_HELLO], &size[1..], &body].concat();
    message.chunks(LONGEST_FRAGMENT).flat_map(record).collect()
}

fn named(name: &str) -> ClientHello {
    ClientHello::Complete(HelloFacts { server_name: Some(name.to_owned()), offers_early_data: false })
}

#[test]
fn the_name_is_found_however_the_message_is_split() {
    let whole = hello("Shop.Example");
    assert!(whole.len() > 1216, "{} bytes: it has no post-quantum key share", whole.len());
    assert_eq!(parse(&whole), named("shop.example"));
    for size in [1, 2, 3, 100, 1000] {
        assert_eq!(parse(&split(&whole, size)), named("shop.example"), "records of {size}");
    }
    for end in 0..whole.len() {
        assert_eq!(parse(&whole[..end]), ClientHello::Incomplete, "{end} bytes");
    }
    assert_eq!(parse(&[&whole, &b"more"[..]].concat()), named("shop.example"));
}

#[test]
fn a_message_over_16_kib_has_its_name_too() {
    let large = padded("a.example", 40_000);
    assert!(large.len() < LONGEST);
    assert_eq!(parse(&large), named("a.example"));
    assert_eq!(parse(&large[..30_000]), ClientHello::Incomplete);
}

/// Each label was looked up as a host that may be passed through.
#[test]
fn a_name_of_many_labels_occupied_the_worker() {
    for name in ["a.".repeat(100) + "a", "a-b.xn--c".to_owned(), "_a.example".to_owned()] {
        assert_eq!(parse(&padded(&name, 0)), named(&name));
    }
    for name in ["..".to_owned(), "a..example".to_owned(), "a.".repeat(127), "a b".to_owned()] {
        assert_eq!(parse(&padded(&name, 0)), ClientHello::Other, "{name}");
    }
}

#[test]
fn a_message_without_a_name_is_complete() {
    assert_eq!(parse(&hello("192.0.2.1")), ClientHello::Complete(HelloFacts::default()));
}

#[test]
fn other_bytes_than_a_client_hello_are_detected_at_once() {
    for other in [
        &b"GET / HTTP/1.1\r\n"[..],
        &[HANDSHAKE, 2, 0, 0, 5],
        &[HANDSHAKE, 3, 1, 0, 0],
        &[HANDSHAKE, 3, 1, 0xff, 0xff],
        &[HANDSHAKE, 3, 1, 0, 4, 2, 0, 0, 0],
        &[HANDSHAKE, 3, 1, 0, 4, CLIENT_HELLO, 2, 0, 0],
        &[HANDSHAKE, 3, 1, 0, 5, CLIENT_HELLO, 0, 0, 1, 3],
        &[21, 3, 1, 0, 2, 1, 0],
    ] {
        assert_eq!(parse(other), ClientHello::Other, "{other:?}");
    }
    assert_eq!(parse(b""), ClientHello::Incomplete);
}

proptest! {
    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0..400_usize, to: u8) {
        trial(&bytes);
        let mut hello = hello("a.example");
        let at = at % hello.len();
        hello[at] = to;
        trial(&hello);
        bytes.splice(..0, [HANDSHAKE, 3, 1, 0, 200, CLIENT_HELLO, 0, 0, 196]);
        trial(&bytes);
    }
}
