//! Selection of a path of a host.

use crate::harness::manifest::service_with;
use crate::harness::{Backend, Folder, Gateway, Ingress, get};

const HOST: &str = "paths.example";

/// Serves a host whose paths lead to echoing backends with these names.
fn serve(paths: &[(&str, &str, &str)]) -> (Gateway, Vec<Backend>) {
    let mut ingress = Ingress::new("paths");
    let mut services = String::new();
    let mut backends = Vec::new();
    for (path, path_type, name) in paths {
        ingress = ingress.typed_path(HOST, path, path_type, name);
        let backend = Backend::echo(name);
        services.push_str(&service_with(name, &[&backend]));
        backends.push(backend);
    }
    (Gateway::start(&Folder::with(ingress.text() + &services)), backends)
}

#[test]
fn exact_takes_the_identical_path_alone() {
    let (gateway, _backends) = serve(&[("/foo", "Exact", "exact")]);
    assert_eq!(get(gateway.http, HOST, "/foo").backend(), "exact");
    assert_eq!(get(gateway.http, HOST, "/foo?a=b").backend(), "exact");
    for path in ["/foo/", "/foo/x", "/Foo", "/foobar", "/"] {
        assert_eq!(get(gateway.http, HOST, path).status, 404, "{path}");
    }
}

#[test]
fn prefix_takes_whole_elements() {
    let (gateway, _backends) = serve(&[("/foo", "Prefix", "prefix")]);
    for path in ["/foo", "/foo/", "/foo/x", "/foo/x/y?z"] {
        assert_eq!(get(gateway.http, HOST, path).backend(), "prefix", "{path}");
    }
    for path in ["/foobar", "/Foo", "/", "/x/foo"] {
        assert_eq!(get(gateway.http, HOST, path).status, 404, "{path}");
    }
}

#[test]
fn implementation_specific_is_like_prefix() {
    let (gateway, _backends) = serve(&[("/foo", "ImplementationSpecific", "specific")]);
    assert_eq!(get(gateway.http, HOST, "/foo/x").backend(), "specific");
    assert_eq!(get(gateway.http, HOST, "/foobar").status, 404);
}

#[test]
fn exact_is_before_prefix_and_the_longer_prefix_before_the_shorter() {
    let (gateway, _backends) = serve(&[
        ("/", "Prefix", "root"),
        ("/foo", "Prefix", "prefix"),
        ("/foo", "Exact", "exact"),
        ("/foo/bar", "Prefix", "longer"),
    ]);
    for (path, backend) in [
        ("/foo", "exact"),
        ("/foo/", "prefix"),
        ("/foo/bar/x", "longer"),
        ("/foo/barx", "prefix"),
        ("/x", "root"),
    ] {
        assert_eq!(get(gateway.http, HOST, path).backend(), backend, "{path}");
    }
}

#[test]
fn a_missing_final_slash_is_redirected() {
    let (gateway, _backends) = serve(&[("/dir/", "Prefix", "dir")]);
    let response = get(gateway.http, HOST, "/dir");
    assert_eq!(response.status, 301);
    assert_eq!(response.header("location"), Some("http://paths.example/dir/"));
    assert!(response.text().contains("301 Moved Permanently"));
    assert_eq!(get(gateway.http, HOST, "/dir?a=b").header("location"), Some("http://paths.example/dir/?a=b"));
    assert_eq!(get(gateway.http, HOST, "/dir/").backend(), "dir");
    assert_eq!(get(gateway.http, HOST, "/directory").status, 404);
}

#[test]
fn a_missing_final_slash_of_an_exact_path_is_not_found() {
    let (gateway, _backends) = serve(&[("/dir/", "Exact", "dir")]);
    assert_eq!(get(gateway.http, HOST, "/dir").status, 404);
    assert_eq!(get(gateway.http, HOST, "/dir/").backend(), "dir");
}

#[test]
fn an_exact_path_was_swallowed_by_a_prefix_once_the_host_had_expressions() {
    let (open, guarded) = (Backend::echo("open"), Backend::echo("guarded"));
    let ingresses = [
        Ingress::new("a").typed_path(HOST, "/foo", "Prefix", "open").created("2026-01-01T00:00:01Z"),
        Ingress::new("b")
            .typed_path(HOST, "/foo", "Exact", "guarded")
            .created("2026-01-01T00:00:02Z")
            .annotation("allowlist-source-range", "192.0.2.0/24"),
        Ingress::new("c")
            .path(HOST, "/zzz/(.*)", "open")
            .created("2026-01-01T00:00:03Z")
            .annotation("use-regex", "true"),
    ];
    let services = service_with("open", &[&open]) + &service_with("guarded", &[&guarded]);
    let objects = ingresses.map(|ingress| ingress.text()).concat() + &services;
    let gateway = Gateway::start(&Folder::with(objects));
    for path in ["/foo", "/foobar", "/FOO?x"] {
        assert_eq!(get(gateway.http, HOST, path).status, 403, "{path}");
    }
    for path in ["/foo/", "/foo/x", "/zzz/x"] {
        assert_eq!(get(gateway.http, HOST, path).backend(), "open", "{path}");
    }
}

#[test]
fn paths_are_normalised_to_match_and_sent_on_as_they_came() {
    let (gateway, _backends) = serve(&[("/foo", "Prefix", "foo"), ("/bar", "Prefix", "bar")]);
    for path in ["/%66oo/x", "/bar/../foo/x", "//foo//x", "/./foo/x", "/bar/%2e%2e/foo"] {
        let response = get(gateway.http, HOST, path);
        assert_eq!(response.backend(), "foo", "{path}");
        assert_eq!(response.json()["target"], path);
    }
    assert_eq!(get(gateway.http, HOST, "/foo/../../bar").status, 400, "above the root");
}
