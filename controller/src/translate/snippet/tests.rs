use std::time::Duration;

use proptest::prelude::*;
use sluice_config::directives::{
    AfterRewrite, Condition, FieldChange, FieldOperation, Instruction, LocationMatch, Return, Scope, Statuses,
};
use sluice_config::{
    Directives, OWN_FIELDS, Override, Policies, ResponseBufferingOverrides, RewritePart, Satisfy, Template,
    TemplatePiece, Timeout, TlsVersions, UpstreamTls, Variable,
};

use super::*;
use crate::translate::declarations::{HttpDeclarations, NO_DECLARATIONS};
use crate::translate::value::Author;

/// The directives of a text for which `http-snippet` declares these names.
fn read(text: &str, place: SnippetContext, http: &HttpDeclarations) -> Result<Block, Untranslated> {
    super::read(text, place, &Author { http, ..Author::OPERATOR })
}

fn location(text: &str) -> Block {
    read(text, SnippetContext::Location, &NO_DECLARATIONS).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
}

/// The directives of a rule with this configuration-snippet.
fn directives(text: &str) -> Directives {
    resolve(&Block::default(), &location(text), TemplateDirectives::default())
}

fn scopes(text: &str) -> Vec<Scope> {
    directives(text).location.scopes
}

fn refusal(text: &str, place: SnippetContext) -> String {
    let fault = read(text, place, &NO_DECLARATIONS).expect_err(text);
    format!("{}; {}", fault.reason, fault.remedy)
}

/// The names and operations of the response changes of a scope.
fn response(scope: &Scope) -> Vec<(&str, &FieldOperation)> {
    scope.response.iter().map(|change| (&*change.change.name, &change.change.operation)).collect()
}

fn plain(text: &str) -> Template {
    Template::plain(text)
}

#[test]
fn header_directives_become_changes_in_the_order_of_nginx() {
    let scopes = scopes(
        "add_header X-A 1;\nadd_header ETag e always;\nmore_set_headers -s '404 500' -t 'Text/HTML' \"X-B: b; c\" 'X-C:';\n\
         more_clear_headers Server 'X-D-*';\nproxy_hide_header X-E;",
    );
    let [scope] = &scopes[..] else { panic!("{scopes:?}") };
    assert_eq!(
        response(scope),
        [
            ("x-b", &FieldOperation::Set(plain("b; c"))),
            ("x-c", &FieldOperation::Remove),
            ("server", &FieldOperation::Remove),
            ("x-d-", &FieldOperation::RemovePrefix),
            ("x-a", &FieldOperation::Append(plain("1"))),
            ("etag", &FieldOperation::Set(plain("e"))),
        ]
    );
    let continued = scope.response.iter().map(|change| change.is_continuation);
    assert_eq!(continued.collect::<Vec<_>>(), [false, true, false, true, false, false]);
    let statuses: Vec<_> = scope.response.iter().map(|change| &change.statuses).collect();
    assert_eq!(statuses[0], &Statuses::These(vec![404, 500]));
    assert_eq!(*scope.response[0].content_types, ["text/html".into()]);
    assert_eq!((statuses[4], statuses[5]), (&Statuses::Usual, &Statuses::All));
    assert_eq!(*scope.hidden, ["x-e".into()]);
}

#[test]
fn expires_sets_two_fields_on_usual_statuses() {
    for (text, cache_control, operation) in [
        ("expires 1h;", "max-age=3600", FieldOperation::SetDate(3600)),
        ("expires 0;", "max-age=0", FieldOperation::SetDate(0)),
        ("expires -1;", "no-cache", FieldOperation::SetDate(-1)),
        ("expires epoch;", "no-cache", FieldOperation::Set(plain("Thu, 01 Jan 1970 00:00:01 GMT"))),
        ("expires max;", "max-age=315360000", FieldOperation::Set(plain("Thu, 31 Dec 2037 23:55:55 GMT"))),
    ] {
        let scopes = scopes(text);
        let cache_control = FieldOperation::Set(plain(cache_control));
        assert_eq!(response(&scopes[0]), [("expires", &operation), ("cache-control", &cache_control)]);
        assert!(scopes[0].response.iter().all(|change| change.statuses == Statuses::Usual));
    }
    assert_eq!(scopes("expires off;"), []);
    assert_eq!(scopes("expires 1h; if ($http_x) { expires off; }")[1].response, []);
    assert!(refusal("expires modified 1h;", SnippetContext::Location).contains("takes a time"));
}

/// Instructions of service meshes have both, because each has an effect for one protocol only.
#[test]
fn grpc_set_header_does_not_repeat_a_field_of_proxy_set_header() {
    let block = location("proxy_set_header A 1; grpc_set_header a 2; grpc_set_header B 3;");
    let sent = |passes_grpc| {
        let changes = block.request(passes_grpc).into_iter();
        let text = |operation| match operation {
            FieldOperation::Set(value) => format!("{:?}", value.pieces),
            other => panic!("{other:?}"),
        };
        changes.map(|change| (change.name.to_string(), text(change.operation))).collect::<Vec<_>>()
    };
    let field = |name: &str, value: &str| (name.to_owned(), format!("[Text({value:?})]"));
    assert_eq!(sent(false), [field("a", "1"), field("b", "3")]);
    assert_eq!(sent(true), [field("a", "2"), field("b", "3")]);
}

#[test]
fn the_directive_of_the_other_protocol_adds_no_value_of_the_gateway() {
    for (snippet, passes_grpc, number) in [
        ("grpc_set_header X-Forwarded-Proto https;", false, 0),
        ("grpc_set_header X-Real-IP $http_cf_connecting_ip;", false, 0),
        ("proxy_set_header X-Forwarded-Proto https;", true, 0),
        ("proxy_set_header X-Forwarded-Proto https;", false, 1),
        ("grpc_set_header X-Forwarded-Proto https;", true, 1),
        ("grpc_set_header X-A 1; grpc_set_header X-A 2;", false, 2),
    ] {
        assert_eq!(location(snippet).request(passes_grpc).len(), number, "{snippet}");
    }
    // An annotation is for both protocols, and replaces the value.
    let mut block = Block::default();
    block.change_request(vec![FieldChange {
        name: "x-forwarded-proto".into(),
        operation: FieldOperation::Set(plain("https")),
    }]);
    assert_eq!(block.request(true).len(), 1);
}

#[test]
fn a_field_of_two_snippets_of_a_location_is_sent_twice() {
    let mut block = location("proxy_set_header X-A 1; grpc_set_header X-B 1;");
    block.extend(&location("proxy_set_header X-A 2; proxy_set_header X-B 2; grpc_set_header X-B 3;"));
    let sent = |passes_grpc| {
        let one = |change: FieldChange| {
            let (sign, value) = match change.operation {
                FieldOperation::Set(value) => ('=', value),
                FieldOperation::Append(value) => ('+', value),
                other => panic!("{other:?}"),
            };
            format!("{}{sign}{:?}", change.name, value.pieces)
        };
        block.request(passes_grpc).into_iter().map(one).collect::<Vec<_>>()
    };
    assert_eq!(sent(false), ["x-a=[Text(\"1\")]", "x-a+[Text(\"2\")]", "x-b=[Text(\"2\")]"]);
    assert_eq!(
        sent(true),
        ["x-b=[Text(\"1\")]", "x-b+[Text(\"3\")]", "x-a=[Text(\"1\")]", "x-a+[Text(\"2\")]"]
    );
    // An annotation replaces the values of snippets.
    let mut annotations = Block::default();
    let changes = vec![FieldChange { name: "x-a".into(), operation: FieldOperation::Set(plain("3")) }];
    annotations.change_request(changes.clone());
    block.append(&annotations);
    assert_eq!(block.request(false).last(), changes.first());
}

#[test]
fn a_second_proxy_set_header_of_a_field_adds_a_value() {
    let request = directives(
        "proxy_set_header X-A 1; proxy_set_header X-a 2; proxy_set_header X-Real-IP $remote_addr;\n\
         grpc_set_header X-B ''; proxy_set_header Host $host; proxy_set_header Upgrade $http_upgrade;\n\
         proxy_set_header Connection \"upgrade\";",
    )
    .location
    .request;
    let operations: Vec<_> = request.iter().map(|change| (&*change.name, &change.operation)).collect();
    let [
        (a, FieldOperation::Set(_)),
        (again, FieldOperation::Append(_)),
        (ip, FieldOperation::Append(_)),
        (b, last),
    ] = operations[..]
    else {
        panic!("{operations:?}")
    };
    assert_eq!((a, again, ip, b), ("x-a", "x-a", "x-real-ip", "x-b"));
    assert_eq!(last, &FieldOperation::Set(plain("")));
}

#[test]
fn an_if_with_add_header_drops_that_of_its_location() {
    let scopes = scopes(
        "add_header X-A 1; more_set_headers 'X-B: 1';\nif ($http_x) { add_header X-C 1; }\n\
         if ($http_y) { more_set_headers 'X-D: 1'; }",
    );
    let names = |at: usize| response(&scopes[at]).iter().map(|(name, _)| *name).collect::<Vec<_>>();
    assert_eq!(names(0), ["x-b", "x-a"]);
    assert_eq!(names(1), ["x-b", "x-c"]);
    assert_eq!(names(2), ["x-b", "x-d", "x-a"]);
}

#[test]
fn a_location_with_add_header_drops_that_of_its_server() {
    let server = read(
        "add_header X-S 1; more_set_headers 'X-T: 1'; deny 10.0.0.0/8;",
        SnippetContext::Server,
        &NO_DECLARATIONS,
    )
    .unwrap();
    let names = |location: &Block, template: TemplateDirectives| -> (Vec<String>, usize) {
        let resolved = resolve(&server, location, template);
        let names =
            response(&resolved.location.scopes[0]).iter().map(|(name, _)| (*name).to_owned()).collect();
        (names, resolved.location.access.len())
    };
    let names_of = |text: &str| names(&location(text), TemplateDirectives::default());
    assert_eq!(names_of(""), (vec!["x-t".into(), "x-s".into()], 1));
    assert_eq!(names_of("add_header X-L 1;"), (vec!["x-t".into(), "x-l".into()], 1));
    assert_eq!(names_of("allow all; deny all;"), (vec!["x-t".into(), "x-s".into()], 2));
    let template = TemplateDirectives { adds_header: true, ..TemplateDirectives::default() };
    let authenticated = names(&Block::default(), template);
    assert_eq!(authenticated.0, ["x-t"], "the gateway's own add_header of authentication counts");
}

#[test]
fn conditions_have_the_operators_of_nginx() {
    let condition = |text: &str| {
        let program = directives(&format!("if {text} {{ return 403; }}")).location.program;
        let [Instruction::If { condition, scope: Some(1), then }] = &program[..] else {
            panic!("{program:?}")
        };
        assert_eq!(then[..], [Instruction::Return(Return::Page(403))]);
        condition.clone()
    };
    assert!(matches!(condition("($http_x)"), Condition::Truth(_)));
    assert!(matches!(condition("($http_x = \"\")"), Condition::Equal { negated: false, .. }));
    assert!(matches!(condition("( $host != a.example )"), Condition::Equal { negated: true, .. }));
    for (operator, case, negated) in
        [("~", "", false), ("~*", "(?i)", false), ("!~", "", true), ("!~*", "(?i)", true)]
    {
        let found = condition(&format!("($http_user_agent {operator} ^curl)"));
        let Condition::Match { expression, negated: found, .. } = found else { panic!("{operator}") };
        assert_eq!(found, negated, "{operator}");
        let expected = format!("{case}^curl");
        assert_eq!(expression, sluice_config::Expression::Plain(expected.into()));
    }
}

#[test]
fn returns_have_the_forms_of_nginx() {
    let answer = |text: &str| match directives(text).location.program.pop() {
        Some(Instruction::Return(answer)) => answer,
        other => panic!("{other:?}"),
    };
    assert_eq!(answer("return 503;"), Return::Page(503));
    assert_eq!(answer("return 200 'ok\n';"), Return::Text { status: 200, body: plain("ok\n") });
    assert_eq!(answer("return 204;"), Return::Text { status: 204, body: plain("") });
    assert_eq!(
        answer("return 308 https://b.example/x;"),
        Return::Redirect { status: 308, location: plain("https://b.example/x") }
    );
    assert!(matches!(answer("return https://b.example;"), Return::Redirect { status: 302, .. }));
    let Return::Redirect { location, .. } = answer("return 301 https://$host$request_uri;") else { panic!() };
    assert_eq!(location.pieces.len(), 3);
}

#[test]
fn the_option_r_counts_wherever_it_stands() {
    for text in ["-r 'X-A: v' 'X-B: w'", "'X-A: v' -r 'X-B: w'", "'X-A: v' 'X-B: w' -r"] {
        let input = &scopes(&format!("more_set_input_headers {text};"))[0].input;
        let replaces = |change: &FieldChange| matches!(change.operation, FieldOperation::Replace(_));
        assert!(input.len() == 2 && input.iter().all(replaces), "{text}: {input:?}");
    }
    assert!(refusal("more_set_input_headers -r;", SnippetContext::Location).contains("at least one field"));
}

#[test]
fn a_group_with_a_name_is_the_variable_of_this_name() {
    let assigned = |text: &str| {
        let directives = directives(&format!("{text} return 200 $Tenant;"));
        let Some(Instruction::Return(Return::Text { body, .. })) = directives.location.program.last() else {
            panic!("{directives:?}")
        };
        body.pieces == [TemplatePiece::Variable(Variable::Assigned("tenant".into()))]
    };
    for text in [
        "set $tenant a;",
        "if ($host ~ ^(?<tenant>[a-z]+)) { set $a 1; }",
        "if ($host !~ ^(?<TENANT>[a-z]+)) { set $a 1; }",
        "rewrite ^/(?<tenant>[a-z]+)/ /other last;",
    ] {
        assert!(assigned(text), "{text}");
    }
    let block = "location ~ ^/(?<tenant>[a-z]+)/(.*)$ { return 301 /$tenant/$2; }";
    assert!(read(block, SnippetContext::Server, &NO_DECLARATIONS).is_ok());
    for text in ["if ($host ~ ^(?<uri>[a-z]+)) { set $a 1; }", "rewrite ^/(?<uri>[a-z]+)/ /other last;"] {
        assert!(
            refusal(text, SnippetContext::Location).contains("$uri is a variable of the gateway"),
            "{text}"
        );
    }
}

#[test]
fn groups_and_variables_of_the_text_can_be_used() {
    let program =
        directives("if ($host ~ ^(?<tenant>[a-z]+)\\.(.+)$) { set $where $tenant-$2; }\nreturn 200 $where;")
            .location
            .program;
    assert_eq!(program.len(), 2);
    assert!(
        refusal("return 200 $1;", SnippetContext::Location)
            .contains("no expression of the snippet has a group $1")
    );
    assert!(refusal("return 200 $where;", SnippetContext::Location).contains("neither served nor set"));
    assert!(
        refusal("proxy_set_header X $upstream_http_x;", SnippetContext::Location)
            .contains("known with the response")
    );
    assert!(
        refusal("add_header X $request_body_file;", SnippetContext::Location)
            .contains("always empty, because no file")
    );
    assert!(refusal("set $host x;", SnippetContext::Location).contains("is a variable of the gateway"));
}

#[test]
fn rewrites_redirect_keep_the_location_or_choose_it_anew() {
    let program = |text: &str| directives(text).location.program;
    for (text, status) in [
        ("rewrite ^/old/(.*)$ /new/$1 permanent;", 301),
        ("rewrite ^/old /new? redirect;", 302),
        ("rewrite ^ https://$host$request_uri? last;", 302),
    ] {
        let program = program(text);
        let [Instruction::Rewrite { rewrite, then }] = &program[..] else { panic!("{program:?}") };
        assert_eq!((*then, rewrite.redirects), (AfterRewrite::Redirect(status), true), "{text}");
    }
    let kept = program("rewrite ^/api/(?<rest>.*)$ /$rest break;");
    let [Instruction::Rewrite { rewrite, then: AfterRewrite::Stay }] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(rewrite.path, [RewritePart::Text("/".into()), RewritePart::Group(1)]);
    let then = |text: &str, place| {
        let block = read(text, place, &NO_DECLARATIONS).unwrap();
        match &block.program[..] {
            [Instruction::Rewrite { rewrite, then }] => {
                assert!(!rewrite.redirects, "{text}");
                *then
            }
            program => panic!("{program:?}"),
        }
    };
    assert_eq!(then("rewrite ^/a /b last;", SnippetContext::Location), AfterRewrite::Last);
    assert_eq!(then("rewrite ^/a /b?c=$arg_d;", SnippetContext::Server), AfterRewrite::Continue);
    assert_eq!(then("rewrite ^/a /b break;", SnippetContext::Server), AfterRewrite::Last);
    let beside = "if ($uri ~ ^/(a)) { set $a $1; } rewrite ^/(b) /c;";
    assert!(matches!(program(beside)[1], Instruction::Rewrite { then: AfterRewrite::Continue, .. }));
    assert!(refusal("rewrite ^/a /$1 permanent;", SnippetContext::Location).contains("group $1"));
}

#[test]
fn location_blocks_have_the_modifiers_of_nginx() {
    let text = "location = /a { return 200; } location ^~ /b { deny all; } location ~* \\.php$ { deny all; }\n\
                location /c { add_header X-C 1; return 204; } location ~ ^/(x|y) { }";
    let server = read(text, SnippetContext::Server, &NO_DECLARATIONS).unwrap();
    let resolved = resolve(&server, &Block::default(), TemplateDirectives::default());
    let matches: Vec<_> = resolved.blocks.iter().map(|block| &block.matches).collect();
    assert!(matches!(matches[0], LocationMatch::Exact(path) if **path == *"/a"));
    assert!(matches!(matches[1], LocationMatch::FinalPrefix(path) if **path == *"/b"));
    assert!(matches!(matches[2], LocationMatch::Expression(_)));
    assert!(matches!(matches[3], LocationMatch::Prefix(path) if **path == *"/c"));
    assert_eq!(resolved.blocks[1].location.access.len(), 1);
}

#[test]
fn a_refusal_names_line_directive_and_replacement() {
    for (text, place, parts) in [
        (
            "more_set_headers 'A: b';\nproxy_read_timeout_x 1;",
            SnippetContext::Location,
            &["line 2", "proxy_read_timeout_x", "not translated"][..],
        ),
        ("gzip on;", SnippetContext::Location, &["line 1: gzip", "the ConfigMap key use-gzip"]),
        ("proxy_pass http://x;", SnippetContext::Location, &["a path with a Service"]),
        ("access_by_lua_block { ngx.exit(403) }", SnippetContext::Location, &["unexpected }"]),
        (
            "access_by_lua_file /x.lua;",
            SnippetContext::Location,
            &["line 1: access_by_lua_file: the directive"],
        ),
        ("include /etc/passwd;", SnippetContext::Server, &["include"]),
        ("if ($a) { }", SnippetContext::Location, &["$a is neither served"]),
        ("if (-f $uri) { return 200; }", SnippetContext::Location, &["tests of files"]),
        ("if ($host) { if ($host) { } }", SnippetContext::Location, &["does not permit it in an if block"]),
        ("if ($host) { add_header A b; }", SnippetContext::Server, &["an if block of a server"]),
        ("if ($host) { deny all; }", SnippetContext::Location, &["an if block of a location"]),
        ("location /x { }", SnippetContext::Location, &["does not permit it in a location"]),
        ("return 301;", SnippetContext::Location, &["needs a URL"]),
        ("return 99;", SnippetContext::Location, &["not a status"]),
        ("add_header X;", SnippetContext::Location, &["takes a name, a value"]),
        ("add_header X 'a\nb';", SnippetContext::Location, &["line break"]),
        ("add_header Content-Length 1;", SnippetContext::Location, &["belongs to the gateway"]),
        (
            "proxy_set_header Host other.example;",
            SnippetContext::Location,
            &["the annotation upstream-vhost"],
        ),
        (
            "proxy_set_header Connection '';",
            SnippetContext::Location,
            &["the annotation connection-proxy-header"],
        ),
        ("more_clear_headers '*';", SnippetContext::Location, &["removes all fields"]),
        (
            "more_set_input_headers 'X-Forwarded-For: 1.2.3.4';",
            SnippetContext::Location,
            &["sets the request field"],
        ),
        ("allow 10.0.0.0/33;", SnippetContext::Location, &["not a network"]),
    ] {
        let refusal = refusal(text, place);
        for part in parts {
            assert!(refusal.contains(part), "{text}: {part:?} is not in {refusal}");
        }
    }
}

#[test]
fn buffers_of_responses_are_set_as_in_nginx() {
    let text = "proxy_buffering on; proxy_buffer_size 8k; proxy_buffers 6 16k; proxy_max_temp_file_size 0;";
    let mut policies = Policies::default();
    let annotation = ResponseBufferingOverrides { busy: Some(1), buffers: Some(2), ..Default::default() };
    policies.bodies.response_buffering = Some(Box::new(annotation));
    location(text).apply_settings(false, &mut policies);
    let expected = ResponseBufferingOverrides {
        enabled: Some(true),
        buffers: Some(6),
        buffer_size: Some(16 << 10),
        busy: Some(1),
        disk: Some(0),
    };
    assert_eq!(policies.bodies.response_buffering, Some(Box::new(expected)));
    assert!(refusal("proxy_buffers 6;", SnippetContext::Location).contains("\"6\""));
    assert!(
        refusal("proxy_buffering on; proxy_buffering off;", SnippetContext::Location)
            .contains("stands twice")
    );
}

#[test]
fn directives_with_an_annotation_of_their_meaning_set_the_same_policy() {
    let block = location(
        "proxy_read_timeout 1m30s; grpc_send_timeout 5; client_max_body_size 0; satisfy any; access_log off;\n\
         proxy_cookie_path / '/; Secure'; proxy_cookie_domain off; proxy_buffering off; proxy_http_version 1.0;",
    );
    let mut policies = Policies::default();
    block.apply_settings(false, &mut policies);
    assert_eq!(policies.timeouts.read, Timeout::After(Duration::from_secs(90)));
    assert_eq!(policies.timeouts.send, Timeout::After(Duration::from_secs(5)));
    assert_eq!((policies.bodies.limit, policies.satisfy, policies.unlogged), (Some(0), Satisfy::Any, true));
    assert_eq!(policies.http_1_0, Some(true));
    let replacements = policies.replacements.unwrap();
    assert_eq!(replacements.cookie_domain, Override::Off);
    let Override::To(path) = &replacements.cookie_path else { panic!("{replacements:?}") };
    assert_eq!(path.to, plain("/; Secure"));
    let buffering = ResponseBufferingOverrides { enabled: Some(false), ..Default::default() };
    assert_eq!(policies.bodies.response_buffering, Some(Box::new(buffering)));
    assert!(
        refusal("proxy_read_timeout 1; proxy_read_timeout 2;", SnippetContext::Location)
            .contains("stands twice")
    );
    assert!(refusal("proxy_read_timeout x;", SnippetContext::Location).contains("\"x\""));
    let server = read("proxy_read_timeout 1;", SnippetContext::Server, &NO_DECLARATIONS).unwrap();
    assert_eq!(resolve(&server, &Block::default(), TemplateDirectives::default()), Directives::default());
    assert!(server.lines()[0].contains("no effect"));
}

/// Instructions for timeouts have both, because each has an effect for one protocol only.
#[test]
fn a_grpc_timeout_stands_beside_that_of_proxy() {
    let block = location("proxy_read_timeout 1; grpc_read_timeout 2; grpc_send_timeout 3;");
    let timeouts = |passes_grpc| {
        let mut policies = Policies::default();
        block.apply_settings(passes_grpc, &mut policies);
        (policies.timeouts.read, policies.timeouts.send)
    };
    let after = |seconds| Timeout::After(Duration::from_secs(seconds));
    assert_eq!(timeouts(false), (after(1), after(3)));
    assert_eq!(timeouts(true), (after(2), after(3)));
    assert!(
        refusal("grpc_read_timeout 1; grpc_read_timeout 2;", SnippetContext::Location)
            .contains("stands twice")
    );
}

#[test]
fn tls_to_endpoints_is_set_without_files() {
    let block = location(
        "proxy_ssl_server_name on; proxy_ssl_name $host; proxy_ssl_protocols TLSv1.1 TLSv1.3; proxy_ssl_verify off;\n\
         proxy_ssl_session_reuse off; proxy_ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256;",
    );
    let of_annotations = UpstreamTls { verify_depth: Some(2), ..UpstreamTls::default() };
    let mut policies = Policies { upstream_tls: Some(of_annotations.into()), ..Policies::default() };
    block.apply_settings(false, &mut policies);
    let tls = policies.upstream_tls.unwrap();
    assert_eq!((tls.name.as_deref(), tls.sends_name, tls.verify_depth), (Some("$host"), true, None));
    assert_eq!(tls.versions, TlsVersions { v1_2: false, v1_3: true });
    assert_eq!(tls.ciphers.as_deref(), Some(&[0xc02f][..]));
    for (text, part) in [
        ("proxy_ssl_verify on;", "proxy-ssl-secret"),
        ("proxy_ssl_certificate /etc/tls.crt;", "reach no files"),
        ("proxy_ssl_name a; proxy_ssl_name b;", "stands twice"),
        ("proxy_ssl_name $status;", "$status is empty"),
        ("proxy_ssl_server_name yes;", "on, off"),
    ] {
        let refusal = refusal(text, SnippetContext::Location);
        assert!(refusal.contains(part), "{text}: {refusal}");
    }
}

#[test]
fn each_directive_is_listed_with_its_translation() {
    let block = location("add_header X-A 1;\nif ($http_x) {\n  return 403;\n}\ndeny all;");
    let lines: Vec<_> =
        block.lines().iter().map(|line| line.split(": ").take(2).collect::<Vec<_>>()).collect();
    assert_eq!(lines, [["line 1", "add_header"], ["line 2", "if"], ["line 3", "return"], ["line 5", "deny"]]);
}

#[test]
fn variables_of_the_authorisation_reply_name_its_fields() {
    let block =
        location("auth_request_set $user $upstream_http_x_auth_request_user; proxy_set_header X-User $user;");
    assert_eq!(*block.kept(), ["x-auth-request-user".into()]);
    let [FieldChange { operation: FieldOperation::Set(value), .. }] = &block.request(false)[..] else {
        panic!()
    };
    assert_eq!(value.pieces, [TemplatePiece::Variable(Variable::Authorised("x-auth-request-user".into()))]);
    for text in ["auth_request_set $a $upstream_status;", "auth_request_set $a b;"] {
        assert!(refusal(text, SnippetContext::Location).contains("$upstream_http_NAME"), "{text}");
    }
    let vouch = "# these return values are used by the @error401 call\n\
                 auth_request_set $auth_resp_jwt $upstream_http_x_vouch_jwt;";
    let authentik = "proxy_set_header X-Forwarded-Host $http_host;";
    for text in [vouch, authentik] {
        assert!(read(text, SnippetContext::Authorisation, &NO_DECLARATIONS).is_ok(), "{text}");
    }
    for text in ["deny all;", "return 200;", "if ($host) { }", "more_set_headers 'A: b';"] {
        let refusal = refusal(text, SnippetContext::Authorisation);
        assert!(refusal.contains("the authorisation request"), "{refusal}");
    }
}

/// The `auth-snippet` of an object with these other snippets.
fn authorisation(text: &str, location: &str, server: &str) -> Result<Block, Untranslated> {
    let variables = &assigned_variables(location, server);
    super::read(text, SnippetContext::Authorisation, &Author { variables, ..Author::OPERATOR })
}

#[test]
fn an_auth_snippet_has_the_variables_of_the_other_snippets_of_its_object() {
    let inner = "if ($http_a ~ (?<part>.)(.)) { set $Inner 1; }";
    let text = "proxy_set_header X-A \"$inner $outer\";";
    let block = authorisation(text, inner, "set $outer 2;").unwrap();
    let assigned = |name: &str| TemplatePiece::Variable(Variable::Assigned(name.into()));
    let fields = |location: Option<&Block>| {
        let changes = block.request_without_variables_of(location);
        let [FieldChange { operation: FieldOperation::Set(value), .. }] = &changes[..] else { panic!() };
        value.pieces.clone()
    };
    assert_eq!(fields(None), [assigned("inner"), TemplatePiece::Text(" ".into()), assigned("outer")]);
    assert_eq!(fields(Some(&location(inner))), [TemplatePiece::Text(" ".into()), assigned("outer")]);
    for (text, part) in [
        ("proxy_set_header X-A $none;", "the variable $none is neither served nor set"),
        ("proxy_set_header X-A $part;", "the variable $part is neither served nor set"),
        ("proxy_set_header X-A $1;", "no expression of the snippet has a group $1"),
        ("proxy_set_header X-A $Both;", "configuration-snippet and server-snippet both assign $Both"),
        ("set $own 1;", "it is not translated in the location of the authorisation request"),
    ] {
        let location = format!("{inner} set $both 1;");
        let fault = authorisation(text, &location, "set $both 2;").unwrap_err();
        assert!(fault.reason.contains(part), "{text}: {fault:?}");
    }
    let fault = authorisation(text, "set $inner", "set $outer 2;").unwrap_err();
    assert!(fault.reason.contains("$inner"), "a malformed snippet assigns nothing: {fault:?}");
}

proptest! {
    /// No snippet changes a field of framing, of the connection or of the gateway.
    #[test]
    fn no_snippet_changes_a_field_of_the_gateway(
        directive in prop::sample::select(vec![
            "add_header NAME 1 always;", "more_set_headers 'NAME: 1';", "more_clear_headers NAME;",
            "proxy_hide_header NAME;", "proxy_set_header NAME 1;", "grpc_set_header NAME 1;",
            "more_set_input_headers 'NAME: 1';", "more_clear_input_headers NAME;",
        ]),
        name in prop::sample::select(OWN_FIELDS.to_vec()),
        upper in any::<bool>(),
        place in prop::sample::select(vec![SnippetContext::Location, SnippetContext::Block, SnippetContext::Server]),
    ) {
        let name = if upper { name.to_ascii_uppercase() } else { name.to_owned() };
        if let Ok(block) = read(&directive.replace("NAME", &name), place, &NO_DECLARATIONS) {
            prop_assert_eq!(resolve(&Block::default(), &block, TemplateDirectives::default()), Directives::default());
        }
    }
}

/// Names that `http-snippet` declares.
fn declared(text: &str) -> HttpDeclarations {
    http_level::read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}")).declarations
}

const ZONES: &str = "limit_req_zone $binary_remote_addr zone=rate:10m rate=30r/m;\n\
                     limit_req_zone $http_x_key zone=other:32k rate=2r/s; limit_conn_zone $server_name zone=number:1m;";

#[test]
fn limits_have_key_and_rate_of_their_zones_and_are_inherited_by_kind() {
    let zones = declared(ZONES);
    let read_in = |text: &str, place| read(text, place, &zones).unwrap_or_else(|fault| panic!("{fault:?}"));
    let server = read_in(
        "limit_req zone=rate burst=5 nodelay; limit_conn number 3; limit_req_status 429; limit_req_log_level info;",
        SnippetContext::Server,
    );
    let limits = |location: &str, template| {
        resolve(&server, &read_in(location, SnippetContext::Location), template).location.limits
    };
    let own =
        limits("limit_req zone=other burst=4 delay=2; limit_req_dry_run on;", TemplateDirectives::default());
    let [rate] = &own.rates[..] else { panic!("{own:?}") };
    assert_eq!((&*rate.zone, rate.interval, rate.burst), ("other", Duration::from_millis(500), 4));
    assert_eq!(rate.undelayed, Some(2));
    assert_eq!(rate.key.pieces, [TemplatePiece::Variable(Variable::Field("x-key".into()))]);
    assert_eq!((own.rate_status, own.rate_dry_run, own.concurrency.len()), (Some(429), true, 1));
    let inherited = limits("", TemplateDirectives::default());
    assert_eq!((&*inherited.rates[0].zone, inherited.rates[0].undelayed), ("rate", None));
    assert_eq!(inherited.rates[0].interval, Duration::from_secs(2));
    let template = TemplateDirectives { limits_rate: true, ..TemplateDirectives::default() };
    let of_annotation = limits("", template);
    assert_eq!((of_annotation.rates.len(), of_annotation.concurrency.len()), (0, 1));
}

#[test]
fn limits_that_nginx_would_refuse_are_refused() {
    let zones = declared(ZONES);
    for (text, part) in [
        ("limit_req zone=none;", "no limit_req_zone of http-snippet has the name none"),
        ("limit_req zone=number;", "no limit_req_zone"),
        ("limit_conn rate 1;", "no limit_conn_zone"),
        ("limit_req burst=1;", "has no zone="),
        ("limit_req zone=rate burst=0;", "not a positive number"),
        ("limit_req zone=rate; limit_req zone=rate burst=2;", "stands twice"),
        ("limit_conn number 70000;", "less than 65536"),
        ("limit_req_status 200;", "a status from 400 to 599"),
        ("limit_req_dry_run maybe;", "takes one of"),
        ("if ($host) { limit_req zone=rate; }", "does not permit it"),
    ] {
        let fault = read(text, SnippetContext::Location, &zones).expect_err(text);
        assert!(fault.reason.contains(part), "{text}: {fault:?}");
    }
    for (text, part) in [
        ("limit_req_zone $host rate=1r/s;", "has no zone=NAME:SIZE"),
        ("limit_req_zone $host zone=a:8k rate=1r/s;", "less than 32k"),
        ("limit_req_zone $host zone=a:1m rate=0r/s;", "not a positive number"),
        ("limit_req_zone $status zone=a:1m rate=1r/s;", "$status"),
        ("limit_req_zone $host zone=a:1m; limit_conn_zone $host zone=a:1m;", "declared twice"),
        ("limit_conn_zone $host zone=a:1m rate=1r/s;", "is not translated"),
    ] {
        let fault = http_level::read(text).expect_err(text);
        assert!(fault.reason.contains(part), "{text}: {fault:?}");
    }
}
