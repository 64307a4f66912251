//! Snippets: their directives as typed policies, and the switches that permit them.

mod limits;
mod nginx;
mod peer;
mod relocation;
mod tables;

use std::io::{Read, Write};

use crate::harness::gateway::run;
use crate::harness::ports;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map, get, manifest,
};

const HOST: &str = "shop.example";
const OPERATOR: &str = "ingress-nginx/controller";
const ON: [(&str, &str); 2] = [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];

/// A shop with these annotations, under a ConfigMap with these keys.
fn shop(backend: &Backend, annotations: &[(&str, &str)], keys: &[(&str, &str)]) -> Folder {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations);
    let folder = Folder::with(ingress.text() + &manifest::service_with("shop", &[backend]));
    folder.write("operator.yaml", config_map(OPERATOR, keys));
    folder
}

fn gateway(folder: &Folder) -> Gateway {
    Gateway::with(folder, &["--configmap", OPERATOR])
}

#[test]
fn snippets_need_the_switch_and_the_risk_level() {
    let backend = Backend::echo("shop");
    let snippet = [("configuration-snippet", "more_set_headers 'X-A: 1';")];
    for (keys, status, part) in [
        (&[][..], 503, "allow-snippet-annotations in the ConfigMap is not true"),
        (&ON[1..], 503, "allow-snippet-annotations in the ConfigMap is not true"),
        (&ON[..1], 404, "has the risk Critical, and annotations-risk-level in the ConfigMap is High"),
        (&ON[..], 200, ""),
    ] {
        let folder = shop(&backend, &snippet, keys);
        let gateway = gateway(&folder);
        assert_eq!(get(gateway.http, HOST, "/").status, status, "{keys:?}");
        let problems = gateway.problems();
        assert!(problems.contains(part), "{keys:?}: {problems}");
        assert_eq!(problems.is_empty(), part.is_empty(), "{problems}");
    }
}

#[test]
fn a_directive_outside_of_the_subset_closes_the_routes_and_is_named() {
    let backend = Backend::echo("shop");
    let snippet = [("configuration-snippet", "more_set_headers 'X-A: 1';\ngzip on;")];
    let folder = shop(&backend, &snippet, &ON);
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    let problems = gateway.problems();
    for part in ["configuration-snippet", "line 2: gzip", "the ConfigMap key use-gzip"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
}

#[test]
fn security_headers_and_request_fields_are_set() {
    let backend = Backend::echo("shop");
    let snippet = "more_set_headers \"X-Frame-Options: DENY\";\nadd_header X-Content-Type-Options nosniff always;\n\
                   add_header X-Path $uri;\nproxy_set_header X-Tenant $http_x_wanted;\n\
                   more_clear_input_headers X-Internal;";
    let folder = shop(&backend, &[("configuration-snippet", snippet)], &ON);
    let gateway = gateway(&folder);
    let sent = [("X-Wanted", "blue"), ("X-Tenant", "forged"), ("X-Internal", "forged")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/a%20b?c", &sent, "");
    assert_eq!(response.header("x-frame-options"), Some("DENY"));
    assert_eq!(response.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(response.header("x-path"), Some("/a b"));
    assert_eq!(response.received("x-tenant"), ["blue"]);
    assert_eq!(response.received("x-internal"), Vec::<String>::new());
}

#[test]
fn custom_headers_and_cors_win_over_a_snippet() {
    let backend = Backend::echo("shop");
    let snippet = "more_set_headers 'X-Own: snippet' 'X-Snippet: 1' 'Access-Control-Allow-Origin: *';\n\
                   add_header X-Added snippet;\n\
                   if ($arg_if) { more_set_headers 'X-Own: if' 'Access-Control-Allow-Origin: none'; }";
    let page = "https://page.example";
    let annotations = [
        ("configuration-snippet", snippet),
        ("custom-headers", "platform/own"),
        ("enable-cors", "true"),
        ("cors-allow-origin", page),
    ];
    let keys = [ON[0], ON[1], ("global-allowed-response-headers", "X-Own,X-Added")];
    let folder = shop(&backend, &annotations, &keys);
    folder.write("own.yaml", config_map("platform/own", &[("X-Own", "set"), ("X-Added", "set")]));
    let gateway = gateway(&folder);
    let ask = |target: &str, origin: &str| {
        Connection::plain(gateway.http).request("GET", HOST, target, &[("Origin", origin)], "")
    };
    let response = ask("/", page);
    assert_eq!(response.all("x-own"), ["set"]);
    assert_eq!(response.all("x-snippet"), ["1"]);
    assert_eq!(response.all("x-added"), ["set", "snippet"]);
    assert_eq!(response.all("access-control-allow-origin"), [page]);
    assert_eq!(ask("/", "https://other.example").all("access-control-allow-origin"), ["*"]);
    let response = ask("/?if=1", page);
    assert_eq!(response.all("x-own"), ["if"]);
    assert_eq!(response.all("access-control-allow-origin"), ["none"]);
}

#[test]
fn a_snippet_can_remove_and_replace_the_cookie_of_a_session() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("affinity", "cookie")], &ON);
    let gateway = gateway(&folder);
    let cookies = |target: &str| {
        let response = get(gateway.http, HOST, target);
        let names = response.all("set-cookie").into_iter().map(|cookie| cookie.split('=').next().unwrap());
        names.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(cookies("/"), ["INGRESSCOOKIE"]);
    let cases = [
        ("configuration-snippet", "more_clear_headers Set-Cookie;", &[][..], &[][..]),
        ("server-snippet", "more_clear_headers Set-Cookie;", &[], &[]),
        ("configuration-snippet", "more_set_headers 'Set-Cookie: z=1';", &["z"], &["z"]),
        (
            "configuration-snippet",
            "add_header Set-Cookie z=1;",
            &["INGRESSCOOKIE", "z"],
            &["INGRESSCOOKIE", "z"],
        ),
        ("configuration-snippet", "if ($arg_if) { more_clear_headers Set-Cookie; }", &["INGRESSCOOKIE"], &[]),
    ];
    for (number, (name, snippet, left, with_if)) in cases.into_iter().enumerate() {
        let mark = number.to_string();
        let marked = format!("more_set_headers 'X-Mark: {mark}'; {snippet}");
        let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("affinity", "cookie");
        let ingress = ingress.annotation(name, &marked);
        folder.write("objects.yaml", ingress.text() + &manifest::service_with("shop", &[&backend]));
        await_until(snippet, || get(gateway.http, HOST, "/").header("x-mark") == Some(&mark));
        assert_eq!(cookies("/"), left, "{snippet}");
        assert_eq!(cookies("/?if=1"), with_if, "{snippet}");
    }
}

#[test]
fn front_doors_id_is_checked_before_anything_is_forwarded() {
    let backend = Backend::echo("shop");
    let snippet = "if ($http_x_azure_fdid != \"4f2c\") {\n  return 403;\n}";
    let folder = shop(&backend, &[("configuration-snippet", snippet)], &ON);
    let gateway = gateway(&folder);
    let status = |id: &str| {
        Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Azure-FDID", id)], "").status
    };
    assert_eq!((status("4f2c"), status("other")), (200, 403));
    assert_eq!(get(gateway.http, HOST, "/").status, 403);
    assert_eq!(backend.requests(), 1);
}

#[test]
fn paths_are_blocked_by_locations_of_a_server_snippet() {
    let backend = Backend::echo("shop");
    let snippet = "location /actuator { deny all; }\nlocation ~* ^/(metrics|admin/debug) { return 404; }\n\
                   location = /robots.txt { add_header X-R 1; return 200 'none'; }";
    let folder = shop(&backend, &[("server-snippet", snippet)], &ON);
    let gateway = gateway(&folder);
    for (target, status) in [
        ("/actuator/env", 403),
        ("/%61ctuator", 403),
        ("//actuator", 403),
        ("/x/../actuator", 403),
        ("/METRICS", 404),
        ("/admin/debug/x", 404),
        ("/robots.txt", 200),
        ("/robots", 200),
    ] {
        assert_eq!(get(gateway.http, HOST, target).status, status, "{target}");
    }
    let robots = get(gateway.http, HOST, "/robots.txt");
    assert_eq!((robots.text(), robots.header("x-r")), ("none".to_owned(), Some("1")));
}

#[test]
fn a_server_snippet_applies_to_no_other_namespace() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend, &[("server-snippet", "location / { return 403; } return 403;")], &ON);
    let other = Ingress::new("other").path(HOST, "/other", "other").text();
    let other = (other + &manifest::service_with("other", &[&backend])).replace("\"default\"", "\"team\"");
    folder.write("other.yaml", other);
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/").status, 403);
    assert_eq!(get(gateway.http, HOST, "/other").status, 200);
}

#[test]
fn an_auth_snippet_changes_the_request_and_its_reply_fills_variables() {
    let backend = Backend::echo("shop");
    let service = Backend::with("auth", |request| match request.header("x-asked-for") {
        Some("shop.example") => Reply::field("X-Auth-User", "ann"),
        _ => Reply::status(403),
    });
    let url = format!("http://{}/check", service.address);
    let reply = "auth_request_set $user $upstream_http_x_auth_user;\nproxy_set_header X-User $user;\n\
                 add_header X-Seen $user;";
    let annotations = [
        ("auth-url", &*url),
        ("auth-snippet", "proxy_set_header X-Asked-For $http_host;"),
        ("configuration-snippet", reply),
    ];
    let folder = shop(&backend, &annotations, &ON);
    let gateway = gateway(&folder);
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-User", "forged")], "");
    assert_eq!((response.status, response.header("x-seen")), (200, Some("ann")));
    assert_eq!(response.received("x-user"), ["ann"]);
}

/// The shop whose service is asked with the variables of other snippets.
fn shop_with_variables(
    backend: &Backend,
    service: &Backend,
    annotations: &[(&str, &str)],
    keys: &[(&str, &str)],
) -> Folder {
    let url = format!("http://{}/check", service.address);
    let fields = "proxy_set_header X-Location $tenant;\nproxy_set_header X-Server $zone;";
    let location = "set $tenant none;\nif ($http_x_tenant ~ ^t-) { set $tenant $http_x_tenant; }";
    let own = [
        ("auth-url", &*url),
        ("auth-snippet", fields),
        ("configuration-snippet", location),
        ("server-snippet", "set $zone outer;"),
        ("auth-response-headers", "X-Got"),
    ];
    shop(backend, &[&own[..], annotations].concat(), &[&ON[..], keys].concat())
}

#[test]
fn an_auth_snippet_has_the_variables_that_ingress_nginx_shares() {
    let backend = Backend::echo("shop");
    let service = Backend::with("auth", |request| {
        let [location, server] = ["x-location", "x-server"].map(|name| request.header(name).unwrap_or("-"));
        Reply::field("X-Got", &format!("{location} {server}"))
    });
    let keeps = ("auth-keepalive", "4");
    let shares = |value| ("auth-keepalive-share-vars", value);
    let no_http2 = [("use-http2", "false")];
    for (annotations, keys, location) in [
        (&[][..], &no_http2[..], "t-1"),
        (&[keeps, shares("true")][..], &no_http2[..], "t-1"),
        (&[keeps, shares("false")][..], &no_http2[..], "-"),
        (&[keeps][..], &no_http2[..], "-"),
        (&[keeps][..], &[][..], "t-1"),
        (&[keeps, ("auth-keepalive-requests", "0")][..], &no_http2[..], "t-1"),
    ] {
        let folder = shop_with_variables(&backend, &service, annotations, keys);
        let gateway = gateway(&folder);
        let response = Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Tenant", "t-1")], "");
        assert_eq!(response.received("x-got"), [format!("{location} outer")], "{annotations:?} {keys:?}");
        assert_eq!(gateway.problems(), "");
    }
}

#[test]
fn an_auth_snippet_with_a_variable_of_no_snippet_is_refused() {
    let backend = Backend::echo("shop");
    let url = format!("http://{}/check", backend.address);
    for (server, part) in [
        ("set $zone outer;", "the variable $tenant is neither served nor set"),
        ("set $tenant outer;", "no problem"),
    ] {
        let annotations = [
            ("auth-url", &*url),
            ("auth-snippet", "proxy_set_header X-Tenant $tenant;"),
            ("server-snippet", server),
        ];
        let folder = shop(&backend, &annotations, &ON);
        let gateway = gateway(&folder);
        let is_refused = part != "no problem";
        assert_eq!(get(gateway.http, HOST, "/").status, if is_refused { 503 } else { 200 });
        assert_eq!(gateway.problems().contains(part), is_refused, "{}", gateway.problems());
    }
}

#[test]
fn a_global_auth_snippet_changes_the_request_to_the_service_of_all_rules() {
    let backend = Backend::echo("shop");
    let service = Backend::with("auth", |request| match request.header("x-asked-for") {
        Some("shop.example /a") => Reply::status(200),
        _ => Reply::status(403),
    });
    let url = format!("http://{}/check", service.address);
    let keys = |snippet| [("global-auth-url", &*url), ("global-auth-snippet", snippet)];
    let folder = shop(&backend, &[], &keys("proxy_set_header X-Asked-For \"$host $request_uri\";"));
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/a").status, 200);
    assert_eq!(get(gateway.http, HOST, "/b").status, 403);
    assert_eq!(gateway.problems(), "");
    folder.write("operator.yaml", config_map(OPERATOR, &keys("auth_basic off;")));
    await_until("all routes to close", || get(gateway.http, HOST, "/a").status == 503);
    assert!(gateway.problems().contains("global-auth-snippet"), "{}", gateway.problems());
}

/// The first and last bytes that a server sends before it closes the connection.
fn bytes_until_close(address: std::net::SocketAddr) -> Vec<u8> {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(format!("GET /blocked HTTP/1.1\r\nHost: {HOST}\r\n\r\n").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    // A reset ends it too.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

#[test]
fn return_444_closes_the_connection_without_a_response_as_nginx_does() {
    let backend = Backend::echo("shop");
    let snippet = "if ($uri = /blocked) { return 444; }";
    let folder = shop(&backend, &[("configuration-snippet", snippet)], &ON);
    let gateway = gateway(&folder);
    assert_eq!(bytes_until_close(gateway.http), b"");
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    assert_eq!(backend.requests(), 1);
    if nginx::is_installed() {
        let nginx = nginx::start("", "", snippet, backend.address);
        assert_eq!(bytes_until_close(nginx.address), b"");
    }
}

/// The redirect server of ingress-nginx's manifest for AWS.
#[test]
fn an_http_snippet_opens_a_server_on_a_port_of_its_own() {
    let [address, other] = ports::addresses();
    let (port, other_port) = (address.port(), other.port());
    let backend = Backend::echo("shop");
    let server = |port| {
        format!("server {{ listen {port}; add_header X-A 1 always; return 308 https://$host$request_uri; }}")
    };
    let keys = |text: &str| {
        let of_ipv4 = [("bind-address", "127.0.0.1"), ("disable-ipv6", "true")];
        config_map(OPERATOR, &[&of_ipv4[..], &[("http-snippet", text)]].concat())
    };
    let folder = shop(&backend, &[], &[]);
    folder.write("operator.yaml", keys(&server(port)));
    let gateway = gateway(&folder);
    let listens = |address| Connection::try_plain(address).is_ok();
    await_until("the port", || listens(address));
    for (host, path) in [("shop.example", "/a%20b?c=d"), ("other.example", "/healthz")] {
        let response = get(address, host, path);
        assert_eq!(response.status, 308);
        assert_eq!(response.header("location"), Some(&*format!("https://{host}{path}")));
        assert_eq!(response.header("x-a"), Some("1"));
    }
    assert_eq!(get(gateway.http, HOST, "/").status, 200, "the gateway's port has no redirect");
    assert_eq!(gateway.problems(), "");
    let blocked = "location /old { return 410; } location = / { deny all; }";
    folder.write("operator.yaml", keys(&format!("server {{ listen {other_port}; {blocked} }}")));
    await_until("the other port", || listens(other) && !listens(address));
    assert_eq!(get(other, HOST, "/old/x").status, 410);
    assert_eq!(get(other, HOST, "/").status, 403);
    let own = gateway.http.port();
    folder.write("operator.yaml", keys(&server(own)));
    await_until("the problem", || gateway.problems().contains(&format!("port {own}, which is that of")));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
    await_until("the port to close", || !listens(other));
    folder.write("operator.yaml", keys("upstream name { server a; }"));
    await_until("the refusal", || gateway.problems().contains("line 1: upstream"));
    assert_eq!(get(gateway.http, HOST, "/").status, 200);
}

#[test]
fn maintenance_answers_with_its_text_and_type() {
    let backend = Backend::echo("shop");
    let snippet = "default_type application/json;\nreturn 503 '{\"down\": true}';";
    let folder = shop(&backend, &[("configuration-snippet", snippet)], &ON);
    let gateway = gateway(&folder);
    let response = get(gateway.http, HOST, "/");
    assert_eq!((response.status, response.text()), (503, "{\"down\": true}".to_owned()));
    assert_eq!(response.header("content-type"), Some("application/json"));
}

#[test]
fn snippets_of_the_configmap_need_no_switch_and_follow_edits() {
    let backend = Backend::echo("shop");
    let keys = [
        ("location-snippet", "more_set_headers 'X-All: 1';"),
        ("server-snippet", "location /metrics { deny all; }"),
    ];
    let folder = shop(&backend, &[], &keys);
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/").header("x-all"), Some("1"));
    assert_eq!(get(gateway.http, HOST, "/metrics").status, 403);
    folder.write("operator.yaml", config_map(OPERATOR, &[]));
    await_until("the snippets to go", || get(gateway.http, HOST, "/metrics").status == 200);
    assert_eq!(get(gateway.http, HOST, "/").header("x-all"), None);
}

#[test]
fn check_prints_what_each_snippet_was_translated_to() {
    let backend = Backend::echo("shop");
    let snippet = "more_set_headers 'X-A: 1';\nif ($http_x) {\n  return 403;\n}";
    let folder = shop(&backend, &[("configuration-snippet", snippet)], &ON);
    let path = folder.path().to_str().unwrap().to_owned();
    let output = run(&["check", "--manifests", &path, "--configmap", OPERATOR]);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Ingress default/shop metadata.annotations[nginx.ingress.kubernetes.io/configuration-snippet]",
        "line 1: more_set_headers: sets the response field x-a",
        "line 2: if: ($http_x)",
        "line 3: return: answers 403 with its standard page",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn annotations_of_sluice_set_and_remove_fields_without_a_switch() {
    let backend = Backend::with("shop", |_| Reply::field("X-Powered-By", "PHP"));
    let annotations = [
        ("set-request-headers", "X-Tenant: $http_x_wanted\nX-Fixed: a"),
        ("remove-request-headers", "X-Internal, X-Debug"),
        ("set-response-headers", "X-Frame-Options: DENY\nX-Host: $host"),
        ("remove-response-headers", "X-Powered-By"),
    ];
    let ingress = Ingress::new("shop").path(HOST, "/", "shop");
    let ingress = annotations
        .iter()
        .fold(ingress, |ingress, (name, value)| ingress.raw_annotation(&format!("sluice.dev/{name}"), value));
    let fixed = Ingress::new("fixed")
        .path("fixed.example", "/", "shop")
        .raw_annotation("sluice.dev/fixed-response", "503 Back at noon");
    let folder = Folder::with(ingress.text() + &fixed.text() + &manifest::service_with("shop", &[&backend]));
    let gateway = Gateway::start(&folder);
    let sent = [("X-Wanted", "blue"), ("X-Internal", "1"), ("X-Fixed", "forged")];
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &sent, "");
    assert_eq!(response.header("x-frame-options"), Some("DENY"));
    assert_eq!((response.header("x-host"), response.header("x-powered-by")), (Some(HOST), None));
    let seen = backend.seen().pop().unwrap();
    assert_eq!((seen.all("x-tenant"), seen.all("x-fixed")), (vec!["blue"], vec!["a"]));
    assert_eq!(seen.header("x-internal"), None);
    let answer = get(gateway.http, "fixed.example", "/");
    assert_eq!((answer.status, answer.text()), (503, "Back at noon".to_owned()));
    assert_eq!(gateway.problems(), "");
}
