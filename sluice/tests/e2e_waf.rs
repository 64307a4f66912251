//! The web application firewall: the real agent with the OWASP core rule set.

mod agent;
mod grpc;
mod responses;

use std::time::{Duration, Instant};

use self::agent::Agent;
use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map, ports};

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";
const ATTACK: &str = "/?id=1'%20OR%20'1'='1";
const SCRIPT: &str = "comment=<script>alert(1)</script>";
const ON: &str = "SecRuleEngine On";
const SNIPPETS: [(&str, &str); 2] =
    [("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")];

/// Of the problem that there is no agent.
const UNAVAILABLE: &str = "the agent of the web application firewall";

struct Site {
    folder: Folder,
    gateway: Gateway,
    shop: Backend,
}

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations)
}

impl Site {
    /// Serves a shop with these annotations, these keys of the ConfigMap besides those that permit
    /// snippets, and these flags.
    fn start(annotations: &[(&str, &str)], keys: &[(&str, &str)], flags: &[&str]) -> Self {
        Self::before(Backend::echo("shop"), annotations, keys, flags)
    }

    /// The same in front of this backend.
    fn before(
        shop_backend: Backend,
        annotations: &[(&str, &str)],
        keys: &[(&str, &str)],
        flags: &[&str],
    ) -> Self {
        let folder = Folder::with(service_with("shop", &[&shop_backend]));
        folder.write("ingress.yaml", shop(annotations).text());
        folder.write("config.yaml", config_map(CONFIG, &[&SNIPPETS, keys].concat()));
        let gateway = Gateway::with(&folder, &[&["--configmap", CONFIG], flags].concat());
        Self { folder, gateway, shop: shop_backend }
    }

    fn annotate(&self, annotations: &[(&str, &str)]) {
        self.folder.write("ingress.yaml", shop(annotations).text());
    }

    fn get(&self, target: &str) -> Response {
        Connection::plain(self.gateway.http).request("GET", HOST, target, &BROWSER, "")
    }

    fn post(&self, body: &str) -> Response {
        let fields = [&BROWSER[..], &[("Content-Type", "application/x-www-form-urlencoded")]].concat();
        Connection::plain(self.gateway.http).request("POST", HOST, "/", &fields, body)
    }

    fn count(&self, outcome: &str) -> u64 {
        count(&self.gateway, outcome)
    }
}

/// The number of requests with this outcome.
fn count(gateway: &Gateway, outcome: &str) -> u64 {
    let name = format!("sluice_waf_requests_total{{outcome=\"{outcome}\"}} ");
    let metrics = gateway.metrics();
    metrics.lines().find_map(|line| line.strip_prefix(&name)).map_or(0, |number| number.parse().unwrap())
}

/// Fields without which the core rule set counts a request as suspicious.
const BROWSER: [(&str, &str); 2] = [("User-Agent", "Mozilla/5.0"), ("Accept", "*/*")];

#[test]
fn core_rules_refuse_attacks_only_with_the_engine_on() {
    let Some(agent) = Agent::start() else { return };
    let rules = [("enable-modsecurity", "true"), ("enable-owasp-core-rules", "true")];
    let site = Site::start(&rules, &[], &[&agent.flag()]);
    assert_eq!(site.gateway.problems(), "");
    // Until the agent has the directives, requests are not inspected.
    await_until("both attacks logged", || {
        assert_eq!((site.get(ATTACK).status, site.post(SCRIPT).status), (200, 200), "only detected");
        let log = agent.log();
        log.contains("\"rule\":942100") && log.contains("\"rule\":941100")
    });
    let both = [&rules[..], &[("modsecurity-snippet", ON)]].concat();
    site.annotate(&both);
    await_until("the attack refused", || site.get(ATTACK).status == 403);
    let before = site.shop.requests();
    assert_eq!((site.get(ATTACK).status, site.post(SCRIPT).status), (403, 403));
    assert_eq!(site.shop.requests(), before, "no endpoint gets a refused request");
    let response = site.post("comment=hello");
    assert_eq!((response.status, &response.json()["body"]), (200, &"comment=hello".into()));
    assert_eq!(site.get("/?id=17").status, 200);
    assert!(site.count("denied") >= 2 && site.count("passed") >= 2, "{}", site.gateway.metrics());
    // Chunks, and HTTP/2, and a body that its client announces.
    let mut client = Connection::plain(site.gateway.http);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: Mozilla/5.0\r\nTransfer-Encoding: chunked\r\nContent-Type: \
         application/x-www-form-urlencoded\r\n\r\n9\r\ncomment=<\r\n18\r\nscript>alert(1)</script>\r\n0\r\n\r\n"
    ));
    assert_eq!(client.response().status, 403);
    let mut client = Connection::plain(site.gateway.http);
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: {HOST}\r\nUser-Agent: Mozilla/5.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\
         Content-Length: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\n{SCRIPT}",
        SCRIPT.len()
    ));
    assert_eq!(client.response().status, 403, "an upgrade hides no body");
}

#[test]
fn nothing_is_inspected_by_default_and_annotations_override_keys() {
    let Some(agent) = Agent::start() else { return };
    let site = Site::start(&[], &[], &[&agent.flag()]);
    assert_eq!(site.get(ATTACK).status, 200);
    assert_eq!((site.count("passed"), site.count("denied")), (0, 0));
    let keys = [
        ("enable-modsecurity", "true"),
        ("enable-owasp-modsecurity-crs", "true"),
        ("modsecurity-snippet", ON),
    ];
    site.folder.write("config.yaml", config_map(CONFIG, &[&SNIPPETS[..], &keys].concat()));
    await_until("the attack refused by the ConfigMap's rules", || site.get(ATTACK).status == 403);
    site.annotate(&[("modsecurity-snippet", "SecRuleEngine DetectionOnly")]);
    await_until("the attack only detected", || site.get(ATTACK).status == 200);
    site.annotate(&[("modsecurity-snippet", "SecRuleRemoveById 942100-942999")]);
    await_until("the firewall enforcing again", || site.post(SCRIPT).status == 403);
    assert_eq!(site.get(ATTACK).status, 200, "the rules are removed");
    let passed = site.count("passed");
    site.annotate(&[("enable-modsecurity", "false")]);
    await_until("the firewall off", || {
        let before = site.count("passed");
        site.post(SCRIPT).status == 200 && site.count("passed") == before
    });
    assert!(site.count("passed") >= passed);
}

#[test]
fn a_rule_determines_status_and_transaction_id() {
    let Some(agent) = Agent::start() else { return };
    let rules = "SecRuleEngine On\nSecRule REQUEST_URI \"@contains /teapot\" \
                 \"id:1,phase:1,log,deny,status:418,msg:'I am a teapot'\"\n\
                 SecRule REMOTE_ADDR \"@ipMatch 127.0.0.1\" \"id:2,phase:1,redirect:https://other.example/,status:302,\
                 chain\"\nSecRule REQUEST_HEADERS:X-Go \"@streq away\"";
    let site = Site::start(
        &[
            ("enable-modsecurity", "true"),
            ("modsecurity-snippet", rules),
            ("modsecurity-transaction-id", "shop-$request_id"),
        ],
        &[],
        &[&agent.flag()],
    );
    let response = Connection::plain(site.gateway.http).request(
        "GET",
        HOST,
        "/teapot",
        &[("X-Request-ID", "0123456789abcdef0123456789abcdef")],
        "",
    );
    assert_eq!(response.status, 418);
    await_until("the transaction logged", || {
        agent.log().contains("\"transaction\":\"shop-0123456789abcdef0123456789abcdef\"")
    });
    assert!(agent.log().contains("I am a teapot") && agent.log().contains("\"client\":\"127.0.0.1\""));
    let away = Connection::plain(site.gateway.http).request("GET", HOST, "/", &[("X-Go", "away")], "");
    assert_eq!((away.status, away.header("location")), (302, Some("https://other.example/")));
    assert_eq!(site.shop.requests(), 0);
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn without_a_decision_rules_that_enforce_are_closed_and_others_served() {
    let Some(agent) = Agent::start() else { return };
    let address = agent.address;
    let flags = [&*agent.flag(), "--waf-timeout=2s"];
    let enforces = [("enable-modsecurity", "true"), ("modsecurity-snippet", ON)];
    let site = Site::start(&enforces, &[], &flags);
    assert_eq!(site.get("/").status, 200);

    agent.hang(true);
    let began = Instant::now();
    assert_eq!(site.get("/").status, 503);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    await_until("a hanging agent reported", || site.gateway.problems().contains(UNAVAILABLE));
    agent.hang(false);
    await_until("requests inspected again", || site.get("/").status == 200);

    drop(agent);
    assert_eq!(site.get("/").status, 503);
    await_until("the missing agent reported", || {
        let problems = site.gateway.problems();
        problems.contains(UNAVAILABLE) && problems.contains("cannot be reached")
    });
    site.annotate(&[("enable-modsecurity", "true")]);
    await_until("requests served without inspection", || site.get("/").status == 200);
    assert!(site.count("closed") >= 2 && site.count("uninspected") >= 1, "{}", site.gateway.metrics());

    site.annotate(&enforces);
    await_until("requests refused", || site.get("/").status == 503);
    let agent = Agent::start_at(address).unwrap();
    await_until("the new agent used", || site.get("/").status == 200);
    await_until("no problem left", || site.gateway.problems().is_empty());
    drop(agent);
}

#[test]
fn without_an_agent_the_setting_is_reported_and_closed_if_it_enforces() {
    let enabled = ("enable-modsecurity", "true");
    let site = Site::start(&[enabled], &[], &[]);
    assert_eq!(site.get(ATTACK).status, 200);
    assert!(site.gateway.problems().contains("names no agent"), "{}", site.gateway.problems());
    site.annotate(&[enabled, ("modsecurity-snippet", ON)]);
    await_until("the routes closed", || site.get("/").status == 503);
    assert!(site.gateway.problems().contains("--waf-agent"), "{}", site.gateway.problems());
    let [unused] = ports::addresses();
    let site = Site::start(&[enabled], &[], &[&format!("--waf-agent={unused}")]);
    assert_eq!(site.get(ATTACK).status, 200);
}

#[test]
fn directives_that_reach_beyond_requests_are_refused_by_name() {
    let Some(agent) = Agent::start() else { return };
    let site = Site::start(&[], &[], &[&agent.flag()]);
    for (snippet, name) in [
        ("SecRuleEngine On\nSecRuleScript /tmp/x.lua", "SecRuleScript"),
        ("SecAction \"id:1,phase:1,exec:/bin/sh\"", "exec"),
        ("Include /etc/passwd", "/etc/passwd"),
    ] {
        site.annotate(&[("enable-modsecurity", "true"), ("modsecurity-snippet", snippet)]);
        await_until("the routes closed", || {
            site.gateway.problems().contains(name) && site.get("/").status == 503
        });
    }
    // The agent refuses what only compiling shows.
    let broken = "SecRule ARGS \"@rx (\" \"id:1,phase:2,deny\"";
    site.annotate(&[("enable-modsecurity", "true"), ("modsecurity-snippet", &format!("{ON}\n{broken}"))]);
    await_until("the routes closed by the agent", || {
        let problems = site.gateway.problems();
        problems.contains("cannot compile the directives")
            && problems.contains("secrule")
            && site.get("/").status == 503
    });
    site.annotate(&[("enable-modsecurity", "true"), ("modsecurity-snippet", broken)]);
    await_until("the routes served, because the rules only detect", || site.get("/").status == 200);
    site.annotate(&[("enable-modsecurity", "true"), ("modsecurity-snippet", "SecDebugLog /tmp/x")]);
    await_until("the ignored directive reported", || site.gateway.problems().contains("SecDebugLog"));
    assert_eq!(site.get("/").status, 200);
}

#[test]
fn bodies_are_inspected_up_to_their_limit() {
    let Some(agent) = Agent::start() else { return };
    let rules = "SecRuleEngine On\nSecRequestBodyLimit 100000\nSecRequestBodyNoFilesLimit 100000\n\
                 SecRule ARGS:last \"@streq evil\" \"id:1,phase:2,deny\"";
    let annotations = |action: &str| format!("{rules}\nSecRequestBodyLimitAction {action}");
    let reject = annotations("Reject");
    let site = Site::start(
        &[("enable-modsecurity", "true"), ("modsecurity-snippet", &reject), ("proxy-body-size", "0")],
        &[],
        &[&agent.flag()],
    );
    let body = |length: usize, last: &str| format!("first={}&last={last}", "x".repeat(length));
    let within = body(90_000, "good");
    let response = site.post(&within);
    assert_eq!((response.status, response.json()["body"].as_str()), (200, Some(&*within)));
    assert_eq!(site.post(&body(90_000, "evil")).status, 403);
    assert_eq!(site.post(&body(200_000, "good")).status, 413);
    let partial = annotations("ProcessPartial");
    site.annotate(&[
        ("enable-modsecurity", "true"),
        ("modsecurity-snippet", &partial),
        ("proxy-body-size", "0"),
    ]);
    let long = body(200_000, "evil");
    await_until("a longer body served", || site.post(&long).status == 200);
    assert_eq!(site.post(&long).json()["body"].as_str(), Some(&*long), "it arrives whole");
    // Beyond what is sent to the agent.
    let reject = format!("{reject}\nSecRequestBodyAccess On\nSecRequestBodyLimit 100000000");
    site.annotate(&[
        ("enable-modsecurity", "true"),
        ("modsecurity-snippet", &reject),
        ("proxy-body-size", "0"),
    ]);
    await_until("the bound of the gateway", || site.post(&body(17 << 20, "good")).status == 413);
}

#[test]
fn requests_of_http2_are_inspected_too() {
    let Some(agent) = Agent::start() else { return };
    let rules = "SecRuleEngine On\nSecRule ARGS \"@streq evil\" \"id:1,phase:2,deny\"";
    let site =
        Site::start(&[("enable-modsecurity", "true"), ("modsecurity-snippet", rules)], &[], &[&agent.flag()]);
    run(async {
        let client = h2::Connection::plain(site.gateway.http).await;
        let send = async |method: &str, target: &str, body: &str| {
            let request = http::Request::builder()
                .method(method)
                .uri(format!("http://{HOST}{target}"))
                .header("content-type", "application/x-www-form-urlencoded");
            client.send(request.body(()).unwrap(), body).await.unwrap().status()
        };
        assert_eq!(send("POST", "/", "a=evil").await, 403);
        assert_eq!(send("POST", "/", "a=good").await, 200);
        assert_eq!(send("GET", "/?a=evil", "").await, 403);
    });
}
