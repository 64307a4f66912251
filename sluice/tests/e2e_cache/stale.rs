//! Stale responses: confirmed, replaced, or sent while they are fetched and while endpoints fail.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::{FRESH, HOST, SHORT, assert_is, get, is, origin, outcome, start};
use crate::harness::h2::{self, run};
use crate::harness::manifest::{service, service_with};
use crate::harness::{Connection, Folder, Gateway, Ingress, TestCertificate, await_until};

#[test]
fn a_stale_response_is_confirmed_or_replaced() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let respond = format!("{SHORT} | ETag: \"a\"");
    assert_is(&get(&gateway, "/etag", &respond, &[]), "MISS", "1");
    await_until("a confirmed response", || {
        let response = get(&gateway, "/etag", &respond, &[]);
        assert!(is(&response, "HIT", "1") || is(&response, "REVALIDATED", "1"), "{:?}", outcome(&response));
        is(&response, "REVALIDATED", "1") && response.status == 200
    });
    let seen = backend.seen();
    assert_eq!((seen.len(), seen[1].header("if-none-match")), (2, Some("\"a\"")));
    assert_is(&get(&gateway, "/etag", &respond, &[]), "HIT", "1");

    assert_is(&get(&gateway, "/plain", SHORT, &[]), "MISS", "3");
    await_until("a replaced response", || is(&get(&gateway, "/plain", SHORT, &[]), "EXPIRED", "4"));
    assert_is(&get(&gateway, "/plain", SHORT, &[]), "HIT", "4");
}

#[test]
fn a_response_that_must_be_confirmed_is_confirmed_each_time() {
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[("sluice.dev/cache-stale-if-error", "60s")], &[]);
    let respond = "Cache-Control: no-cache | ETag: \"a\"";
    assert_is(&get(&gateway, "/", respond, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/", respond, &[]), "REVALIDATED", "1");
    assert_is(&get(&gateway, "/", respond, &[]), "REVALIDATED", "1");
    let failed = get(&gateway, "/", "X-None: 1", &[("X-Status", "500")]);
    assert_eq!((failed.status, failed.text()), (500, "4".to_owned()));
}

#[test]
fn a_stale_response_is_sent_while_it_is_fetched_again() {
    let backend = origin("shop");
    let annotations = [
        ("sluice.dev/cache-stale-while-revalidate", "1h"),
        ("rewrite-target", "/new/$1"),
        ("use-regex", "true"),
    ];
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(service_with("shop", &[&backend]) + &certificate);
    let ingress = Ingress::new("shop")
        .typed_path(HOST, "/old/(.*)", "ImplementationSpecific", "shop")
        .annotations(&annotations)
        .annotation("sluice.dev/cache", "true")
        .annotation("sluice.dev/set-response-headers", "X-Cache: $upstream_cache_status");
    folder.write("shop.yaml", ingress.text());
    let gateway = Gateway::start(&folder);
    let asked = AtomicUsize::new(0);
    let ask = || {
        asked.fetch_add(1, SeqCst);
        get(&gateway, "/old/a?x=1", SHORT, &[("X-Own", "1")])
    };
    assert_is(&ask(), "MISS", "1");
    await_until("a stale response", || {
        let response = ask();
        assert_eq!(response.text(), "1");
        is(&response, "UPDATING", "1")
    });
    await_until("the new response", || {
        let response = ask();
        is(&response, "HIT", "2") || is(&response, "UPDATING", "2")
    });
    let [first, second] = [0, 1].map(|at| backend.seen()[at].clone());
    assert_eq!(second.start, "GET /new/a?x=1 HTTP/1.1");
    for name in ["Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "X-Own"] {
        assert_eq!((first.all(name), first.all(name).len()), (second.all(name), 1), "{name}");
    }
    await_until("all lines", || gateway.access_log().len() >= asked.load(SeqCst));
    assert_eq!(gateway.access_log().len(), asked.load(SeqCst), "no client has asked for the refresh");
    assert!(gateway.metric(r#"sluice_cache_requests_total{status="updating"}"#) >= 1);
}

#[test]
fn a_stale_response_is_sent_if_the_endpoint_fails() {
    let mut backend = origin("shop");
    let (folder, gateway) = start(&backend, &[("sluice.dev/cache-stale-if-error", "1h")], &[]);
    assert_is(&get(&gateway, "/", SHORT, &[]), "MISS", "1");
    assert_is(&get(&gateway, "/strict", "Cache-Control: max-age=1, must-revalidate", &[]), "MISS", "2");
    let failing = [("X-Status", "500")];
    await_until("a stale response after a status", || {
        let response = get(&gateway, "/", SHORT, &failing);
        assert_eq!((response.status, response.text()), (200, "1".to_owned()));
        is(&response, "STALE", "1")
    });
    await_until("the error", || get(&gateway, "/strict", SHORT, &failing).status == 500);
    assert_eq!(get(&gateway, "/other", SHORT, &failing).status, 500);

    backend.stop();
    assert_is(&get(&gateway, "/", SHORT, &[]), "STALE", "1");
    assert_eq!(get(&gateway, "/strict", SHORT, &[]).status, 502);
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    folder.write("objects.yaml", service("shop") + &certificate);
    await_until("no endpoints", || get(&gateway, "/strict", SHORT, &[]).status == 503);
    assert_is(&get(&gateway, "/", SHORT, &[]), "STALE", "1");
}

#[test]
fn an_age_was_sent_with_a_date_that_it_does_not_belong_to() {
    const DATE: &str = "Mon, 01 Jan 2024 00:00:00 GMT";
    let backend = origin("shop");
    let (_folder, gateway) = start(&backend, &[], &[]);
    let dated = format!("{FRESH} | Date: {DATE}");
    let first = get(&gateway, "/", &dated, &[]);
    assert!(first.header("date").is_some_and(|date| date != DATE), "the time of relaying, as in nginx");
    let hit = get(&gateway, "/", &dated, &[]);
    assert_eq!((hit.header("age").is_some(), hit.header("date")), (true, Some(DATE)));
    Connection::tls(gateway.https, HOST).request("GET", HOST, "/", &[("X-Respond", &dated)], "");
    let over_http2 = run(async {
        h2::Connection::tls(gateway.https, HOST).await.get(&format!("https://{HOST}/")).await.unwrap()
    });
    assert_eq!(over_http2.headers().get_all("date").iter().collect::<Vec<_>>(), [DATE]);
}
