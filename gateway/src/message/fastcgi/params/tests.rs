use http::header::{HeaderMap, HeaderValue};

use super::*;
use crate::message::fastcgi::trial::read_params;

/// Reads the parameters of records, of which each pair is whole in one record.
fn read(params: &Params) -> Vec<(String, String)> {
    let mut out = Vec::new();
    params.write(&mut out);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let pairs = read_params(&out).expect("records with whole pairs");
    pairs.into_iter().map(|(name, value)| (text(name), text(value))).collect()
}

fn of_fields(fields: &[(&'static str, &'static str)]) -> Vec<(String, String)> {
    let fields: HeaderMap = fields
        .iter()
        .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
        .collect();
    let mut params = Params::default();
    params.push_fields(&fields, |_| false);
    read(&params)
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn lengths_have_one_byte_or_four() {
    let long = "x".repeat(128);
    let mut params = Params::default();
    params.push(b"EMPTY", b"");
    params.push(b"SHORT", &long.as_bytes()[1..]);
    params.push(b"LONG", long.as_bytes());
    assert_eq!(params.bytes[HEADER..HEADER + 2], [5, 0]);
    assert_eq!(read(&params), [pair("EMPTY", ""), pair("SHORT", &long[1..]), pair("LONG", &long)]);
}

#[test]
fn a_parameter_that_does_not_fit_begins_a_record() {
    let value = "x".repeat(40_000);
    let mut params = Params::default();
    for name in ["A", "B", "C"] {
        params.push(name.as_bytes(), value.as_bytes());
    }
    // `read` finds each pair whole in its record.
    assert_eq!(read(&params), ["A", "B", "C"].map(|name| pair(name, &value)));
}

#[test]
fn a_parameter_that_is_larger_than_a_record_continues_in_the_next() {
    let value = vec![b'x'; 2 * MAX_CONTENT];
    let mut params = Params::default();
    params.push(b"A", &value);
    let (content, records) = (1 + 4 + 1 + value.len(), 3);
    assert_eq!(params.bytes.len(), content + records * HEADER);
    assert_eq!(params.bytes[4..6], [0xff, 0xff]);
}

#[test]
fn fields_become_parameters_and_equal_names_are_joined() {
    assert_eq!(
        of_fields(&[
            ("x-name", "1"),
            ("host", "a.example"),
            ("x-name", "2"),
            ("cookie", "a=1"),
            ("cookie", "b=2"),
        ]),
        [pair("HTTP_X_NAME", "1, 2"), pair("HTTP_HOST", "a.example"), pair("HTTP_COOKIE", "a=1; b=2"),]
    );
}

#[test]
fn no_client_sets_a_proxy_for_the_program() {
    assert_eq!(of_fields(&[("proxy", "http://203.0.113.9")]), []);
}

#[test]
fn names_with_underscores_do_not_replace_those_with_hyphens() {
    assert_eq!(
        of_fields(&[("x-real-ip", "192.0.2.1"), ("x_real_ip", "203.0.113.9"), ("x.real.ip", "1")]),
        [pair("HTTP_X_REAL_IP", "192.0.2.1")]
    );
}

#[test]
fn fields_of_the_connection_are_no_parameters() {
    assert_eq!(
        of_fields(&[("connection", "upgrade"), ("upgrade", "x"), ("transfer-encoding", "chunked")]),
        []
    );
}

#[test]
fn parameters_of_the_rule_replace_fields() {
    let fields: HeaderMap =
        [(HeaderName::from_static("x-a"), HeaderValue::from_static("client"))].into_iter().collect();
    let mut params = Params::default();
    params.push_fields(&fields, |name| name == b"HTTP_X_A");
    assert_eq!(read(&params), []);
}
