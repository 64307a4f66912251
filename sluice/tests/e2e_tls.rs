//! Selection of certificates by SNI, and connections that certificate changes must not affect.

use rustls::NamedGroup;

use crate::harness::manifest::tls_secret;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, answer_to, await_until, config_map, get,
    get_tls, h2, manifest, pause,
};

/// Serves each host with a certificate of its own; Secrets are in `<name>.yaml`.
fn serve(hosts: &[(&str, &str)], backend: &Backend) -> (Folder, Vec<TestCertificate>) {
    let folder = Folder::with(manifest::service_with("web", &[backend]));
    let mut certificates = Vec::new();
    for (name, host) in hosts {
        let certificate = TestCertificate::new(&[host]);
        let ingress = Ingress::new(name).path(host, "/", "web").tls(&[host], name);
        folder.write(&format!("ingress-{name}.yaml"), ingress.text());
        folder.write(&format!("{name}.yaml"), certificate.secret(name));
        certificates.push(certificate);
    }
    (folder, certificates)
}

fn shown(gateway: &Gateway, sni: &str) -> Vec<u8> {
    Connection::tls(gateway.https, sni).certificate().to_vec()
}

fn contains(der: &[u8], text: &str) -> bool {
    der.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn sni_chooses_exactly_then_by_wildcard() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("exact", "a.example"), ("wild", "*.example")], &backend);
    let gateway = Gateway::start(&folder);
    assert_eq!(shown(&gateway, "a.example"), certificates[0].der);
    assert_eq!(shown(&gateway, "A.EXAMPLE"), certificates[0].der);
    assert_eq!(shown(&gateway, "b.example"), certificates[1].der);
    assert_eq!(get_tls(gateway.https, "b.example", "/").backend(), "web");
}

#[test]
fn unknown_names_get_the_self_signed_fallback() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("exact", "a.example")], &backend);
    let gateway = Gateway::start(&folder);
    for name in ["unknown.example", "x.a.example", "127.0.0.1"] {
        let fallback = shown(&gateway, name);
        assert_ne!(fallback, certificates[0].der);
        assert!(contains(&fallback, "Kubernetes Ingress Controller Fake Certificate"), "{name}");
        assert!(contains(&fallback, "ingress.local"), "{name}");
    }
}

#[test]
fn the_default_certificate_replaces_the_fallback_and_may_come_later() {
    let certificate = TestCertificate::new(&["default.example"]);
    let folder = Folder::with("");
    let gateway = Gateway::with(&folder, &["--default-ssl-certificate", "default/own"]);
    assert_ne!(shown(&gateway, "unknown.example"), certificate.der);
    folder.write("own.yaml", certificate.secret("own"));
    await_until("the default certificate", || shown(&gateway, "unknown.example") == certificate.der);
}

#[test]
fn a_missing_secret_serves_the_default_and_still_redirects() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("shop", "shop.example")], &backend);
    folder.remove("shop.yaml");
    let gateway = Gateway::start(&folder);
    assert!(contains(&shown(&gateway, "shop.example"), "Fake Certificate"));
    assert_eq!(get(gateway.http, "shop.example", "/").status, 308);
    assert!(gateway.problems().contains("default/shop"), "{}", gateway.problems());
    folder.write("shop.yaml", certificates[0].secret("shop"));
    await_until("the certificate", || shown(&gateway, "shop.example") == certificates[0].der);
    await_until("the problem to vanish", || !gateway.problems().contains("default/shop"));
}

#[test]
fn a_secret_without_a_certificate_is_reported_and_affects_no_other() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("good", "good.example"), ("bad", "bad.example")], &backend);
    folder.write("bad.yaml", tls_secret("bad", "garbage", "garbage"));
    let gateway = Gateway::start(&folder);
    assert_eq!(shown(&gateway, "good.example"), certificates[0].der);
    assert!(contains(&shown(&gateway, "bad.example"), "Fake Certificate"));
    assert!(gateway.problems().contains("default/bad"), "{}", gateway.problems());
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("a", "a.example"), ("b", "b.example")], &backend);
    folder.write("b.yaml", tls_secret("b", &certificates[1].pem, &certificates[0].key_pem));
    let gateway = Gateway::start(&folder);
    assert_eq!(shown(&gateway, "a.example"), certificates[0].der);
    assert!(contains(&shown(&gateway, "b.example"), "Fake Certificate"));
}

#[test]
fn a_certificate_changes_without_touching_running_connections() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("shop", "shop.example")], &backend);
    let gateway = Gateway::start(&folder);
    let mut running = Connection::tls(gateway.https, "shop.example");
    assert_eq!(running.certificate(), certificates[0].der);
    assert_eq!(running.get("shop.example", "/").backend(), "web");
    let renewed = TestCertificate::new(&["shop.example"]);
    folder.write("shop.yaml", renewed.secret("shop"));
    await_until("the new certificate", || shown(&gateway, "shop.example") == renewed.der);
    assert_eq!(running.get("shop.example", "/").backend(), "web");
}

#[test]
fn a_secret_that_becomes_unusable_keeps_its_last_certificate() {
    let backend = Backend::echo("web");
    let (folder, certificates) = serve(&[("shop", "shop.example")], &backend);
    let default = TestCertificate::new(&["default.example"]);
    folder.write("own.yaml", default.secret("own"));
    let gateway = Gateway::with(&folder, &["--default-ssl-certificate", "default/own"]);
    for name in ["shop", "own"] {
        folder.write(&format!("{name}.yaml"), tls_secret(name, &certificates[0].pem, "garbage"));
        await_until("the problem", || gateway.problems().contains(&format!("default/{name}: tls.key")));
    }
    assert_eq!(shown(&gateway, "shop.example"), certificates[0].der);
    assert_eq!(shown(&gateway, "unknown.example"), default.der);
    assert_eq!(get_tls(gateway.https, "shop.example", "/").backend(), "web");
    let renewed = TestCertificate::new(&["shop.example"]);
    folder.write("shop.yaml", renewed.secret("shop"));
    await_until("the new certificate", || shown(&gateway, "shop.example") == renewed.der);
    folder.remove("shop.yaml");
    await_until("the default certificate", || shown(&gateway, "shop.example") == default.der);
}

#[test]
fn an_entry_without_hosts_serves_the_names_of_its_certificate() {
    let backend = Backend::echo("web");
    let certificate = TestCertificate::new(&["shop.example"]);
    let objects = Ingress::new("shop").path("shop.example", "/", "web").tls(&[], "shop").text()
        + &manifest::service_with("web", &[&backend])
        + &certificate.secret("shop");
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(shown(&gateway, "shop.example"), certificate.der);
}

#[test]
fn alpn_chooses_what_the_client_offers() {
    let backend = Backend::echo("web");
    let (folder, _certificates) = serve(&[("shop", "shop.example")], &backend);
    let gateway = Gateway::start(&folder);
    let negotiated = |offered: &[&[u8]]| h2::run(h2::negotiated(gateway.https, "shop.example", offered));
    assert_eq!(negotiated(&[b"h2", b"http/1.1"]).as_deref(), Some(&b"h2"[..]));
    assert_eq!(negotiated(&[b"http/1.1"]).as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(negotiated(&[]), None);
}

#[test]
fn keys_are_agreed_on_with_post_quantum_cryptography() {
    let gateway = Gateway::start(&Folder::with(""));
    let connection = Connection::tls(gateway.https, "any.example");
    assert_eq!(connection.key_exchange(), Some(NamedGroup::X25519MLKEM768));
}

#[test]
fn a_backend_may_use_tls() {
    let certificate = TestCertificate::new(&["backend"]);
    let backend = Backend::tls("secure", certificate.server_config());
    let ingress =
        Ingress::new("web").path("web.example", "/", "web").annotation("backend-protocol", "HTTPS").text();
    let gateway = Gateway::start(&Folder::with(ingress + &manifest::service_with("web", &[&backend])));
    assert_eq!(get(gateway.http, "web.example", "/").backend(), "secure");
}

#[test]
fn bytes_that_are_no_handshake_end_the_connection_without_harm() {
    let gateway = Gateway::start(&Folder::with(""));
    let answer = answer_to(gateway.https, "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(!answer.contains("200") && !answer.to_lowercase().contains("pingora"), "{answer:?}");
    assert_eq!(gateway.health(), Some(200));
}

/// Clients got an alert of TLS, and no log line said why.
#[test]
fn plain_http_on_the_https_port_is_400() {
    let backend = Backend::echo("web");
    let (folder, _) = serve(&[("shop", "shop.example")], &backend);
    // With early data, and with passthrough, the ClientHello is read in another way.
    for early_data in ["false", "true"] {
        folder.write("config.yaml", config_map("default/config", &[("ssl-early-data", early_data)]));
        let gateway = Gateway::with(&folder, &["--configmap", "default/config"]);
        for (number, method) in ["GET", "POST"].into_iter().enumerate() {
            let mut client = Connection::plain(gateway.https);
            let path = format!("/plain{number}");
            let response = client.request(method, "shop.example", &path, &[], "");
            assert_eq!((response.status, response.header("connection")), (400, Some("close")));
            assert!(
                response.text().contains("<center>The plain HTTP request was sent to HTTPS port</center>")
            );
            assert!(client.is_closed());
            assert!(gateway.await_access(&path).contains(&format!("\"{method} {path} HTTP/1.1\" 400 ")));
        }
        let mut slow = Connection::plain(gateway.https);
        for piece in ["P", "RI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
            slow.send(piece);
            pause();
        }
        assert_eq!(slow.response().status, 400);
        let mut other = Connection::plain(gateway.https);
        other.send("get / HTTP/1.1\r\n\r\n");
        assert_eq!(other.bytes(1), [21], "an alert");
        assert!(backend.seen().is_empty());
    }
    let gateway = Gateway::start(&folder);
    assert_eq!(get_tls(gateway.https, "shop.example", "/").status, 200);
}
