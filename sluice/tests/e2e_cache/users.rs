//! Checks apply to stored responses, and users share none that depends on who they are.

use super::{FRESH, HOST, assert_is, get, ingress, origin, outcome, start};
use crate::harness::{Backend, Reply, await_until};

#[test]
fn access_is_checked_before_a_stored_response_is_sent() {
    let backend = origin("shop");
    let annotations = [("denylist-source-range", "192.0.2.7")];
    let (folder, gateway) = start(&backend, &annotations, &[("use-forwarded-headers", "true")]);
    let ask = |client: &str| get(&gateway, "/", FRESH, &[("X-Forwarded-For", client)]);
    assert_is(&ask("192.0.2.1"), "MISS", "1");
    assert_is(&ask("192.0.2.1"), "HIT", "1");
    assert_eq!(ask("192.0.2.7").status, 403);
    let limited = [("sluice.dev/cache-ttl", "1h"), ("limit-connections", "1"), ("limit-rpm", "1")];
    folder.write("shop.yaml", ingress(&limited).text());
    await_until("the limit", || ask("192.0.2.7").status == 503);
    assert!((0..20).any(|_| ask("192.0.2.9").status == 503), "hits are limited, too");
}

#[test]
fn users_of_an_authorisation_service_do_not_share_responses() {
    let backend = origin("shop");
    let service = Backend::with("auth", |request| match request.header("cookie") {
        Some(cookie) => Reply::field("X-User", cookie),
        None => Reply::status(401),
    });
    let url = format!("http://{}/", service.address);
    let annotations = [("auth-url", &*url), ("auth-response-headers", "X-User")];
    let (_folder, gateway) = start(&backend, &annotations, &[]);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("user=alice"), "MISS", "1");
    assert_is(&ask("user=bob"), "MISS", "2");
    assert_is(&ask("user=alice"), "HIT", "1");
    assert_eq!(get(&gateway, "/", FRESH, &[]).status, 401);
}

/// The keys that switch snippets on.
const SNIPPETS: [(&str, &str); 2] =
    [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];

#[test]
fn users_known_by_auth_request_set_shared_a_response() {
    let backend = origin("shop");
    let service = Backend::with("auth", |request| match request.header("cookie") {
        Some(cookie) => Reply::field("X-User", cookie),
        None => Reply::status(401),
    });
    let url = format!("http://{}/", service.address);
    let snippet = "auth_request_set $user $upstream_http_x_user;\nproxy_set_header X-User $user;";
    let annotations = [("auth-url", &*url), ("configuration-snippet", snippet)];
    let (_folder, gateway) = start(&backend, &annotations, &SNIPPETS);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("user=alice"), "MISS", "1");
    assert_is(&ask("user=bob"), "MISS", "2");
    assert_is(&ask("user=alice"), "HIT", "1");
}

#[test]
fn a_request_that_gets_its_authorization_from_the_rule_was_stored() {
    let backend = origin("shop");
    let annotations = [("sluice.dev/set-request-headers", "Authorization: Bearer $cookie_s")];
    let (folder, gateway) = start(&backend, &annotations, &[]);
    let ask = |cookie: &str| get(&gateway, "/", FRESH, &[("Cookie", cookie)]);
    assert_is(&ask("s=alice"), "BYPASS", "1");
    assert_is(&ask("s=bob"), "BYPASS", "2");
    let explained = gateway.ask(&format!("/explain?host={HOST}&path=/")).text();
    assert!(explained.contains("makes an Authorization of the request"), "{explained}");

    let fixed = [("sluice.dev/set-request-headers", "Authorization: Bearer fixed")];
    folder.write("shop.yaml", ingress(&fixed).text());
    await_until("the fixed value, the same for all", || ask("s=bob").header("x-cache") == Some("HIT"));
}

#[test]
fn users_known_by_a_cookie_that_the_rule_forwards_shared_a_response() {
    let backend = origin("shop");
    let fields = "X-User: $cookie_s\nX-Request-Start: $msec\nX-Agent: $http_user_agent";
    let annotations =
        [("sluice.dev/set-request-headers", fields), ("upstream-vhost", "$http_x_tenant.example")];
    let (folder, gateway) = start(&backend, &annotations, &SNIPPETS);
    let ask = |fields: &[(&str, &str)]| get(&gateway, "/", FRESH, fields);
    let (alice, bob) = (("Cookie", "s=alice"), ("Cookie", "s=bob"));
    let (blue, red) = (("X-Tenant", "blue"), ("X-Tenant", "red"));
    assert_is(&ask(&[alice, blue]), "MISS", "1");
    assert_is(&ask(&[bob, blue]), "MISS", "2");
    assert_is(&ask(&[bob, red]), "MISS", "3");
    assert_is(&ask(&[alice, blue, ("User-Agent", "other")]), "HIT", "1");

    let snippet = r#"more_set_headers "X-Edition: 2";
        if ($http_x_role = admin) { more_set_input_headers "X-Role: admin"; }"#;
    folder.write("shop.yaml", ingress(&[("configuration-snippet", snippet)]).text());
    await_until("a response that is stored with the snippet", || {
        let response = ask(&[]);
        response.header("x-edition") == Some("2") && outcome(&response).0 == "HIT"
    });
    let (_, of_others) = outcome(&ask(&[]));
    let (cache, of_admins) = outcome(&ask(&[("X-Role", "admin")]));
    assert!(cache == "MISS" && of_admins != of_others, "{cache}");
    assert_is(&ask(&[]), "HIT", &of_others);
}

#[test]
fn users_known_by_a_location_that_a_rewrite_left_shared_a_response() {
    let backend = origin("shop");
    let snippet = r#"
        location = /a { if ($http_x_plan = gold) { rewrite ^ /gold last; } rewrite ^ /free last; }
        location = /gold { more_set_input_headers "X-Tier: gold"; rewrite ^ /data last; }
        location = /free { more_set_input_headers "X-Tier: free"; rewrite ^ /data last; }"#;
    let (_folder, gateway) = start(&backend, &[("server-snippet", snippet)], &SNIPPETS);
    let ask = |plan: &str| get(&gateway, "/a", FRESH, &[("X-Plan", plan)]);
    assert_is(&ask("gold"), "MISS", "1");
    assert_is(&ask("none"), "MISS", "2");
    assert_is(&ask("gold"), "HIT", "1");
    assert_is(&ask("none"), "HIT", "2");
}
