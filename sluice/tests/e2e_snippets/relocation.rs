//! `rewrite` that chooses the location anew: compared with nginx, and the rules that it reaches.

use super::peer::{GET, Request, differences};
use super::{HOST, ON, gateway, nginx, shop};
use crate::harness::{Backend, Folder, Gateway, Ingress, Reply, config_map, get, manifest};

/// `server-snippet`, `configuration-snippet` of the location `/`, and requests.
const CASES: &[(&str, &str, &[Request])] = &[
    // Of a server: before a location is chosen, whatever the flag.
    (
        "rewrite ^/old/(.*)$ /206/$1 last; rewrite ^/first/(.*)$ /second/$1; rewrite ^/second/(.*)$ /404/$1;\n\
         rewrite ^/kept/(.*)$ /500/$1 break; location /blocked { deny all; } rewrite ^/hidden /blocked;\n\
         if ($arg_to = b) { rewrite ^/if /text/b; }\nlocation /text { return 200 \"$uri $args $request_uri\"; }",
        "add_header X-U \"$uri $is_args$args $request_uri\" always; proxy_set_header X-Got $uri;",
        &[
            GET,
            ("GET", "/old/a%20b?c=d", &[]),
            ("GET", "/first/x", &[]),
            ("GET", "/kept/x", &[]),
            ("GET", "/hidden", &[]),
            ("GET", "/if?to=b", &[]),
            ("GET", "/if?to=c", &[]),
        ],
    ),
    // Of a location: its program runs again for the new path.
    (
        "location /block { rewrite ^/block/(.*)$ /404/$1 last; return 200 never; }\n\
         location /other { return 200 \"other $uri $args\"; }",
        "set $seen $uri;\nif ($http_x_last) { rewrite ^/a/(.*)$ /other/$1?x=$arg_y last; }\n\
         rewrite ^/b/(.*)$ /other/$1? last; rewrite ^/c/(.*)$ /206/$1;\nif ($uri ~ ^/206/stop) { return 418 $uri; }\n\
         add_header X-U \"$uri $args\";",
        &[
            GET,
            ("GET", "/a/1?y=2", &[("X-Last", "1")]),
            ("GET", "/a/1?y=2", &[]),
            ("GET", "/b/1?y=2", &[]),
            ("GET", "/c/1?y=2", &[]),
            ("GET", "/c/stop", &[]),
            ("GET", "/block/x", &[]),
        ],
    ),
    // A flag that keeps the location, after one that does not.
    (
        "",
        "rewrite ^/a/(.*)$ /b/$1;\nif ($arg_keep) { break; }\nrewrite ^/b/(.*)$ /206/$1;",
        &[("GET", "/a/1?keep=1", &[]), ("GET", "/a/1", &[])],
    ),
    // Ten locations, and not one more.
    ("", "rewrite \"^/n/1{3}(.*)$\" /404/$1 last; rewrite ^/n/(.*)$ /n/1$1 last;", &[("GET", "/n/x", &[])]),
    ("", "rewrite \"^/n/1{10}(.*)$\" /404/$1 break; rewrite ^/n/(.*)$ /n/1$1 last;", &[("GET", "/n/x", &[])]),
    ("", "rewrite \"^/n/1{11}(.*)$\" /404/$1 break; rewrite ^/n/(.*)$ /n/1$1 last;", &[("GET", "/n/x", &[])]),
    ("", "rewrite ^/(.*)$ /x/$1 last;", &[GET]),
];

#[test]
fn a_rewritten_path_has_the_location_that_it_has_in_nginx() {
    if !nginx::is_installed() {
        eprintln!("nginx with headers-more is not installed, so nothing was compared");
        return;
    }
    let all =
        CASES.iter().flat_map(|(server, location, requests)| differences("", server, location, requests));
    let differences: Vec<_> = all.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n-----\n"));
}

/// Two Ingresses of one namespace, of which the first rewrites, and one of another namespace.
fn neighbours(snippet: &str, own: &[(&str, &str)]) -> ([Backend; 3], Folder, Gateway) {
    let backend = |name: &'static str| {
        Backend::with(name, move |request| {
            let path = request.start.split(' ').nth(1).unwrap_or_default().to_owned();
            Reply::Answer(200, Vec::new(), format!("{name} {path}"))
        })
    };
    let (first, second, third) = (backend("first"), backend("second"), backend("third"));
    let first_ingress =
        Ingress::new("first").path(HOST, "/", "first").annotation("configuration-snippet", snippet);
    let second_ingress =
        own.iter().fold(Ingress::new("second").path(HOST, "/own", "second"), |ingress, (name, value)| {
            ingress.annotation(name, value)
        });
    let third_ingress = Ingress::new("third").path(HOST, "/foreign", "third").text();
    let third_objects = third_ingress + &manifest::service_with("third", &[&third]);
    let folder = Folder::with(
        first_ingress.text()
            + &second_ingress.text()
            + &manifest::service_with("first", &[&first])
            + &manifest::service_with("second", &[&second]),
    );
    folder.write("third.yaml", third_objects.replace("\"default\"", "\"team\""));
    folder.write("operator.yaml", config_map(super::OPERATOR, &ON));
    let gateway = gateway(&folder);
    ([first, second, third], folder, gateway)
}

#[test]
fn a_rewrite_reaches_rules_of_its_namespace_with_their_policies() {
    let (_backends, _folder, gateway) = neighbours(
        "rewrite ^/to/(.*)$ /own/$1 last;",
        &[("rewrite-target", "/inner/$1"), ("denylist-source-range", "192.0.2.0/24")],
    );
    assert_eq!(get(gateway.http, HOST, "/").text(), "first /");
    assert!(get(gateway.http, HOST, "/to/a?b").text().starts_with("second /inner/"));
    let (_backends, _folder, gateway) =
        neighbours("rewrite ^/to/(.*)$ /own/$1 last;", &[("denylist-source-range", "127.0.0.0/8")]);
    assert_eq!(get(gateway.http, HOST, "/to/a").status, 403, "the other rule's list holds");
    assert_eq!(gateway.problems(), "");
}

#[test]
fn a_rewrite_reaches_no_rule_of_another_namespace() {
    let (_backends, _folder, gateway) = neighbours("rewrite ^/to/(.*)$ /foreign/$1 last;", &[]);
    assert_eq!(get(gateway.http, HOST, "/foreign/a").text(), "third /foreign/a");
    assert_eq!(get(gateway.http, HOST, "/to/a").status, 404);
}

#[test]
fn a_rewrite_of_a_server_snippet_precedes_policies_of_the_first_rule() {
    let backend = Backend::echo("shop");
    let annotations = [
        ("server-snippet", "rewrite ^/old/(.*)$ /blocked/$1; location /blocked { deny all; }"),
        ("configuration-snippet", "return 418;"),
    ];
    let folder = shop(&backend, &annotations, &ON);
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/old/a").status, 403);
    assert_eq!(get(gateway.http, HOST, "/").status, 418);
}
