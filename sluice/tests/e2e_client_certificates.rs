//! Client certificates: admitted clients, the fields for endpoints, and attempts to bypass them.

use std::sync::Arc;

use rustls::ClientConfig;

use crate::harness::client::Response;
use crate::harness::manifest::{self, opaque_secret};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, client, get, h2,
};

const HOST: &str = "shop.example";
const HTTP_1: &[&[u8]] = &[b"http/1.1"];
const HTTP_2: &[&[u8]] = &[b"h2", b"http/1.1"];

/// A gateway for one host that verifies clients, with its authority in the Secret `clients`.
struct Site {
    folder: Folder,
    authority: Authority,
    backend: Backend,
}

impl Site {
    fn new(annotations: &[(&str, &str)]) -> Self {
        let site =
            Self { folder: Folder::empty(), authority: Authority::new(), backend: Backend::echo("shop") };
        site.folder.write(
            "service.yaml",
            manifest::nginx_class() + &manifest::service_with("shop", &[&site.backend]),
        );
        site.folder.write("server.yaml", TestCertificate::new(&[HOST]).secret("server"));
        site.trust(&site.authority, None);
        site.ingress("shop", HOST, annotations);
        site
    }

    /// Writes the Secret with an authority and perhaps its revocation list.
    fn trust(&self, authority: &Authority, revocations: Option<&str>) {
        let pem = authority.pem();
        let keys = [("ca.crt", &*pem), ("ca.crl", revocations.unwrap_or_default())];
        self.folder.write("clients.yaml", opaque_secret("clients", &keys));
    }

    fn ingress(&self, name: &str, host: &str, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new(name).path(host, "/", "shop").tls(&[host], "server");
        let named = annotations.iter().any(|(name, _)| *name == "auth-tls-secret");
        let ingress = match named {
            true => ingress,
            false => ingress.annotation("auth-tls-secret", "default/clients"),
        };
        self.folder.write(&format!("ingress-{name}.yaml"), ingress.annotations(annotations).text());
    }

    fn open_host(&self, host: &str) {
        let ingress = Ingress::new("open").path(host, "/", "shop").tls(&[host], "server");
        self.folder.write("ingress-open.yaml", ingress.text());
    }
}

fn without_certificate() -> Arc<ClientConfig> {
    client::trusting(HTTP_1)
}

fn answer(gateway: &Gateway, config: &Arc<ClientConfig>) -> Response {
    Connection::tls_with(gateway.https, HOST, config).get(HOST, "/")
}

fn status(gateway: &Gateway, config: &Arc<ClientConfig>) -> u16 {
    answer(gateway, config).status
}

#[test]
fn only_clients_with_a_certificate_of_the_authority_are_served() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let own = site.authority.issue_client("client", 7).presenting(&[], HTTP_1);
    let response = answer(&gateway, &own);
    assert_eq!(response.backend(), "shop");
    assert_eq!(response.received("ssl-client-verify"), ["SUCCESS"]);
    assert_eq!(response.received("ssl-client-subject-dn"), ["CN=client,O=Example"]);
    assert!(response.received("ssl-client-issuer-dn")[0].starts_with("CN=an authority"));
    assert!(response.received("ssl-client-cert").is_empty(), "no annotation requires it");
    let none = answer(&gateway, &without_certificate());
    assert_eq!(none.status, 400);
    assert!(
        none.text().contains("<title>400 No required SSL certificate was sent</title>"),
        "{}",
        none.text()
    );
    let foreign = Authority::new().issue_client("client", 7);
    let expired = site.authority.issue_client_until("client", 8, 2001);
    for bad in [foreign, expired] {
        let refused = answer(&gateway, &bad.presenting(&[], HTTP_1));
        assert_eq!(refused.status, 400);
        assert!(
            refused.text().contains("<title>400 The SSL certificate error</title>"),
            "{}",
            refused.text()
        );
    }
    assert_eq!(site.backend.requests(), 1);
}

#[test]
fn a_client_cannot_forge_certificate_fields() {
    let site = Site::new(&[
        ("auth-tls-verify-client", "optional"),
        ("auth-tls-pass-certificate-to-upstream", "true"),
        ("ssl-redirect", "false"),
    ]);
    let gateway = Gateway::start(&site.folder);
    let spoofed = [
        ("SSL-Client-Verify", "SUCCESS"),
        ("ssl-client-subject-dn", "CN=admin"),
        ("ssl-client-issuer-dn", "CN=admin"),
        ("ssl-client-cert", "x"),
    ];
    let mut anonymous = Connection::tls_with(gateway.https, HOST, &without_certificate());
    let response = anonymous.request("GET", HOST, "/", &spoofed, "");
    assert_eq!(response.received("ssl-client-verify"), ["NONE"]);
    for name in ["ssl-client-subject-dn", "ssl-client-issuer-dn", "ssl-client-cert"] {
        assert!(response.received(name).is_empty(), "{name}");
    }
    let own = site.authority.issue_client("client", 7).presenting(&[], HTTP_1);
    let mut known = Connection::tls_with(gateway.https, HOST, &own);
    let response = known.request("GET", HOST, "/", &spoofed, "");
    assert_eq!(response.received("ssl-client-verify"), ["SUCCESS"]);
    assert_eq!(response.received("ssl-client-subject-dn"), ["CN=client,O=Example"]);
    let passed = response.received("ssl-client-cert");
    assert!(passed.len() == 1 && passed[0].starts_with("-----BEGIN%20CERTIFICATE-----%0AMII"), "{passed:?}");
    let plain = Connection::plain(gateway.http).request("GET", HOST, "/", &spoofed, "");
    assert_eq!(plain.backend(), "shop");
    assert!(spoofed.iter().all(|(name, _)| plain.received(name).is_empty()), "{}", plain.text());
}

#[test]
fn optional_certificates_are_verified_if_they_are_presented() {
    let site = Site::new(&[("auth-tls-verify-client", "optional")]);
    let gateway = Gateway::start(&site.folder);
    let foreign = Authority::new().issue_client("client", 7).presenting(&[], HTTP_1);
    let expired = site.authority.issue_client_until("client", 8, 2001).presenting(&[], HTTP_1);
    assert_eq!(status(&gateway, &without_certificate()), 200);
    assert_eq!(status(&gateway, &foreign), 400);
    site.ingress("shop", HOST, &[("auth-tls-verify-client", "optional_no_ca")]);
    await_until("the other mode", || status(&gateway, &foreign) == 200);
    let response = answer(&gateway, &foreign);
    assert_eq!(response.received("ssl-client-verify"), ["FAILED:unable to verify the first certificate"]);
    assert_eq!(response.received("ssl-client-subject-dn"), ["CN=client,O=Example"]);
    assert_eq!(status(&gateway, &expired), 400);
    site.ingress("shop", HOST, &[("auth-tls-verify-client", "off")]);
    await_until("no verification", || status(&gateway, &expired) == 200);
    assert_eq!(answer(&gateway, &expired).received("ssl-client-verify"), ["NONE"]);
}

#[test]
fn a_subject_that_does_not_match_gets_403_and_an_error_page_replaces_400() {
    let site = Site::new(&[
        ("auth-tls-match-cn", "CN=(ann|bob),"),
        ("auth-tls-error-page", "https://help.example/certificates"),
    ]);
    let gateway = Gateway::start(&site.folder);
    let client = |name| site.authority.issue_client(name, 7).presenting(&[], HTTP_1);
    assert_eq!(status(&gateway, &client("ann")), 200);
    let refused = answer(&gateway, &client("eve"));
    assert_eq!((refused.status, &*refused.text()), (403, "client certificate unauthorized"));
    let foreign = Authority::new().issue_client("ann", 7).presenting(&[], HTTP_1);
    for config in [without_certificate(), foreign] {
        let redirect = answer(&gateway, &config);
        assert_eq!(redirect.status, 302);
        assert_eq!(redirect.header("location"), Some("https://help.example/certificates"));
    }
}

#[test]
fn chains_longer_than_the_depth_are_rejected() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let first = site.authority.intermediate();
    let second = first.intermediate();
    let near = first.issue_client("client", 7).presenting(&[&first], HTTP_1);
    let far = second.issue_client("client", 7).presenting(&[&second, &first], HTTP_1);
    assert_eq!((status(&gateway, &near), status(&gateway, &far)), (200, 400));
    site.ingress("shop", HOST, &[("auth-tls-verify-depth", "2")]);
    await_until("more depth", || status(&gateway, &far) == 200);
}

#[test]
fn changed_authorities_and_revocations_apply_to_open_connections() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let config = site.authority.issue_client("client", 7).presenting(&[], HTTP_1);
    let mut open = Connection::tls_with(gateway.https, HOST, &config);
    assert_eq!(open.get(HOST, "/").status, 200);
    let generation = gateway.generation();
    site.trust(&site.authority, Some(&site.authority.revocation_list(&[8])));
    await_until("the list", || gateway.generation() > generation);
    assert_eq!(open.get(HOST, "/").status, 200);
    site.trust(&site.authority, Some(&site.authority.revocation_list(&[7, 8])));
    await_until("the certificate to be revoked", || open.get(HOST, "/").status == 400);
    assert_eq!(status(&gateway, &config), 400);
    site.trust(&site.authority, None);
    await_until("the list to be gone", || status(&gateway, &config) == 200);
    let mut open = Connection::tls_with(gateway.https, HOST, &config);
    // A list of another authority says nothing about the client's.
    let other = Authority::new();
    site.trust(&site.authority, Some(&other.revocation_list(&[])));
    await_until("the wrong list", || open.get(HOST, "/").status == 400);
    site.trust(&other, None);
    let theirs = other.issue_client("client", 1).presenting(&[], HTTP_1);
    await_until("the other authority", || status(&gateway, &theirs) == 200);
    assert_eq!(status(&gateway, &config), 400);
}

#[test]
fn a_client_without_an_acceptable_certificate_kept_its_connection() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let foreign = Authority::new().issue_client("client", 7);
    let is_refused = |config: &Arc<ClientConfig>, status| {
        let mut connection = Connection::tls_with(gateway.https, HOST, config);
        let answer = connection.get(HOST, "/");
        assert_eq!((answer.status, answer.header("connection")), (status, Some("close")));
        assert!(connection.is_closed());
    };
    is_refused(&without_certificate(), 400);
    is_refused(&foreign.presenting(&[], HTTP_1), 400);
    // One of HTTP/2 continues, as with nginx. Each of its requests is verified.
    h2::run(async {
        let connection = h2::Connection::tls_with(gateway.https, HOST, foreign.presenting(&[], HTTP_2)).await;
        for _ in 0..2 {
            let answer = connection.get(&format!("https://{HOST}/")).await.unwrap();
            assert_eq!(answer.status().as_u16(), 400);
        }
    });
    site.ingress("shop", HOST, &[("auth-tls-error-page", "https://help.example/certificates")]);
    await_until("the redirect", || status(&gateway, &without_certificate()) == 302);
    is_refused(&without_certificate(), 302);
    assert_eq!(site.backend.requests(), 0);
}

#[test]
fn a_host_is_closed_while_its_secret_cannot_be_used() {
    let site = Site::new(&[]);
    site.folder.remove("clients.yaml");
    let neighbour = Ingress::new("neighbour").path(HOST, "/other", "shop");
    site.folder.write("neighbour.yaml", neighbour.text());
    let gateway = Gateway::start(&site.folder);
    let own = site.authority.issue_client("client", 7).presenting(&[], HTTP_1);
    let mut open = Connection::tls_with(gateway.https, HOST, &own);
    for path in ["/", "/other"] {
        assert_eq!(open.get(HOST, path).status, 403, "{path}");
        assert_eq!(get(gateway.http, HOST, path).status, 403, "{path}");
    }
    let problems = gateway.problems();
    assert!(problems.contains("Secret default/clients does not exist"), "{problems}");
    assert!(problems.contains("because Ingress default/shop requires client certificates"), "{problems}");
    site.trust(&site.authority, None);
    await_until("the Secret", || status(&gateway, &own) == 200);
    // The handshake was made without a request for a certificate.
    let answer = open.get(HOST, "/");
    assert_eq!((answer.status, answer.header("connection")), (421, Some("close")));
    assert_eq!(
        Connection::tls_with(gateway.https, HOST, &without_certificate()).get(HOST, "/other").status,
        400
    );
    for (keys, words) in [
        (vec![("tls.crt", "x")], "has no key ca.crt"),
        (vec![("ca.crt", "nonsense")], "has no certificate in its key ca.crt"),
    ] {
        site.folder.write("clients.yaml", opaque_secret("clients", &keys));
        await_until(words, || gateway.problems().contains(words));
        await_until("the host to close", || status(&gateway, &own) == 403);
    }
    let unusable = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    site.folder.write("clients.yaml", opaque_secret("clients", &[("ca.crt", unusable)]));
    await_until("the data plane to refuse it", || gateway.problems().contains("the data plane refuses"));
    assert_eq!(status(&gateway, &own), 403);
}

/// A connection that was opened before the verification of its host changed.
#[test]
fn an_open_connection_outlives_a_change_of_the_verification() {
    let site = Site::new(&[("auth-tls-verify-client", "off")]);
    site.folder.write("renamed.yaml", opaque_secret("renamed", &[("ca.crt", &*site.authority.pem())]));
    let gateway = Gateway::start(&site.folder);
    let own = site.authority.issue_client("client", 7);
    let http1 = own.presenting(&[], HTTP_1);
    let change = |annotations: &[(&str, &str)]| {
        let generation = gateway.generation();
        site.ingress("shop", HOST, annotations);
        await_until("the change", || gateway.generation() > generation);
    };
    let connect = || {
        let mut connection = Connection::tls_with(gateway.https, HOST, &http1);
        assert_eq!(connection.get(HOST, "/").status, 200);
        connection
    };
    // Serves a request as before the change, and ends with the next one.
    let serves = |mut open: Connection, verify: &str| {
        let answer = open.get(HOST, "/");
        assert_eq!(answer.received("ssl-client-verify"), [verify]);
        assert_eq!(open.get(HOST, "/").header("connection"), Some("close"));
        assert_eq!(connect().get(HOST, "/").received("ssl-client-verify"), ["SUCCESS"]);
    };
    let open = connect();
    change(&[("auth-tls-verify-client", "optional")]);
    serves(open, "NONE");
    let open = connect();
    change(&[("auth-tls-verify-depth", "2")]);
    serves(open, "SUCCESS");
    let open = connect();
    change(&[("auth-tls-secret", "renamed")]);
    serves(open, "SUCCESS");
    h2::run(async {
        let config = own.presenting(&[], HTTP_2);
        change(&[("auth-tls-verify-client", "off")]);
        let open = h2::Connection::tls_with(gateway.https, HOST, config.clone()).await;
        let url = format!("https://{HOST}/");
        assert_eq!(open.get(&url).await.unwrap().status().as_u16(), 200);
        change(&[]);
        assert_eq!(open.get(&url).await.unwrap().status().as_u16(), 421);
        let outcome = open.driver.await.unwrap();
        assert!(outcome.is_ok(), "the connection ended with {outcome:?} in place of GOAWAY");
        let next = h2::Connection::tls_with(gateway.https, HOST, config).await;
        assert_eq!(next.get(&url).await.unwrap().status().as_u16(), 200);
    });
}

#[test]
fn requests_for_a_host_with_another_verification_get_421() {
    let site = Site::new(&[]);
    let theirs = Authority::new();
    site.folder.write("others.yaml", opaque_secret("others", &[("ca.crt", &*theirs.pem())]));
    site.ingress("others", "others.example", &[("auth-tls-secret", "others")]);
    site.ingress("same", "same.example", &[]);
    site.open_host("open.example");
    let gateway = Gateway::start(&site.folder);
    let own = site.authority.issue_client("client", 7);
    let http1 = own.presenting(&[], HTTP_1);
    let from = |sni| Connection::tls_with(gateway.https, sni, &http1);
    let mut shop = from(HOST);
    let answers =
        [HOST, "same.example", "others.example", "open.example", HOST].map(|host| shop.get(host, "/").status);
    assert_eq!(answers, [200, 200, 421, 200, 200]);
    assert_eq!(from("open.example").get(HOST, "/").status, 421);
    assert_eq!(from("127.0.0.1").get(HOST, "/").status, 421, "without SNI");
    assert_eq!(from("unknown.example").get(HOST, "/").status, 421);
    assert_eq!(from("others.example").get("others.example", "/").status, 400);
    h2::run(async {
        let config = own.presenting(&[], HTTP_2);
        let shop = h2::Connection::tls_with(gateway.https, HOST, config.clone()).await;
        let open = h2::Connection::tls_with(gateway.https, "open.example", config).await;
        let status = async |connection: &h2::Connection, host: &str| {
            connection.get(&format!("https://{host}/")).await.unwrap().status().as_u16()
        };
        assert_eq!(status(&shop, HOST).await, 200);
        assert_eq!(status(&shop, "others.example").await, 421);
        assert_eq!(status(&shop, "open.example").await, 200);
        assert_eq!(status(&open, HOST).await, 421);
        assert_eq!(status(&open, "open.example").await, 200);
    });
}

#[test]
fn a_host_that_requires_certificates_is_not_served_without_tls() {
    let site = Site::new(&[("ssl-redirect", "false")]);
    let gateway = Gateway::start(&site.folder);
    let refused = get(gateway.http, HOST, "/");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("No required SSL certificate was sent"), "{}", refused.text());
    let challenge = "/.well-known/acme-challenge/x";
    assert_eq!(get(gateway.http, HOST, challenge).status, 400, "no rule is exempt");
    let solver = Ingress::new("solver").path(HOST, challenge, "shop");
    site.folder.write("solver.yaml", solver.text());
    await_until("the rule of the challenge", || get(gateway.http, HOST, challenge).status == 200);
    site.ingress("shop", HOST, &[]);
    await_until("the redirect", || get(gateway.http, HOST, "/").status == 308);
}

#[test]
fn a_rule_without_host_verifies_clients_of_all_unknown_hosts() {
    let site = Site::new(&[]);
    let ingress = Ingress::new("any").path("", "/foo", "shop");
    site.folder.write("any.yaml", ingress.annotation("auth-tls-secret", "default/clients").text());
    let gateway = Gateway::start(&site.folder);
    let unknown = "unknown.example";
    let status = |config: &Arc<ClientConfig>| {
        Connection::tls_with(gateway.https, unknown, config).get(unknown, "/").status
    };
    assert_eq!(status(&without_certificate()), 400);
    assert_eq!(status(&site.authority.issue_client("client", 7).presenting(&[], HTTP_1)), 404);
}

#[test]
fn the_oldest_ingress_that_names_a_secret_decides_for_its_host() {
    let site = Site::new(&[]);
    site.folder.write(
        "young.yaml",
        Ingress::new("young")
            .created("2025-01-01T00:00:00Z")
            .path(HOST, "/young", "shop")
            .annotation("auth-tls-secret", "missing")
            .text(),
    );
    let old = Ingress::new("shop")
        .created("2020-01-01T00:00:00Z")
        .path(HOST, "/", "shop")
        .annotation("auth-tls-secret", "clients");
    site.folder.write("ingress-shop.yaml", old.text());
    let gateway = Gateway::start(&site.folder);
    let own = site.authority.issue_client("client", 7).presenting(&[], HTTP_1);
    let mut connection = Connection::tls_with(gateway.https, HOST, &own);
    assert_eq!(connection.get(HOST, "/").status, 200);
    assert_eq!(connection.get(HOST, "/young").status, 403, "its own Secret is missing");
    let problems = gateway.problems();
    assert!(problems.contains("Secret default/missing does not exist"), "{problems}");
    assert!(problems.contains("Ingress default/shop, which is older, apply to host"), "{problems}");
}

#[test]
fn logs_and_fields_contain_the_values_of_a_certificate() {
    let site = Site::new(&[]);
    let format =
        "$ssl_client_verify|$ssl_client_s_dn|$ssl_client_serial|$ssl_client_fingerprint|$ssl_client_v_end";
    let config = [("log-format-upstream", format), ("proxy-set-headers", "default/fields")];
    site.folder.write("config.yaml", manifest::config_map("default/config", &config));
    site.folder.write(
        "fields.yaml",
        manifest::config_map("default/fields", &[("X-Client", "$ssl_client_s_dn of $ssl_client_i_dn")]),
    );
    let gateway = Gateway::with(&site.folder, &["--configmap", "default/config"]);
    let own = site.authority.issue_client("client", 0x1f);
    let response = answer(&gateway, &own.presenting(&[], HTTP_1));
    assert!(response.received("x-client")[0].starts_with("CN=client,O=Example of CN=an authority"));
    let line = gateway.await_access("SUCCESS");
    let parts: Vec<&str> = line.trim().split('|').collect();
    assert_eq!(parts[..3], ["SUCCESS", "CN=client,O=Example", "1F"]);
    assert_eq!((parts[3].len(), parts[4]), (40, "Jan  1 00:00:00 2100 GMT"));
    assert_eq!(status(&gateway, &without_certificate()), 400);
    gateway.await_access("NONE|-|-|-|-");
}
