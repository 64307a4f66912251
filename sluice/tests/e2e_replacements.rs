//! Replacements in the cookies and redirects of endpoints.

use crate::harness::{
    Backend, Folder, Gateway, Ingress, Reply, await_until, config_map, get, get_tls, manifest,
};

const HOST: &str = "shop.example";
const OPERATOR: &str = "ingress-nginx/controller";

/// Starts a backend that sets two cookies and redirects.
fn backend() -> Backend {
    Backend::with("shop", |_| {
        let fields = [
            ("Set-Cookie", "a=1; Domain=inner.example; Path=/app/x; Secure"),
            ("Set-Cookie", "b=2; path=/other"),
            ("Location", "http://inner.example/app/next?x=1"),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Reply::Answer(302, fields.into(), String::new())
    })
}

fn shop(backend: &Backend, annotations: &[(&str, &str)]) -> String {
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations);
    ingress.text() + &manifest::service_with("shop", &[backend])
}

#[test]
fn an_ingress_replaces_cookies_and_redirects_of_its_endpoints() {
    let backend = backend();
    let folder = Folder::with(shop(&backend, &[]));
    let gateway = Gateway::start(&folder);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.header("location"), Some("http://inner.example/app/next?x=1"));
    let annotations = [
        ("proxy-cookie-domain", "inner.example shop.example"),
        ("proxy-cookie-path", "/app/ /"),
        ("proxy-redirect-from", "http://inner.example/app/"),
        ("proxy-redirect-to", "/"),
    ];
    folder.write("objects.yaml", shop(&backend, &annotations));
    await_until("the redirect", || {
        get(gateway.http, HOST, "/").header("location") == Some("http://shop.example/next?x=1")
    });
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.all("set-cookie"), ["a=1; Domain=shop.example; Path=/x; Secure", "b=2; path=/other"]);
    let annotations = [
        ("proxy-redirect-from", "~^http://([a-z]+)\\.example/"),
        ("proxy-redirect-to", "$scheme://$1.$host/"),
        ("proxy-cookie-path", "off"),
    ];
    folder.write("objects.yaml", shop(&backend, &annotations));
    await_until("the expression", || {
        // If an expression matches, the whole value is replaced.
        get(gateway.http, HOST, "/").header("location") == Some("http://inner.shop.example/")
    });
    assert_eq!(get_tls(gateway.https, HOST, "/").header("location"), Some("https://inner.shop.example/"));
    folder.write("objects.yaml", shop(&backend, &[("proxy-cookie-path", "/app")]));
    await_until("the problem", || gateway.problems().contains("two words"));
    assert_eq!(get(gateway.http, HOST, "/").status, 302, "it is ignored");
}

#[test]
fn annotations_override_the_keys() {
    let backend = backend();
    let folder = Folder::with(shop(&backend, &[]));
    folder.write(
        "operator.yaml",
        config_map(
            OPERATOR,
            &[
                ("proxy-cookie-path", "/ \"/; SameSite=None\""),
                ("proxy-redirect-from", "http://inner.example/"),
                ("proxy-redirect-to", "https://$http_host/"),
            ],
        ),
    );
    let gateway = Gateway::with(&folder, &["--configmap", OPERATOR]);
    let response = get(gateway.http, HOST, "/");
    assert_eq!(response.header("location"), Some("https://shop.example/app/next?x=1"));
    assert_eq!(response.all("set-cookie")[1], "b=2; path=/; SameSite=Noneother");
    let annotations = [("proxy-cookie-path", "off"), ("proxy-redirect-to", "off")];
    folder.write("objects.yaml", shop(&backend, &annotations));
    await_until("the annotations", || {
        let response = get(gateway.http, HOST, "/");
        response.header("location") == Some("http://inner.example/app/next?x=1")
            && response.all("set-cookie")[1] == "b=2; path=/other"
    });
    folder.write("objects.yaml", shop(&backend, &[]));
    folder.write("operator.yaml", config_map(OPERATOR, &[("proxy-redirect-from", "http://inner.example/")]));
    await_until("the keys to go", || {
        let response = get(gateway.http, HOST, "/");
        response.header("location") == Some("http://inner.example/app/next?x=1")
            && response.all("set-cookie")[1] == "b=2; path=/other"
    });
}
