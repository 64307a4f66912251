//! Rules about responses: phases 3 and 4.

use super::agent::Agent;
use super::{HOST, Site};
use crate::harness::h2::{self, run};
use crate::harness::{Backend, Connection, Reply, await_until};

const RULES: &str = "SecResponseBodyAccess On\nSecResponseBodyMimeType text/plain\nSecResponseBodyLimit 131072\n\
                     SecResponseBodyLimitAction ProcessPartial\n\
                     SecRule RESPONSE_HEADERS:X-Leak \"@rx .\" \"id:1,phase:3,deny,status:502\"\n\
                     SecRule RESPONSE_BODY \"@contains secret\" \"id:2,phase:4,log,deny\"";
const SECRET: &str = "this is the secret";

/// Serves what the path asks for.
fn backend() -> Backend {
    Backend::with("shop", |request| {
        let path = request.start.split(' ').nth(1).unwrap().to_owned();
        let text = |kind: &str, body: &str| {
            Reply::Answer(200, vec![("Content-Type".to_owned(), kind.to_owned())], body.to_owned())
        };
        match path.as_str() {
            "/secret" => text("text/plain", SECRET),
            "/image" => text("image/png", SECRET),
            "/header" => Reply::field("X-Leak", "1"),
            "/chunks" => Reply::Bytes(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n\
                  8\r\nthis is \r\n6\r\nthe se\r\n4\r\ncret\r\n0\r\n\r\n"
                    .to_vec(),
            ),
            "/until-close" => Reply::Raw(
                format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{SECRET}").into_bytes(),
            ),
            "/long" => text("text/plain", &format!("{}{SECRET}", "x".repeat(300_000))),
            "/long-chunks" => {
                let head =
                    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
                let chunk = format!("{:x}\r\n{}\r\n", 100_000, "y".repeat(100_000));
                Reply::Bytes(format!("{head}{}0\r\n\r\n", chunk.repeat(3)).into_bytes())
            }
            "/plain-until-close" => {
                Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall is well".to_vec())
            }
            _ => text("text/plain", "all is well"),
        }
    })
}

fn site(rules: &str, agent: &Agent, flags: &[&str]) -> Site {
    let annotations = [("enable-modsecurity", "true"), ("modsecurity-snippet", rules)];
    Site::before(backend(), &annotations, &[], &[&[&*agent.flag()], flags].concat())
}

#[test]
fn a_response_is_refused_before_its_client_gets_any_of_it() {
    let Some(agent) = Agent::start() else { return };
    let site = site(&format!("SecRuleEngine On\n{RULES}"), &agent, &[]);
    assert_eq!(site.gateway.problems(), "");
    for path in ["/secret", "/chunks", "/until-close"] {
        let response = site.get(path);
        assert_eq!(response.status, 403, "{path}");
        assert!(!response.text().contains("secret"), "{path}: {}", response.text());
    }
    assert_eq!(site.get("/header").status, 502);
    let denied = site.count("denied");
    assert!(denied >= 4, "{}", site.gateway.metrics());
    let passed = site.count("passed");
    let response = site.get("/");
    assert_eq!((response.status, response.text()), (200, "all is well".to_owned()));
    assert_eq!(site.get("/plain-until-close").text(), "all is well");
    // Bodies of other types are not inspected, and only the beginning of long ones.
    assert_eq!(site.get("/image").text(), SECRET);
    assert_eq!(site.get("/long").text().len(), 300_000 + SECRET.len());
    assert_eq!(site.get("/long-chunks").text().len(), 300_000);
    await_until("all counted", || (site.count("denied"), site.count("passed")) == (denied, passed + 5));
    assert_eq!(Connection::plain(site.gateway.http).request("HEAD", HOST, "/secret", &[], "").status, 200);
    // The connection goes on.
    let mut client = Connection::plain(site.gateway.http);
    for (path, status) in [("/secret", 403), ("/", 200), ("/header", 502), ("/chunks", 403), ("/", 200)] {
        assert_eq!(client.get(HOST, path).status, status, "{path}");
    }
}

#[test]
fn responses_over_http2_are_inspected_too() {
    let Some(agent) = Agent::start() else { return };
    let site = site(&format!("SecRuleEngine On\n{RULES}"), &agent, &[]);
    run(async {
        let client = h2::Connection::plain(site.gateway.http).await;
        let get = async |target: &str| {
            let request = http::Request::get(format!("http://{HOST}{target}")).body(()).unwrap();
            client.send(request, "").await.unwrap().status()
        };
        assert_eq!(get("/secret").await, 403);
        assert_eq!(get("/chunks").await, 403);
        assert_eq!(get("/").await, 200);
        assert_eq!(get("/long-chunks").await, 200);
    });
}

#[test]
fn detection_changes_no_response() {
    let Some(agent) = Agent::start() else { return };
    let site = site(RULES, &agent, &[]);
    await_until("the secret detected", || {
        assert_eq!(site.get("/secret").text(), SECRET);
        agent.log().contains("\"rule\":2")
    });
    assert_eq!(site.get("/header").status, 200);
}

#[test]
fn without_a_decision_a_response_is_closed_if_the_rules_enforce() {
    let Some(agent) = Agent::start() else { return };
    let hang = std::sync::Arc::new(std::sync::Mutex::new(None::<Agent>));
    let backend = {
        let hang = hang.clone();
        Backend::with("shop", move |_| {
            // The request has been inspected by now.
            if let Some(agent) = &*hang.lock().unwrap() {
                agent.hang(true);
            }
            Reply::Answer(200, vec![("Content-Type".into(), "text/plain".into())], SECRET.into())
        })
    };
    let enforces = format!("SecRuleEngine On\n{RULES}");
    let annotations = |rules| [("enable-modsecurity", "true"), ("modsecurity-snippet", rules)];
    let flag = agent.flag();
    let site = Site::before(backend, &annotations(&enforces), &[], &[&flag, "--waf-timeout=2s"]);
    assert_eq!(site.get("/").status, 403);
    *hang.lock().unwrap() = Some(agent);
    let response = site.get("/");
    assert_eq!(response.status, 503);
    assert!(!response.text().contains("secret"));
    assert_eq!(site.count("closed"), 1);
    let agent = hang.lock().unwrap().take().unwrap();
    agent.hang(false);
    await_until("responses inspected again", || site.get("/").status == 403);
    site.annotate(&annotations(RULES));
    await_until("only detected", || site.get("/").status == 200);
    let uninspected = site.count("uninspected");
    *hang.lock().unwrap() = Some(agent);
    assert_eq!(site.get("/").text(), SECRET);
    // A response that is passed on is counted after its end.
    await_until("the response counted", || site.count("uninspected") == uninspected + 1);
    hang.lock().unwrap().as_ref().unwrap().hang(false);
}
