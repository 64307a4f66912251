//! `sluice check` with requests: what each one gets and why, from a list of URLs or the access log
//! of the old controller.

use serde_json::Value;

use crate::harness::gateway::run;
use crate::harness::{Backend, Folder, Ingress, TestCertificate, config_map, manifest, service, site};

const OPERATOR: &str = "ingress-nginx/controller";

/// Runs a check; the requests are in the file `name` of the folder.
fn check(folder: &Folder, name: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let file = folder.file(name);
    let flag = if name == "urls" { "--urls" } else { "--access-log" };
    let mut words =
        vec!["check", "--manifests", folder.path().to_str().unwrap(), flag, file.to_str().unwrap()];
    words.extend(flags);
    let output = run(&words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn json(folder: &Folder, name: &str, flags: &[&str]) -> Value {
    let (_, text, error) = check(folder, name, &[&["-o", "json"], flags].concat());
    serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{error}"))
}

/// A shop with a rule of each kind.
fn shop(backend: &Backend) -> Folder {
    let path = |name: &str, path: &str| Ingress::new(name).path("shop.example", path, "shop");
    let objects = [
        site("shop", "shop.example", &[backend]),
        path("old", "/old").annotation("permanent-redirect", "https://new.example/").text(),
        path("inside", "/inside").annotation("whitelist-source-range", "10.0.0.0/8").text(),
        path("signed", "/signed").annotation("auth-url", "http://auth.other.example/check").text(),
        path("health", "/health").annotation("configuration-snippet", "return 204;").text(),
        path("copied", "/copied")
            .annotation("mirror-target", &format!("http://{}$request_uri", backend.address))
            .annotation("limit-rps", "1")
            .text(),
        Ingress::new("empty").path("shop.example", "/empty", "empty").text() + &service("empty"),
        Ingress::new("secure")
            .path("secure.example", "/", "shop")
            .tls(&["secure.example"], "secure-tls")
            .text(),
        TestCertificate::new(&["secure.example"]).secret("secure-tls"),
        config_map(
            OPERATOR,
            &[("allow-snippet-annotations", "true"), ("annotations-risk-level", "Critical")],
        ),
    ];
    Folder::with(objects.concat())
}

#[test]
fn each_url_gets_its_response_with_the_rule_and_check_that_decide() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend);
    folder.write(
        "urls",
        "http://shop.example/cart\nhttp://shop.example/old\nhttp://shop.example/inside\nhttp://shop.example/signed\n\
         http://shop.example/health\nPOST http://shop.example/copied\nhttp://shop.example/copied\nhttp://shop.example/empty\n\
         http://secure.example/a\nhttps://secure.example/a\nhttp://other.example/\n",
    );
    let answer = json(&folder, "urls", &["--configmap", OPERATOR]);
    let responses = answer["responses"].as_array().unwrap();
    let seen: Vec<_> = responses
        .iter()
        .map(|response| (response["kind"].as_str().unwrap(), response["status"].as_u64().unwrap_or_default()))
        .collect();
    assert_eq!(
        seen,
        [
            ("backend", 0),
            ("redirect", 301),
            ("denied", 403),
            ("backend", 0),
            ("fixed response", 204),
            ("backend", 0),
            ("backend", 0),
            ("no endpoints", 503),
            ("redirect", 308),
            ("backend", 0),
            ("no rule", 404),
        ],
        "{answer:#}"
    );
    assert_eq!(responses[0]["backend"], "default-shop-80");
    assert_eq!(responses[0]["reason"], "Ingress default/shop, Prefix /");
    assert_eq!(responses[1]["location"], "https://new.example/");
    let reason = |number: usize| responses[number]["reason"].as_str().unwrap();
    assert!(
        reason(2).contains("Ingress default/inside") && reason(2).contains("address lists: 403"),
        "{}",
        reason(2)
    );
    let conditions = responses[3]["conditions"].to_string();
    assert!(conditions.contains("authorisation: auth.other.example decides"), "{conditions}");
    assert!(reason(7).contains("has no endpoints"), "{}", reason(7));
    assert_eq!(responses[8]["location"], "https://secure.example/a");
    assert_eq!(backend.requests(), 0, "a stub answers in place of every endpoint and mirror");
}

#[test]
fn address_lists_see_the_client_of_the_request() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend);
    folder.write("urls", "http://shop.example/inside\n");
    for (client, kind) in [("10.1.2.3", "backend"), ("2001:db8::1", "denied")] {
        let answer = json(&folder, "urls", &["--configmap", OPERATOR, "--client", client]);
        assert_eq!(answer["responses"][0]["kind"], kind, "{client}");
    }
}

#[test]
fn an_unreadable_url_is_named_with_its_line_and_what_to_write() {
    let folder = Folder::with(site("shop", "shop.example", &[]));
    folder.write("urls", "http://shop.example/\nshop.example/cart\n");
    let (status, text, error) = check(&folder, "urls", &[]);
    assert_eq!((status, text.as_str()), (Some(2), ""));
    assert!(error.contains("line 2") && error.contains("https://"), "{error}");
    let (status, _, error) = check(&folder, "absent", &[]);
    assert!(status == Some(2) && error.contains("--access-log names a file"), "{error}");
}

/// A line of the old controller in its default format.
fn line(target: &str, status: u16, upstream: &str, endpoint: &str) -> String {
    format!(
        "203.0.113.9 - - [25/Nov/2026:08:00:00 +0000] \"GET {target} HTTP/2.0\" {status} 512 \"-\" \"curl/8\" 90 0.004 [{upstream}] \
         [] {endpoint} 512 0.004 {status} 0b1c\n"
    )
}

#[test]
fn an_access_log_in_the_default_format_is_compared_with_what_answers_now() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend);
    let log = [
        line("/cart", 200, "default-shop-80", "10.0.0.1:80"),
        line("/cart", 404, "default-shop-80", "10.0.0.1:80"),
        line("/inside/a", 200, "default-shop-80", "10.0.0.1:80"),
        line("/inside/b", 200, "default-shop-80", "10.0.0.1:80"),
        line("/", 200, "default-gone-80", "10.0.0.9:80"),
        "I1125 08:00:00.000000       7 controller.go:190] \"Configuration changes detected\"\n".to_owned(),
    ];
    folder.write("log", log.concat());
    let (status, text, _) = check(&folder, "log", &["--configmap", OPERATOR]);
    assert_eq!(status, Some(1), "{text}");
    for part in [
        "responses: 4 requests, 4 distinct: 2 backend, 2 denied",
        "not checked: lines in another format: 1",
        "not checked: requests of an unknown host",
        "compared: the access log with this configuration, in the process of the check: 2 the same, 2 different",
        "difference: backend default-shop-80 (200) became denied 403 (2 requests, 2 distinct)",
        "because: Ingress default/inside, Prefix /inside; address lists: 403",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_access_log_in_the_format_of_the_config_map_has_hosts_and_schemes() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend);
    let format = r#"{"host":"$host","proto":"$scheme","request":"$request","status":"$status","geo":"$geoip_country_code","up":"$upstream_addr","name":"$proxy_upstream_name"}"#;
    let keys = [
        ("log-format-escape-json", "true"),
        ("log-format-upstream", format),
        ("allow-snippet-annotations", "true"),
    ];
    folder.write("operator.yaml", config_map("ingress-nginx/other", &keys));
    let line = |host: &str, scheme: &str, status: u16, upstream: &str| {
        format!(
            "{{\"host\":\"{host}\",\"proto\":\"{scheme}\",\"request\":\"GET /a HTTP/1.1\",\"status\":\"{status}\",\"geo\":\"DE\",\
             \"up\":\"{upstream}\",\"name\":\"default-shop-80\"}}\n"
        )
    };
    folder.write(
        "log",
        line("secure.example", "http", 308, "") + &line("secure.example", "https", 200, "10.0.0.1:80"),
    );
    let answer = json(&folder, "log", &["--configmap", "ingress-nginx/other"]);
    let urls: Vec<_> = answer["responses"]
        .as_array()
        .unwrap()
        .iter()
        .map(|response| response["url"].as_str().unwrap())
        .collect();
    assert_eq!(urls, ["http://secure.example/a", "https://secure.example/a"]);
    assert_eq!(answer["comparison"]["same"], 2, "{answer:#}");
}

#[test]
fn the_html_page_is_self_contained_and_escapes_what_it_shows() {
    let backend = Backend::echo("shop");
    let folder = shop(&backend);
    folder.write("urls", "http://shop.example/cart?a=%3Cscript%3E&b='x'\nhttp://shop.example/inside\n");
    let bad = Ingress::new("bad")
        .path("b.example", "/", "shop")
        .annotation("limit-rps", "<img src=x onerror=alert(1)>");
    folder.write("bad.yaml", bad.text());
    let (status, page, _) = check(&folder, "urls", &["--configmap", OPERATOR, "-o", "html"]);
    assert_eq!(status, Some(1), "an annotation cannot be read");
    assert!(page.starts_with("<!DOCTYPE html>\n<html lang=\"en\">") && page.ends_with("</html>\n"), "{page}");
    for part in [
        "default-src 'none'",
        "color-scheme: light dark",
        "prefers-color-scheme: dark",
        "<th scope=\"col\">",
        "<caption>",
        "&lt;img src=x onerror=alert(1)&gt;",
        "http://shop.example/cart?a=%3Cscript%3E&amp;b=&#39;x&#39;",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    for part in ["<script", "<img", "<link", " src=\"", "url(", "href=\"http"] {
        assert!(!page.contains(part), "{part}: {page}");
    }
    let (_, page, _) = check(&folder, "urls", &["--configmap", OPERATOR, "-o", "markdown"]);
    assert!(
        page.contains("## Responses\n") && page.contains("| 1 | denied 403 | Ingress default/inside"),
        "{page}"
    );
}

#[test]
fn a_weighted_canary_made_each_report_another_one() {
    let (main, next) = (Backend::echo("shop"), Backend::echo("next"));
    let canary = |weight| {
        let canary = Ingress::new("next").path("shop.example", "/", "next").annotation("canary", "true");
        canary.annotation("canary-by-header", "x-next").annotation("canary-weight", weight).text()
    };
    let next = manifest::service_with("next", &[&next]);
    let folder = Folder::with(site("shop", "shop.example", &[&main]) + &next);
    folder.write("urls", "http://shop.example/\n".repeat(20).as_str());
    for (weight, service) in [("50", "default-shop-80"), ("100", "default-next-80")] {
        folder.write("canary.yaml", canary(weight));
        let answer = json(&folder, "urls", &[]);
        let responses = answer["responses"].as_array().unwrap();
        assert!(!responses.is_empty());
        assert!(responses.iter().all(|response| response["backend"] == service), "{weight}: {answer:#}");
    }
}

#[test]
fn hosts_that_are_passed_through_are_not_decrypted() {
    let backend = Backend::echo("shop");
    let ingress = Ingress::new("raw").path("raw.example", "/", "shop").annotation("ssl-passthrough", "true");
    let folder = Folder::with(ingress.text() + &manifest::service_with("shop", &[&backend]));
    folder.write("urls", "https://raw.example/\n");
    let answer = json(&folder, "urls", &["--enable-ssl-passthrough"]);
    assert_eq!(answer["responses"][0]["kind"], "passed through", "{answer:#}");
    assert_eq!(answer["responses"][0]["backend"], "default-shop-80");
}

#[test]
fn chart_values_give_flags_config_maps_and_class_of_the_old_installation() {
    let backend = Backend::echo("shop");
    let folder = Folder::empty();
    folder.write(
        "shop.yaml",
        site("shop", "shop.example", &[&backend])
            .replace(r#""ingressClassName":"nginx""#, r#""ingressClassName":"edge""#),
    );
    folder.write("urls", "http://shop.example/\n");
    let values = Folder::empty();
    values.write(
        "values.yaml",
        "controller:\n  ingressClassResource: {name: edge, controllerValue: example.com/edge}\n  config: {force-ssl-redirect: 'true', \
         worker-rlimit: '1'}\n  customTemplate: {configMapName: nginx}\n  extraArgs: {profiling: 'false'}\ntcp: {'5432': 'default/shop:80'}\n",
    );
    let file = values.file("values.yaml");
    let file = file.to_str().unwrap();
    let (status, text, error) = check(&folder, "urls", &["--values", file]);
    assert_eq!(status, Some(1), "the chart refuses three values: {text}{error}");
    for part in [
        "redirect 308",
        "controller.customTemplate",
        "controller.extraArgs.profiling",
        "worker-rlimit",
        "2 ConfigMap",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (_, text, _) = check(&folder, "urls", &["--values", file, "--configmap", "ingress-nginx/none"]);
    assert!(!text.contains("redirect 308"), "a given flag has precedence over the values: {text}");
    values.write("values.yaml", "controller: [");
    let (status, _, error) = check(&folder, "urls", &["--values", file]);
    assert!(status == Some(2) && error.contains("is not YAML"), "{error}");
}
