//! Redirects configured by an Ingress, and the format of their URLs.

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, get, get_tls,
};

const HOST: &str = "shop.example";
const CONFIG: [&str; 2] = ["--configmap", "ingress-nginx/controller"];

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "web").annotations(annotations)
}

/// Starts a gateway whose Ingress is in a separate file.
fn start(ingress: &Ingress) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("web");
    let folder =
        Folder::with(service_with("web", &[&backend]) + &TestCertificate::new(&[HOST]).secret("tls"));
    folder.write("shop.yaml", ingress.text());
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    let gateway = Gateway::with(&folder, &CONFIG);
    (backend, folder, gateway)
}

fn redirect(gateway: &Gateway, target: &str) -> (u16, String) {
    let response = get(gateway.http, HOST, target);
    (response.status, response.header("location").unwrap_or_default().to_owned())
}

#[test]
fn all_paths_answer_with_the_redirect_and_need_no_backend() {
    let url = "https://new.example/shop?from=old";
    let (backend, folder, gateway) = start(&shop(&[("permanent-redirect", url)]));
    for target in ["/", "/cart?x=1", "/a/b/"] {
        assert_eq!(redirect(&gateway, target), (301, url.to_owned()), "{target}");
    }
    assert!(get(gateway.http, HOST, "/").text().contains("301 Moved Permanently"));
    assert_eq!((backend.requests(), gateway.problems()), (0, String::new()));
    let change = |annotations: &[(&str, &str)], expected: (u16, &str)| {
        folder.write("shop.yaml", shop(annotations).text());
        let expected = (expected.0, expected.1.to_owned());
        await_until("the redirect", || redirect(&gateway, "/x") == expected);
    };
    change(&[("permanent-redirect", url), ("permanent-redirect-code", "308")], (308, url));
    let temporal = "http://elsewhere.example";
    change(&[("permanent-redirect", url), ("temporal-redirect", temporal)], (302, temporal));
    change(&[("temporal-redirect", temporal), ("temporal-redirect-code", "307")], (307, temporal));
    // A status that clients do not follow is ignored.
    change(&[("temporal-redirect", url), ("temporal-redirect-code", "304")], (302, url));
    assert!(gateway.problems().contains("temporal-redirect-code"), "{}", gateway.problems());
    let without_service = Ingress::new("shop").path(HOST, "/", "gone").annotation("permanent-redirect", url);
    folder.write("shop.yaml", without_service.text());
    await_until("the redirect without a Service", || redirect(&gateway, "/") == (301, url.to_owned()));
    folder.write("shop.yaml", shop(&[]).text());
    await_until("the backend", || get(gateway.http, HOST, "/").status == 200);
}

#[test]
fn an_unusable_target_closes_the_route_with_a_remedy() {
    for target in ["https://new.example/$uri", "/new;x"] {
        let (backend, _folder, gateway) = start(&shop(&[("permanent-redirect", target)]));
        assert_eq!(redirect(&gateway, "/"), (404, String::new()), "{target}");
        let problems = gateway.problems();
        for part in ["Ingress default/shop", "permanent-redirect", target, "a URL or a path"] {
            assert!(problems.contains(part), "{part}: {problems}");
        }
        assert_eq!(backend.requests(), 0);
    }
}

#[test]
fn a_target_that_is_neither_a_url_nor_a_path_is_sent_as_it_is() {
    for target in ["new.example", "ftp://new.example/"] {
        let (_backend, _folder, gateway) = start(&shop(&[("permanent-redirect", target)]));
        assert_eq!(redirect(&gateway, "/"), (301, target.to_owned()));
        assert_eq!(gateway.problems(), "");
    }
}

#[test]
fn a_temporal_redirect_to_a_path_is_ignored_and_never_loops() {
    let (backend, _folder, gateway) = start(&shop(&[("temporal-redirect", "/new")]));
    assert_eq!(redirect(&gateway, "/new"), (200, String::new()));
    assert_eq!(backend.requests(), 1);
    assert!(gateway.problems().contains("temporal-redirect"), "{}", gateway.problems());
}

#[test]
fn the_redirect_comes_before_the_one_to_https() {
    let url = "https://new.example";
    let (_backend, _folder, gateway) = start(&shop(&[("permanent-redirect", url)]).tls(&[HOST], "tls"));
    assert_eq!(redirect(&gateway, "/"), (301, url.to_owned()));
    assert_eq!(get_tls(gateway.https, HOST, "/").header("location"), Some(url));
}

#[test]
fn a_path_becomes_a_url_unless_redirects_are_relative() {
    let (_backend, folder, gateway) = start(&shop(&[("permanent-redirect", "/new?x=1")]));
    assert_eq!(redirect(&gateway, "/old?y=2"), (301, "http://shop.example/new?x=1".to_owned()));
    let relative = [("permanent-redirect", "/new"), ("relative-redirects", "true")];
    folder.write("shop.yaml", shop(&relative).text());
    await_until("the relative one", || redirect(&gateway, "/old") == (301, "/new".to_owned()));
    let port = gateway.http.port();
    let with_port = [("permanent-redirect", "/new"), ("use-port-in-redirects", "true")];
    folder.write("shop.yaml", shop(&with_port).text());
    await_until("the one with a port", || {
        redirect(&gateway, "/old") == (301, format!("http://shop.example:{port}/new"))
    });
}

#[test]
fn the_form_of_redirects_is_a_key_that_an_ingress_may_override() {
    let paths = |annotations: &[(&str, &str)]| {
        Ingress::new("shop").path(HOST, "/app/", "web").tls(&[HOST], "tls").annotations(annotations)
    };
    let (_backend, folder, gateway) = start(&paths(&[("ssl-redirect", "false")]));
    let settings = |data: &[(&str, &str)]| {
        folder.write("config.yaml", config_map("ingress-nginx/controller", data));
    };
    let locations = |slash: &str| {
        await_until(slash, || redirect(&gateway, "/app?x=1") == (301, slash.to_owned()));
    };
    locations("http://shop.example/app/?x=1");
    settings(&[("relative-redirects", "true")]);
    locations("/app/?x=1");
    settings(&[("use-port-in-redirects", "true")]);
    locations(&format!("http://shop.example:{}/app/?x=1", gateway.http.port()));
    folder.write("shop.yaml", paths(&[("ssl-redirect", "false"), ("use-port-in-redirects", "false")]).text());
    locations("http://shop.example/app/?x=1");
    // The redirect to https: its slash and its port.
    folder.write("shop.yaml", paths(&[]).text());
    let https = |target: &str, location: &str| {
        await_until(location, || redirect(&gateway, target) == (308, location.to_owned()));
    };
    let port = gateway.https.port();
    https("/app/x/", &format!("https://shop.example:{port}/app/x"));
    settings(&[("preserve-trailing-slash", "true")]);
    https("/app/x/", "https://shop.example/app/x/");
    folder.write("shop.yaml", paths(&[("preserve-trailing-slash", "false")]).text());
    https("/app/x/", "https://shop.example/app/x");
    settings(&[]);
    folder.write("shop.yaml", paths(&[("preserve-trailing-slash", "true")]).text());
    https("/app/", "https://shop.example/app/");
}
