//! Compares nginx and Sluice: variables of `map` and `geo` of `http-snippet`, and where they are
//! used.

use super::peer::{GET, Request, differences};
use super::{HOST, ON, OPERATOR, gateway, nginx, shop};
use crate::harness::{Backend, Connection, Folder, Ingress, await_until, config_map, get, manifest};

/// `http-snippet`, `server-snippet`, `configuration-snippet` and requests.
const CASES: &[(&str, &str, &str, &[Request])] = &[
    // Texts, whatever their case, expressions in order with their groups, and the default.
    (
        "map $http_x_kind $kind {\n default other;\n plain 1;\n \"two words\" 2;\n \\default 3;\n ~^(a+)b(?<rest>.*)$ \
         \"$1-$rest-$request_method\";\n ~*^A late;\n \"\" empty;\n}\n\
         map $kind:$arg_x $both { volatile; 1:y yes; ~^other: \"$kind\"; }",
        "",
        "add_header X-Kind $kind always; add_header X-Both \"<$both>\" always; proxy_set_header X-Got $kind;",
        &[
            GET,
            ("GET", "/?x=y", &[("X-Kind", "PLAIN")]),
            ("GET", "/", &[("X-Kind", "Two words")]),
            ("GET", "/", &[("X-Kind", "default")]),
            ("GET", "/", &[("X-Kind", "aabcd")]),
            ("GET", "/", &[("X-Kind", "Axb")]),
            ("GET", "/404", &[("X-Kind", "none")]),
        ],
    ),
    // Names of hosts.
    (
        "map $http_x_name $site {\n hostnames;\n default none;\n example.com bare;\n *.example.com sub;\n \
         *.deep.example.com deep;\n .example.org both;\n mail.* mail;\n ~example expression;\n}",
        "",
        "add_header X-Site $site;",
        &[
            ("GET", "/", &[("X-Name", "example.com")]),
            ("GET", "/", &[("X-Name", "EXAMPLE.com.")]),
            ("GET", "/", &[("X-Name", "a.b.example.com")]),
            ("GET", "/", &[("X-Name", "a.deep.example.com")]),
            ("GET", "/", &[("X-Name", "example.org")]),
            ("GET", "/", &[("X-Name", "x.example.org")]),
            ("GET", "/", &[("X-Name", "mail.example.net")]),
            ("GET", "/", &[("X-Name", "my-example.net")]),
            ("GET", "/", &[("X-Name", "mail")]),
            GET,
        ],
    ),
    // Conditions, redirects and assigned values.
    (
        "map $request_uri $moved { ~^/old/(?<page>[a-z]+) /new/$page; /exact?a=b https://b.example/; }\n\
         map $http_user_agent $is_bot { default 0; ~*(curl|bot) 1; }",
        "if ($moved) { return 301 $moved; }",
        "set $why \"bot-$is_bot\"; if ($is_bot) { return 403 $why; }\nif ($is_bot = 0) { add_header X-Why $why; }",
        &[
            GET,
            ("GET", "/old/page?x", &[]),
            ("GET", "/exact?a=b", &[]),
            ("GET", "/exact", &[]),
            ("GET", "/", &[("User-Agent", "Some Bot")]),
        ],
    ),
    // Values that are known with the response.
    (
        "map $upstream_status $came { default good; ~^[45] bad; }\n\
         map $sent_http_content_type $kind { ~^text/plain text; }\n\
         map \"$request_method $came\" $both { \"GET good\" 1; \"GET bad\" 2; }",
        "",
        "add_header X-Came $came always; add_header X-Kind $kind always; add_header X-Both \"<$both>\" always;",
        &[GET, ("GET", "/404", &[]), ("POST", "/", &[])],
    ),
    // Addresses.
    (
        "geo $zone { default far; 10.0.0.0/8 near; 127.0.0.0/8 self; 127.0.0.1/32 own; }\n\
         geo $http_x_client $place {\n default none;\n 10.0.0.0/8 a;\n 10.1.0.0/16 b;\n 10.1.2.3 c;\n \
         2001:db8::/32 d;\n 192.0.2.0/24 e;\n delete 192.0.2.0/24;\n}\n\
         geo $http_x_client $range { ranges; default no; 10.0.0.0-10.0.0.9 1; 10.0.0.3-10.0.0.5 2; }",
        "",
        "add_header X-Zone $zone; add_header X-Place $place; add_header X-Range $range;",
        &[
            GET,
            ("GET", "/", &[("X-Client", "10.0.0.4")]),
            ("GET", "/", &[("X-Client", "10.0.0.9")]),
            ("GET", "/", &[("X-Client", "10.1.0.0")]),
            ("GET", "/", &[("X-Client", "10.1.2.3")]),
            ("GET", "/", &[("X-Client", "::ffff:10.1.2.3")]),
            ("GET", "/", &[("X-Client", "2001:db8::7")]),
            ("GET", "/", &[("X-Client", "192.0.2.1")]),
            ("GET", "/", &[("X-Client", "nonsense")]),
        ],
    ),
];

#[test]
fn tables_have_the_values_that_they_have_in_nginx() {
    if !nginx::is_installed() {
        eprintln!("nginx with headers-more is not installed, so nothing was compared");
        return;
    }
    let all = CASES
        .iter()
        .flat_map(|(http, server, location, requests)| differences(http, server, location, requests));
    let differences: Vec<_> = all.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n-----\n"));
}

#[test]
fn variables_of_tables_stand_in_annotations_keys_and_log_lines() {
    let backend = Backend::echo("shop");
    let http = "map $http_x_tenant $tenant { default none; ~^(?<first>.) $first; }\n\
                map $remote_addr $masked { ~^(\\d+\\.\\d+)\\. $1.0.0; }";
    let keys = [("http-snippet", http), ("log-format-upstream", "masked=$masked tenant=$tenant $status")];
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("upstream-hash-by", "$tenant");
    let ingress = ingress.raw_annotation("sluice.dev/set-request-headers", "X-Of: $tenant");
    let folder = Folder::with(ingress.text() + &manifest::service_with("shop", &[&backend]));
    folder.write("operator.yaml", config_map(OPERATOR, &keys));
    let gateway = gateway(&folder);
    let response = Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Tenant", "blue")], "");
    assert_eq!(response.received("x-of"), ["b"]);
    gateway.await_access("masked=127.0.0.0 tenant=b 200");
    assert_eq!(gateway.problems(), "");
}

#[test]
fn a_snippet_closes_while_its_table_is_missing_and_follows_edits() {
    let backend = Backend::echo("shop");
    let snippet = [("configuration-snippet", "if ($is_bad) { return 403; }")];
    let folder = shop(&backend, &snippet, &ON);
    let gateway = gateway(&folder);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    assert!(gateway.problems().contains("the variable $is_bad"), "{}", gateway.problems());
    let with = |http: &str| config_map(OPERATOR, &[ON[0], ON[1], ("http-snippet", http)]);
    folder.write("operator.yaml", with("map $arg_bad $is_bad { 1 1; }"));
    await_until("the table", || get(gateway.http, HOST, "/").status == 200);
    assert_eq!(get(gateway.http, HOST, "/?bad=1").status, 403);
    folder.write("operator.yaml", with("map $arg_bad $is_bad { 2 1; }"));
    await_until("the other table", || get(gateway.http, HOST, "/?bad=2").status == 403);
    assert_eq!(get(gateway.http, HOST, "/?bad=1").status, 200);
    folder.write("operator.yaml", with("map $bytes_sent $is_bad { 2 1; }"));
    await_until("the refusal", || get(gateway.http, HOST, "/").status == 503);
}
