//! Authorisation by another service (`auth-url` and related annotations).

use std::io::Read;
use std::sync::mpsc;

use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::wire::Message;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, PATIENCE, Reply, TestCertificate, await_until, config_map,
    get,
};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Starts an authorisation service that accepts `session=ann` (200) and responds with 403 to
/// `session=bob`, 302 to `session=odd`, and 401 to all others.
fn service() -> Backend {
    Backend::with("auth", |request| {
        let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match request.header("cookie").unwrap_or_default() {
            "session=ann" => Reply::Answer(
                202,
                vec![field("X-User", "ann"), field("Set-Cookie", "seen=1"), field("Set-Cookie", "last=2")],
                "welcome".to_owned(),
            ),
            "session=bob" => Reply::status(403),
            "session=odd" => Reply::Answer(302, vec![field("Location", "/elsewhere")], String::new()),
            "session=mute" => Reply::Close,
            _ => Reply::Answer(
                401,
                vec![field("WWW-Authenticate", "Bearer realm=\"shop\""), field("Set-Cookie", "csrf=1")],
                "who are you".to_owned(),
            ),
        }
    })
}

fn url(auth: &Backend) -> String {
    format!("http://{}/check?from=$host", auth.address)
}

fn ingress(auth: &Backend) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", &url(auth))
}

fn start(ingress: &Ingress, shop: &Backend) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[shop]));
    folder.write("ingress.yaml", ingress.text());
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    (folder, gateway)
}

fn send(gateway: &Gateway, session: &str, fields: &[(&str, &str)]) -> Response {
    let cookie = format!("session={session}");
    let mut all = vec![("Cookie", &*cookie)];
    all.extend(fields);
    Connection::plain(gateway.http).request("GET", HOST, "/cart?x=1", &all, "")
}

fn field<'m>(message: &'m Message, name: &str) -> Option<&'m str> {
    message.header(name)
}

#[test]
fn the_decision_of_the_service_applies() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let ingress = ingress(&auth).annotation("auth-response-headers", "X-User, X-Groups, X-Real-IP");
    let (_folder, gateway) = start(&ingress, &shop);
    let lies = [("X-User", "root"), ("X-Groups", "admin"), ("X-Forwarded-Proto", "https")];
    let response = send(&gateway, "ann", &lies);
    assert_eq!(response.status, 200);
    assert_eq!(response.received("X-User"), ["ann"]);
    assert!(response.received("X-Groups").is_empty(), "only the service sets the field");
    assert_eq!(
        response.received("X-Real-IP"),
        ["127.0.0.1"],
        "the gateway's own, without one of the service"
    );
    assert_eq!(response.all("set-cookie"), ["seen=1", "last=2"]);
    let asked = &auth.seen()[0];
    assert_eq!(asked.start, "GET /check?from=shop.example HTTP/1.1");
    for (name, value) in [
        ("Host", Some(auth.address.ip().to_string())),
        ("X-Original-URL", Some("http://shop.example/cart?x=1".to_owned())),
        ("X-Original-Method", Some("GET".to_owned())),
        ("X-Auth-Request-Redirect", Some("/cart?x=1".to_owned())),
        ("X-Sent-From", Some("nginx-ingress-controller".to_owned())),
        ("X-Real-IP", Some("127.0.0.1".to_owned())),
        ("X-Forwarded-Proto", None),
        ("X-Original-URI", None),
    ] {
        assert_eq!(field(asked, name), value.as_deref(), "{name}");
    }
    for (session, status) in [("eve", 401), ("bob", 403), ("odd", 500), ("mute", 500)] {
        let response = send(&gateway, session, &[]);
        assert_eq!(response.status, status, "{session}");
        assert!(!response.text().contains("who are you"), "the page is ours");
        let challenge = (status == 401).then_some("Bearer realm=\"shop\"");
        assert_eq!(response.header("www-authenticate"), challenge);
        assert!(response.header("set-cookie").is_none());
    }
    assert_eq!(shop.requests(), 1);
}

#[test]
fn a_body_waits_for_the_decision_and_a_denial_keeps_the_connection() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let (_folder, gateway) = start(&ingress(&auth), &shop);
    let mut connection = Connection::plain(gateway.http);
    let response = connection.request("POST", HOST, "/", &[("Cookie", "session=ann")], "hello");
    assert_eq!(response.json()["body"], "hello");
    assert_eq!(connection.request("POST", HOST, "/", &[("Cookie", "session=bob")], "hello").status, 403);
    assert_eq!(connection.request("GET", HOST, "/", &[("Cookie", "session=ann")], "").status, 200);
    assert!(
        auth.seen().iter().all(|asked| field(asked, "content-length").is_none() && asked.text().is_empty())
    );
}

#[test]
fn a_dead_service_denies_all_requests_until_it_is_back() {
    let (mut auth, shop) = (service(), Backend::echo("shop"));
    let (folder, gateway) = start(&ingress(&auth), &shop);
    assert_eq!(send(&gateway, "ann", &[]).status, 200);
    auth.stop();
    assert_eq!(send(&gateway, "ann", &[]).status, 500);
    let auth = service();
    folder.write("ingress.yaml", ingress(&auth).text());
    await_until("the new service asked", || send(&gateway, "ann", &[]).status == 200);
    folder.write("ingress.yaml", Ingress::new("shop").path(HOST, "/", "shop").text());
    await_until("no service queried", || send(&gateway, "eve", &[]).status == 200);
}

#[test]
fn a_slow_service_denies_all_requests() {
    let shop = Backend::echo("shop");
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-url", &format!("http://{}/", silent.local_addr().unwrap()))
        .annotation("proxy-next-upstream-tries", "1")
        .annotation("proxy-read-timeout", "1");
    let (_folder, gateway) = start(&ingress, &shop);
    assert_eq!(send(&gateway, "ann", &[]).status, 500);
    assert_eq!(shop.requests(), 0);
}

#[test]
fn a_service_whose_body_stalled_admitted_no_request() {
    let auth = Backend::with("auth", |request| {
        let session = request.header("cookie").unwrap_or_default();
        let status = if session.contains("ann") { 200 } else { 403 };
        let part = format!("HTTP/1.1 {status} Decided\r\nX-User: ann\r\nContent-Length: 500\r\n\r\nab");
        if session.ends_with("stalls") {
            Reply::Bytes(part.into_bytes())
        } else {
            Reply::Raw(part.into_bytes())
        }
    });
    let shop = Backend::echo("shop");
    let ingress = ingress(&auth)
        .annotation("auth-response-headers", "X-User")
        // Without a decision, the test ends soon.
        .annotation("proxy-read-timeout", "2");
    let (_folder, gateway) = start(&ingress, &shop);
    for end in ["stalls", "closes"] {
        let admitted = send(&gateway, &format!("ann-{end}"), &[]);
        assert_eq!(admitted.status, 200, "{end}");
        assert_eq!(admitted.received("X-User"), ["ann"]);
        assert_eq!(send(&gateway, &format!("bob-{end}"), &[]).status, 403, "{end}");
    }
    assert_eq!((auth.requests(), shop.requests()), (4, 2));
}

#[test]
fn unauthenticated_clients_are_redirected_to_sign_in_and_back() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let signed = ingress(&auth)
        .annotation("auth-signin", "https://login.example/start?app=$namespace")
        .annotation("auth-signin-redirect-param", "to");
    let (_folder, gateway) = start(&signed, &shop);
    let response = send(&gateway, "eve", &[]);
    assert_eq!(response.status, 302);
    assert_eq!(
        response.header("location"),
        Some("https://login.example/start?app=default&to=http://shop.example%2Fcart%3Fx%3D1")
    );
    assert_eq!(response.all("set-cookie"), ["csrf=1"]);
    assert_eq!(send(&gateway, "bob", &[]).status, 403);
}

#[test]
fn annotations_define_the_authorisation_request() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let special = ingress(&auth)
        .annotation("auth-method", "POST")
        .annotation("auth-request-redirect", "https://$http_host/home")
        .annotation("auth-proxy-set-headers", "default/auth-fields")
        .annotation("auth-always-set-cookie", "true");
    let (folder, gateway) = start(&special, &shop);
    assert_eq!(send(&gateway, "ann", &[]).status, 503, "a ConfigMap that is missing closes the routes");
    folder.write("fields.yaml", config_map("default/auth-fields", &[("X-Tenant", "blue")]));
    await_until("the ConfigMap picked up", || send(&gateway, "ann", &[]).status == 200);
    let asked = auth.seen().pop().unwrap();
    assert!(asked.start.starts_with("POST /check"), "{}", asked.start);
    for (name, value) in [
        ("X-Tenant", "blue"),
        ("X-Original-URI", "/cart?x=1"),
        ("X-Scheme", "http"),
        ("X-Auth-Request-Redirect", "https://shop.example/home"),
        ("Content-Length", "0"),
    ] {
        assert_eq!(field(&asked, name), Some(value), "{name}");
    }
    assert_eq!(send(&gateway, "eve", &[]).all("set-cookie"), ["csrf=1"], "with every status");
    folder.write("fields.yaml", config_map("default/auth-fields", &[("X-Tenant", "green")]));
    await_until("the other value sent", || {
        send(&gateway, "ann", &[]);
        field(&auth.seen().pop().unwrap(), "X-Tenant") == Some("green")
    });
}

#[test]
fn responses_are_cached_by_their_key() {
    let (auth, shop) = (Backend::with("auth", |_| Reply::status(200)), Backend::echo("shop"));
    let cached = ingress(&auth)
        .annotation("auth-cache-key", "$cookie_session")
        .annotation("auth-cache-duration", "200 10m");
    let (_folder, gateway) = start(&cached, &shop);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    for _ in 0..20 * workers {
        assert_eq!(send(&gateway, "ann", &[]).status, 200);
    }
    assert!(auth.requests() <= workers, "each worker asks once: {}", auth.requests());
    let before = auth.requests();
    assert_eq!(send(&gateway, "bob", &[]).status, 200);
    assert_eq!(auth.requests(), before + 1);
}

#[test]
fn statuses_without_a_duration_are_not_cached() {
    let (auth, shop) = (Backend::with("auth", |_| Reply::status(202)), Backend::echo("shop"));
    let cached = ingress(&auth)
        .annotation("auth-cache-key", "$cookie_session")
        .annotation("auth-cache-duration", "200 202");
    let (_folder, gateway) = start(&cached, &shop);
    for asked in 1..=3 {
        assert_eq!((send(&gateway, "ann", &[]).status, auth.requests()), (200, asked));
    }
    assert!(gateway.problems().contains("statuses and no time"), "{}", gateway.problems());
}

#[test]
fn cluster_services_are_used_by_endpoints_and_names_are_resolved() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let at = |url: &str| Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", url);
    let (folder, gateway) = start(&at("http://auth.default.svc.cluster.local/check"), &shop);
    assert_eq!(send(&gateway, "ann", &[]).status, 500, "there is no such Service, and no such name");
    folder.write("auth.yaml", service_with("auth", &[&auth]));
    await_until("the Service picked up", || send(&gateway, "ann", &[]).status == 200);
    assert_eq!(field(&auth.seen().pop().unwrap(), "host"), Some("auth.default.svc.cluster.local"));
    let by_name = format!("http://localhost:{}/check", auth.address.port());
    folder.write("ingress.yaml", at(&by_name).text());
    await_until("the name looked up", || {
        send(&gateway, "ann", &[]).status == 200
            && field(&auth.seen().pop().unwrap(), "host") == Some("localhost")
    });
    folder.write("ingress.yaml", at("http://no-such-name.invalid/").text());
    await_until("the problem of the invalid name", || gateway.problems().contains("no-such-name.invalid"));
    await_until("requests to fail", || send(&gateway, "ann", &[]).status == 500);
}

#[test]
fn a_service_over_tls_is_asked_by_its_name() {
    let certificate = TestCertificate::new(&["auth.example"]);
    let auth = Backend::tls("auth", certificate.server_config());
    let shop = Backend::echo("shop");
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-url", &format!("https://localhost:{}/check", auth.address.port()));
    let (_folder, gateway) = start(&ingress, &shop);
    await_until("the name looked up", || send(&gateway, "ann", &[]).status == 200);
}

#[test]
fn values_that_cannot_be_used_close_the_routes() {
    let shop = Backend::echo("shop");
    let open = || Ingress::new("shop").path(HOST, "/", "shop");
    let (folder, gateway) = start(&open(), &shop);
    for (name, value) in [
        ("auth-url", "auth.example/check"),
        ("auth-url", "http://$arg_host/"),
        ("auth-url", "http://auth.example/$nothing"),
    ] {
        folder.write("ingress.yaml", open().text());
        await_until("open", || get(gateway.http, HOST, "/").status == 200);
        folder.write("ingress.yaml", open().annotation(name, value).text());
        await_until(value, || get(gateway.http, HOST, "/").status == 404);
        assert!(gateway.problems().contains(name), "{}", gateway.problems());
    }
    for (name, value) in [("auth-method", "BREW"), ("auth-response-headers", "X-User; X-Mail")] {
        folder.write("ingress.yaml", open().annotation(name, value).text());
        await_until("no effect without auth-url", || get(gateway.http, HOST, "/").status == 200);
        let guarded = open().annotation("auth-url", "http://127.0.0.1:1/").annotation(name, value);
        folder.write("ingress.yaml", guarded.text());
        await_until(value, || get(gateway.http, HOST, "/").status == 503);
        assert!(gateway.problems().contains(name), "{}", gateway.problems());
    }
    folder.write("ingress.yaml", open().text());
    await_until("open again", || get(gateway.http, HOST, "/").status == 200);
    folder.write(
        "ingress.yaml",
        open().annotation("auth-url", "http://a/").annotation("auth-snippet", "x").text(),
    );
    await_until("a snippet refused", || matches!(get(gateway.http, HOST, "/").status, 404 | 503));
}

#[test]
fn the_global_service_is_queried_unless_a_rule_disables_it() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let plain = || Ingress::new("shop").path(HOST, "/", "shop");
    let (folder, gateway) = start(&plain(), &shop);
    assert_eq!(send(&gateway, "eve", &[]).status, 200);
    let keys = |more: &[(&str, &str)]| {
        let url = url(&auth);
        let mut all = vec![("global-auth-url", &*url)];
        all.extend(more);
        config_map(CONFIG, &all)
    };
    folder.write("config.yaml", keys(&[("global-auth-response-headers", "X-User")]));
    await_until("the service asked", || send(&gateway, "eve", &[]).status == 401);
    assert_eq!(send(&gateway, "ann", &[]).received("X-User"), ["ann"]);
    folder.write("config.yaml", keys(&[("global-auth-signin", "https://login.example/")]));
    await_until("the way to sign in", || send(&gateway, "eve", &[]).status == 302);
    folder.write("ingress.yaml", plain().annotation("enable-global-auth", "false").text());
    await_until("the rule exempt", || send(&gateway, "eve", &[]).status == 200);
    folder.write("ingress.yaml", plain().text());
    await_until("the rule as others", || send(&gateway, "eve", &[]).status == 302);
    folder.write("config.yaml", keys(&[("no-auth-locations", "/")]));
    await_until("its path exempt", || send(&gateway, "eve", &[]).status == 200);
    folder.write("config.yaml", config_map(CONFIG, &[("global-auth-url", "nonsense")]));
    await_until("the problem of the bad value", || gateway.problems().contains("global-auth-url"));
    await_until("closed without a service", || send(&gateway, "ann", &[]).status == 503);
    folder.write("config.yaml", config_map(CONFIG, &[]));
    await_until("open again", || send(&gateway, "eve", &[]).status == 200);
    folder.write("config.yaml", config_map(CONFIG, &[("global-auth-url", "nonsense")]));
    await_until("closed again", || send(&gateway, "eve", &[]).status == 503);
}

#[test]
fn the_global_service_may_be_at_the_host_of_the_request() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let port = auth.address.port();
    let folder = Folder::with(
        Ingress::new("shop").path("localhost", "/", "shop").text() + &service_with("shop", &[&shop]),
    );
    let url = format!("http://$host:{port}/check");
    folder.write("config.yaml", config_map(CONFIG, &[("global-auth-url", &*url)]));
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let ask = |who: &str| {
        let fields = [("Cookie", &*format!("session={who}"))];
        Connection::plain(gateway.http).request("GET", "localhost", "/", &fields, "").status
    };
    await_until("the name looked up", || ask("ann") == 200);
    assert_eq!(ask("eve"), 401);
}

#[test]
fn a_target_that_is_not_ascii_is_authorised_too() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let (_folder, gateway) = start(&ingress(&auth).annotation("auth-method", "GET"), &shop);
    let fields = [("Cookie", "session=ann")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/caf\u{e9}", &fields, "");
    assert_eq!(response.status, 200);
    assert_eq!(field(&auth.seen()[0], "X-Original-URI"), Some("/caf\u{e9}"));
}

#[test]
fn connect_and_trace_are_sent_with_the_path_as_nginx_sends_them() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let (folder, gateway) = start(&ingress(&auth), &shop);
    for method in ["CONNECT", "TRACE"] {
        folder.write("ingress.yaml", ingress(&auth).annotation("auth-method", method).text());
        let line = format!("{method} /check?from={HOST} HTTP/1.1");
        await_until(method, || {
            assert_eq!((send(&gateway, "ann", &[]).status, send(&gateway, "eve", &[]).status), (200, 401));
            auth.seen().last().is_some_and(|last| last.start == line)
        });
    }
}

#[test]
fn streams_of_http_2_are_authorised_too() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let objects = ingress(&auth).annotation("auth-response-headers", "X-User").tls(&[HOST], "tls").text()
        + &service_with("shop", &[&shop])
        + &TestCertificate::new(&[HOST]).secret("tls");
    let gateway = Gateway::start(&Folder::with(objects));
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for (session, status) in [("ann", 200), ("eve", 401), ("bob", 403), ("odd", 500), ("ann", 200)] {
            let request = http::Request::post("https://shop.example/cart?x=1");
            let request = request.header("cookie", format!("session={session}")).body(()).unwrap();
            let response = connection.send(request, "hello").await.unwrap();
            assert_eq!(response.status(), status, "{session}");
            if status == 200 {
                let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
                assert_eq!(seen["body"], "hello");
                assert_eq!(response.headers().get_all("set-cookie").iter().count(), 2);
            }
        }
    });
    let asked = auth.seen();
    assert_eq!(field(&asked[0], "X-Original-URL"), Some("https://shop.example/cart?x=1"));
    assert_eq!(field(&asked[0], "X-Original-Method"), Some("POST"));
}

#[test]
fn credentials_that_the_service_did_not_see_reached_the_endpoint() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let objects = ingress(&auth).tls(&[HOST], "tls").annotation("ssl-redirect", "false").text()
        + &service_with("shop", &[&shop])
        + &TestCertificate::new(&[HOST]).secret("tls");
    let gateway = Gateway::start(&Folder::with(objects));
    let (good, forged) = (("Authorization", "Bearer low"), ("Authorization", "Bearer forged"));
    assert_eq!(send(&gateway, "ann", &[good, forged]).status, 400);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let request = http::Request::get("https://shop.example/").header("cookie", "session=ann");
        let request = request.header(good.0, good.1).header(forged.0, forged.1).body(()).unwrap();
        assert_eq!(connection.send(request, "").await.unwrap().status(), 400);
    });
    assert_eq!((auth.requests(), shop.requests()), (0, 0));
    assert_eq!(send(&gateway, "ann", &[good]).received("Authorization"), ["Bearer low"]);
}

#[test]
fn a_client_that_disconnects_cancels_its_query() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let (taken, asked) = mpsc::channel();
    let waiting = std::thread::spawn(move || {
        let (mut stream, _) = silent.accept().unwrap();
        taken.send(()).unwrap();
        // Ends when the gateway closes the connection, with or without an error.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let shop = Backend::echo("shop");
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-url", &format!("http://{address}/"))
        .annotation("proxy-read-timeout", "3600");
    let (_folder, gateway) = start(&ingress, &shop);
    let mut connection = Connection::plain(gateway.http);
    connection.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    asked.recv_timeout(PATIENCE).unwrap();
    drop(connection);
    waiting.join().unwrap();
    gateway.await_access(" 499 ");
    assert_eq!(shop.requests(), 0);
}

#[test]
fn keys_define_the_global_authorisation_request() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let (folder, gateway) = start(&Ingress::new("shop").path(HOST, "/", "shop"), &shop);
    let url = url(&auth);
    let keys = |more: &[(&str, &str)]| {
        let mut all = vec![("global-auth-url", &*url)];
        all.extend(more);
        folder.write("config.yaml", config_map(CONFIG, &all));
    };
    let asked = || {
        send(&gateway, "ann", &[]);
        auth.seen().pop()
    };
    let asks = |name: &str, value: &str| {
        await_until(name, || asked().is_some_and(|asked| field(&asked, name) == Some(value)));
    };
    keys(&[("global-auth-request-redirect", "https://$http_host/home")]);
    asks("X-Auth-Request-Redirect", "https://shop.example/home");
    keys(&[("global-auth-method", "POST")]);
    asks("X-Original-URI", "/cart?x=1");
    assert!(asked().unwrap().start.starts_with("POST /check"));
    let signin = ("global-auth-signin", "https://login.example/start");
    keys(&[signin, ("global-auth-signin-redirect-param", "back")]);
    await_until("the way to sign in", || {
        let location = send(&gateway, "eve", &[]).header("location").map(str::to_owned);
        location.is_some_and(|location| location.starts_with("https://login.example/start?back="))
    });
    assert!(send(&gateway, "bob", &[]).header("set-cookie").is_none());
    keys(&[("global-auth-always-set-cookie", "true")]);
    await_until("cookies with a refusal", || send(&gateway, "eve", &[]).all("set-cookie") == ["csrf=1"]);
    // Responses with cookies are never cached, so only refusals of bob are cached.
    keys(&[("global-auth-cache-key", "$cookie_session"), ("global-auth-cache-duration", "403 10m")]);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    await_until("its word kept", || {
        let before = auth.requests();
        let statuses: Vec<u16> = (0..20 * workers).map(|_| send(&gateway, "bob", &[]).status).collect();
        statuses.iter().all(|status| *status == 403) && auth.requests() - before <= workers
    });
}

#[test]
fn authorisation_requests_are_logged_if_enabled() {
    let (auth, shop) = (service(), Backend::echo("shop"));
    let (folder, gateway) = start(&ingress(&auth), &shop);
    // Format and switch change together, so each line shows under which settings it was written.
    let keys = |wanted: &str, mark: &str| {
        let format = format!("{mark} $status $upstream_status $upstream_addr $request $uri");
        let keys = [("log-format-upstream", &*format), ("enable-auth-access-log", wanted)];
        folder.write("config.yaml", config_map(CONFIG, &keys));
        await_until("the format", || {
            send(&gateway, "ann", &[]);
            gateway.access_log().iter().any(|line| line.starts_with(mark) && line.ends_with(" /cart"))
        });
    };
    let questions = |mark: &str| {
        let log = gateway.access_log();
        log.iter().filter(|line| line.starts_with(mark) && line.ends_with(" /check")).count()
    };
    keys("false", "off");
    assert_eq!(questions("off"), 0);
    keys("true", "on");
    let question =
        |status: u16| format!("on {status} {status} {} GET /cart?x=1 HTTP/1.1 /check", auth.address);
    gateway.await_access(&question(202));
    gateway.await_access(&format!("on 200 200 {} GET /cart?x=1 HTTP/1.1 /cart", shop.address));
    send(&gateway, "nobody", &[]);
    gateway.await_access(&question(401));
    send(&gateway, "mute", &[]);
    await_until("that it has not answered", || {
        gateway.access_log().iter().any(|line| line.starts_with("on 502 ") && line.ends_with(" /check"))
    });
    keys("false", "again");
    assert_eq!(questions("again"), 0);
}

#[test]
fn an_authorisation_service_behind_the_gateway_itself_is_asked() {
    let (shop, auth) = (Backend::echo("shop"), Backend::with("auth", |_| Reply::status(202)));
    let services = service_with("shop", &[&shop]) + &service_with("auth", &[&auth]);
    let folder = Folder::with(Ingress::new("login").default_backend("auth").text() + &services);
    let gateway = Gateway::start(&folder);
    let asks = |address: std::net::SocketAddr| {
        let url = format!("http://{address}/oauth2/auth");
        folder.write(
            "shop.yaml",
            Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-url", &url).text(),
        );
    };
    asks(gateway.http);
    await_until("the shop", || get(gateway.http, HOST, "/").status == 200);
    assert!(auth.seen().iter().any(|request| request.start.contains("/oauth2/auth")));
    asks(gateway.admin);
    await_until("the refusal", || get(gateway.http, HOST, "/").status == 500);
    // The report of the data plane follows the change.
    await_until("the problem", || gateway.problems().contains("the admin listener"));
}
