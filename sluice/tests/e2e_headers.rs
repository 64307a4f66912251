//! Header fields of forwarded requests and responses.

use regex::Regex;

use crate::harness::client::Response;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, config_map, get,
    manifest, site,
};

const HOST: &str = "shop.example";

fn start(backend: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(site("shop", HOST, &[backend]));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    (folder, gateway)
}

fn send(gateway: &Gateway, fields: &[(&str, &str)]) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, "/", fields, "")
}

/// Fields with which a client may try to deceive the backend.
const LIES: [(&str, &str); 7] = [
    ("X-Forwarded-For", "1.2.3.4"),
    ("X-Forwarded-Host", "evil.example"),
    ("X-Forwarded-Port", "1"),
    ("X-Forwarded-Proto", "https"),
    ("X-Forwarded-Scheme", "https"),
    ("X-Scheme", "https"),
    ("X-Real-IP", "1.2.3.4"),
];

#[test]
fn the_backend_receives_the_forwarding_fields() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let response = send(&gateway, &[]);
    for (name, value) in [
        ("Host", HOST),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", HOST),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Scheme", "http"),
        ("X-Scheme", "http"),
    ] {
        assert_eq!(response.received(name), [value], "{name}");
    }
    assert_eq!(response.received("X-Forwarded-Port").len(), 1);
}

#[test]
fn the_host_that_a_trusted_proxy_names_reaches_the_endpoint() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let named = || send(&gateway, &[("X-Forwarded-Host", "public.example")]).received("host");
    assert_eq!(named(), [HOST]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("use-forwarded-headers", "true")]));
    await_until("the key", || named() == ["public.example"]);
}

#[test]
fn endless_redirects_of_a_distrusted_proxy_are_reported() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let mut keys = vec![("use-forwarded-headers", "true"), ("force-ssl-redirect", "true")];
    let cidr = |cidr| ("proxy-real-ip-cidr", cidr);
    keys.push(cidr("10.0.0.0/8"));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &keys));
    await_until("the problem", || {
        send(&gateway, &[("X-Forwarded-Proto", "https")]);
        gateway.problems().contains("Peer /127.0.0.1: proxy-real-ip-cidr")
    });
    keys[2] = cidr("127.0.0.0/8");
    folder.write("config.yaml", config_map("ingress-nginx/controller", &keys));
    await_until("its end", || gateway.problems().is_empty());
    assert_eq!(send(&gateway, &[("X-Forwarded-Proto", "https")]).status, 200);
}

#[test]
fn over_tls_the_backend_gets_https_and_port_443() {
    let backend = Backend::echo("shop");
    let certificate = TestCertificate::new(&[HOST]);
    let objects = Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "tls").text()
        + &manifest::service_with("shop", &[&backend])
        + &certificate.secret("tls");
    let gateway = Gateway::start(&Folder::with(objects));
    let response = crate::harness::get_tls(gateway.https, HOST, "/");
    for (name, value) in [("X-Forwarded-Proto", "https"), ("X-Scheme", "https"), ("X-Forwarded-Port", "443")]
    {
        assert_eq!(response.received(name), [value], "{name}");
    }
}

#[test]
fn forwarding_fields_of_a_client_are_replaced_and_preserved() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let response = send(&gateway, &LIES);
    for (name, value) in [
        ("X-Forwarded-For", "127.0.0.1"),
        ("X-Forwarded-Host", HOST),
        ("X-Forwarded-Proto", "http"),
        ("X-Forwarded-Scheme", "http"),
        ("X-Scheme", "http"),
        ("X-Real-IP", "127.0.0.1"),
        ("X-Original-Forwarded-For", "1.2.3.4"),
        ("X-Original-Forwarded-Host", "evil.example"),
    ] {
        assert_eq!(response.received(name), [value], "{name}");
    }
    assert_ne!(response.received("X-Forwarded-Port"), ["1"]);
}

#[test]
fn fields_of_a_trusted_client_are_accepted() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let settings =
        |data: &[(&str, &str)]| folder.write("config.yaml", config_map("ingress-nginx/controller", data));
    settings(&[("use-forwarded-headers", "true")]);
    await_until("trust", || send(&gateway, &LIES).received("X-Forwarded-For") == ["1.2.3.4"]);
    let response = send(&gateway, &LIES);
    for (name, value) in [
        ("X-Forwarded-Host", "evil.example"),
        ("X-Forwarded-Port", "1"),
        ("X-Forwarded-Proto", "https"),
        ("X-Real-IP", "1.2.3.4"),
    ] {
        assert_eq!(response.received(name), [value], "{name}");
    }
    settings(&[("use-forwarded-headers", "true"), ("compute-full-forwarded-for", "true")]);
    await_until("the whole list", || {
        send(&gateway, &LIES).received("X-Forwarded-For") == ["1.2.3.4, 127.0.0.1"]
    });
}

#[test]
fn a_request_has_an_identity() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let made = send(&gateway, &[]).received("X-Request-ID");
    assert!(made.len() == 1 && Regex::new("^[0-9a-f]{32}$").unwrap().is_match(&made[0]), "{made:?}");
    assert_ne!(send(&gateway, &[]).received("X-Request-ID"), made);
    assert_eq!(send(&gateway, &[("X-Request-ID", "mine")]).received("X-Request-ID"), ["mine"]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[("generate-request-id", "false")]));
    await_until("none to be made", || send(&gateway, &[]).received("X-Request-ID").is_empty());
    assert_eq!(send(&gateway, &[("X-Request-ID", "mine")]).received("X-Request-ID"), ["mine"]);
}

#[test]
fn fields_of_one_hop_stay_on_it() {
    let backend = Backend::with("shop", |request| {
        let named: Vec<String> = request.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
        Reply::Bytes(
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\
                 Keep-Alive: timeout=5\r\nX-Names: {}\r\n\r\n",
                named.join(" ")
            )
            .into(),
        )
    });
    let (_folder, gateway) = start(&backend);
    let fields = [
        ("Connection", "keep-alive, X-Mine"),
        ("X-Mine", "1"),
        ("Keep-Alive", "timeout=1"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy", "http://evil.example"),
        ("TE", "trailers"),
        ("X-Other", "stays"),
    ];
    let response = send(&gateway, &fields);
    let names: Vec<&str> = response.header("x-names").unwrap().split(' ').collect();
    for gone in ["x-mine", "keep-alive", "proxy-connection", "proxy"] {
        assert!(!names.contains(&gone), "{gone} in {names:?}");
    }
    assert!(names.contains(&"x-other"));
    assert_eq!(response.header("x-hop"), None);
    assert_eq!(response.header("keep-alive"), None);
}

#[test]
fn end_to_end_fields_pass_unchanged() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let fields = [
        ("Accept-Encoding", "gzip, br"),
        ("Cookie", "a=b; c=d"),
        ("Authorization", "Basic x"),
        ("X-Empty", ""),
        ("User-Agent", "test"),
    ];
    let response = send(&gateway, &fields);
    for (name, value) in fields {
        assert_eq!(response.received(name), [value], "{name}");
    }
    let response = send(&gateway, &[("X-Many", "1"), ("X-Many", "2")]);
    assert_eq!(response.received("X-Many"), ["1", "2"]);
}

#[test]
fn there_is_always_a_server_field() {
    let own = Backend::with("own", |_| Reply::field("Server", "apache"));
    let (_folder, gateway) = start(&own);
    assert_eq!(send(&gateway, &[]).all("server"), ["sluice"], "the banner is hidden");
    let none = Backend::echo("none");
    let (_folder, gateway) = start(&none);
    assert_eq!(send(&gateway, &[]).all("server"), ["sluice"]);
    assert_eq!(get(gateway.http, "unknown.example", "/").all("server"), ["sluice"]);
}

#[test]
fn fields_of_a_response_pass_in_number_and_order() {
    let head =
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Own: x\r\n\r\n";
    let backend = Backend::with("shop", move |_| Reply::Bytes(head.into()));
    let (_folder, gateway) = start(&backend);
    let response = send(&gateway, &[]);
    assert_eq!(response.all("set-cookie"), ["a=1", "b=2"]);
    assert_eq!(response.header("x-own"), Some("x"));
    assert!(response.status_line().starts_with("HTTP/1.1 200"));
    assert!(!response.headers().iter().any(|(_, value)| value.to_lowercase().contains("pingora")));
}

#[test]
fn bodies_arrive_as_they_were_sent() {
    let backend = Backend::echo("shop");
    let (_folder, gateway) = start(&backend);
    let mut connection = Connection::plain(gateway.http);
    let large = "0123456789".repeat(30_000);
    for body in ["x", "hello", large.as_str()] {
        let response = connection.request("POST", HOST, "/", &[], body);
        assert_eq!(response.json()["body"].as_str().map(str::len), Some(body.len()));
        assert_eq!(response.received("Content-Length"), [body.len().to_string()]);
    }
    connection.send(format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"
    ));
    assert_eq!(connection.response().json()["body"], "hello world");
}

#[test]
fn the_backend_receives_the_path_before_rewriting() {
    let backend = Backend::echo("shop");
    let ingress =
        Ingress::new("shop").path(HOST, "/shop/(.*)", "shop").annotation("rewrite-target", "/inner/$1");
    let folder = Folder::with(ingress.text() + &manifest::service_with("shop", &[&backend]));
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let ask = || {
        let forged = [("X-Original-URI", "/forged")];
        let response = Connection::plain(gateway.http).request("GET", HOST, "/shop/a%20b?x=1", &forged, "");
        assert_eq!(response.json()["target"], "/inner/a%20b?x=1");
        response.received("x-original-uri")
    };
    assert_eq!(ask(), ["/forged"], "as with nginx, the gateway sets it only if the operator enables it");
    let wanted = ("proxy-add-original-uri-header", "true");
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[wanted]));
    await_until("ours", || ask() == ["/shop/a%20b?x=1"]);
    let own = ("proxy-set-headers", "ingress-nginx/fields");
    folder.write("fields.yaml", config_map("ingress-nginx/fields", &[("X-Original-URI", "$host")]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[wanted, own]));
    await_until("the operator's own", || ask() == [HOST]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    await_until("the client's again", || ask() == ["/forged"]);
}

#[test]
fn the_host_from_a_trusted_proxys_field_is_used() {
    let backend = Backend::echo("shop");
    let (folder, gateway) = start(&backend);
    let fields = [("X-Forwarded-Host", "usual.example"), ("X-Outer-Host", "outer.example")];
    let kept = || send(&gateway, &fields).received("x-original-forwarded-host");
    assert_eq!(kept(), ["usual.example"]);
    let key = [("forwarded-host-header", "X-Outer-Host")];
    folder.write("config.yaml", config_map("ingress-nginx/controller", &key));
    await_until("the other field", || kept() == ["outer.example"]);
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    await_until("the usual one", || kept() == ["usual.example"]);
}
