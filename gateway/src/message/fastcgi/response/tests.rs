use http::header::{CONTENT_TYPE, HeaderName, LOCATION, TRANSFER_ENCODING};

use super::*;
use crate::message::fields::Fields;
use crate::message::framing::Framing;

fn response(head: &str) -> Result<Option<(Response, usize)>, BadHead> {
    read(head.as_bytes(), &Method::GET)
}

#[test]
fn the_status_is_that_of_its_field_or_follows_from_the_location() {
    for (head, status) in [
        ("Content-Type: text/html\r\n\r\n", 200),
        ("Status: 404 Not Found\r\nContent-Type: text/html\r\n\r\n", 404),
        ("X: 1\nstatus:201\n\n", 201),
        ("Location: /other\r\n\r\n", 302),
        ("Status: 301\r\nLocation: /other\r\n\r\n", 301),
        ("Location: /other\r\nStatus: 200 OK\r\n\r\n", 200),
        ("\r\n", 200),
    ] {
        let (response, length) = response(head).unwrap().unwrap();
        assert_eq!((response.status.as_u16(), length), (status, head.len()), "{head:?}");
        assert!(!response.fields.has(&HeaderName::from_static("status")));
    }
}

#[test]
fn heads_that_could_be_read_in_two_ways_are_refused() {
    for head in [
        "Status: 99\r\n\r\n",
        "Status: 2000\r\n\r\n",
        "Status: 20x OK\r\n\r\n",
        "Status: \r\n\r\n",
        "Status\r\n\r\n",
        "Status: 101 Switching Protocols\r\n\r\n",
        "Status: 103 Early Hints\r\n\r\n",
        "Status: 200\r\nStatus: 404\r\n\r\n",
        "Status : 200\r\n\r\n",
        "Status: 200 a\rb\r\n\r\n",
        "X: 1\r\n folded\r\n\r\n",
        "X: 1\rY: 2\r\n\r\n",
        "no colon\r\n\r\n",
        "<html>\n\n",
        "HTTP/1.1 200 OK\r\n\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n\r\n",
        "Content-Length: x\r\n\r\n",
    ] {
        assert_eq!(response(head).err(), Some(BadHead), "{head:?}");
    }
    assert!(response(&format!("X: {}", "x".repeat(MAX_HEAD))).is_err());
}

#[test]
fn a_head_may_arrive_in_pieces_and_its_body_follows() {
    let head = "Status: 200 Fine\r\nContent-Type: text/plain\r\n\r\nbody";
    for end in 0..head.len() - 4 {
        assert!(response(&head[..end]).unwrap().is_none(), "{end}");
    }
    let (response, length) = response(head).unwrap().unwrap();
    assert_eq!(&head[length..], "body");
    assert_eq!(response.fields.first(&CONTENT_TYPE), Some(&b"text/plain"[..]));
}

#[test]
fn the_end_of_the_body_is_its_length_or_the_end_of_the_request() {
    let framing = |head: &str, method| read(head.as_bytes(), &method).unwrap().unwrap().0.framing;
    assert_eq!(framing("X: 1\r\n\r\n", Method::GET), Framing::Opaque);
    assert_eq!(framing("Content-Length: 5\r\n\r\n", Method::GET), Framing::Length(5));
    assert_eq!(framing("Content-Length: 5\r\n\r\n", Method::HEAD), Framing::NONE);
    assert_eq!(framing("Status: 204\r\n\r\n", Method::GET), Framing::NONE);
    assert_eq!(framing("Status: 304\r\n\r\n", Method::GET), Framing::NONE);
}

#[test]
fn a_response_has_no_fields_of_a_connection() {
    let head = "Transfer-Encoding: chunked\r\nConnection: close\r\nLocation: /a\r\n\r\n";
    let (response, _) = response(head).unwrap().unwrap();
    assert_eq!(response.framing, Framing::Opaque);
    assert!(!response.fields.has(&TRANSFER_ENCODING) && response.fields.has(&LOCATION));
}
