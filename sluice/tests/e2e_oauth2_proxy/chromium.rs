//! Sign-in through oauth2-proxy with a real browser and an identity provider on another host: only
//! a browser decides whether cookies with SameSite and Secure are sent on the way to the provider
//! and back.
//!
//! Chromium is not part of the build; the test needs the packages `chromium` and `chromium-driver`
//! of Debian.

use super::sessions::{Sessions, redirect};
use super::{COOKIE, HOST, USER, guarded, objects};
use crate::harness::manifest::service_with;
use crate::harness::wire::Message;
use crate::harness::{Backend, Chromium, Folder, Gateway, Ingress, Reply, TestCertificate, await_until};

const PROVIDER: &str = "accounts.example";
/// Spaces, non-ASCII letters and a second parameter: the URL must survive three redirects
/// unchanged.
const PAGE: &str = "https://shop.example/cart?item=1&size=%C3%BC%20x&back=%2Fa%3Fb";

/// Starts a shop with a page that needs a script, and the API that the script calls.
fn shop() -> Backend {
    Backend::with("shop", |request| {
        let user = request.header(USER).unwrap_or("nobody").to_owned();
        let (kind, content) = match path(request) {
            "/app.js" => ("text/javascript", format!("window.loadedFor = '{user}';")),
            "/api/cart" => {
                ("application/json", format!("{{\"user\": \"{user}\", \"body\": \"{}\"}}", request.text()))
            }
            _ => (
                "text/html",
                format!(
                    "<script src='/app.js'></script><p>{user}</p><a id='out' href='/oauth2/sign_out'>out</a>"
                ),
            ),
        };
        let fields = [("Content-Type", kind), ("Cache-Control", "no-store")];
        Reply::Answer(200, fields.map(|(name, value)| (name.to_owned(), value.to_owned())).into(), content)
    })
}

/// Starts an identity provider that shows a button.
fn provider() -> Backend {
    Backend::with("provider", |request| {
        let target = request.start.split(' ').nth(1).unwrap_or_default();
        let (_, query) = target.split_once('?').unwrap_or_default();
        match path(request) {
            "/authorize" => {
                let form =
                    format!("<form method='post' action='/login?{query}'><button id='in'>in</button></form>");
                Reply::Answer(200, vec![("Content-Type".to_owned(), "text/html".to_owned())], form)
            }
            "/login" => redirect(&format!("https://{HOST}/oauth2/callback?code=x&{query}"), &[]),
            _ => Reply::status(404),
        }
    })
}

fn path(request: &Message) -> &str {
    let target = request.start.split(' ').nth(1).unwrap_or_default();
    target.split('?').next().unwrap_or_default()
}

#[test]
fn a_person_signs_in_with_a_browser_and_signs_out() {
    let (sessions, shop, provider) = (Sessions::with_provider(PROVIDER), shop(), provider());
    let proxy = sessions.backend();
    let hosts = [HOST, PROVIDER];
    let accounts = Ingress::new("accounts").path(PROVIDER, "/", "accounts").tls(&[PROVIDER], "tls");
    let shop_objects = guarded().tls(&[HOST], "tls").text().replace("http://$host/", "https://$host/");
    let folder = Folder::with(
        [
            objects(&proxy, &shop),
            shop_objects,
            accounts.text(),
            service_with("accounts", &[&provider]),
            TestCertificate::new(&hosts).secret("tls"),
        ]
        .concat(),
    );
    let gateway = Gateway::start(&folder);
    assert_eq!(gateway.problems(), "");
    let places =
        hosts.map(|host| [(format!("{host}:80"), gateway.http), (format!("{host}:443"), gateway.https)]);
    let Some(browser) = Chromium::start(&places.concat()) else {
        println!("chromedriver is not on the path: signing in with a real browser was NOT tried");
        return;
    };

    // From http to https, to the sign-in, to the provider.
    browser.open(&PAGE.replace("https:", "http:"));
    browser.await_url("https://accounts.example/authorize?state=%2Fcart");
    assert_eq!(shop.requests(), 0, "nothing is shown before");
    browser.click("#in");
    browser.await_url("https://shop.example/cart");
    assert_eq!(browser.url(), PAGE, "the page that was asked for");
    await_until("the script, which is asked for with the cookie", || {
        browser.evaluate("document.readyState === 'complete' && window.loadedFor") == "ann"
    });
    assert_eq!(browser.evaluate("document.querySelector('p').textContent"), "ann");
    let cookie = browser.cookie(COOKIE);
    assert_eq!((&cookie["httpOnly"], &cookie["secure"]), (&true.into(), &true.into()), "{cookie}");
    assert_eq!(browser.evaluate("document.cookie"), "", "no script sees it");

    let fetched = "fetch('/api/cart', {method: 'POST', body: 'apple'}).then(answer => answer.json())";
    let answer = browser.evaluate(fetched);
    assert_eq!((&answer["user"], &answer["body"]), (&"ann".into(), &"apple".into()), "{answer}");
    let forged =
        format!("fetch('/api/cart', {{headers: {{'{USER}': 'root'}}}}).then(answer => answer.json())");
    assert_eq!(browser.evaluate(&forged)["user"], "ann", "only the authorisation service names the user");

    // The response to any request renews a session that is due, and the browser stores it.
    sessions.age();
    assert_eq!(browser.evaluate(fetched)["user"], "ann");
    assert_ne!(browser.cookie(COOKIE)["value"], cookie["value"]);
    assert_eq!(browser.cookie(&format!("{COOKIE}_1"))["value"], "more");
    assert_eq!(browser.evaluate(fetched)["user"], "ann");

    browser.click("#out");
    browser.await_url("https://accounts.example/authorize?state=%2F");
    let before = shop.requests();
    browser.open(PAGE);
    browser.await_url("https://accounts.example/authorize?state=%2Fcart");
    assert_eq!(shop.requests(), before, "signed out");
    browser.click("#in");
    browser.await_url(PAGE);
}
