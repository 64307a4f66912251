//! Digest authentication: users and the digests of their passwords from Secrets.

use aws_lc_rs::digest::{SHA256, digest};
use md5::{Digest, Md5};

use crate::harness::client::Response;
use crate::harness::h2;
use crate::harness::manifest::{opaque_secret, service_with};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, get};

const HOST: &str = "shop.example";
const REALM: &str = "the shop";

type Hash = fn(&str) -> String;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn md5(text: &str) -> String {
    hex(&Md5::digest(text))
}

fn sha256(text: &str) -> String {
    hex(digest(&SHA256, text.as_bytes()).as_ref())
}

/// Returns a line in the format of htdigest.
fn line(hash: Hash, user: &str, realm: &str, password: &str) -> String {
    format!("{user}:{realm}:{}\n", hash(&format!("{user}:{realm}:{password}")))
}

/// The credentials of a browser.
struct Login<'a> {
    hash: Hash,
    user: &'a str,
    password: &'a str,
    nonce: String,
}

impl Login<'_> {
    fn answer(&self, method: &str, target: &str, count: u32) -> String {
        let Self { hash, user, password, nonce } = self;
        let (known, request) =
            (hash(&format!("{user}:{REALM}:{password}")), hash(&format!("{method}:{target}")));
        let right = hash(&format!("{known}:{nonce}:{count:08x}:c0ffee:auth:{request}"));
        let algorithm = if known.len() == 32 { "MD5" } else { "SHA-256" };
        format!(
            "Digest username=\"{user}\", realm=\"{REALM}\", nonce=\"{nonce}\", uri=\"{target}\", \
             algorithm={algorithm}, qop=auth, nc={count:08x}, cnonce=\"c0ffee\", response=\"{right}\""
        )
    }
}

fn nonce(response: &Response) -> String {
    nonce_of(response.header("www-authenticate").expect("a challenge"))
}

fn nonce_of(challenge: &str) -> String {
    let (_, rest) = challenge.split_once("nonce=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn guarded(annotations: &[(&str, &str)]) -> Ingress {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-type", "digest");
    ingress.annotation("auth-secret", "users").annotation("auth-realm", REALM).annotations(annotations)
}

fn start(ingress: &Ingress, secret: &[(&str, &str)]) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(ingress.text() + &service_with("shop", &[&backend]));
    folder.write("users.yaml", opaque_secret("users", secret));
    let gateway = Gateway::start(&folder);
    (backend, folder, gateway)
}

fn send(gateway: &Gateway, target: &str, authorization: &str) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, target, &[("Authorization", authorization)], "")
}

#[test]
fn the_password_is_accepted_and_a_copied_request_is_not() {
    let file = line(md5, "ann", REALM, "open sesame") + &line(sha256, "ann", REALM, "open sesame");
    let (backend, _folder, gateway) = start(&guarded(&[]), &[("auth", &file)]);
    let asked = get(gateway.http, HOST, "/cart?x=1");
    assert_eq!(asked.status, 401);
    let challenges = asked.all("www-authenticate");
    assert_eq!(challenges.len(), 2, "{challenges:?}");
    for (challenge, algorithm) in challenges.iter().zip(["SHA-256", "MD5"]) {
        assert!(challenge.starts_with("Digest realm=\"the shop\", qop=\"auth\""), "{challenge}");
        assert!(challenge.contains(&format!("algorithm={algorithm},")), "{challenge}");
    }
    for hash in [md5 as Hash, sha256] {
        let nonce = nonce(&get(gateway.http, HOST, "/"));
        let login = Login { hash, user: "ann", password: "open sesame", nonce };
        let first = login.answer("GET", "/cart?x=1", 1);
        let response = send(&gateway, "/cart?x=1", &first);
        assert_eq!((response.status, response.backend().as_str()), (200, "shop"));
        assert_eq!(response.received("authorization"), Vec::<String>::new(), "it is the gateway's");
        let copied = send(&gateway, "/cart?x=1", &first);
        assert_eq!(copied.status, 401);
        assert!(copied.header("www-authenticate").unwrap().contains("stale=true"));
        assert_eq!(send(&gateway, "/cart?x=1", &login.answer("GET", "/cart?x=1", 2)).status, 200);
        assert_eq!(send(&gateway, "/other", &login.answer("GET", "/cart?x=1", 3)).status, 401);
        assert_eq!(send(&gateway, "/", &login.answer("POST", "/", 3)).status, 401);
        let wrong = Login { password: "open barley", ..login };
        let response = send(&gateway, "/", &wrong.answer("GET", "/", 3));
        assert_eq!(response.status, 401);
        assert!(!response.header("www-authenticate").unwrap().contains("stale"), "a person is asked");
        let unknown = Login { user: "eve", ..wrong };
        assert_eq!(send(&gateway, "/", &unknown.answer("GET", "/", 3)).status, 401);
    }
    assert_eq!(backend.requests(), 4);
    let nobodys = Login { hash: md5, user: "ann", password: "open sesame", nonce: "AAAA".into() };
    let response = send(&gateway, "/", &nobodys.answer("GET", "/", 1));
    assert!(response.status == 401 && response.header("www-authenticate").unwrap().contains("stale=true"));
    assert_eq!(send(&gateway, "/", "Basic YW5uOm9wZW4gc2VzYW1l").status, 401);
}

#[test]
fn a_map_has_a_key_for_each_user_and_is_edited_live() {
    let value = |password: &str| line(md5, "ann", REALM, password)["ann:".len()..].trim().to_owned();
    let map = guarded(&[("auth-secret-type", "auth-map")]);
    let (backend, folder, gateway) = start(&map, &[("ann", &value("one"))]);
    let status = |password: &str| {
        let nonce = nonce(&get(gateway.http, HOST, "/"));
        send(&gateway, "/", &Login { hash: md5, user: "ann", password, nonce }.answer("GET", "/", 1)).status
    };
    assert_eq!((status("one"), status("two")), (200, 401));
    folder.write("users.yaml", opaque_secret("users", &[("ann", &value("two"))]));
    await_until("the new password", || status("two") == 200);
    assert_eq!(status("one"), 401);
    // Basic authentication instead, with a Secret that contains only digests.
    let basic = guarded(&[("auth-secret-type", "auth-map")]).text().replace("digest", "basic");
    folder.write("objects.yaml", basic + &service_with("shop", &[&backend]));
    await_until("closed: the digests are no passwords", || get(gateway.http, HOST, "/").status == 503);
}

#[test]
fn digests_for_another_realm_close_the_route_and_say_so() {
    let other = line(md5, "ann", "warehouse", "x");
    let (_backend, folder, gateway) = start(&guarded(&[]), &[("auth", &other)]);
    assert_eq!(get(gateway.http, HOST, "/").status, 503);
    let problems = gateway.problems();
    for part in ["Ingress default/shop", "auth-secret", "\"the shop\"", "\"warehouse\"", "auth-realm"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    let both = other + &line(md5, "bob", REALM, "x") + "eve:no digest\n";
    folder.write("users.yaml", opaque_secret("users", &[("auth", &both)]));
    await_until("the route to open", || get(gateway.http, HOST, "/").status == 401);
    await_until("the problem to be resolved", || !gateway.problems().contains("warehouse"));
    assert!(gateway.problems().contains("data[auth] line 3"), "{}", gateway.problems());
    folder.remove("users.yaml");
    await_until("the route to close", || get(gateway.http, HOST, "/").status == 503);
    assert!(gateway.problems().contains("htdigest"), "{}", gateway.problems());
}

#[test]
fn streams_of_http_2_share_a_nonce_in_any_order() {
    let backend = Backend::echo("shop");
    let ingress = guarded(&[]).tls(&[HOST], "tls");
    let folder = Folder::with(
        ingress.text()
            + &service_with("shop", &[&backend])
            + &TestCertificate::new(&[HOST]).secret("tls")
            + &opaque_secret("users", &[("auth", &line(md5, "ann", REALM, "x"))]),
    );
    let gateway = Gateway::start(&folder);
    h2::run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let asked = connection.get("https://shop.example/").await.unwrap();
        assert_eq!(asked.status(), 401);
        let nonce = nonce_of(asked.headers()["www-authenticate"].to_str().unwrap());
        let login = Login { hash: md5, user: "ann", password: "x", nonce };
        let ask = |count| {
            let request = http::Request::get("https://shop.example/");
            request.header("authorization", login.answer("GET", "/", count)).body(()).unwrap()
        };
        for (count, status) in [(3, 200), (1, 200), (2, 200), (2, 401), (4, 200)] {
            assert_eq!(connection.send(ask(count), "").await.unwrap().status(), status, "{count}");
        }
    });
}
