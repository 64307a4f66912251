//! OCSP stapling (`enable-ocsp`) with a responder on loopback.

use std::sync::Arc;
use std::time::Duration;

use rustls::version::{TLS12, TLS13};

use super::e2e_tls_defaults::openssl;
use crate::harness::manifest;
use crate::harness::ocsp::{OcspResponder, Statement};
use crate::harness::{Authority, Backend, Connection, Folder, Gateway, Ingress, await_until, trust};

const HOST: &str = "shop.example";
/// Another host with the same certificate.
const OTHER: &str = "other.example";
const HTTP_1: &[&[u8]] = &[b"http/1.1"];
const HOUR: Duration = Duration::from_secs(3600);

/// A gateway for one host, whose certificate names a responder.
struct Site {
    authority: Arc<Authority>,
    responder: OcspResponder,
    folder: Folder,
    _backend: Backend,
    gateway: Gateway,
}

impl Site {
    /// `lifetime` is the one of responses; `None` for a responder that is out of order.
    fn new(enabled: &str, lifetime: Option<Duration>) -> Self {
        Self::with(enabled, |responder, authority| answer(responder, authority, lifetime))
    }

    fn with(enabled: &str, answer: impl FnOnce(&OcspResponder, &Authority)) -> Self {
        let backend = Backend::echo("shop");
        let folder = Folder::with(manifest::nginx_class() + &manifest::service_with("shop", &[&backend]));
        let (authority, responder) = (Arc::new(Authority::new()), OcspResponder::start());
        let ingress = |name: &str, host| Ingress::new(name).path(host, "/", "shop").tls(&[host], "server");
        folder.write("ingress.yaml", ingress("shop", HOST).text() + &ingress("other", OTHER).text());
        folder.write("config.yaml", manifest::config_map("default/config", &[("enable-ocsp", enabled)]));
        answer(&responder, &authority);
        let certificate = authority.issue_with_responder(&[HOST, OTHER], &responder.url());
        folder.write("server.yaml", certificate.secret("server"));
        let gateway = Gateway::with(&folder, &["--configmap", "default/config"]);
        Self { authority, responder, folder, _backend: backend, gateway }
    }

    /// Replaces the certificate and waits until it is served.
    fn renew_certificate(&self) {
        let generation = self.gateway.generation();
        let certificate = self.authority.issue_with_responder(&[HOST, OTHER], &self.responder.url());
        self.folder.write("server.yaml", certificate.secret("server"));
        await_until("the new certificate", || self.gateway.generation() > generation);
    }

    /// The responses that are stapled with each version; empty for none.
    fn staples(&self) -> [Vec<u8>; 2] {
        self.staples_of(HOST)
    }

    fn staples_of(&self, host: &str) -> [Vec<u8>; 2] {
        [&TLS13, &TLS12].map(|version| {
            let (config, staple) = trust::recording_staples(&[version], HTTP_1);
            let mut connection = Connection::tls_with(self.gateway.https, host, &Arc::new(config));
            assert_eq!(connection.get(host, "/").status, 200);
            staple.lock().unwrap().clone()
        })
    }

    fn is_stapled(&self) -> bool {
        self.staples().iter().all(|staple| !staple.is_empty())
    }

    fn has_no_staple(&self) -> bool {
        self.staples().iter().all(Vec::is_empty)
    }
}

fn answer(responder: &OcspResponder, authority: &Authority, lifetime: Option<Duration>) {
    let signer = authority.signer();
    responder.set(move |request| Some(signer.respond(request, Statement::good(lifetime?))));
}

#[test]
fn a_response_is_stapled_off_the_request_path() {
    let site = Site::new("true", Some(HOUR));
    await_until("a staple", || site.is_stapled());
    let first = site.staples();
    assert_eq!(site.staples_of(OTHER), first, "hosts share a certificate with its response");
    assert_eq!(site.responder.requests(), 1, "neither hosts nor handshakes cause further requests");
    if let Some((_, text)) = openssl(site.gateway.https, HOST, &["-status"]) {
        assert!(text.contains("OCSP Response Status: successful"), "{text}");
        assert!(text.contains("Cert Status: good"), "{text}");
    }
    site.renew_certificate();
    await_until("the staple of the new certificate", || site.is_stapled() && site.staples() != first);
    site.folder.write("config.yaml", manifest::config_map("default/config", &[("enable-ocsp", "false")]));
    await_until("no staple", || site.has_no_staple());
}

#[test]
fn an_expired_response_is_not_stapled_although_its_responder_is_dead() {
    let site = Site::new("true", Some(Duration::from_secs(10)));
    await_until("a staple", || site.is_stapled());
    answer(&site.responder, &site.authority, None);
    await_until("the end of the staple", || site.has_no_staple());
}

#[test]
fn a_dead_responder_has_no_effect() {
    let site = Site::new("true", None);
    await_until("a question", || site.responder.requests() > 0);
    await_until("a line in the log", || {
        site.gateway.log().contains("the OCSP responder answers 503 Service Unavailable")
    });
    assert!(site.has_no_staple());
    // The responder is left alone for a while, also about other certificates.
    site.renew_certificate();
    assert!(site.has_no_staple());
    assert_eq!(site.responder.requests(), 1);
}

#[test]
fn forged_and_oversized_responses_are_not_stapled() {
    let forger = Authority::new().signer();
    let forge = move |request: &[u8]| Some(forger.respond(request, Statement::good(HOUR)));
    let site = Site::with("true", |responder, _| responder.set(forge));
    await_until("a line in the log", || site.gateway.log().contains("a response that is not signed by"));
    site.responder.set(|_| Some(vec![0x30; 1 << 20]));
    site.renew_certificate();
    await_until("a line in the log", || site.gateway.log().contains("sends no usable response"));
    assert!(site.has_no_staple());
}

#[test]
fn no_responder_is_asked_by_default() {
    let site = Site::new("false", Some(HOUR));
    site.renew_certificate();
    assert!(site.has_no_staple());
    assert_eq!(site.responder.requests(), 0);
}
