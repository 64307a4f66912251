//! Compares nginx and Sluice: the same snippets, requests and endpoint must give the same status,
//! body and fields.

use super::nginx;
use super::{HOST, ON, gateway, shop};
use crate::harness::client::Response;
use crate::harness::{Backend, Connection, Reply};

/// Snippets and the requests to compare.
struct Case {
    server: &'static str,
    location: &'static str,
    requests: &'static [Request],
}

/// A request: method, target and fields.
pub(super) type Request = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

pub(super) const GET: Request = ("GET", "/", &[]);

const CASES: &[Case] = &[
    // add_header applies to usual statuses, and more_set_headers to all.
    Case {
        server: "",
        location: "add_header X-A usual; add_header X-B all always; more_set_headers 'X-C: set';\n\
                   more_set_headers -s '404 500' 'X-D: some'; more_set_headers -t text/css 'X-E: type';\n\
                   more_set_headers -t text/plain 'X-F: type';",
        requests: &[
            GET,
            ("GET", "/404", &[]),
            ("GET", "/500", &[]),
            ("GET", "/302", &[]),
            ("GET", "/206", &[]),
            ("GET", "/204", &[]),
        ],
    },
    // Fields of the endpoint: replaced, added to, removed, hidden.
    Case {
        server: "",
        location: "more_set_headers 'X-Of-Endpoint: set'; add_header X-Of-Endpoint added;\n\
                   more_clear_headers 'X-Twice' 'X-Many-*'; proxy_hide_header X-Hidden; add_header X-Hidden own;",
        requests: &[GET],
    },
    // headers-more runs before add_header.
    Case {
        server: "",
        location: "add_header X-A added; more_clear_headers X-A; more_set_headers 'X-B: set'; add_header X-B added;\n\
                   add_header X-Empty ''; add_header X-None $http_none; more_set_headers 'X-Twice: ';",
        requests: &[GET],
    },
    // Variables that are known with the response.
    Case {
        server: "",
        location: "add_header X-Status $status always; add_header X-Upstream-Status $upstream_status always;\n\
                   add_header X-Addr $upstream_addr; add_header X-Copy \"$http_x_a:$upstream_http_x_of_endpoint\";\n\
                   add_header X-Secret $upstream_http_x_hidden;\n\
                   add_header X-Type $sent_http_content_type; add_header X-None \"<$upstream_http_x_none>\";\n\
                   more_set_headers 'X-More: $upstream_status-$request_method'; proxy_hide_header X-Hidden;\n\
                   if ($arg_own) { return 403; }",
        requests: &[("GET", "/", &[("X-A", "a")]), ("GET", "/404", &[]), ("GET", "/?own=1", &[])],
    },
    // Variables of the request.
    Case {
        server: "",
        location: "proxy_set_header X-1 \"$request|$request_method|$server_protocol|$scheme|$https|$is_args$args\";\n\
                   proxy_set_header X-2 \"$host|$http_host|$Uri|$request_uri|$document_uri|$query_string\";\n\
                   proxy_set_header X-3 \"$remote_user|$remote_addr|$content_type|$content_length|$http_x_a\";\n\
                   proxy_set_header X-4 \"$cookie_c|$arg_x|$arg_none|$proxy_add_x_forwarded_for|$connection_requests\";\n\
                   proxy_set_header X-5 \"$hostname|$pipe|$http2|$ssl_protocol|$proxy_protocol_addr|\";",
        requests: &[
            (
                "GET",
                "/a%20b?x=1&X=2",
                &[("X-A", "a"), ("Cookie", "c=d"), ("Authorization", "Basic YW5uOng=")],
            ),
            ("POST", "/", &[("Content-Type", "text/css"), ("X-Forwarded-For", "192.0.2.1"), ("X-A", "")]),
        ],
    },
    // A second proxy_set_header of a field sends it twice; an empty one sends none.
    Case {
        server: "",
        location: "proxy_set_header X-A 1; proxy_set_header X-A 2; proxy_set_header X-Real-IP again;\n\
                   proxy_set_header X-Client ''; proxy_set_header X-Host $host; proxy_set_header X-Args $args;\n\
                   proxy_set_header X-Uri $uri; proxy_set_header X-Request $request_uri; proxy_set_header X-M $request_method;",
        requests: &[("GET", "/a%20b/../c?d=e&f", &[("X-Client", "c"), ("X-A", "c")]), ("POST", "/", &[])],
    },
    Case {
        server: "",
        location: "more_set_input_headers 'X-A: in' ; more_set_input_headers -r 'X-B: in' 'X-C: in';\n\
                   more_clear_input_headers 'X-D' 'X-All-*';",
        requests: &[
            GET,
            (
                "GET",
                "/",
                &[
                    ("X-A", "c"),
                    ("X-B", "c"),
                    ("X-D", "c"),
                    ("X-All-1", "c"),
                    ("X-All-2", "c"),
                    ("X-Al", "c"),
                ],
            ),
        ],
    },
    // Inheritance of add_header by level, and the last if that matches.
    Case {
        server: "add_header X-Server 1 always; more_set_headers 'X-More-Server: 1';",
        location: "",
        requests: &[GET],
    },
    Case {
        server: "add_header X-Server 1 always; more_set_headers 'X-More-Server: 1';",
        location: "add_header X-Location 1; more_set_headers 'X-More-Location: 1';\n\
                   if ($http_x_a) { add_header X-If a; }\nif ($http_x_b) { more_set_headers 'X-More-If: b'; }\n\
                   if ($http_x_c = 1) { add_header X-If c; more_set_headers 'X-More-If: c'; }",
        requests: &[
            GET,
            ("GET", "/", &[("X-A", "1")]),
            ("GET", "/", &[("X-A", "0")]),
            ("GET", "/", &[("X-B", "1")]),
            ("GET", "/", &[("X-A", "1"), ("X-B", "1")]),
            ("GET", "/", &[("X-B", "1"), ("X-A", "1"), ("X-C", "1")]),
        ],
    },
    // Syntax of PCRE that needs backtracking, and its groups.
    Case {
        server: "location ~ \"^/(?!admin)[a-z]++/{id}$\" { return 200 first; }\n\
                 location ~* ^/(.)\\1(?<!bb)$ { return 200 twice; }",
        location: "set $r '';\nif ($http_x_a ~ ^(?>a+)(?<last>b)(?!c)) { set $r $1$last; }\n\
                   if ($arg_x ~* (?<=y)z) { set $r ${r}z; }\nif ($uri ~ ^/(?!x)([a-z]*)) { set $r $r-$1; }\n\
                   rewrite ^/old/(?!api)(.*+)$ /new/$1 permanent;\nadd_header X-R $r;",
        requests: &[
            ("GET", "/shop/%7Bid%7D", &[]),
            ("GET", "/admin/%7Bid%7D", &[]),
            ("GET", "/aA", &[]),
            ("GET", "/aa", &[]),
            ("GET", "/bb", &[]),
            ("GET", "/?x=yZ", &[("X-A", "aaab")]),
            ("GET", "/xyz?x=z", &[("X-A", "aaabc")]),
            ("GET", "/old/page?a=b", &[]),
            ("GET", "/old/api", &[]),
        ],
    },
    // Conditions.
    Case {
        server: "",
        location: "set $r '';\nif ($host = shop.example) { set $r ${r}1; }\nif ($request_method != GET) { set $r ${r}2; }\n\
                   if ($http_user_agent ~* (curl|wget)) { set $r ${r}3$1; }\nif ($arg_x !~ ^[a-z]+$) { set $r ${r}4; }\n\
                   if ($cookie_c ~ ^(?<name>[a-z]*)-(.*)$) { set $r ${r}5$name$2; }\nif ($args) { set $r ${r}6; }\n\
                   if ($uri ~ \"^/(\\d{2,3})\") { set $r ${r}7$1; }\nadd_header X-R $r;",
        requests: &[
            GET,
            ("POST", "/?x=abc", &[("User-Agent", "CURL/8")]),
            ("GET", "/201?x=1", &[("Cookie", "a=1; c=ab-cd")]),
            ("GET", "/206", &[("Cookie", "c=-")]),
        ],
    },
    // A group with a name is a variable until it is set or matched again; those with a number are
    // of the last expression that was searched, also by rewrite.
    Case {
        server: "location ~ ^/block/(?<part>.*)$ { if ($arg_x ~ ^(y)) { set $y 1; } return 200 \"$part $1\"; }",
        location: "set $t ''; if ($uri ~ \"^/(?<t>[^/]+)/x\") { set $k a; }\nif ($request_method ~ GET) { set $m 1; }\n\
                   if ($t = app) { return 403; }\nset $tenant none; if ($host ~ \"^(?<tenant>[a-z0-9]+)[.]example$\") { set $k a; }\n\
                   if ($uri ~ ^/(moved)) { set $k a; }\nset $one $1; if ($uri !~ ^/(moved)) { set $k b; }\nset $two $1;\n\
                   if ($uri ~ ^/last/(.*)$) { rewrite ^ /206/$1 break; }\nrewrite ^/moved/(.*)$ /201/$1 break;\n\
                   proxy_set_header X-P1 \"$tenant|$1|$one|$two\"; add_header X-H $1;",
        requests: &[
            GET,
            ("GET", "/app/x", &[]),
            ("GET", "/other/x", &[]),
            ("GET", "/moved/x/y", &[]),
            ("GET", "/last/x", &[]),
            ("GET", "/block/x", &[]),
            ("GET", "/block/x?x=y", &[]),
        ],
    },
    // Answers before the program of the location, and changes of the client's fields.
    Case {
        server: "set $server 1;",
        location: "client_max_body_size 1; more_set_headers 'X-M: $request_method' 'X-N: n'; add_header X-H $args always;\n\
                   more_clear_input_headers X-I1; more_set_input_headers 'X-I2: $arg_a' -r;\n\
                   if ($arg_last) { rewrite ^/app/(.*) /$1? last; }",
        requests: &[
            GET,
            ("POST", "/?a=b", &[("Content-Length", "2")]),
            ("GET", "/app/206?last=1&a=b", &[("X-I1", "spoof"), ("X-I2", "c")]),
        ],
    },
    Case {
        server: "",
        location: "more_set_headers -t text/plain 'Content-Type: text/css' 'X-M: 1'; more_set_headers -t text/plain 'X-N: 1';",
        requests: &[GET],
    },
    // return comes before access rules; break ends the program.
    Case {
        server: "",
        location: "deny all;\nif ($http_x_down) { return 503; }\nif ($arg_text) { return 418 \"text $arg_text\"; }\n\
                   if ($arg_to) { return 301 https://other.example$uri; }\nif ($arg_path) { return 302 /new?$args; }\n\
                   if ($arg_ok) { return 200; }\nif ($arg_none) { return 204; }\nif ($arg_url) { return https://b.example/; }",
        requests: &[
            GET,
            ("GET", "/", &[("X-Down", "1")]),
            ("GET", "/?text=a", &[]),
            ("GET", "/x?to=1", &[]),
            ("GET", "/x?path=1", &[]),
            ("GET", "/?ok=1", &[]),
            ("GET", "/?none=1", &[]),
            ("GET", "/?url=1", &[]),
        ],
    },
    Case {
        server: "",
        location: "set $a 1;\nif ($http_x) { set $a 2; break; }\nset $a 3;\nadd_header X-A $a;\nallow 127.0.0.0/8; deny all;",
        requests: &[GET, ("GET", "/", &[("X-X", "1"), ("X", "1")])],
    },
    Case {
        server: "rewrite ^/gone/(.*)$ https://b.example/$1 permanent;",
        location: "if ($http_x) { rewrite ^/if/(.*)$ /then/$1?x=$arg_a redirect; }\nrewrite ^/old/(.*)$ /new/$1 permanent;\n\
                   rewrite ^/cut/(?<rest>.*)$ /206/$rest break; rewrite ^/206 /never permanent; proxy_set_header X-U $request_uri;",
        requests: &[
            GET,
            ("GET", "/old/a%20b?c=d", &[]),
            ("GET", "/if/a?a=1", &[("X", "1")]),
            ("GET", "/if/a?a=1", &[]),
            ("GET", "/gone/a?b", &[]),
            ("GET", "/cut/a%20b?c", &[]),
        ],
    },
    // Attributes of cookies, and fields that an outer level hides.
    Case {
        server: "proxy_cookie_flags ~^pl nosecure nohttponly samesite=none;",
        location: "",
        requests: &[GET],
    },
    Case {
        server: "proxy_cookie_flags ~. nosecure;",
        location: "proxy_cookie_flags session secure HttpOnly samesite=strict; proxy_cookie_flags ~s nosamesite;\n\
                   proxy_pass_header X-Hidden; proxy_ignore_headers Set-Cookie; proxy_cache off;",
        requests: &[GET],
    },
    Case { server: "proxy_cookie_flags ~. nosecure;", location: "proxy_cookie_flags off;", requests: &[GET] },
    // Replaced texts in bodies.
    Case {
        server: "sub_filter_types text/plain; sub_filter x-a <A>;",
        location: "more_set_input_headers 'X-A: aa' 'X-B: x-a X-A'; proxy_set_header Accept-Encoding '';",
        requests: &[GET],
    },
    Case {
        server: "sub_filter x-a never;",
        location: "sub_filter_once off; sub_filter_types *; sub_filter X-A \"$request_method:\"; sub_filter a: ''; sub_filter b 3;\n\
                   more_set_input_headers 'X-A: aabb' 'X-B: x-a X-A'; sub_filter_last_modified on;",
        requests: &[GET, ("POST", "/404", &[("X-C", "bbbb")])],
    },
    Case { server: "", location: "sub_filter x-a <A>; more_set_input_headers 'X-A: a';", requests: &[GET] },
    Case { server: "deny all;", location: "", requests: &[GET] },
    Case { server: "deny all;", location: "allow 127.0.0.1;", requests: &[GET] },
    Case {
        server: "",
        location: "add_header X-A usual; add_header X-B all always; more_set_headers 'X-C: all'; deny all;",
        requests: &[GET],
    },
    // Locations of the server: precedence, their own directives, and 404 without a handler.
    Case {
        server: "add_header X-Server 1 always;\nlocation /a { return 200 a; }\nlocation /a/longer { return 200 longer; }\n\
                 location ^~ /final { return 200 final; }\nlocation ~ \\.php$ { add_header X-Php 1; return 200 php; }\n\
                 location ~* ^/a/(x|y) { return 200 expression; }\nlocation = /a/x.php { return 200 exact; }\n\
                 location /denied { deny all; }\nlocation /none { }\n\
                 location /if { if ($arg_a = 1) { add_header X-If 1; return 201 in; } return 202 out; }",
        location: "more_set_headers 'X-Location: 1';",
        requests: &[
            GET,
            ("GET", "/a", &[]),
            ("GET", "/ab", &[]),
            ("GET", "/a/longer/z", &[]),
            ("GET", "/a/X", &[]),
            ("GET", "/final/x.php", &[]),
            ("GET", "/z.php", &[]),
            ("GET", "/a/x.php", &[]),
            ("GET", "/denied/x", &[]),
            ("GET", "/%64enied", &[]),
            ("GET", "/none", &[]),
            ("PUT", "/none", &[]),
            ("GET", "/if?a=1", &[]),
            ("GET", "/if?a=2", &[]),
            ("GET", "/other", &[]),
        ],
    },
    Case {
        server: "set $seen server;\nif ($http_x_blocked) { return 403; }\nif ($arg_moved) { return 308 https://b.example$request_uri; }",
        location: "add_header X-Location 1 always;",
        requests: &[GET, ("GET", "/", &[("X-Blocked", "1")]), ("GET", "/x?moved=1", &[])],
    },
];

/// Answers with the status that the path names.
fn endpoint() -> Backend {
    Backend::with("shop", |request| {
        let path = request.start.split(' ').nth(1).unwrap_or_default();
        let status = path[1..].get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(200);
        let fields = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("X-Of-Endpoint", "endpoint"),
            ("X-Twice", "1"),
            ("X-Twice", "2"),
            ("X-Many-A", "1"),
            ("X-Many-B", "2"),
            ("X-Hidden", "1"),
            ("Set-Cookie", "session=1; Path=/; SameSite=Lax"),
            ("Set-Cookie", "plain=2; Secure; HttpOnly"),
        ];
        let mut received: Vec<String> = request
            .headers
            .iter()
            .filter(|(name, _)| name.to_ascii_lowercase().starts_with("x-"))
            .filter(|(name, _)| !is_of_gateway(name))
            .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
            .collect();
        received.sort();
        let body = if status == 204 { String::new() } else { received.join("\n") };
        Reply::Answer(status, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), body)
    })
}

/// Fields that Sluice sends to endpoints, and this nginx does not.
fn is_of_gateway(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let own = ["x-request-id", "x-scheme", "x-sluice-hops"];
    own.contains(&&*name) || name.starts_with("x-forwarded-") || name.starts_with("x-original-")
}

/// What is compared of a response.
fn seen(response: &Response) -> String {
    let is_compared = |name: &str| {
        name.starts_with("x-") || ["location", "content-type", "server", "set-cookie"].contains(&name)
    };
    let fields = response.headers().iter().map(|(name, value)| (name.to_ascii_lowercase(), value));
    let mut fields: Vec<String> = fields
        .filter(|(name, _)| is_compared(name))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    fields.sort();
    // The pages differ in the name of the product.
    let text = response.text();
    let body = if text.starts_with("<html>") { "page" } else { &text };
    format!("{}\n{}\n\n{body}", response.status, fields.join("\n"))
}

/// What differs between nginx and Sluice for these snippets and requests, in words.
pub(super) fn differences(http: &str, server: &str, location: &str, requests: &[Request]) -> Vec<String> {
    let endpoint = endpoint();
    let nginx = nginx::start(http, server, location, endpoint.address);
    let annotations = [("configuration-snippet", location), ("server-snippet", server)];
    let annotations: Vec<_> = annotations.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    let keys: Vec<_> = ON.into_iter().chain([("http-snippet", http)]).collect();
    let folder = shop(&endpoint, &annotations, &keys);
    let sluice = gateway(&folder);
    let texts = format!("{http}\n{server}\n{location}");
    let problems = sluice.problems();
    if !problems.is_empty() {
        return vec![format!("{texts}\n{problems}")];
    }
    let mut differences = Vec::new();
    for (method, target, fields) in requests {
        let ask = |address| {
            let mut connection = Connection::plain(address);
            seen(&connection.request(method, HOST, target, fields, ""))
        };
        let (expected, found) = (ask(nginx.address), ask(sluice.http));
        if expected != found {
            differences
                .push(format!("{texts}\n{method} {target} {fields:?}\nnginx: {expected}\nsluice: {found}\n"));
        }
    }
    differences
}

#[test]
fn snippets_have_the_effect_that_they_have_in_nginx() {
    if !nginx::is_installed() {
        eprintln!("nginx with headers-more is not installed, so nothing was compared");
        return;
    }
    let all = CASES.iter().flat_map(|case| differences("", case.server, case.location, case.requests));
    let differences: Vec<_> = all.collect();
    assert!(differences.is_empty(), "{}", differences.join("\n-----\n"));
}
