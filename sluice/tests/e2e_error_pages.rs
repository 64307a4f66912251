//! Error pages from another backend (`custom-http-errors`, `default-backend`,
//! `disable-proxy-intercept-errors`).

use crate::harness::grpc::{GrpcBackend, GrpcClient, message};
use crate::harness::h2::{self, run};
use crate::harness::manifest::{opaque_secret, service_with};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until,
    config_map, get, service,
};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";

/// Starts a Service that responds with the status in the path.
fn shop() -> Backend {
    Backend::with("shop", |request| {
        let status = request.start.split(['/', '?', ' ']).find_map(|part| part.parse().ok());
        match status {
            Some(status @ (401 | 404)) => Reply::Answer(
                status,
                vec![("WWW-Authenticate".to_owned(), "Basic realm=\"shop\"".to_owned())],
                "a secret stack trace".to_owned(),
            ),
            Some(302) => {
                let location = vec![("Location".to_owned(), "http://inside.example/".to_owned())];
                Reply::Answer(302, location, "a secret stack trace".to_owned())
            }
            Some(status) => Reply::Answer(status, Vec::new(), "a secret stack trace".to_owned()),
            None => Reply::Echo,
        }
    })
}

/// Starts an error backend that reports the requested code and its own name.
fn errors(name: &'static str) -> Backend {
    Backend::with(name, move |request| {
        let code = request.header("x-code").unwrap_or("none").to_owned();
        let fields = vec![("X-Page-Of".to_owned(), name.to_owned()), ("X-Seen".to_owned(), code.clone())];
        Reply::Answer(code.parse().unwrap_or(404), fields, format!("page {code}"))
    })
}

fn ingress() -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop")
}

fn start(ingress: &Ingress, shop: &Backend, program: Option<&Backend>) -> (Folder, Gateway) {
    let folder = Folder::with(service_with("shop", &[shop]));
    folder.write("ingress.yaml", ingress.text());
    let mut flags = vec!["--configmap", CONFIG];
    if let Some(program) = program {
        folder.write("program.yaml", service_with("program", &[program]));
        flags.extend(["--default-backend-service", "default/program"]);
    }
    let gateway = Gateway::with(&folder, &flags);
    (folder, gateway)
}

#[test]
fn errors_that_the_configmap_names_go_to_the_program_s_backend() {
    let (shop, program, own) = (shop(), errors("program"), errors("own"));
    let ingress = ingress().annotation("default-backend", "own");
    let (folder, gateway) = start(&ingress, &shop, Some(&program));
    folder.write("own.yaml", service_with("own", &[&own]));
    folder.write("config.yaml", config_map(CONFIG, &[("custom-http-errors", "404")]));
    await_until("the page", || get(gateway.http, HOST, "/404").header("x-page-of") == Some("program"));
    folder.write("ingress.yaml", ingress.annotation("custom-http-errors", "404").text());
    await_until("the page", || get(gateway.http, HOST, "/404").header("x-page-of") == Some("own"));
}

#[test]
fn a_page_of_500_kib_is_passed_on() {
    let shop = shop();
    let program = Backend::with("program", |_| Reply::Answer(404, Vec::new(), "x".repeat(500 << 10)));
    let (_folder, gateway) = start(&ingress().annotation("custom-http-errors", "404"), &shop, Some(&program));
    assert_eq!(get(gateway.http, HOST, "/404").body().len(), 500 << 10);
}

#[test]
fn the_error_backend_receives_the_error_and_provides_the_page() {
    let (shop, program) = (shop(), errors("program"));
    let (_folder, gateway) =
        start(&ingress().annotation("custom-http-errors", "404,503"), &shop, Some(&program));
    let mut connection = Connection::plain(gateway.http);
    let fields = [("Accept", "text/html"), ("Content-Type", "text/plain")];
    let response = connection.request("POST", HOST, "/404?x=1", &fields, "hello");
    assert_eq!((response.status, response.text()), (404, "page 404".to_owned()));
    assert_eq!(response.header("x-page-of"), Some("program"));
    let asked = &program.seen()[0];
    assert_eq!(asked.start, "POST /?x=1 HTTP/1.1", "method and query of the client, as in ingress-nginx");
    for (name, value) in [
        ("Host", HOST),
        ("X-Code", "404"),
        ("X-Format", "text/html"),
        ("X-Original-URI", "/404?x=1"),
        ("X-Namespace", "default"),
        ("X-Ingress-Name", "shop"),
        ("X-Service-Name", "shop"),
        ("X-Service-Port", "80"),
        ("X-Forwarded-For", "127.0.0.1"),
    ] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
    let of_request = shop.seen()[0].header("x-request-id").unwrap().to_owned();
    assert_eq!(asked.header("x-request-id"), Some(&*of_request));
    assert_eq!(connection.request("GET", HOST, "/500", &[], "").text(), "a secret stack trace");
    assert_eq!(connection.request("HEAD", HOST, "/404", &[], "").status, 404);
    assert_eq!(connection.request("GET", HOST, "/", &[], "").status, 200, "the connection is good");
}

#[test]
fn the_challenge_of_an_endpoint_stays_for_401_alone() {
    let (shop, program) = (shop(), errors("program"));
    let listed = ingress().annotation("custom-http-errors", "401,404");
    let (_folder, gateway) = start(&listed, &shop, Some(&program));
    let response = get(gateway.http, HOST, "/401");
    assert_eq!((response.status, response.text()), (401, "page 401".to_owned()));
    assert_eq!(response.header("www-authenticate"), Some("Basic realm=\"shop\""));
    let response = get(gateway.http, HOST, "/404");
    assert_eq!((response.text(), response.header("www-authenticate")), ("page 404".to_owned(), None));
}

#[test]
fn own_responses_get_pages_and_a_denial_stays_a_denial() {
    let (mut shop, program) = (shop(), errors("program"));
    let auth = Backend::with("auth", |_| Reply::status(403));
    let listed = || ingress().annotation("custom-http-errors", "403,502,503");
    let (folder, gateway) = start(&listed(), &shop, Some(&program));
    let denied = listed().annotation("auth-url", &format!("http://{}/", auth.address));
    folder.write("ingress.yaml", denied.text());
    await_until("denied", || get(gateway.http, HOST, "/").status == 403);
    assert_eq!(get(gateway.http, HOST, "/").text(), "page 403");
    let before = shop.requests();
    get(gateway.http, HOST, "/");
    assert_eq!(shop.requests(), before, "denied requests reach no backend");
    folder.write("ingress.yaml", listed().text());
    await_until("open", || get(gateway.http, HOST, "/").status == 200);
    shop.stop();
    assert_eq!(get(gateway.http, HOST, "/").text(), "page 502");
    folder.write("shop.yaml", service("shop"));
    folder.remove("objects.yaml");
    await_until("no endpoint", || get(gateway.http, HOST, "/").text() == "page 503");
}

#[test]
fn a_rule_may_have_a_backend_of_its_own_and_falls_back_to_it() {
    let (shop, program, own) = (shop(), errors("program"), errors("own"));
    let listed = ingress().annotation("custom-http-errors", "404").annotation("default-backend", "own");
    let (folder, gateway) = start(&listed, &shop, Some(&program));
    assert_eq!(
        get(gateway.http, HOST, "/404").header("x-page-of"),
        Some("program"),
        "there is no such Service yet"
    );
    assert!(gateway.problems().contains("default-backend"), "{}", gateway.problems());
    folder.write("own.yaml", service_with("own", &[&own]));
    await_until("its own backend", || get(gateway.http, HOST, "/404").header("x-page-of") == Some("own"));
    folder.write("shop.yaml", service("shop"));
    folder.remove("objects.yaml");
    await_until("no endpoint", || get(gateway.http, HOST, "/cart").header("x-seen") == Some("503"));
    let asked = own.seen().pop().unwrap();
    assert_eq!(asked.start, "GET /cart HTTP/1.1", "the request itself goes there");
    assert_eq!(asked.header("x-service-name"), Some("shop"));
}

#[test]
fn the_default_backend_of_a_rule_gets_the_rewritten_request() {
    let own = Backend::echo("own");
    let ingress = ingress()
        .annotation("default-backend", "own")
        .annotation("rewrite-target", "/new")
        .annotation("upstream-vhost", "inside.example")
        .annotation("connection-proxy-header", "keep-alive");
    let folder = Folder::with(service("shop") + &service_with("own", &[&own]) + &ingress.text());
    let gateway = Gateway::start(&folder);
    let response = get(gateway.http, HOST, "/cart?x=1");
    assert_eq!((response.status, response.backend()), (200, "own".to_owned()));
    let asked = own.seen().pop().unwrap();
    assert_eq!(asked.start, "GET /new?x=1 HTTP/1.1");
    for (name, value) in [("Host", "inside.example"), ("Connection", "keep-alive"), ("X-Code", "503")] {
        assert_eq!(asked.header(name), Some(value), "{name}");
    }
}

#[test]
fn the_default_backend_of_a_rule_is_reached_by_its_protocol() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let ingress = |protocol| {
        ingress().annotation("default-backend", "own").annotation("backend-protocol", protocol).text()
    };
    let own = Backend::tls("own", ours.issue(&["inner.example"]).server_config());
    let folder = Folder::with(service("shop") + &service_with("own", &[&own]) + &ingress("HTTPS"));
    let gateway = Gateway::start(&folder);
    let response = get(gateway.http, HOST, "/cart");
    assert_eq!((response.status, response.backend()), (200, "own".to_owned()));

    let verified = Ingress::new("verified")
        .path("verified.example", "/", "shop")
        .annotation("default-backend", "own")
        .annotation("backend-protocol", "HTTPS")
        .annotation("proxy-ssl-secret", "default/upstream")
        .annotation("proxy-ssl-verify", "on")
        .annotation("proxy-ssl-name", "$http_x_name");
    folder.write("verified.yaml", verified.text());
    let status = |name| {
        let fields = [("X-Name", name)];
        Connection::plain(gateway.http).request("GET", "verified.example", "/", &fields, "").status
    };
    for (authority, name, expected) in
        [(&ours, "inner.example", 200), (&ours, "other.example", 502), (&theirs, "inner.example", 502)]
    {
        folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
        await_until("the endpoint to be verified", || status(name) == expected);
    }

    let grpc = GrpcBackend::plain();
    let folder = Folder::with(service("shop") + &grpc.service("own") + &ingress("GRPC"));
    let gateway = Gateway::start(&folder);
    run(async {
        let client = GrpcClient::plain(gateway.http, HOST).await;
        let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
        assert_eq!((reply.http, reply.status(), &reply.body[..]), (200, Some("0"), &message(b"hello")[..]));
    });
    assert_eq!(grpc.seen()[0].headers["x-code"], "503");

    // As in ingress-nginx, its error pages are requested with plain HTTP.
    let certificate = TestCertificate::new(&["shop"]);
    let shop = Backend::tls_with("shop", certificate.server_config(), |_| Reply::status(404));
    let pages = errors("own");
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("default-backend", "own")
        .annotation("custom-http-errors", "404")
        .annotation("backend-protocol", "HTTPS");
    let objects = ingress.text() + &service_with("shop", &[&shop]) + &service_with("own", &[&pages]);
    let gateway = Gateway::start(&Folder::with(objects));
    assert_eq!(get(gateway.http, HOST, "/404").text(), "page 404");
}

#[test]
fn a_backend_that_fails_leaves_the_plain_page() {
    let (shop, mut program) = (shop(), errors("program"));
    let (folder, gateway) = start(&ingress().annotation("custom-http-errors", "500"), &shop, Some(&program));
    assert_eq!(get(gateway.http, HOST, "/500").text(), "page 500");
    program.stop();
    let response = get(gateway.http, HOST, "/500");
    assert_eq!(response.status, 500);
    assert!(response.text().contains("500 Internal Server Error"), "{}", response.text());
    let endless = Backend::with("program", |_| Reply::Answer(200, Vec::new(), "x".repeat((1 << 20) + 1)));
    folder.write("program.yaml", service_with("program", &[&endless]));
    await_until("the other backend asked", || {
        assert!(!get(gateway.http, HOST, "/500").text().contains("xxx"), "what is that large is no page");
        endless.requests() > 0
    });
}

#[test]
fn without_an_error_backend_clients_receive_the_plain_page() {
    let shop = shop();
    let (_folder, gateway) = start(&ingress().annotation("custom-http-errors", "500"), &shop, None);
    let response = get(gateway.http, HOST, "/500");
    assert_eq!(response.status, 500);
    assert!(!response.text().contains("stack trace"), "{}", response.text());
}

#[test]
fn keys_apply_without_annotations() {
    let (shop, program) = (shop(), errors("program"));
    let (folder, gateway) = start(&ingress(), &shop, Some(&program));
    let text = |path: &str| get(gateway.http, HOST, path).text();
    assert_eq!(text("/404"), "a secret stack trace");
    folder.write("config.yaml", config_map(CONFIG, &[("custom-http-errors", "404,500")]));
    await_until("the key", || text("/404") == "page 404");
    folder.write("ingress.yaml", ingress().annotation("custom-http-errors", "500").text());
    await_until("the annotation in its place", || text("/404") == "a secret stack trace");
    assert_eq!(text("/500"), "page 500");
    let kept = ingress().annotation("disable-proxy-intercept-errors", "true");
    folder.write("ingress.yaml", kept.text());
    await_until("responses left alone", || text("/500") == "a secret stack trace");
    folder.write("ingress.yaml", ingress().text());
    await_until("replaced again", || text("/500") == "page 500");
    let keys = [("custom-http-errors", "404,500"), ("disable-proxy-intercept-errors", "true")];
    folder.write("config.yaml", config_map(CONFIG, &keys));
    await_until("responses left alone by the key", || text("/500") == "a secret stack trace");
    folder.write("ingress.yaml", ingress().annotation("custom-http-errors", "200").text());
    await_until("a bad list", || gateway.problems().contains("custom-http-errors"));
    assert_eq!(get(gateway.http, HOST, "/").status, 200, "it is ignored");
    folder.write("ingress.yaml", ingress().annotation("default-backend", "Not/A-Name").text());
    await_until("a bad name", || gateway.problems().contains("default-backend"));
}

#[test]
fn a_listed_redirect_is_replaced_or_reported() {
    let (shop, mut program) = (shop(), errors("program"));
    let (folder, gateway) = start(&ingress(), &shop, Some(&program));
    let redirect = || get(gateway.http, HOST, "/302");
    assert_eq!(redirect().header("location"), Some("http://inside.example/"));
    folder.write("config.yaml", config_map(CONFIG, &[("custom-http-errors", "302,404")]));
    await_until("the page", || redirect().header("x-seen") == Some("302"));
    let page = redirect();
    assert_eq!((page.status, &*page.text(), page.header("location")), (302, "page 302", None));
    program.stop();
    assert_eq!(redirect().status, 502, "neither a page nor a redirect without its Location");
    let annotated = ingress().annotation("custom-http-errors", "302,404");
    folder.write("ingress.yaml", annotated.text());
    await_until("the problem", || gateway.problems().contains("not a status from 400 to 599"));
    await_until("the redirect", || redirect().header("location") == Some("http://inside.example/"));
}

#[test]
fn a_page_for_head_states_its_length() {
    let shop = shop();
    let program = Backend::with("program", |request| {
        let head = "HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\n";
        let body = if request.start.starts_with("HEAD ") { "" } else { "page 404" };
        Reply::Bytes(format!("{head}{body}").into())
    });
    let (_folder, gateway) = start(&ingress().annotation("custom-http-errors", "404"), &shop, Some(&program));
    let mut client = Connection::plain(gateway.http);
    let head = client.request("HEAD", HOST, "/404", &[], "");
    assert_eq!((head.status, head.header("content-length")), (404, Some("8")));
    assert_eq!(client.request("GET", HOST, "/404", &[], "").text(), "page 404");
}

#[test]
fn streams_of_http_2_get_pages_too() {
    let (shop, program) = (shop(), errors("program"));
    let objects = ingress().annotation("custom-http-errors", "404").tls(&[HOST], "tls").text()
        + &service_with("shop", &[&shop])
        + &service_with("program", &[&program])
        + &TestCertificate::new(&[HOST]).secret("tls");
    let gateway = Gateway::with(&Folder::with(objects), &["--default-backend-service", "default/program"]);
    run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        for _ in 0..3 {
            let request = http::Request::post("https://shop.example/404").body(()).unwrap();
            let response = connection.send(request, "hello").await.unwrap();
            assert_eq!((response.status().as_u16(), &response.body()[..]), (404, &b"page 404"[..]));
            assert_eq!(connection.get("https://shop.example/").await.unwrap().status(), 200);
        }
    });
}

#[test]
fn an_unknown_host_gets_the_error_pages_of_the_configmap() {
    let (shop, program) = (
        shop(),
        Backend::with("program", |request| match request.header("x-code") {
            None => Reply::Answer(404, Vec::new(), "a secret stack trace".to_owned()),
            Some(code) => {
                let seen = |name: &str| request.header(name).unwrap_or("none").to_owned();
                let text = ["x-namespace", "x-ingress-name", "x-service-name", "x-original-uri"].map(seen);
                Reply::Answer(code.parse().unwrap(), Vec::new(), text.join(" "))
            }
        }),
    );
    let (folder, gateway) = start(&ingress(), &shop, Some(&program));
    let text = || get(gateway.http, "unknown.example", "/x?y").text();
    assert_eq!(text(), "a secret stack trace");
    folder.write(
        "config.yaml",
        config_map(CONFIG, &[("custom-http-errors", "404,413"), ("proxy-body-size", "9")]),
    );
    await_until("the page", || text() == "none none none /x?y");
    let mut connection = Connection::plain(gateway.http);
    let response = connection.request("POST", "unknown.example", "/", &[], "more than 9 bytes");
    assert_eq!((response.status, response.text()), (413, "none none none /".into()));
}
