//! Basic authentication: names and passwords from Secrets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::harness::client::Response;
use crate::harness::gateway::run;
use crate::harness::h2;
use crate::harness::manifest::{opaque_secret, service_with};
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get,
};

const HOST: &str = "shop.example";

/// A line of each supported form. The password is `open sesame`, except for bcrypt: `password`.
const USERS: &str = "\
bcrypt:$2y$05$nC6nErr9XZJuMJ57WyCob.EuZEjylDt2KaHfbfOtyb.EgL1I2jCVa
apache:$apr1$saltsalt$HIDXe7D36X22w1CH4M1cQ.
md5:$1$saltsalt$Yo6tRKYGO/jWyb1etwHDS/
sha256:$5$saltsalt$yrhPKxCqiWcCE9h0g86j6Ugz7SDFdFm.BjU.d8RaQnC
sha512:$6$saltsalt$e/5XKibXPLqVcfjpD.ouauaJrAOL5V0uo80Lt7n7EbRdRiCx3HbQ90yjOHr.G0T.mx79PEMRy8nmtr0qSYhQp1
sha:{SHA}W8r/fyL/UzygmbNAjq2HbA67qac=
ssha:{SSHA}Z0Nu9uwKR8y+WgtjJ6MtIqFQb8NzYWx0eQ==
plain:{PLAIN}open sesame
";

fn guarded(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotation("auth-type", "basic").annotations(annotations)
}

/// A guarded shop whose Secret does not exist yet.
fn shop(annotations: &[(&str, &str)]) -> (Backend, Folder) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(guarded(annotations).text() + &service_with("shop", &[&backend]));
    (backend, folder)
}

fn users(folder: &Folder, text: &str) {
    folder.write("users.yaml", opaque_secret("users", &[("auth", text)]));
}

fn pair(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

fn as_user(gateway: &Gateway, user: &str, password: &str) -> Response {
    let value = pair(user, password);
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("Authorization", &value)], "")
}

#[test]
fn every_password_form_of_nginx_admits_its_user_only() {
    let (_backend, folder) = shop(&[("auth-secret", "users"), ("auth-realm", "the \"inner\" shop")]);
    users(&folder, USERS);
    let gateway = Gateway::start(&folder);
    for line in USERS.lines() {
        let user = line.split(':').next().unwrap();
        let password = if user == "bcrypt" { "password" } else { "open sesame" };
        // The first request verifies the password, the second uses the cached result.
        for _ in 0..2 {
            let response = as_user(&gateway, user, password);
            assert_eq!((response.status, response.backend().as_str()), (200, "shop"), "{user}");
            assert_eq!(response.received("authorization"), Vec::<String>::new(), "{user}");
            let response = as_user(&gateway, user, "wrong");
            assert_eq!(response.status, 401, "{user}");
        }
    }
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.status, 401);
    assert_eq!(response.header("www-authenticate"), Some("Basic realm=\"the \\\"inner\\\" shop\""));
    assert!(response.text().contains("401 Authorization Required"));
    assert_eq!(as_user(&gateway, "nobody", "open sesame").status, 401);
    assert!(gateway.await_access("\" 200 ").contains(" - bcrypt ["));
    for log in [gateway.log(), gateway.problems()] {
        assert!(!log.contains("sesame") && !log.contains("$apr1$"), "{log}");
    }
}

#[test]
fn a_route_without_its_secret_is_closed_and_opens_by_itself() {
    let (_backend, folder) = shop(&[("auth-secret", "users")]);
    let gateway = Gateway::start(&folder);
    assert_eq!(as_user(&gateway, "ann", "x").status, 503);
    let problems = gateway.problems();
    for part in ["Ingress default/shop", "auth-secret", "Secret default/users does not exist", "htpasswd"] {
        assert!(problems.contains(part), "{part}: {problems}");
    }
    folder.write("users.yaml", opaque_secret("users", &[("passwords", "ann:{PLAIN}x")]));
    await_until("the problem to name the key", || gateway.problems().contains("has no key auth"));
    assert_eq!(as_user(&gateway, "ann", "x").status, 503);
    users(&folder, "ann:{PLAIN}x");
    await_until("the route to open", || as_user(&gateway, "ann", "x").status == 200);
    assert_eq!(get(gateway.http, HOST, "/").status, 401);
    assert_eq!(gateway.problems(), "");
    folder.remove("users.yaml");
    await_until("the route to close", || as_user(&gateway, "ann", "x").status == 503);
}

#[test]
fn an_edited_secret_applies_at_once_and_a_bad_line_affects_no_other() {
    let (_backend, folder) = shop(&[("auth-secret", "users")]);
    users(&folder, "ann:$apr1$saltsalt$HIDXe7D36X22w1CH4M1cQ.\nbob:{PLAIN}b");
    let gateway = Gateway::start(&folder);
    assert_eq!(as_user(&gateway, "ann", "open sesame").status, 200);
    users(&folder, "ann:{PLAIN}new\nbob:{PLAIN}b");
    await_until("the old password to count no more", || {
        as_user(&gateway, "ann", "open sesame").status == 401
    });
    assert_eq!(as_user(&gateway, "ann", "new").status, 200);
    users(&folder, "ann:hunter2\nbob:{PLAIN}b");
    await_until("the bad line", || as_user(&gateway, "ann", "new").status == 401);
    assert_eq!(as_user(&gateway, "bob", "b").status, 200);
    let problems = gateway.problems();
    assert!(problems.contains("Secret default/users: data[auth] line 1"), "{problems}");
    assert!(!problems.contains("hunter2"), "{problems}");
}

#[test]
fn a_map_has_a_key_for_each_user() {
    let (_backend, folder) = shop(&[("auth-secret", "users"), ("auth-secret-type", "auth-map")]);
    folder.write("users.yaml", opaque_secret("users", &[("ann", "{PLAIN}a"), ("bob", "{PLAIN}b")]));
    let gateway = Gateway::start(&folder);
    assert_eq!(as_user(&gateway, "ann", "a").status, 200);
    assert_eq!(as_user(&gateway, "bob", "a").status, 401);
}

#[test]
fn http2_is_authenticated_like_http1() {
    let backend = Backend::echo("shop");
    let ingress = guarded(&[("auth-secret", "users"), ("auth-realm", "the shop")]).tls(&[HOST], "tls");
    let certificate = TestCertificate::new(&[HOST]).secret("tls");
    let folder = Folder::with(ingress.text() + &service_with("shop", &[&backend]) + &certificate);
    users(&folder, USERS);
    let gateway = Gateway::start(&folder);
    h2::run(async {
        let connection = h2::Connection::tls(gateway.https, HOST).await;
        let ask = |user: &str, password: &str| {
            let request = http::Request::get("https://shop.example/");
            request.header("authorization", pair(user, password)).body(()).unwrap()
        };
        let response = connection.get("https://shop.example/").await.unwrap();
        assert_eq!(response.status(), 401);
        assert_eq!(response.headers()["www-authenticate"], "Basic realm=\"the shop\"");
        let (good, wrong) = (ask("sha512", "open sesame"), ask("sha512", "wrong"));
        assert_eq!(connection.send(wrong, "").await.unwrap().status(), 401);
        let response = connection.send(good, "").await.unwrap();
        assert_eq!(response.status(), 200);
        // With a body, which is held while the password is verified.
        let request = http::Request::post("https://shop.example/form")
            .header("authorization", pair("md5", "open sesame"));
        let response = connection.send(request.body(()).unwrap(), "hello").await.unwrap();
        assert_eq!(response.status(), 200);
        let seen: serde_json::Value = serde_json::from_slice(response.body()).unwrap();
        assert_eq!(seen["body"], "hello");
    });
    let value = pair("apache", "open sesame");
    let mut connection = Connection::tls(gateway.https, HOST);
    let response = connection.request("POST", HOST, "/form", &[("Authorization", &value)], "hello");
    assert_eq!((response.status, response.json()["body"].as_str()), (200, Some("hello")));
    assert_eq!(connection.get(HOST, "/").status, 401, "the connection goes on");
}

#[test]
fn a_rejected_ingress_beside_it_stays_closed() {
    let (_backend, folder) = shop(&[("auth-secret", "users")]);
    users(&folder, "ann:{PLAIN}x");
    let admin = Ingress::new("admin").path(HOST, "/admin", "shop").annotation("auth-type", "basic");
    let admin = admin.annotation("auth-secret", "users");
    folder.write("admin.yaml", admin.annotation("limit-rps", "many").text());
    let gateway = Gateway::start(&folder);
    let ask = |path| {
        let mut connection = Connection::plain(gateway.http);
        connection.request("GET", HOST, path, &[("Authorization", &pair("ann", "x"))], "").status
    };
    assert_eq!((ask("/"), ask("/admin"), ask("/admin/x")), (200, 404, 404));
}

#[test]
fn a_foreign_namespace_secret_needs_permission_in_the_config_map() {
    let (_backend, folder) = shop(&[("auth-secret", "other/users")]);
    let text = opaque_secret("users", &[("auth", "ann:{PLAIN}x")]).replace("\"default\"", "\"other\"");
    folder.write("users.yaml", text);
    let gateway = Gateway::with(&folder, &["--configmap=system/settings"]);
    assert_eq!(as_user(&gateway, "ann", "x").status, 503);
    assert!(gateway.problems().contains("allow-cross-namespace-resources"), "{}", gateway.problems());
    let allowed = config_map("system/settings", &[("allow-cross-namespace-resources", "true")]);
    folder.write("settings.yaml", allowed);
    await_until("the Secret to be used", || as_user(&gateway, "ann", "x").status == 200);
    folder.write("settings.yaml", config_map("system/settings", &[]));
    await_until("the right to end", || as_user(&gateway, "ann", "x").status == 503);
}

#[test]
fn check_reports_why_a_route_is_closed() {
    let (_backend, folder) = shop(&[("auth-secret", "users")]);
    let said = |folder: &Folder| {
        let output = run(&["check", "--manifests", folder.path().to_str().unwrap()]);
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    };
    let (good, text) = said(&folder);
    assert!(!good && text.contains("Secret default/users does not exist"), "{text}");
    users(&folder, "ann:{PLAIN}x");
    let (good, text) = said(&folder);
    assert!(good, "{text}");
}
