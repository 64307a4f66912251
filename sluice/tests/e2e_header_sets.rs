//! Header fields configured by the operator or an Ingress: sets from ConfigMaps, hidden fields,
//! `Host`, `Connection`.

use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map, get, manifest, site,
};

const HOST: &str = "shop.example";
const OPERATOR: &str = "ingress-nginx/controller";

/// Creates a shop with these annotations and this backend.
fn shop(backend: &Backend, annotations: &[(&str, &str)]) -> Folder {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations);
    Folder::with(ingress.text() + &manifest::service_with("shop", &[backend]))
}

fn operator(folder: &Folder, keys: &[(&str, &str)]) {
    folder.write("operator.yaml", config_map(OPERATOR, keys));
}

fn fields(folder: &Folder, name: &str, data: &[(&str, &str)]) {
    folder.write(&format!("{}.yaml", name.replace('/', "-")), config_map(name, data));
}

#[test]
fn every_request_gets_the_operators_fields_and_an_edit_counts_at_once() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    operator(&folder, &[("proxy-set-headers", "ingress-nginx/to-backends")]);
    fields(
        &folder,
        "ingress-nginx/to-backends",
        &[
            ("X-Plain", "true"),
            ("X-Request-Start", "t=${msec}"),
            ("X-From", "$remote_addr asks $host for $request_uri"),
            ("X-Internal", ""),
            ("Connection", "close"),
            ("X-Geo", "$geoip_city"),
        ],
    );
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let client = [("X-Plain", "forged"), ("X-Internal", "forged")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/a?b=c", &client, "");
    assert_eq!(response.received("x-plain"), ["true"]);
    assert_eq!(response.received("x-internal"), Vec::<String>::new());
    assert_eq!(response.received("x-from"), ["127.0.0.1 asks shop.example for /a?b=c"]);
    let start = response.received("x-request-start").concat();
    let seconds: f64 = start.strip_prefix("t=").unwrap().parse().unwrap();
    assert!(seconds > 1.7e9, "{start}");
    assert_eq!(response.received("x-geo"), Vec::<String>::new());
    assert_eq!(response.received("connection"), Vec::<String>::new());
    let problems = gateway.problems();
    let parts = [
        "ConfigMap ingress-nginx/to-backends",
        "data[Connection]",
        "data[X-Geo]",
        "$geoip_city is always empty",
    ];
    for part in parts {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    fields(&folder, "ingress-nginx/to-backends", &[("X-Plain", "edited")]);
    await_until("the edit", || get(gateway.http, HOST, "/").received("x-plain") == ["edited"]);
    await_until("no problem", || gateway.problems().is_empty());
    folder.remove("ingress-nginx-to-backends.yaml");
    await_until("the fields to go", || get(gateway.http, HOST, "/").received("x-plain").is_empty());
    let problems = gateway.problems();
    assert!(
        problems.contains("data[proxy-set-headers]") && problems.contains("does not exist"),
        "{problems}"
    );
    fields(&folder, "ingress-nginx/to-backends", &[("X-Plain", "again")]);
    await_until("the fields to return", || get(gateway.http, HOST, "/").received("x-plain") == ["again"]);
}

#[test]
fn no_client_sends_a_field_that_the_operator_sets() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    operator(&folder, &[("proxy-set-headers", "ingress-nginx/to-backends")]);
    let set = [("X-WEBAUTH-USER", "$remote_user"), ("X-Geo", "$geoip_city"), ("X-Sent", "$sent_http_x")];
    fields(&folder, "ingress-nginx/to-backends", &set);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let forged = [("X-WEBAUTH-USER", "admin"), ("X-Geo", "forged"), ("X-Sent", "forged")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &forged, "");
    for (name, _) in forged {
        assert_eq!(response.received(name), Vec::<String>::new(), "{name}");
    }
    let named = [("X-WEBAUTH-USER", "admin"), ("Authorization", "Basic YW5uOng6eQ==")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &named, "");
    assert_eq!(response.received("x-webauth-user"), ["ann"], "the user of the credentials, as in nginx");
}

#[test]
fn every_response_gets_the_operators_fields_our_own_answers_too() {
    let backend = Backend::with("shop", |_| {
        let fields = [("X-Powered-By", "PHP"), ("X-Frame-Options", "ALLOWALL"), ("X-Kept", "yes")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply::Answer(200, fields.into(), "ok".to_owned())
    });
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    operator(
        &folder,
        &[("add-headers", "ingress-nginx/to-clients"), ("hide-headers", "x-powered-by, Server")],
    );
    let set = [("X-Frame-Options", "DENY"), ("X-Asked", "$host"), ("Server", "")];
    fields(&folder, "ingress-nginx/to-clients", &set);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.all("x-frame-options"), ["DENY"]);
    assert_eq!(response.header("x-asked"), Some(HOST));
    assert_eq!(response.header("x-kept"), Some("yes"));
    assert_eq!(response.header("x-powered-by"), None);
    assert_eq!(response.header("server"), None);
    let unknown = get(gateway.http, "nobody.example", "/");
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.header("x-frame-options"), Some("DENY"));
    assert_eq!(unknown.header("x-asked"), Some("nobody.example"));
    operator(&folder, &[("hide-headers", "X-Kept")]);
    await_until("the keys to change", || get(gateway.http, HOST, "/").header("x-kept").is_none());
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.all("x-frame-options"), ["ALLOWALL"]);
    assert_eq!(response.header("x-powered-by"), Some("PHP"));
}

#[test]
fn fields_for_the_proxy_do_not_reach_clients() {
    const FIELDS: [&str; 6] = [
        "X-Accel-Redirect",
        "X-Accel-Expires",
        "X-Accel-Limit-Rate",
        "X-Accel-Buffering",
        "X-Accel-Charset",
        "X-Pad",
    ];
    let with_fields = |name: &'static str, status: u16| {
        Backend::with(name, move |_| {
            let fields = FIELDS.iter().chain(&["X-Accel-Other", "X-Page"]);
            let fields = fields.map(|name| ((*name).to_owned(), "no".to_owned())).collect();
            Reply::Answer(status, fields, "ok".to_owned())
        })
    };
    let (backend, pages) = (with_fields("shop", 200), with_fields("pages", 404));
    let folder = shop(&backend, &[("custom-http-errors", "403"), ("default-backend", "pages")]);
    folder.write("pages.yaml", manifest::service_with("pages", &[&pages]));
    let denied = Ingress::new("denied").path(HOST, "/denied", "shop");
    let denied = denied.annotation("custom-http-errors", "403").annotation("default-backend", "pages");
    folder.write("denied.yaml", denied.annotation("denylist-source-range", "127.0.0.0/8").text());
    let snippet = "proxy_pass_header X-Accel-Redirect;";
    let shown =
        Ingress::new("shown").path(HOST, "/shown", "shop").annotation("configuration-snippet", snippet);
    folder.write("shown.yaml", shown.text());
    operator(&folder, &[("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")]);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    for (path, status, seen) in
        [("/", 200, &[][..]), ("/denied", 404, &[]), ("/shown", 200, &["X-Accel-Redirect"])]
    {
        let response = get(gateway.http, HOST, path);
        assert_eq!((response.status, response.header("x-page")), (status, Some("no")), "{path}");
        assert_eq!(response.header("x-accel-other"), Some("no"), "{path}");
        for name in FIELDS {
            assert_eq!(response.header(name).is_some(), seen.contains(&name), "{path} {name}");
        }
    }
}

#[test]
fn fields_of_responses_have_variables_of_the_response() {
    let backend = Backend::with("shop", |request| match request.start.contains("/missing") {
        true => Reply::status(404),
        false => Reply::field("X-Version", "7"),
    });
    let folder = shop(&backend, &[]);
    operator(&folder, &[("add-headers", "ingress-nginx/to-clients")]);
    let all = [
        ("X-Status", "$status $upstream_status"),
        ("X-Endpoint", "$upstream_addr"),
        ("X-Took", "$request_time"),
        ("X-Own", "$host=$upstream_http_x_version"),
        ("X-Path", "$uri"),
    ];
    fields(&folder, "ingress-nginx/to-clients", &all);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let response = get(gateway.http, HOST, "/a%20b");
    assert_eq!(response.header("x-status"), Some("200 200"));
    assert_eq!(response.header("x-endpoint"), Some(&*backend.address.to_string()));
    assert_eq!(response.header("x-own"), Some("shop.example=7"));
    assert_eq!(response.header("x-path"), Some("/a b"));
    let took: f64 = response.header("x-took").unwrap().parse().unwrap();
    assert!((0.0..60.0).contains(&took), "{took}");
    let missing = get(gateway.http, HOST, "/missing");
    assert_eq!(missing.header("x-status"), Some("404 404"));
    assert_eq!(missing.header("x-own"), Some("shop.example="));
    let unknown = get(gateway.http, "nobody.example", "/");
    assert_eq!(unknown.header("x-status"), Some("404"));
    assert_eq!(gateway.problems(), "");
}

#[test]
fn a_variable_that_is_known_later_is_empty_and_named_by_a_problem() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("auth-request-redirect", "/x"), ("upstream-hash-by", "$upstream_status")]);
    operator(
        &folder,
        &[("proxy-set-headers", "ingress-nginx/to-backends"), ("log-format-upstream", "$geoip_city")],
    );
    fields(&folder, "ingress-nginx/to-backends", &[("X-Status", "a$status")]);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    assert_eq!(get(gateway.http, HOST, "/").received("x-status"), ["a"]);
    let problems = gateway.problems();
    for part in [
        "data[X-Status]",
        "$status is empty, because its value is known with the response head",
        "upstream-hash-by",
        "$geoip_city is always empty",
    ] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
}

/// Security scanners check this, and it is usually the first setting that users try.
#[test]
fn no_response_names_its_server_if_disabled() {
    let backend = Backend::with("shop", |_| {
        Reply::Answer(200, vec![("Server".to_owned(), "apache".to_owned())], "ok".to_owned())
    });
    let folder = Folder::with(site("shop", HOST, &[&backend]));
    operator(&folder, &[]);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let named = |host: &str| get(gateway.http, host, "/").header("server").map(str::to_owned);
    let seen = || [named(HOST), named("nobody.example")];
    let expected =
        |of_endpoint: Option<&str>, own: Option<&str>| [of_endpoint, own].map(|name| name.map(str::to_owned));
    assert_eq!(seen(), expected(Some("sluice"), Some("sluice")));
    for (keys, of_endpoint, own) in [
        (&[("server-tokens", "false")][..], None, None),
        (&[("server-tokens", "false"), ("allow-backend-server-header", "true")], None, None),
        (&[("allow-backend-server-header", "true")], Some("apache"), Some("sluice")),
        (&[("server-tokens", "true")], Some("sluice"), Some("sluice")),
    ] {
        operator(&folder, keys);
        await_until("the keys to change", || seen() == expected(of_endpoint, own));
    }
    assert_eq!(gateway.problems().matches("server-tokens").count(), 0, "{}", gateway.problems());
}

#[test]
fn fields_of_an_ingress_must_be_allowed_and_it_is_closed_until_they_are() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("custom-headers", "platform/own"), ("permanent-redirect-code", "301")]);
    operator(&folder, &[("global-allowed-response-headers", "X-Own")]);
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    assert!(gateway.problems().contains("ConfigMap platform/own does not exist"), "{}", gateway.problems());
    fields(&folder, "platform/own", &[("X-Own", "costs $5 on ${host}, $nothing")]);
    await_until("the route to open", || get(gateway.http, HOST, "/").status == 200);
    assert_eq!(get(gateway.http, HOST, "/").all("x-own"), ["costs $5 on ${host}, $nothing"]);
    fields(&folder, "platform/own", &[("X-Own", "costs"), ("X-Other", "1")]);
    await_until("the route to close", || get(gateway.http, HOST, "/").status == 503);
    assert!(gateway.problems().contains("\"X-Other\""), "{}", gateway.problems());
    operator(&folder, &[("global-allowed-response-headers", "x-own,X-Other")]);
    await_until("the route to open", || get(gateway.http, HOST, "/").status == 200);
    assert_eq!(get(gateway.http, HOST, "/").all("x-own"), ["costs"]);
    assert_eq!(get(gateway.http, HOST, "/").all("x-other"), ["1"]);
    fields(&folder, "platform/own", &[("X-Own", "last")]);
    await_until("the edit", || get(gateway.http, HOST, "/").all("x-own") == ["last"]);
}

#[test]
fn the_endpoint_receives_another_host() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("upstream-vhost", "$service_name.$namespace.svc:$service_port")]);
    let gateway = Gateway::start(&folder);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.received("host"), ["shop.default.svc:80"]);
    assert_eq!(response.received("x-forwarded-host"), [HOST]);
    let other = Ingress::new("shop").path(HOST, "/", "shop").annotation("upstream-vhost", "inner.example");
    folder.write("objects.yaml", other.text() + &manifest::service_with("shop", &[&backend]));
    await_until("the other host", || get(gateway.http, HOST, "/").received("host") == ["inner.example"]);
    let bad = Ingress::new("shop").path(HOST, "/", "shop").annotation("upstream-vhost", "$status.example");
    folder.write("objects.yaml", bad.text() + &manifest::service_with("shop", &[&backend]));
    await_until("it to be refused", || get(gateway.http, HOST, "/").status == 404);
    assert!(gateway.problems().contains("$status is empty"), "{}", gateway.problems());
}

#[test]
fn a_client_chooses_the_host_for_the_endpoint_only_with_a_valid_value() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("upstream-vhost", "$http_x_tenant$arg_tenant$cookie_tenant")]);
    let gateway = Gateway::start(&folder);
    let ask = |path: &str, fields: &[(&str, &str)]| {
        Connection::plain(gateway.http).request("GET", HOST, path, fields, "")
    };
    for (path, fields) in [
        ("/", ("X-Tenant", "a.example:8080")),
        ("/?tenant=a.example:8080", ("X-Other", "1")),
        ("/", ("Cookie", "tenant=a.example:8080")),
    ] {
        assert_eq!(ask(path, &[fields]).received("host"), ["a.example:8080"], "{path} {fields:?}");
    }
    let before = backend.requests();
    for value in ["", "a b", "a/b", "user@a", "a:b", "[::1", "a,b:1:2"] {
        assert_eq!(ask("/", &[("X-Tenant", value)]).status, 400, "{value:?}");
    }
    assert_eq!(ask("/?tenant=a/b", &[]).status, 400);
    assert_eq!(backend.requests(), before);
}

#[test]
fn a_configured_connection_field_reaches_the_endpoint() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("connection-proxy-header", "keep-alive")]);
    let gateway = Gateway::start(&folder);
    let upgrade = [("Connection", "upgrade"), ("Upgrade", "websocket")];
    for _ in 0..3 {
        let response = Connection::plain(gateway.http).request("GET", HOST, "/", &upgrade, "");
        assert_eq!(response.received("connection"), ["keep-alive"]);
        assert_eq!(response.received("upgrade"), Vec::<String>::new());
    }
    let close = Ingress::new("shop").path(HOST, "/", "shop").annotation("connection-proxy-header", "close");
    folder.write("objects.yaml", close.text() + &manifest::service_with("shop", &[&backend]));
    await_until("close", || get(gateway.http, HOST, "/").received("connection") == ["close"]);
    let before = backend.connections();
    for _ in 0..3 {
        assert_eq!(get(gateway.http, HOST, "/").received("connection"), ["close"]);
    }
    assert!(backend.connections() >= before + 2, "each has a connection of its own");
}
