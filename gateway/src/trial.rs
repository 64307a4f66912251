//! Entry points of fuzz targets for values inside of requests: fields, paths and field blocks of
//! HTTP/2. The parsers of messages have theirs in [`message`](crate::message::trial).

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

use http::header::HOST;
use http::{HeaderMap, HeaderValue};
use sluice_config::{BindProtocol, Forwarded, GlobalSettings, GroupId, Network, TrustedPeers};

use crate::connection::info::{ConnectionInfo, Texts};
use crate::message::edit::is_path;
use crate::message::field_names::FieldNames;
use crate::message::fields::Fields;
use crate::message::head::Head;
use crate::message::parts;
use crate::otel::{IncomingContext, TraceContext};
use crate::policy::Forwarding;
use crate::policy::forwarded::{self, ForwardedRules};
use crate::policy::hops;
use crate::router::{host_of, normal_bytes, normalise};

/// Reads a field block of HTTP/2 (HPACK).
pub fn field_block(input: &[u8]) {
    crate::downstream::http2::try_field_block(input);
}

/// Reads the values of a request head: cookies, credentials, parameters, forwarded fields, the
/// context of a trace, the host and the path.
///
/// # Panics
/// If an invariant is violated.
pub fn request_values(input: &[u8]) {
    let Ok(mut head) = Head::read(input, FieldNames::PLAIN) else { return };
    for (name, value) in parts::cookies(&head.fields) {
        assert!(!name.contains(&b';') && !value.contains(&b';'), "a cookie spans two");
    }
    for name in ["a", "session", ""] {
        assert!(
            parts::cookie(&head.fields, name).is_none_or(|value| !value.contains(&b';')),
            "a cookie spans two"
        );
        let query = head.target().split_once('?').map_or("", |(_, query)| query);
        assert!(parts::argument(query, name).is_none_or(|value| !value.contains('&')));
    }
    if let Some((user, _)) = parts::basic_credentials(&head.fields) {
        assert!(!user.contains(&b':'), "a user with a colon");
    }
    path(&head);
    let host = head.fields.first(&HOST).and_then(|host| str::from_utf8(host).ok()).unwrap_or_default();
    assert!(!host_of(host).bytes().any(|byte| byte.is_ascii_uppercase()), "a host in capitals");
    trace_context(&head);
    forward(&mut head);
}

/// A context that was accepted is passed on as it was read.
fn trace_context(head: &Head) {
    let Some(IncomingContext { trace, parent, is_sampled, state }) = IncomingContext::read(&head.fields)
    else {
        return;
    };
    let mut fields = HeaderMap::new();
    TraceContext { trace, span: parent, is_sampled, state: state.clone() }.write(&mut fields, parent);
    let again = IncomingContext::read(&fields);
    assert_eq!(again, Some(IncomingContext { trace, parent, is_sampled, state }), "another context");
}

/// A normalised path has no segment that leads upwards and no empty one inside.
fn path(head: &Head) {
    let path = head.target().split_once('?').map_or(head.target(), |(path, _)| path);
    let Ok(bytes) = normal_bytes(path) else { return };
    assert!(is_path(path) && bytes.first() == Some(&b'/') && !bytes.contains(&0));
    let segments: Vec<&[u8]> = bytes[1..].split(|byte| *byte == b'/').collect();
    assert!(!segments.iter().any(|segment| matches!(*segment, b"." | b"..")), "a path leads upwards");
    assert!(!segments[..segments.len() - 1].contains(&&b""[..]), "an empty segment");
    assert_eq!(String::from_utf8_lossy(&bytes), normalise(path).expect("the same path"));
}

/// The client is an address of the connection unless its peer is trusted, and an endpoint gets
/// exactly one value of each field that states it.
fn forward(head: &mut Head) {
    let peer: SocketAddr = ([192, 0, 2, 7], 5000).into();
    let connection = ConnectionInfo {
        peer,
        proxied: None,
        group: GroupId::ingress(),
        declared_port: 80,
        port: 80,
        protocol: BindProtocol::Http,
        tls: None,
        texts: Texts::new(peer.ip(), 80),
        number: 1,
        opened: Instant::now(),
        requests: AtomicU32::new(0),
        retired: AtomicBool::new(false),
    };
    let some = Network { address: [192, 0, 2, 0].into(), prefix: 24 };
    for (use_headers, peers) in [
        (false, TrustedPeers::Any),
        (true, TrustedPeers::Any),
        (true, TrustedPeers::These([some].into())),
        (true, TrustedPeers::These([].into())),
    ] {
        let is_trusted = peers != TrustedPeers::These([].into());
        let rules = ForwardedRules::compile(&Forwarded { use_headers, peers, ..Forwarded::default() });
        head.keep();
        let client = rules.client(&connection, &head.fields);
        assert!(use_headers && is_trusted || client.address == peer.ip(), "an untrusted claim is believed");
        let scheme = forwarded::access_scheme(&connection, &head.fields, client).to_vec();
        assert!(client.believed || scheme == b"http");
        let authority = HeaderValue::from_static("a.example");
        let request_id = forwarded::request_id(&head.fields, &GlobalSettings::default());
        let forwarding = Forwarding {
            connection: &connection,
            client,
            authority: &authority,
            request_id: request_id.as_ref(),
            rules: &rules,
        };
        forwarding.apply(&mut head.fields);
        let count = hops::count(&head.fields);
        hops::apply(&mut head.fields, count);
        for name in ["x-real-ip", "x-forwarded-for", "x-forwarded-proto", "x-sluice-hops"] {
            let name = http::HeaderName::from_static(name);
            assert_eq!(head.fields.lines(&name).count(), 1, "{name}");
        }
        assert!(!head.fields.has(&http::HeaderName::from_static("proxy")), "Proxy is passed");
        head.restore();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// A fuzz target: its folder of seeds, and what it does with one.
    type Target = (&'static str, fn(&[u8]));

    #[test]
    fn every_seed_holds() {
        let targets: [Target; 4] = [
            ("request_values", request_values),
            ("field_blocks", field_block),
            ("fastcgi", crate::message::try_fastcgi),
            ("client_hello", crate::listen::try_client_hello),
        ];
        for (target, run) in targets {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
            let seeds: Vec<_> = fs::read_dir(folder).unwrap().collect();
            assert!(seeds.len() >= 3, "{target}");
            for seed in seeds {
                run(&fs::read(seed.unwrap().path()).unwrap());
            }
        }
    }
}
