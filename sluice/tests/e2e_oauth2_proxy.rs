//! Sign-in through oauth2-proxy, with objects as in its documentation: an application whose
//! requests are authorised, and on the same host the pages of the proxy, which need no sign-in.
//!
//! The client keeps cookies and follows redirects like a browser; the module `chromium` uses a real
//! one.

mod chromium;
mod sessions;

use std::collections::BTreeMap;

use crate::harness::client::Response;
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, config_map};
use sessions::Sessions;

const HOST: &str = "shop.example";
const CONFIG: &str = "ingress-nginx/controller";
const COOKIE: &str = "_oauth2_proxy";
const AUTH: &str = "http://oauth2-proxy.default.svc.cluster.local/oauth2/auth";
const SIGN_IN: &str = "http://$host/oauth2/start?rd=$escaped_request_uri";
const USER: &str = "X-Auth-Request-User";

/// A client that keeps cookies and follows redirects.
struct Browser<'g> {
    gateway: &'g Gateway,
    cookies: BTreeMap<String, String>,
    /// The visited URLs with the status of each response.
    history: Vec<(String, u16)>,
}

impl<'g> Browser<'g> {
    fn new(gateway: &'g Gateway) -> Self {
        Self { gateway, cookies: BTreeMap::new(), history: Vec::new() }
    }

    /// Sends a request without following redirects.
    fn send(&mut self, method: &str, target: &str, body: &str) -> Response {
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        // A client must not be able to set the fields of the authorisation service itself.
        let mut fields = vec![(USER, "root")];
        if !cookies.is_empty() {
            fields.push(("Cookie", &cookies));
        }
        let response = Connection::plain(self.gateway.http).request(method, HOST, target, &fields, body);
        for cookie in response.all("set-cookie") {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match cookie.contains("Max-Age=0") {
                true => drop(self.cookies.remove(name)),
                false => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        self.history.push((target.to_owned(), response.status));
        response
    }

    /// Opens a URL and returns the final response.
    fn open(&mut self, target: &str) -> Response {
        let mut response = self.send("GET", target, "");
        for _ in 0..10 {
            let Some(location) = response.header("location").filter(|_| response.status == 302) else {
                return response;
            };
            let own = format!("http://{HOST}");
            let next = location.strip_prefix(&own).unwrap_or(location).to_owned();
            assert!(next.starts_with('/'), "redirected elsewhere: {next}");
            response = self.send("GET", &next, "");
        }
        panic!("redirected without end: {:?}", self.history);
    }

    fn history(&mut self) -> Vec<(String, u16)> {
        std::mem::take(&mut self.history)
    }
}

fn objects(proxy: &Backend, shop: &Backend) -> String {
    let pages = Ingress::new("oauth2-proxy").path(HOST, "/oauth2", "oauth2-proxy");
    pages.annotation("enable-global-auth", "false").text()
        + &service_with("oauth2-proxy", &[proxy])
        + &service_with("shop", &[shop])
}

fn guarded() -> Ingress {
    Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-url", AUTH)
        .annotation("auth-signin", SIGN_IN)
        .annotation("auth-response-headers", USER)
}

/// A complete visit, from the first request to the sign-out.
fn use_the_shop(gateway: &Gateway, sessions: &Sessions) {
    let mut browser = Browser::new(gateway);
    let response = browser.open("/cart?item=1");
    assert_eq!((response.status, response.received(USER)), (200, vec!["ann".to_owned()]));
    let steps = browser.history();
    let places: Vec<(&str, u16)> = steps.iter().map(|(place, status)| (place.as_str(), *status)).collect();
    assert_eq!(
        places,
        [
            ("/cart?item=1", 302),
            ("/oauth2/start?rd=%2Fcart%3Fitem%3D1", 302),
            ("/oauth2/callback?code=x&state=%2Fcart%3Fitem%3D1", 302),
            ("/cart?item=1", 200),
        ]
    );
    assert!(!browser.cookies.contains_key("_oauth2_proxy_csrf"), "{:?}", browser.cookies);
    let response = browser.send("POST", "/order", "one apple");
    assert_eq!((response.status, response.json()["body"].as_str()), (200, Some("one apple")));

    let old = browser.cookies[COOKIE].clone();
    sessions.age();
    let response = browser.send("GET", "/", "");
    assert_eq!(
        (response.status, response.all("set-cookie").len()),
        (200, 2),
        "the fresh cookie reaches the client"
    );
    assert_ne!(browser.cookies[COOKIE], old);
    assert_eq!(browser.cookies[&format!("{COOKIE}_1")], "more");
    assert_eq!(browser.send("GET", "/", "").status, 200);
    let mut stranger = Browser::new(gateway);
    stranger.cookies.insert(COOKIE.to_owned(), old);
    assert_eq!(stranger.send("GET", "/", "").status, 302, "the old cookie counts no more");

    browser.history();
    let response = browser.open("/oauth2/sign_out");
    assert_eq!(response.status, 200, "back through the way in");
    let steps = browser.history();
    assert_eq!(steps[1], ("/".to_owned(), 302), "signed out: {steps:?}");
}

#[test]
fn a_person_signs_in_stays_in_and_signs_out() {
    let (sessions, shop) = (Sessions::default(), Backend::echo("shop"));
    let proxy = sessions.backend();
    let folder = Folder::with(objects(&proxy, &shop));
    folder.write("shop.yaml", guarded().text());
    let gateway = Gateway::start(&folder);
    assert_eq!(gateway.problems(), "");
    use_the_shop(&gateway, &sessions);
    // Annotations change at run time: first without a sign-in URL, then without authorisation.
    folder.write("shop.yaml", guarded().text().replace("auth-signin", "auth-signin-redirect-param"));
    await_until("no way to sign in: the value is not the name of a parameter", || {
        Browser::new(&gateway).send("GET", "/", "").status == 401
    });
    folder.write("shop.yaml", Ingress::new("shop").path(HOST, "/", "shop").text());
    await_until("open", || Browser::new(&gateway).send("GET", "/", "").status == 200);
}

#[test]
fn one_config_map_protects_all_hosts_except_sign_in_pages() {
    let (sessions, shop) = (Sessions::default(), Backend::echo("shop"));
    let proxy = sessions.backend();
    let folder = Folder::with(objects(&proxy, &shop));
    folder.write("shop.yaml", Ingress::new("shop").path(HOST, "/", "shop").text());
    let gateway = Gateway::with(&folder, &["--configmap", CONFIG]);
    let keys = |more: &[(&str, &str)]| {
        let mut all = vec![
            ("global-auth-url", AUTH),
            ("global-auth-signin", SIGN_IN),
            ("global-auth-response-headers", USER),
        ];
        all.extend(more);
        config_map(CONFIG, &all)
    };
    folder.write("config.yaml", keys(&[]));
    await_until("guarded", || Browser::new(&gateway).send("GET", "/", "").status == 302);
    use_the_shop(&gateway, &sessions);
    let challenge = Ingress::new("challenge").path(HOST, "/.well-known/acme-challenge/x", "shop");
    folder.write("challenge.yaml", challenge.text());
    await_until("a challenge of a certificate authority is exempt", || {
        Browser::new(&gateway).send("GET", "/.well-known/acme-challenge/x", "").status == 200
    });
    // A snippet is not supported, so the routes that it would protect are closed.
    folder.write("config.yaml", keys(&[("global-auth-snippet", "deny all;")]));
    await_until("closed", || Browser::new(&gateway).send("GET", "/", "").status == 503);
    assert!(gateway.problems().contains("global-auth-snippet"), "{}", gateway.problems());
    folder.write("config.yaml", config_map(CONFIG, &[]));
    await_until("open", || Browser::new(&gateway).send("GET", "/", "").status == 200);
}
