//! `auth-tls-error-page` with a path of the host: the page that clients without an acceptable
//! certificate get, and attempts to get more than that page.

use std::sync::Arc;

use http::Request;
use rustls::ClientConfig;
use sluice_testing::websocket::WebSocket;

use crate::harness::client::Response;
use crate::harness::manifest::{self, opaque_secret};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, client,
    config_map, get, h2,
};

const HOST: &str = "shop.example";
const PAGE: &str = "/denied?why=certificate";
const HTTP_1: &[&[u8]] = &[b"http/1.1"];

/// A host whose clients need a certificate, and whose error page has an Ingress of its own.
struct Site {
    folder: Folder,
    authority: Authority,
    shop: Backend,
    help: Backend,
}

impl Site {
    fn new(page: &[(&str, &str)]) -> Self {
        Self::with(Backend::echo("help"), page)
    }

    fn with(help: Backend, page: &[(&str, &str)]) -> Self {
        let site =
            Self { folder: Folder::empty(), authority: Authority::new(), shop: Backend::echo("shop"), help };
        site.folder.write(
            "services.yaml",
            manifest::nginx_class()
                + &manifest::service_with("shop", &[&site.shop])
                + &manifest::service_with("help", &[&site.help]),
        );
        site.folder.write("server.yaml", TestCertificate::new(&[HOST]).secret("server"));
        site.folder.write("clients.yaml", opaque_secret("clients", &[("ca.crt", &*site.authority.pem())]));
        site.shop("/", PAGE, &[]);
        site.page(page);
        site
    }

    fn shop(&self, path: &str, page: &str, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new("shop")
            .path(HOST, path, "shop")
            .tls(&[HOST], "server")
            .annotation("auth-tls-secret", "default/clients")
            .annotation("auth-tls-error-page", page);
        self.folder.write("shop.yaml", ingress.annotations(annotations).text());
    }

    fn page(&self, annotations: &[(&str, &str)]) {
        let ingress = Ingress::new("page").path(HOST, "/denied", "help");
        self.folder.write("page.yaml", ingress.annotations(annotations).text());
    }

    fn accepted(&self) -> Arc<ClientConfig> {
        self.authority.issue_client("client", 7).presenting(&[], HTTP_1)
    }
}

fn anonymous(gateway: &Gateway) -> Connection {
    Connection::tls_with(gateway.https, HOST, &client::trusting(HTTP_1))
}

/// Checks that the endpoint of the page echoed a GET for the page without a body.
#[track_caller]
fn assert_page(response: &Response) {
    let json = response.json();
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!((&*response.backend(), &json["method"]), ("help", &"GET".into()));
    assert_eq!((&json["target"], &json["body"]), (&PAGE.into(), &"".into()));
    for name in ["content-length", "transfer-encoding", "expect", "upgrade"] {
        assert!(response.received(name).is_empty(), "{name}");
    }
}

#[test]
fn clients_without_an_acceptable_certificate_get_only_the_page() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let foreign = Authority::new().issue_client("client", 7).presenting(&[], HTTP_1);
    for (config, verify) in [(client::trusting(HTTP_1), "NONE"), (foreign, "FAILED:")] {
        for target in
            ["/", "/secret?a=1", "/denied/../secret", "/denied", "/denied/x", "//denied", "/%64enied"]
        {
            let mut connection = Connection::tls_with(gateway.https, HOST, &config);
            let response = connection.get(HOST, target);
            assert_page(&response);
            assert_eq!(response.header("connection"), Some("close"), "as the refusal that it replaces");
            assert!(connection.is_closed());
            assert!(response.received("ssl-client-verify")[0].starts_with(verify), "{target}");
        }
    }
    assert_eq!(site.shop.requests(), 0);
    let mut accepted = Connection::tls_with(gateway.https, HOST, &site.accepted());
    assert_eq!(accepted.get(HOST, "/secret").json()["target"], "/secret");
    assert_eq!(accepted.get(HOST, "/denied?x").json()["target"], "/denied?x");
    assert!(!gateway.problems().contains("auth-tls"), "the value is served");
}

#[test]
fn the_status_is_that_of_the_page() {
    let answers = |request: &sluice_testing::wire::Message| match request.start.contains("why") {
        true => Reply::status(418),
        false => Reply::status(404),
    };
    let site = Site::with(Backend::with("help", answers), &[]);
    let gateway = Gateway::start(&site.folder);
    let response = anonymous(&gateway).get(HOST, "/secret");
    assert_eq!((response.status, &*response.text()), (418, "status 418 of the backend"));
    site.shop("/", "/denied", &[]);
    await_until("the page without a query", || anonymous(&gateway).get(HOST, "/").status == 404);
    let mut help = site.help;
    help.stop();
    assert_eq!(anonymous(&gateway).get(HOST, "/secret").status, 502);
}

#[test]
fn a_body_does_not_reach_the_page() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let body = "GET /secret HTTP/1.1\r\nHost: shop.example\r\n\r\n";
        let mut connection = anonymous(&gateway);
        assert_page(&connection.request(method, HOST, "/secret", &[("Content-Type", "text/plain")], body));
        assert!(connection.is_closed());
    }
    let mut connection = anonymous(&gateway);
    let head = "POST /secret HTTP/1.1\r\nHost: shop.example\r\nTransfer-Encoding: chunked\r\n\r\n";
    connection.send(format!("{head}3\r\nabc\r\n0\r\n\r\n"));
    let response = connection.response();
    assert_page(&response);
    assert_eq!(response.header("connection"), Some("close"));
    assert!(connection.is_closed());
    // Nothing invites a client that waits to send its body.
    let mut waiting = anonymous(&gateway);
    waiting.send(
        "POST /secret HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    let response = waiting.response();
    assert_page(&response);
    assert_eq!(response.header("connection"), Some("close"));
    let mut large = anonymous(&gateway);
    large.send("POST /secret HTTP/1.1\r\nHost: shop.example\r\nContent-Length: 999999999\r\n\r\nabc");
    assert_page(&large.response());
    // A body that the endpoint got would be a further request.
    assert_eq!((site.shop.requests(), site.help.requests()), (0, 7));
}

#[test]
fn head_stays_head() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    let response = anonymous(&gateway).request("HEAD", HOST, "/secret", &[], "");
    assert_eq!((response.status, response.body()), (200, &b""[..]));
    assert_eq!(site.help.seen()[0].start, format!("HEAD {PAGE} HTTP/1.1"));
    assert_page(&anonymous(&gateway).get(HOST, "/"));
}

#[test]
fn streams_of_http2_get_the_page() {
    let site = Site::new(&[]);
    let gateway = Gateway::start(&site.folder);
    h2::run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let large = "x".repeat(200_000);
        for (method, body) in [("GET", ""), ("POST", "abc"), ("POST", &*large), ("HEAD", "")] {
            let request = Request::builder().method(method).uri(format!("https://{HOST}/secret?a=1"));
            let response = connection.send(request.body(()).unwrap(), body).await.unwrap();
            assert_eq!(response.status(), 200);
            let sent = site.help.seen().pop().unwrap();
            let expected = if method == "HEAD" { "HEAD" } else { "GET" };
            assert_eq!((sent.start, sent.body), (format!("{expected} {PAGE} HTTP/1.1"), Vec::new()));
        }
        // A status of success would open the tunnel.
        let tunnel = WebSocket::connect(gateway.https, HOST, "/secret").await.map(drop);
        assert_eq!(tunnel, Err(400));
    });
    assert_eq!((site.shop.requests(), site.help.requests()), (0, 4));
}

#[test]
fn a_client_cannot_switch_protocols_by_the_page() {
    let site = Site::with(
        Backend::with("help", |request| match request.header("upgrade") {
            Some(_) => Reply::Upgrade,
            None => Reply::Echo,
        }),
        &[],
    );
    let gateway = Gateway::start(&site.folder);
    let upgrade = [("Connection", "upgrade"), ("Upgrade", "websocket")];
    assert_page(&anonymous(&gateway).request("GET", HOST, "/secret", &upgrade, ""));
}

#[test]
fn passwords_and_address_lists_of_the_page_apply() {
    let site = Site::new(&[("auth-type", "basic"), ("auth-secret", "users")]);
    site.folder.write("users.yaml", opaque_secret("users", &[("auth", "ann:{PLAIN}open sesame\n")]));
    let gateway = Gateway::start(&site.folder);
    let response = anonymous(&gateway).request("POST", HOST, "/secret", &[], "abc");
    assert_eq!(response.status, 401);
    assert!(response.header("www-authenticate").is_some());
    let ann = [("Authorization", "Basic YW5uOm9wZW4gc2VzYW1l")];
    assert_page(&anonymous(&gateway).request("POST", HOST, "/secret", &ann, "abc"));
    site.page(&[("whitelist-source-range", "203.0.113.0/24")]);
    await_until("the list", || anonymous(&gateway).get(HOST, "/secret").status == 403);
    assert_eq!(site.shop.requests(), 0);
}

#[test]
fn the_authorisation_service_of_the_page_is_asked_for_the_page() {
    let auth = Backend::with("auth", |request| {
        Reply::status(match request.header("x-original-url") {
            Some("https://shop.example/public") => 200,
            _ => 403,
        })
    });
    let url = format!("http://{}/check?uri=$request_uri", auth.address);
    let site = Site::new(&[("auth-url", &*url)]);
    let gateway = Gateway::start(&site.folder);
    assert_eq!(anonymous(&gateway).get(HOST, "/public").status, 403);
    let asked = auth.seen().pop().unwrap();
    assert_eq!(asked.header("x-original-url"), Some("https://shop.example/denied?why=certificate"));
    assert_eq!(asked.header("x-original-method"), Some("GET"));
    assert!(asked.start.contains("/denied") && !asked.start.contains("public"), "{}", asked.start);
}

#[test]
fn a_page_without_a_rule_is_not_found() {
    let site = Site::new(&[]);
    site.folder.remove("page.yaml");
    site.shop("/secret", PAGE, &[]);
    let gateway = Gateway::start(&site.folder);
    assert_eq!(anonymous(&gateway).request("POST", HOST, "/secret", &[], "abc").status, 404);
    assert_eq!(anonymous(&gateway).get(HOST, "/secret").status, 404);
    assert_eq!(site.shop.requests(), 0);
}

#[test]
fn a_page_of_the_same_rule_is_stored_under_its_own_path() {
    let site = Site::new(&[]);
    site.folder.remove("page.yaml");
    site.shop("/", PAGE, &[("sluice.dev/cache", "true"), ("sluice.dev/cache-ttl", "1m")]);
    let gateway = Gateway::start(&site.folder);
    let mut accepted = Connection::tls_with(gateway.https, HOST, &site.accepted());
    for _ in 0..2 {
        assert_eq!(anonymous(&gateway).get(HOST, "/secret").json()["target"], PAGE);
        assert_eq!(accepted.get(HOST, "/secret").json()["target"], "/secret");
    }
    assert_eq!(anonymous(&gateway).get(HOST, "/other").json()["target"], PAGE);
    assert_eq!(site.shop.requests(), 2);
}

#[test]
fn the_access_log_has_the_clients_request_and_the_pages_backend() {
    let site = Site::new(&[]);
    let format = "$request|$request_uri|$request_method|$uri|$args|$status|$service_name|$ssl_client_verify";
    site.folder.write("config.yaml", config_map("edge/config", &[("log-format-upstream", format)]));
    let gateway = Gateway::with(&site.folder, &["--configmap", "edge/config"]);
    assert_page(&anonymous(&gateway).request("POST", HOST, "/secret?a=1", &[], "abc"));
    assert_eq!(
        gateway.await_access("POST /secret?a=1"),
        "POST /secret?a=1 HTTP/1.1|/secret?a=1|GET|/denied|why=certificate|200|help|NONE"
    );
    let lines = gateway.access_log();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn a_host_without_tls_shows_the_page_unless_it_redirects() {
    let site = Site::new(&[("ssl-redirect", "false")]);
    site.shop("/", PAGE, &[("ssl-redirect", "false")]);
    let gateway = Gateway::start(&site.folder);
    assert_page(&get(gateway.http, HOST, "/secret"));
    site.page(&[]);
    await_until("the redirect of the page", || get(gateway.http, HOST, "/secret").status == 308);
    let redirect = get(gateway.http, HOST, "/secret?a=1");
    assert_eq!(redirect.header("location"), Some("https://shop.example/secret?a=1"));
}
