use http::{HeaderMap, Request, Response, Uri, Version};
use proptest::prelude::*;

use super::*;
use crate::message::field_names::FieldNames;
use crate::message::head::Head;
use crate::message::request;

impl HeadMut for Request<()> {
    type Fields = HeaderMap;

    fn fields(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}

impl RequestMut for Request<()> {
    fn method(&self) -> &Method {
        Request::method(self)
    }

    fn set_target(&mut self, target: &RequestTarget) {
        *self.uri_mut() = target.as_str().parse::<Uri>().unwrap();
    }

    fn set_method(&mut self, method: &EditableMethod) {
        *self.method_mut() = method.get().clone();
    }
}

impl HeadMut for Response<()> {
    type Fields = HeaderMap;

    fn fields(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}

impl ResponseMut for Response<()> {
    fn status(&self) -> StatusCode {
        Response::status(self)
    }

    fn set_status(&mut self, status: EditableStatus) {
        *self.status_mut() = status.get();
    }

    fn stop_buffering(&mut self) {}

    fn hide_trailers(&mut self, _: impl FnOnce() -> Option<Arc<[EditableName]>>) {}
}

fn head(text: &str) -> Head {
    Head::read(text.as_bytes(), FieldNames::PLAIN).unwrap()
}

fn written(head: &Head) -> String {
    let mut out = Vec::new();
    request::write(head, Version::HTTP_11, &mut out, false);
    String::from_utf8(out).unwrap()
}

#[test]
fn names_of_the_gateway_are_none_that_a_rule_may_change() {
    for name in OWN_FIELDS.into_iter().chain(["Content-Length", "TRANSFER-ENCODING", "Host"]) {
        assert_eq!(EditableName::new(name), Err(NameError::Own), "{name}");
    }
    assert_eq!(EditableName::new("a b"), Err(NameError::Malformed));
    assert!(EditableName::new("x-content-length").is_ok());
    assert!(OWN_FIELDS.is_sorted());
    assert_eq!(EditableName::from_static("x-a"), EditableName::new("X-A").unwrap());
}

#[test]
fn a_target_is_a_path_that_a_request_line_can_carry() {
    for good in ["/", "/a?b=c", "/%2F", "/a/../b", "//", "/?\u{e9}"] {
        assert!(RequestTarget::new(good.to_owned()).is_some(), "{good}");
    }
    for bad in ["", "a", "*", "http://a/", "/a b", "/a\r\nHost: b", "/a#b", "/\0", "/\x7f"] {
        assert!(RequestTarget::new(bad.to_owned()).is_none(), "{bad:?}");
    }
}

#[test]
fn the_line_changes_and_every_attempt_begins_with_what_was_received() {
    let text = "POST /a?b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-A: 1\r\n\r\n";
    let mut head = head(text);
    head.keep();
    for _ in 0..2 {
        let mut edit = Edit::new(&mut head);
        edit.append(&EditableName::from_static("x-b"), &HeaderValue::from_static("2"));
        edit.set_target(&RequestTarget::new("/longer/than/it/was?c".to_owned()).unwrap());
        edit.set_method(&EditableMethod::new(Method::GET).unwrap());
        edit.set(&EditableName::from_static("x-a"), &HeaderValue::from_static("3"));
        assert_eq!(
            written(&head),
            "GET /longer/than/it/was?c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-A: 3\r\nx-b: 2\r\n\r\n"
        );
        assert_eq!(
            (head.method.as_str(), head.target()),
            ("POST", "/a?b"),
            "what the client sent stays known"
        );
        head.restore();
        assert_eq!(written(&head), text);
    }
}

#[test]
fn no_method_and_no_status_changes_whether_a_body_follows() {
    for method in [Method::HEAD, Method::CONNECT, Method::TRACE] {
        assert_eq!(EditableMethod::new(method), None);
    }
    let mut asked = head("HEAD / HTTP/1.1\r\nHost: h\r\n\r\n");
    Edit::new(&mut asked).set_method(&EditableMethod::new(Method::GET).unwrap());
    assert!(written(&asked).starts_with("HEAD "));

    for code in [100, 101, 204, 205, 304, 600] {
        assert_eq!(EditableStatus::new(StatusCode::from_u16(code).unwrap()), None, "{code}");
    }
    let teapot = EditableStatus::new(StatusCode::IM_A_TEAPOT).unwrap();
    for (from, to) in [(200, 418), (204, 204), (304, 304)] {
        let mut response = Response::builder().status(from).body(()).unwrap();
        Edit::new(&mut response).set_status(teapot);
        assert_eq!(response.status().as_u16(), to);
    }
}

#[test]
fn a_changed_status_has_its_own_reason() {
    let mut response = crate::message::response::Response::default();
    let text = b"HTTP/1.1 200 Fine by me\r\nContent-Length: 0\r\n\r\n";
    response.read(text, &Method::GET).unwrap().unwrap();
    Edit::new(&mut response).set_status(EditableStatus::new(StatusCode::NOT_FOUND).unwrap());
    let mut out = Vec::new();
    response.write(&mut out, true);
    assert!(out.starts_with(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n"));
}

proptest! {
    #[test]
    fn every_valid_target_parses_again(text in "/[ -~\u{e9}\r\n]{0,20}") {
        if let Some(target) = RequestTarget::new(text.clone()) {
            let mut head = head("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            Edit::new(&mut head).set_target(&target);
            let again = Head::read(written(&head).as_bytes(), FieldNames::PLAIN).unwrap();
            prop_assert_eq!(again.target(), text);
        }
    }
}
