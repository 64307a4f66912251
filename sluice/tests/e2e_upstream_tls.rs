//! Protocols and trust of endpoints: `backend-protocol`, `appProtocol`, `proxy-ssl-*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::ServerConfig;
use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};
use serde_json::json;

use crate::harness::grpc::{GrpcBackend, GrpcClient, breathe};
use crate::harness::manifest::{self, opaque_secret};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, Reply, TestCertificate, await_until, endpoints,
    get, get_tls, h2,
};

const HOST: &str = "shop.example";

fn shop(backend: &Backend, annotations: &[(&str, &str)]) -> String {
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("backend-protocol", "HTTPS")
        .annotations(annotations);
    ingress.text() + &manifest::service_with("shop", &[backend])
}

fn status(gateway: &Gateway) -> u16 {
    get(gateway.http, HOST, "/").status
}

#[test]
fn only_endpoints_of_the_authority_are_used_as_the_secret_changes() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let backend = Backend::tls("shop", ours.issue(&["inner.example"]).server_config());
    let annotations = [
        ("proxy-ssl-secret", "default/upstream"),
        ("proxy-ssl-verify", "on"),
        ("proxy-ssl-name", "inner.example"),
    ];
    let folder = Folder::with(shop(&backend, &annotations));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway), 503, "there is no Secret");
    assert!(gateway.problems().contains("Secret default/upstream does not exist"), "{}", gateway.problems());
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*ours.pem())]));
    await_until("the route to open", || status(&gateway) == 200);
    let made = backend.connections();
    // Connections verified before the change are not used after it.
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*theirs.pem())]));
    await_until("the endpoint to be refused", || status(&gateway) == 502);
    for _ in 0..4 {
        assert_eq!(status(&gateway), 502);
    }
    assert!(backend.connections() > made);
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", "nonsense")]));
    await_until("the route to close", || status(&gateway) == 503);
    folder.write("upstream.yaml", opaque_secret("upstream", &[("tls.crt", "x")]));
    await_until("the key to be missed", || gateway.problems().contains("has no key ca.crt"));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*ours.pem())]));
    await_until("the route to open", || status(&gateway) == 200);
}

/// Sessions of an endpoint, with the number of those that were resumed.
#[derive(Debug)]
struct CountedSessions {
    sessions: Arc<ServerSessionMemoryCache>,
    resumed: AtomicUsize,
}

impl CountedSessions {
    fn count(&self, session: Option<Vec<u8>>) -> Option<Vec<u8>> {
        self.resumed.fetch_add(usize::from(session.is_some()), Ordering::Relaxed);
        session
    }
}

impl StoresServerSessions for CountedSessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.count(self.sessions.get(key))
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.count(self.sessions.take(key))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[test]
fn a_session_with_an_endpoint_is_resumed_until_its_secret_changes() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let sessions =
        Arc::new(CountedSessions { sessions: ServerSessionMemoryCache::new(64), resumed: 0.into() });
    let mut config = ServerConfig::clone(&ours.issue(&["inner.example"]).server_config());
    config.session_storage = sessions.clone();
    // Each response ends its connection.
    let response = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let backend = Backend::tls_with("shop", Arc::new(config), |_| Reply::Raw(response.to_vec()));
    let annotations = [
        ("proxy-ssl-secret", "default/upstream"),
        ("proxy-ssl-verify", "on"),
        ("proxy-ssl-name", "inner.example"),
    ];
    let folder = Folder::with(shop(&backend, &annotations));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*ours.pem())]));
    let gateway = Gateway::start(&folder);
    await_until("a resumed session", || {
        assert_eq!(status(&gateway), 200);
        sessions.resumed.load(Ordering::Relaxed) > 0
    });
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*theirs.pem())]));
    await_until("the endpoint to be refused", || status(&gateway) == 502);
    for _ in 0..4 {
        assert_eq!(status(&gateway), 502, "a session of before would not be verified");
    }
}

#[test]
fn endpoints_may_present_self_signed_authorities_common_names_version_1() {
    let authority = Authority::new();
    let named = authority.issue_client("inner.example", 1);
    let version_1 = TestCertificate::of_version_1();
    let own = Authority::self_signed(&["inner.example"]);
    for (certificate, trusted, name) in [
        (&own, &own.pem, "inner.example"),
        (&named, &authority.pem(), "inner.example"),
        (&version_1, &version_1.pem, "old.example"),
    ] {
        let backend = Backend::tls("shop", certificate.server_config());
        let annotated = |name| {
            let verify = [("proxy-ssl-secret", "upstream"), ("proxy-ssl-verify", "on")];
            shop(&backend, &[verify[0], verify[1], ("proxy-ssl-name", name)])
        };
        let folder = Folder::with(annotated(name));
        folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &**trusted)]));
        let gateway = Gateway::start(&folder);
        assert_eq!(status(&gateway), 200, "{name}");
        folder.write("objects.yaml", annotated("other.example"));
        await_until("the other name", || status(&gateway) == 502);
        let reason = "an endpoint's certificate is not trusted: hostname mismatch";
        await_until("the reason in the log", || gateway.log().contains(reason));
    }
}

#[test]
fn the_name_is_verified_also_where_it_is_left_out() {
    let authority = Authority::new();
    let backend = Backend::tls("shop", authority.issue(&["inner.example"]).server_config());
    let verify = [("proxy-ssl-secret", "upstream"), ("proxy-ssl-verify", "on")];
    let folder = Folder::with(shop(&backend, &verify));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
    let gateway = Gateway::start(&folder);
    // The certificate must be valid for shop.default.svc then.
    assert_eq!(status(&gateway), 502);
    folder
        .write("objects.yaml", shop(&backend, &[verify[0], verify[1], ("proxy-ssl-name", "inner.example")]));
    await_until("the name", || status(&gateway) == 200);
    folder
        .write("objects.yaml", shop(&backend, &[verify[0], verify[1], ("proxy-ssl-name", "other.example")]));
    await_until("the other name", || status(&gateway) == 502);
    folder.write("objects.yaml", shop(&backend, &[("proxy-ssl-verify", "on")]));
    await_until("nothing to be verified", || status(&gateway) == 200);
    assert!(gateway.problems().contains("no effect without proxy-ssl-secret"), "{}", gateway.problems());
    let named = Backend::tls("named", authority.issue(&["shop.default.svc"]).server_config());
    folder.write("objects.yaml", shop(&named, &verify));
    await_until("the name of the Service", || status(&gateway) == 200);
}

#[test]
fn the_name_of_each_request_is_verified_also_on_a_kept_connection() {
    let authority = Authority::new();
    let config = authority.issue(&["a.shop.example"]).server_config();
    let (backend, grpc) = (Backend::tls("shop", config.clone()), GrpcBackend::tls(&config));
    let verified = |name: &str, protocol: &str, host: &str| {
        Ingress::new(name)
            .path(host, "/", name)
            .annotation("backend-protocol", protocol)
            .annotation("proxy-ssl-secret", "upstream")
            .annotation("proxy-ssl-verify", "on")
    };
    let shop = verified("shop", "HTTPS", "*.shop.example").annotation("proxy-ssl-name", "$host");
    let calls = verified("grpc", "GRPCS", "grpc.example").annotation("proxy-ssl-name", "$http_x_name");
    let folder = Folder::with(shop.text() + &manifest::service_with("shop", &[&backend]));
    folder.write("grpc.yaml", calls.text() + &grpc.service("grpc"));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
    let gateway = Gateway::start(&folder);
    for (host, status) in [("a", 200), ("b", 502), ("a", 200), ("b", 502), ("a%20b", 502)] {
        assert_eq!(get(gateway.http, &format!("{host}.shop.example"), "/").status, status, "{host}");
    }
    let ask = |name: &str| {
        let mut client = Connection::plain(gateway.http);
        client.request("POST", "grpc.example", "/echo/Chat", &[("X-Name", name)], "hello").status
    };
    for (name, status) in [
        ("a.shop.example", 200),
        ("b.shop.example", 502),
        ("a.shop.example:443", 200),
        ("", 502),
        ("a b", 502),
    ] {
        assert_eq!(ask(name), status, "{name:?}");
    }
    assert_eq!(gateway.problems(), "");
}

#[test]
fn intermediate_certificates_of_an_endpoint_are_limited() {
    let authority = Authority::new();
    let outer = authority.intermediate();
    let inner = outer.intermediate();
    let certificate = inner.issue(&["inner.example"]);
    let backend = Backend::tls("shop", certificate.server_config_behind(&[&inner, &outer]));
    let annotated = |depth: &str| {
        let own = [
            ("proxy-ssl-secret", "upstream"),
            ("proxy-ssl-verify", "on"),
            ("proxy-ssl-name", "inner.example"),
            ("proxy-ssl-verify-depth", depth),
        ];
        shop(&backend, &own)
    };
    let folder = Folder::with(annotated("1"));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway), 502, "there are two");
    folder.write("objects.yaml", annotated("2"));
    await_until("two to be allowed", || status(&gateway) == 200);
    folder.write("objects.yaml", annotated("1"));
    await_until("one to be allowed", || status(&gateway) == 502);
}

#[test]
fn endpoints_receive_the_server_name_if_configured() {
    let authority = Authority::new();
    let backend = Backend::tls("shop", authority.issue(&["inner.example"]).server_config_by_name());
    let annotated = |server_name: &str| {
        let own = [
            ("proxy-ssl-secret", "upstream"),
            ("proxy-ssl-name", "inner.example"),
            ("proxy-ssl-server-name", server_name),
        ];
        shop(&backend, &own)
    };
    let folder = Folder::with(annotated("off"));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*authority.pem())]));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway), 502, "it presents its certificate only with SNI");
    folder.write("objects.yaml", annotated("on"));
    await_until("the server name", || status(&gateway) == 200);
    folder.write("objects.yaml", annotated("off"));
    await_until("it to be left out again", || status(&gateway) == 502);
}

#[test]
fn endpoints_get_a_client_certificate() {
    let authority = Authority::new();
    let certificate = TestCertificate::new(&["inner.example"]);
    let backend = Backend::tls("shop", certificate.demanding_server_config(&authority));
    let folder = Folder::with(shop(&backend, &[]));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway), 502, "it requires a certificate");
    let pair = |authority: &Authority| {
        let own = authority.issue(&["gateway"]);
        opaque_secret("upstream", &[("tls.crt", &own.pem), ("tls.key", &own.key_pem)])
    };
    folder.write("upstream.yaml", pair(&authority));
    folder.write("objects.yaml", shop(&backend, &[("proxy-ssl-secret", "upstream")]));
    await_until("the certificate to be shown", || status(&gateway) == 200);
    folder.write("upstream.yaml", pair(&Authority::new()));
    await_until("another to be refused", || status(&gateway) == 502);
    folder.write("upstream.yaml", pair(&authority));
    await_until("the first again", || status(&gateway) == 200);
}

#[test]
fn a_sibling_presents_the_certificate_of_its_host_and_verifies() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let demanding = |shown: &Authority| {
        Backend::tls("shop", shown.issue(&["inner.example"]).demanding_server_config(&ours))
    };
    let (backend, stranger) = (demanding(&ours), demanding(&theirs));
    let secret = |authorities: &Authority| {
        let own = ours.issue(&["gateway"]);
        let data = [("ca.crt", authorities.pem()), ("tls.crt", own.pem), ("tls.key", own.key_pem)];
        opaque_secret("upstream", &data.each_ref().map(|(key, value)| (*key, &**value)))
    };
    let annotations = [
        ("proxy-ssl-secret", "default/upstream"),
        ("proxy-ssl-verify", "on"),
        ("proxy-ssl-name", "inner.example"),
    ];
    let sibling = |name: &str, backend: &Backend| {
        let path = format!("/{name}");
        Ingress::new(name).path(HOST, &path, name).annotation("backend-protocol", "HTTPS").text()
            + &manifest::service_with(name, &[backend])
    };
    let folder = Folder::with(shop(&backend, &annotations));
    folder.write("siblings.yaml", sibling("sibling", &backend) + &sibling("stranger", &stranger));
    folder.write("upstream.yaml", secret(&ours));
    let gateway = Gateway::start(&folder);
    let status = |path| get(gateway.http, HOST, path).status;
    assert_eq!([status("/"), status("/sibling"), status("/stranger")], [200, 200, 502]);
    // An edit of the Secret applies to all of them.
    folder.write("upstream.yaml", secret(&theirs));
    await_until("the other authority", || status("/stranger") == 200);
    assert_eq!([status("/"), status("/sibling")], [502, 502]);
    folder.remove("upstream.yaml");
    await_until("the routes to close", || status("/sibling") == 503);
    folder.write("upstream.yaml", secret(&ours));
    await_until("the routes to open", || status("/sibling") == 200);
    // Without the annotations no certificate is presented, although the endpoint requires one.
    folder.write("objects.yaml", shop(&backend, &[]));
    await_until("the certificate to go", || status("/sibling") == 502);
}

#[test]
fn versions_and_suites_follow_the_rule() {
    let certificate = TestCertificate::new(&["inner.example"]);
    let backend = Backend::tls("shop", certificate.server_config_of(&[&rustls::version::TLS12]));
    let secret = ("proxy-ssl-secret", "upstream");
    let folder = Folder::with(shop(&backend, &[secret, ("proxy-ssl-protocols", "TLSv1.3")]));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*Authority::new().pem())]));
    let gateway = Gateway::start(&folder);
    assert_eq!(status(&gateway), 502);
    for (protocols, ciphers, expected) in [
        ("TLSv1.2 TLSv1.3", "DEFAULT", 200),
        ("TLSv1.2", "ECDHE-RSA-AES256-GCM-SHA384", 502),
        ("TLSv1 TLSv1.2", "HIGH:!aRSA", 200),
        ("SSLv3", "DEFAULT", 200),
        ("TLSv1.3", "DEFAULT", 502),
        ("TLSv1.2", "RC4-MD5", 200),
        ("TLSv1.3", "DEFAULT", 502),
        ("TLSv1.4", "DEFAULT", 200),
    ] {
        let annotations = [secret, ("proxy-ssl-protocols", protocols), ("proxy-ssl-ciphers", ciphers)];
        folder.write("objects.yaml", shop(&backend, &annotations));
        await_until(&format!("{protocols} {ciphers}"), || status(&gateway) == expected);
    }
}

#[test]
fn app_protocol_applies_unless_the_ingress_sets_a_protocol() {
    let backend = Backend::tls("shop", TestCertificate::new(&["inner.example"]).server_config());
    let service = |protocol: &str| {
        manifest::document(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "shop", "namespace": "default"},
            "spec": {"ports": [
                {"name": "http", "port": 80, "targetPort": "http", "appProtocol": protocol},
            ]},
        })) + &endpoints("shop", &[&backend])
    };
    let ingress = Ingress::new("shop").path(HOST, "/", "shop");
    let folder = Folder::with(ingress.clone().text() + &service("https"));
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "shop");
    folder.write("objects.yaml", ingress.clone().text() + &service("http"));
    await_until("plain HTTP", || status(&gateway) == 502);
    folder.write("objects.yaml", ingress.annotation("backend-protocol", "HTTPS").text() + &service("http"));
    await_until("the annotation", || status(&gateway) == 200);
}

#[test]
fn endpoints_get_the_protocol_of_the_client() {
    let (plain, secure) = (
        Backend::echo("plain"),
        Backend::tls("secure", TestCertificate::new(&["inner.example"]).server_config()),
    );
    let objects = |backend: &Backend| {
        let ingress = Ingress::new("shop").path(HOST, "/", "shop");
        ingress.annotation("backend-protocol", "AUTO_HTTP").text()
            + &manifest::service_with("shop", &[backend])
    };
    let folder = Folder::with(objects(&plain));
    let gateway = Gateway::start(&folder);
    assert_eq!(get(gateway.http, HOST, "/").backend(), "plain");
    folder.write("objects.yaml", objects(&secure));
    await_until("the other endpoint", || get_tls(gateway.https, HOST, "/").backend() == "secure");
    assert_eq!(status(&gateway), 502);
}

#[test]
fn endpoints_of_grpc_are_verified_too() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let backend = GrpcBackend::tls(&ours.issue(&["inner.example"]).server_config());
    let ingress = Ingress::new("shop")
        .path(HOST, "/", "grpc")
        .annotation("backend-protocol", "GRPCS")
        .annotation("proxy-ssl-secret", "upstream")
        .annotation("proxy-ssl-verify", "on")
        .annotation("proxy-ssl-name", "inner.example");
    let folder = Folder::with(ingress.text() + &backend.service("grpc"));
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*ours.pem())]));
    let gateway = Gateway::start(&folder);
    let await_status = |status: &str| {
        h2::run(async {
            loop {
                let client = GrpcClient::plain(gateway.http, HOST).await;
                let reply = client.unary("/echo/Unary", b"hello").await.unwrap();
                if reply.status() == Some(status) {
                    return;
                }
                breathe().await;
            }
        });
    };
    await_status("0");
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*theirs.pem())]));
    await_status("14");
    folder.write("upstream.yaml", opaque_secret("upstream", &[("ca.crt", &*ours.pem())]));
    await_status("0");
}
