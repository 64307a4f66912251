//! The PROXY protocol header that a connection to an endpoint begins with: version 1, as in the
//! reference (HAProxy, `doc/proxy-protocol.txt`, section 2.1).

use std::net::{IpAddr, SocketAddr};

/// Returns the header for a connection from `source` to `destination`; `UNKNOWN` for addresses of
/// different families, which it cannot express.
pub(super) fn line(source: SocketAddr, destination: SocketAddr) -> String {
    let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
    let family = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => "TCP4",
        (IpAddr::V6(_), IpAddr::V6(_)) => "TCP6",
        _ => return "PROXY UNKNOWN\r\n".to_owned(),
    };
    format!("PROXY {family} {from} {to} {} {}\r\n", source.port(), destination.port())
}

#[cfg(test)]
mod tests {
    #[test]
    fn both_families_have_their_line_and_a_mixture_is_unknown() {
        let line = |source: &str, destination: &str| {
            super::line(source.parse().unwrap(), destination.parse().unwrap())
        };
        assert_eq!(line("192.0.2.1:99", "10.0.0.1:5432"), "PROXY TCP4 192.0.2.1 10.0.0.1 99 5432\r\n");
        assert_eq!(
            line("[::ffff:192.0.2.1]:99", "10.0.0.1:5432"),
            "PROXY TCP4 192.0.2.1 10.0.0.1 99 5432\r\n"
        );
        assert_eq!(line("[2001:db8::1]:99", "[::1]:53"), "PROXY TCP6 2001:db8::1 ::1 99 53\r\n");
        assert_eq!(line("[2001:db8::1]:99", "10.0.0.1:53"), "PROXY UNKNOWN\r\n");
    }
}
