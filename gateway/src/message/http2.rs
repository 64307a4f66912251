//! Messages in the form of HTTP/2: requests to endpoints, their responses, and fields for both
//! sides. [`head`](super::head) parses the requests of clients.

use std::net::SocketAddr;

use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHORIZATION, TE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Request, StatusCode, Uri, response};

use crate::message::field_names::FieldNames;
use crate::message::fields::Fields;
use crate::message::framing::Framing;
use crate::message::head::http2::is_valid_in_http1;
use crate::message::head::{Head, MAX_FIELDS, content_length};
use crate::message::hop_by_hop;
use crate::message::response::{BadHead, Response};
use crate::message::trailers::TrailerFilter;

/// Properties of a request to an HTTP/2 endpoint that its head does not contain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http2Target {
    /// Whether the connection uses TLS.
    pub(crate) tls: bool,
    /// The endpoint's address: `:authority` of a request without `Host`.
    pub(crate) address: SocketAddr,
    /// Whether the client accepts trailers.
    pub(crate) trailers: bool,
}

/// Converts fields to the form of HTTP/2, with room for `more`. Omits connection fields, which
/// HTTP/2 forbids (RFC 9113 §8.2.2).
pub(crate) fn map<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, more: usize) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(fields.size_hint().0 + more);
    for (name, value) in fields {
        let parsed = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value));
        // The fields of a parsed head are always valid.
        let (Ok(name), Ok(value)) = parsed else { continue };
        if !hop_by_hop::is_connection_field(&name) {
            map.append(name, value);
        }
    }
    map
}

/// Returns the trailers that pass, or `None` if there are none.
pub(crate) fn trailers(section: &HeaderMap, filter: &impl TrailerFilter) -> Option<HeaderMap> {
    let fields = section.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let passing = map(fields.filter(|(name, _)| filter.passes(name)), 0);
    (!passing.is_empty()).then_some(passing)
}

/// Builds the request for an endpoint from a head that the pipeline has prepared.
pub(crate) fn request(head: &Head, to: Http2Target) -> Request<()> {
    let mut fields = map(head.fields.iter(), 1);
    if to.trailers {
        fields.insert(TE, HeaderValue::from_static("trailers"));
    }
    build(head.outgoing_method(), head.outgoing_target(), fields, to)
}

/// Builds a request with these fields, `Host` included.
pub(crate) fn build(method: &Method, target: &str, mut fields: HeaderMap, to: Http2Target) -> Request<()> {
    let host = fields.remove(HOST);
    let host = host.as_ref().and_then(|host| Authority::try_from(host.as_bytes()).ok());
    // Marks credentials so that HPACK does not index them: attackers could otherwise guess them
    // from compressed sizes (RFC 7541 §7.1).
    for secret in [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE] {
        if let Some(value) = fields.get_mut(secret) {
            value.set_sensitive(true);
        }
    }
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if to.tls { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = host.or_else(|| Authority::try_from(to.address.to_string()).ok());
    parts.path_and_query = Some(path_and_query(target));
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    // All three parts are set, and a socket address is a valid authority.
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    *request.headers_mut() = fields;
    request
}

/// Percent-encodes characters that `http` does not accept but clients of HTTP/1.1 may send.
pub(crate) fn path_and_query(target: &str) -> PathAndQuery {
    if let Ok(path) = PathAndQuery::try_from(target) {
        return path;
    }
    let mut encoded = String::with_capacity(target.len() + 16);
    for byte in target.bytes() {
        match byte {
            b'!'..=b'~' if !b"\"<>`{}|^\\#".contains(&byte) => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    PathAndQuery::try_from(encoded).unwrap_or_else(|_| PathAndQuery::from_static("/"))
}

/// Converts an interim response.
pub(crate) fn interim(head: &http::Response<()>) -> Result<Response, BadHead> {
    // HTTP/2 has no protocol switch (RFC 9113 §8.6).
    match head.status() == StatusCode::SWITCHING_PROTOCOLS {
        true => Err(BadHead),
        false => read(head.status(), head.headers(), Framing::NONE),
    }
}

/// Converts a final response to a request with this method. `ends`: no body follows.
/// `keeps_length`: the client finds the end of the body by its length, not by the protocol.
pub(crate) fn response(
    parts: &response::Parts,
    method: &Method,
    keeps_length: bool,
    ends: bool,
) -> Result<Response, BadHead> {
    let length = || content_length(parts.headers.get(CONTENT_LENGTH)?.as_bytes());
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&parts.status);
    let framing = match () {
        () if bodiless || ends || *method == Method::HEAD => Framing::NONE,
        () if keeps_length => length().map_or(Framing::Opaque, Framing::Length),
        () => Framing::Opaque,
    };
    let mut response = read(parts.status, &parts.headers, framing)?;
    if keeps_length && ends && !bodiless && *method != Method::HEAD && !response.fields.has(&CONTENT_LENGTH) {
        response.fields.push_line(b"Content-Length", b"0");
    }
    Ok(response)
}

fn read(status: StatusCode, fields: &HeaderMap, framing: Framing) -> Result<Response, BadHead> {
    if fields.len() > MAX_FIELDS || fields.get_all(CONTENT_LENGTH).iter().nth(1).is_some() {
        return Err(BadHead);
    }
    let mut response = Response::of(status, status.canonical_reason().unwrap_or_default(), framing);
    for (name, value) in fields {
        if !is_valid_in_http1(name, value, FieldNames::ANY) {
            return Err(BadHead);
        }
        response.fields.push_line(name.as_str().as_bytes(), value.as_bytes());
    }
    Ok(response)
}

/// Returns whether the request itself states that its client accepts trailers.
pub(crate) fn takes_trailers(head: &Head) -> bool {
    head.fields.has(&TE) && hop_by_hop::takes_trailers(&head.fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPOKEN: Http2Target = Http2Target {
        tls: false,
        address: SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 80),
        trailers: true,
    };

    fn head(text: &str) -> Head {
        Head::read(text.as_bytes(), FieldNames::ANY).unwrap()
    }

    #[test]
    fn a_request_loses_what_belongs_to_a_connection_and_keeps_the_rest() {
        let head = head(
            "POST /a?b=%20 HTTP/1.1\r\nHost: a.example:81\r\nTransfer-Encoding: chunked\r\nConnection: x\r\n\
             Cookie: a=b\r\nX-A: 1\r\nx-a: 2\r\n\r\n",
        );
        let request = request(&head, SPOKEN);
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "http://a.example:81/a?b=%20");
        let mut fields: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        fields.sort_by_key(|(name, _)| *name);
        assert_eq!(fields, [("cookie", "a=b"), ("te", "trailers"), ("x-a", "1"), ("x-a", "2")]);
        assert!(request.headers()["cookie"].is_sensitive());
    }

    #[test]
    fn every_target_of_http1_is_one_of_http2() {
        for (target, uri) in [
            ("/", "https://10.0.0.1:80/"),
            ("/<`>", "https://10.0.0.1:80/%3C%60%3E"),
            ("/a?{b}", "https://10.0.0.1:80/a?{b}"),
        ] {
            let head = head(&format!("GET {target} HTTP/1.0\r\n\r\n"));
            assert_eq!(request(&head, Http2Target { tls: true, ..SPOKEN }).uri(), uri, "{target}");
        }
        for byte in b'!'..=b'~' {
            let target = format!("/{}", char::from(byte));
            if byte != b'#' {
                assert_ne!(path_and_query(&target).as_str(), "/", "{target}");
            }
        }
    }

    #[test]
    fn a_response_is_framed_as_its_client_needs_it() {
        let parts = |status: u16, length: &str| {
            let head = http::Response::builder().status(status).header("content-length", length);
            head.body(()).unwrap().into_parts().0
        };
        let framing = |parts: &response::Parts, method, keeps, ends| {
            response(parts, &method, keeps, ends).unwrap().framing
        };
        let five = parts(200, "5");
        assert_eq!(framing(&five, Method::GET, true, false), Framing::Length(5));
        assert_eq!(framing(&five, Method::GET, false, false), Framing::Opaque);
        assert_eq!(framing(&five, Method::HEAD, true, false), Framing::NONE);
        assert_eq!(framing(&five, Method::GET, true, true), Framing::NONE);
        assert_eq!(framing(&parts(304, "5"), Method::GET, true, false), Framing::NONE);
        let (nothing, ()) = http::Response::new(()).into_parts();
        let empty = response(&nothing, &Method::GET, true, true).unwrap();
        assert_eq!(empty.fields.first(&CONTENT_LENGTH), Some(&b"0"[..]));
        assert!(!response(&nothing, &Method::GET, false, true).unwrap().fields.has(&CONTENT_LENGTH));
    }

    #[test]
    fn responses_that_http1_clients_could_misread_are_refused() {
        let with = |name: &str, value: &str| {
            let head = http::Response::builder().header(name, value).body(()).unwrap();
            response(&head.into_parts().0, &Method::GET, false, false)
        };
        assert!(with("x-a", "a b").is_ok());
        assert!(with("x-a", " a").is_err(), "RFC 9113 section 8.2.1");
        let mut switch = http::Response::new(());
        *switch.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        assert!(interim(&switch).is_err());
        *switch.status_mut() = StatusCode::EARLY_HINTS;
        assert!(interim(&switch).is_ok());
    }
}
