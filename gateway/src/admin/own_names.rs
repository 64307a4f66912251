//! Restriction of the admin listener to local host names.
//!
//! The listener is bound to loopback, which browsers on the machine can reach: any web page can
//! point a host name of its own to 127.0.0.1 and read the responses (DNS rebinding). However, the
//! browser sends that name in `Host`. Therefore only `localhost` and loopback addresses are
//! accepted, with any port, because the port may be forwarded.

use std::net::IpAddr;

use http::header::{HOST, HeaderMap, ORIGIN};
use http::uri::Authority;
use http::{StatusCode, Uri};

use super::pages::Document;

/// Returns the response for a request that must be refused.
pub(super) fn refuse(uri: &Uri, fields: &HeaderMap) -> Option<Document> {
    let hosts = fields.get_all(HOST).iter().map(|value| value.to_str().ok());
    let mut hosts = hosts.chain(uri.authority().map(|authority| Some(authority.as_str())));
    if !hosts.all(|host| host.is_some_and(is_own)) {
        let said = "introspection is for this machine only: the name in Host is not localhost or an address of \
                    loopback; send the request to the address in --admin-address\n";
        return Some(Document::text(StatusCode::MISDIRECTED_REQUEST, said));
    }
    let mut origins = fields.get_all(ORIGIN).iter().map(|value| value.to_str().ok());
    if !origins.all(|origin| {
        origin.and_then(|origin| origin.split_once("://")).is_some_and(|(_, host)| is_own(host))
    }) {
        let said = "introspection is for this machine only: the field Origin names another site; send the request \
                    without a browser\n";
        return Some(Document::text(StatusCode::FORBIDDEN, said));
    }
    None
}

fn is_own(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    let host = authority.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.trim_end_matches('.').eq_ignore_ascii_case("localhost"),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_names_of_this_machine_are_accepted() {
        for own in [
            "localhost",
            "LocalHost:8080",
            "localhost.",
            "127.0.0.1",
            "127.0.0.1:10246",
            "127.8.9.10:1",
            "[::1]",
            "[::1]:10246",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "",
            "evil.example",
            "evil.example:10246",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "0.0.0.0",
            "[::]",
            "[::2]:10246",
            "::1",
            "evil.example@",
            "localhost localhost",
            "2130706433",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }

    #[test]
    fn everything_that_names_a_host_counts() {
        let status = |uri: &str, fields: &[(http::HeaderName, &'static str)]| {
            let fields: HeaderMap =
                fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
            refuse(&uri.parse().unwrap(), &fields).map(|document| document.status.as_u16())
        };
        assert_eq!(status("/routes", &[]), None, "HTTP/1.0, which no browser speaks");
        assert_eq!(status("/routes", &[(HOST, "localhost")]), None);
        assert_eq!(status("/routes", &[(HOST, "evil.example")]), Some(421));
        assert_eq!(status("http://evil.example/routes", &[(HOST, "localhost")]), Some(421));
        let own = (HOST, "127.0.0.1:10246");
        assert_eq!(status("/routes", &[own.clone(), (ORIGIN, "http://127.0.0.1:10246")]), None);
        for origin in ["http://evil.example", "null", "https://localhost.evil.example", "localhost"] {
            assert_eq!(status("/routes", &[own.clone(), (ORIGIN, origin)]), Some(403), "{origin}");
        }
    }
}
