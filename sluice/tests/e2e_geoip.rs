//! GeoIP2: variables about the location of a client, and lists of countries.

use std::fs;
use std::path::Path;

use sluice_testing::mmdb;

use crate::harness::client::Response;
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map};

const HOST: &str = "shop.example";
const GERMAN: &str = "192.0.2.7";

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/", "shop").annotations(annotations)
}

/// Starts a gateway that reads the editions from `databases`.
fn start(ingress: &Ingress, keys: &[(&str, &str)], databases: &Path) -> (Backend, Folder, Gateway) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(service_with("shop", &[&backend]));
    folder.write("shop.yaml", ingress.text());
    settings(&folder, keys);
    let path = databases.to_str().unwrap();
    let editions = "GeoLite2-Country,GeoLite2-City";
    let flags = ["--configmap", "system/settings", "--geoip-path", path, "--maxmind-edition-ids", editions];
    let gateway = Gateway::with(&folder, &flags);
    (backend, folder, gateway)
}

fn settings(folder: &Folder, keys: &[(&str, &str)]) {
    let keys = [&[("use-forwarded-headers", "true")], keys].concat();
    folder.write("config.yaml", config_map("system/settings", &keys));
}

/// Puts a database in place as `geoipupdate` does, whole and at once.
fn install(databases: &Path, edition: &str, content: &[u8]) {
    let new = databases.join("new");
    fs::write(&new, content).unwrap();
    fs::rename(new, databases.join(format!("{edition}.mmdb"))).unwrap();
}

fn ask(gateway: &Gateway, client: &str) -> Response {
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Forwarded-For", client)], "")
}

fn status(gateway: &Gateway, client: &str) -> u16 {
    ask(gateway, client).status
}

#[test]
fn variables_contain_the_location_of_the_client() {
    let databases = tempfile::tempdir().unwrap();
    install(databases.path(), "GeoLite2-Country", &mmdb::country("192.0.2.0/24", "DE"));
    install(databases.path(), "GeoLite2-City", &mmdb::city("2001:db8::/32", "CH", "Zürich", 47.37));
    let fields = "X-Country: $geoip2_country_code\nX-City: $geoip2_city\nX-Latitude: $geoip2_latitude";
    let ingress = shop(&[("sluice.dev/set-request-headers", fields)]);
    let format = r#"{"from":"$geoip2_country_code"}"#;
    let keys = [("use-geoip2", "true"), ("log-format-upstream", format)];
    let (_backend, folder, gateway) = start(&ingress, &keys, databases.path());
    await_until("the databases", || ask(&gateway, GERMAN).received("x-country") == ["DE"]);
    let swiss = ask(&gateway, "2001:db8::1");
    assert_eq!(swiss.received("x-city"), ["Zürich"]);
    assert_eq!(swiss.received("x-latitude"), ["47.37000"]);
    assert_eq!(swiss.received("x-country"), Vec::<String>::new(), "the other database has no such network");
    gateway.await_access(r#"{"from":"DE"}"#);
    assert!(gateway.problems().is_empty());

    install(databases.path(), "GeoLite2-Country", &mmdb::country("192.0.2.0/24", "AT"));
    await_until("the new database", || ask(&gateway, GERMAN).received("x-country") == ["AT"]);
    settings(&folder, &[]);
    await_until("no database", || ask(&gateway, GERMAN).received("x-country").is_empty());
}

#[test]
fn lists_of_countries_admit_and_refuse_clients() {
    let databases = tempfile::tempdir().unwrap();
    install(databases.path(), "GeoLite2-Country", &mmdb::country("192.0.2.0/24", "DE"));
    install(databases.path(), "GeoLite2-City", &mmdb::city("2001:db8::/32", "CH", "Zürich", 47.37));
    let ingress = shop(&[("sluice.dev/allow-countries", "de, AT")]);
    let (_backend, folder, gateway) = start(&ingress, &[("use-geoip2", "true")], databases.path());
    assert_eq!(status(&gateway, GERMAN), 200, "the first request has the databases");
    assert_eq!(status(&gateway, "198.51.100.1"), 403, "its country is not known");
    let explained = gateway.ask(&format!("/explain?host={HOST}&client=198.51.100.1")).text();
    assert!(explained.contains("198.51.100.1") && explained.contains("403"), "{explained}");

    folder.write("shop.yaml", shop(&[("sluice.dev/deny-countries", "DE")]).text());
    await_until("the deny list", || status(&gateway, GERMAN) == 403);
    assert_eq!(status(&gateway, "198.51.100.1"), 200);

    let both = [("sluice.dev/allow-countries", "DE"), ("allowlist-source-range", "192.0.2.0/28")];
    folder.write("shop.yaml", shop(&both).text());
    await_until("both lists", || status(&gateway, GERMAN) == 200);
    assert_eq!(status(&gateway, "192.0.2.200"), 403, "each list must admit the client");

    folder.write("shop.yaml", shop(&[("sluice.dev/allow-countries", "Germany")]).text());
    await_until("the closed route", || status(&gateway, GERMAN) == 503);
    let problems = gateway.problems();
    assert!(problems.contains("Germany") && problems.contains("ISO 3166-1"), "{problems}");
}

#[test]
fn a_list_of_countries_skipped_the_deny_of_a_snippet() {
    let databases = tempfile::tempdir().unwrap();
    install(databases.path(), "GeoLite2-Country", &mmdb::country("192.0.2.0/24", "DE"));
    install(databases.path(), "GeoLite2-City", &mmdb::city("2001:db8::/32", "CH", "Zürich", 47.37));
    let snippet = "allow 192.0.2.1;\nallow 198.51.100.1;\ndeny all;";
    let ingress = shop(&[("sluice.dev/allow-countries", "DE"), ("configuration-snippet", snippet)]);
    let keys = [
        ("use-geoip2", "true"),
        ("allow-snippet-annotations", "true"),
        ("annotations-risk-level", "Critical"),
    ];
    let (_backend, _folder, gateway) = start(&ingress, &keys, databases.path());
    assert_eq!(status(&gateway, "192.0.2.1"), 200);
    assert_eq!(status(&gateway, GERMAN), 403, "the snippet denies it");
    assert_eq!(status(&gateway, "198.51.100.1"), 403, "its country is not known");
    let explained = gateway.ask(&format!("/explain?host={HOST}&client={GERMAN}")).text();
    assert!(explained.contains(&format!("403: {GERMAN} (DE) is denied")), "{explained}");
}

#[test]
fn a_list_of_countries_without_a_database_served_everyone() {
    let databases = tempfile::tempdir().unwrap();
    let ingress = shop(&[("sluice.dev/deny-countries", "DE")]);
    let (backend, folder, gateway) = start(&ingress, &[], databases.path());
    assert_eq!(status(&gateway, GERMAN), 403);
    await_until("the problem", || gateway.problems().contains("no database with countries"));
    assert!(gateway.problems().contains("set use-geoip2 to true"));

    settings(&folder, &[("use-geoip2", "true")]);
    await_until("the missing files", || gateway.problems().contains("GeoLite2-City.mmdb"));
    assert_eq!((status(&gateway, GERMAN), backend.requests()), (403, 0));
    install(databases.path(), "GeoLite2-Country", b"not a database");
    await_until("the damaged file", || gateway.problems().contains("is damaged"));
    install(databases.path(), "GeoLite2-Country", &mmdb::country("192.0.2.0/24", "FR"));
    await_until("the database", || status(&gateway, GERMAN) == 200);
}

#[test]
fn databases_are_downloaded_from_a_mirror_before_requests_need_them() {
    let archive = mmdb::archive("GeoLite2-Country", &mmdb::country("192.0.2.0/24", "DE"));
    let mirror =
        Backend::with("mirror", move |request| match request.start.split(' ').nth(1).unwrap_or_default() {
            // As MaxMind does.
            "/databases/GeoLite2-Country.tar.gz" => {
                Reply::Answer(302, vec![("Location".into(), "/storage/1".into())], String::new())
            }
            "/storage/1" => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", archive.len());
                Reply::Raw([head.as_bytes(), &archive].concat())
            }
            _ => Reply::status(404),
        });
    let databases = tempfile::tempdir().unwrap();
    let path = databases.path().join("geoip");
    let backend = Backend::echo("shop");
    let folder = Folder::with(service_with("shop", &[&backend]));
    folder.write("shop.yaml", shop(&[("sluice.dev/allow-countries", "DE")]).text());
    settings(&folder, &[("use-geoip2", "true")]);
    let mirror_url = format!("http://{}/databases", mirror.address);
    let flags = [
        "--configmap",
        "system/settings",
        "--geoip-path",
        path.to_str().unwrap(),
        "--maxmind-edition-ids",
        "GeoLite2-Country,GeoLite2-ASN",
        "--maxmind-mirror",
        &mirror_url,
    ];
    let gateway = Gateway::with(&folder, &flags);
    assert_eq!(status(&gateway, GERMAN), 200);
    let log = gateway.program_log().concat();
    assert!(log.contains("GeoLite2-ASN") && log.contains("status 404"), "{log}");
    await_until("the problem", || gateway.problems().contains("GeoLite2-ASN.mmdb"));
}
