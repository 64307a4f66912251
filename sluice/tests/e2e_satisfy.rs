//! `satisfy`: whether all access checks must pass, or one of them suffices.

use crate::harness::client::Response;
use crate::harness::manifest::{opaque_secret, service_with};
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map};

const HOST: &str = "shop.example";
/// `ann` with the password `x`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOng=");
const SESSION: (&str, &str) = ("Cookie", "session=ann");
/// A listed address, as a proxy in front reports it.
const OFFICE: (&str, &str) = ("X-Forwarded-For", "10.1.2.3");

fn start(ingress: &Ingress) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(
        service_with("shop", &[&backend])
            + &opaque_secret("users", &[("auth", "ann:{PLAIN}x")])
            + &config_map("system/settings", &[("use-forwarded-headers", "true")]),
    );
    folder.write("shop.yaml", ingress.text());
    let gateway = Gateway::with(&folder, &["--configmap", "system/settings"]);
    (backend, folder, gateway)
}

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("allowlist-source-range", "10.0.0.0/8")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users")
        .annotations(annotations)
}

fn send(gateway: &Gateway, fields: &[(&str, &str)]) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, "/", fields, "")
}

#[test]
fn satisfy_any_accepts_an_address_or_a_password_until_removed() {
    let (_backend, folder, gateway) = start(&shop(&[]));
    let statuses = || {
        let cases: [&[(&str, &str)]; 4] = [&[], &[OFFICE], &[ANN], &[OFFICE, ANN]];
        cases.map(|fields| send(&gateway, fields).status)
    };
    assert_eq!(statuses(), [403, 401, 403, 200]);
    folder.write("shop.yaml", shop(&[("satisfy", "any")]).text());
    await_until("any", || statuses() == [401, 200, 200, 200]);
    assert!(send(&gateway, &[]).header("www-authenticate").unwrap().starts_with("Basic "));
    assert_eq!(gateway.problems(), "");
    folder.write("shop.yaml", shop(&[("satisfy", "all")]).text());
    await_until("all", || statuses() == [403, 401, 403, 200]);
    folder.write("shop.yaml", shop(&[("satisfy", "any")]).text());
    await_until("any again", || statuses() == [401, 200, 200, 200]);
    folder.write("shop.yaml", shop(&[("satisfy", "Any")]).text());
    await_until("all, as it is not spelled so", || statuses() == [403, 401, 403, 200]);
    assert!(gateway.problems().contains("satisfy"), "{}", gateway.problems());
    // A protection that cannot be applied closes the route, whatever the other checks return.
    folder.write("shop.yaml", shop(&[("satisfy", "any")]).text().replace("\"users\"", "\"nobody\""));
    await_until("closed", || statuses() == [503; 4]);
}

#[test]
fn the_service_is_queried_last_and_its_fields_cannot_be_forged() {
    let auth = Backend::with("auth", |request| match request.header("cookie") {
        Some("session=ann") => Reply::field("X-User", "ann"),
        Some("session=mute") => Reply::Close,
        _ => Reply::status(401),
    });
    let url = format!("http://{}/check", auth.address);
    let service = [("satisfy", "any"), ("auth-url", &*url), ("auth-response-headers", "X-User")];
    let (_backend, folder, gateway) = start(&shop(&service));
    let lie = ("X-User", "root");
    for (fields, status, user, asked) in [
        (&[SESSION, lie][..], 200, vec!["ann"], 1),
        (&[ANN, lie], 200, vec![], 1),
        (&[OFFICE, lie], 200, vec![], 1),
        (&[lie], 401, vec![], 2),
        (&[("Cookie", "session=mute")], 500, vec![], 3),
        (&[("Cookie", "session=mute"), ANN], 200, vec![], 3),
    ] {
        let response = send(&gateway, fields);
        assert_eq!(response.status, status, "{fields:?}");
        assert_eq!(response.received("x-user"), user, "{fields:?}");
        // A subrequest without a response may be retried.
        assert!(auth.requests() >= asked && (asked >= 3 || auth.requests() == asked), "{fields:?}");
    }
    let sign_in = ("auth-signin", "https://login.example/");
    folder.write("shop.yaml", shop(&[&service[..], &[sign_in]].concat()).text());
    await_until("the way to sign in", || send(&gateway, &[]).status == 302);
    assert_eq!(send(&gateway, &[ANN]).status, 200);
}
