//! TLS to clients as operators configure it: versions, suites, curves, sessions, unknown names.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, NamedGroup, SupportedProtocolVersion};

use crate::harness::manifest::{self, opaque_secret};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, trust,
};

const HOST: &str = "shop.example";
const HTTP_1: &[&[u8]] = &[b"http/1.1"];
/// 48 bytes.
const TICKET_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";

fn site() -> (Backend, Folder) {
    let backend = Backend::echo("shop");
    let folder = Folder::with(manifest::nginx_class() + &manifest::service_with("shop", &[&backend]));
    folder.write("server.yaml", TestCertificate::new(&[HOST, "other.example"]).secret("server"));
    folder.write("ingress.yaml", ingress(HOST).text());
    (backend, folder)
}

fn ingress(host: &str) -> Ingress {
    Ingress::new(&host.replace('.', "-")).path(host, "/", "shop").tls(&[host], "server")
}

fn configure(folder: &Folder, keys: &[(&str, &str)]) {
    let format = ("log-format-upstream", "$ssl_protocol $ssl_cipher $ssl_session_reused");
    folder.write("config.yaml", manifest::config_map("default/config", &[&[format], keys].concat()));
}

fn start(folder: &Folder) -> Gateway {
    Gateway::with(folder, &["--configmap", "default/config"])
}

fn client(versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
    Arc::new(trust::trusting(versions, HTTP_1))
}

fn client_of(change: impl FnOnce(&mut CryptoProvider)) -> Arc<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    change(&mut provider);
    let versions: Vec<&'static SupportedProtocolVersion> = [&TLS13, &TLS12]
        .into_iter()
        .filter(|version| {
            provider.cipher_suites.iter().any(|suite| suite.version().version == version.version)
        })
        .collect();
    Arc::new(trust::trusting_with(provider, &versions, HTTP_1))
}

fn connects(gateway: &Gateway, config: &Arc<ClientConfig>) -> bool {
    Connection::try_tls_with(gateway.https, HOST, config).is_ok()
}

/// Whether a second connection of one client resumes the session of the first.
fn resumes(gateway: &Gateway, config: &Arc<ClientConfig>) -> bool {
    // The sessions of TLS 1.3 arrive with the response.
    assert_eq!(Connection::tls_with(gateway.https, HOST, config).get(HOST, "/").status, 200);
    let mut second = Connection::tls_with(gateway.https, HOST, config);
    assert_eq!(second.get(HOST, "/").status, 200);
    second.was_resumed()
}

#[test]
fn versions_are_offered_as_the_key_says() {
    let (_backend, folder) = site();
    configure(&folder, &[]);
    let gateway = start(&folder);
    let [old, new] = [client(&[&TLS12]), client(&[&TLS13])];
    assert!(connects(&gateway, &old) && connects(&gateway, &new));
    configure(&folder, &[("ssl-protocols", "TLSv1.3")]);
    await_until("TLS 1.3 alone", || !connects(&gateway, &old));
    assert!(connects(&gateway, &new));
    configure(&folder, &[("ssl-protocols", "TLSv1 TLSv1.2")]);
    await_until("TLS 1.2 alone", || connects(&gateway, &old) && !connects(&gateway, &new));
    let skipped = "TLSv1 (broken, RFC 8996): not available, and skipped";
    assert!(gateway.problems().contains(skipped), "{}", gateway.problems());
}

#[test]
fn suites_and_curves_are_those_of_the_keys_and_never_more() {
    let (_backend, folder) = site();
    configure(&folder, &[]);
    let gateway = start(&folder);
    let with_suite = |suite| client_of(|provider| provider.cipher_suites = vec![suite]);
    let aes = with_suite(cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
    let chacha = with_suite(cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256);
    assert!(connects(&gateway, &aes) && connects(&gateway, &chacha));
    configure(&folder, &[("ssl-ciphers", "ECDHE-ECDSA-AES256-GCM-SHA384:AES128-SHA")]);
    await_until("one suite", || !connects(&gateway, &chacha));
    assert!(connects(&gateway, &aes));
    assert!(gateway.problems().contains("AES128-SHA: not available, and skipped"), "{}", gateway.problems());
    configure(&folder, &[("ssl-ciphers", "AES128-SHA")]);
    await_until("no suite of TLS 1.2", || !connects(&gateway, &aes));
    assert!(connects(&gateway, &client(&[&TLS13])));
    configure(&folder, &[("ssl-ecdh-curve", "secp384r1:secp521r1")]);
    let p384 = client_of(|provider| provider.kx_groups = vec![kx_group::SECP384R1]);
    let x25519 = client_of(|provider| provider.kx_groups = vec![kx_group::X25519]);
    await_until("one curve", || !connects(&gateway, &x25519));
    let chosen = Connection::tls_with(gateway.https, HOST, &p384).key_exchange();
    assert_eq!(chosen, Some(NamedGroup::secp384r1));
    assert!(gateway.problems().contains("secp521r1: not available"), "{}", gateway.problems());
}

#[test]
fn a_host_may_have_suites_of_its_own() {
    let (_backend, folder) = site();
    configure(&folder, &[]);
    folder.write("other.yaml", ingress("other.example").annotation("ssl-ciphers", "CHACHA20").text());
    let gateway = start(&folder);
    let aes = client_of(|provider| {
        provider.cipher_suites = vec![cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384];
    });
    assert!(connects(&gateway, &aes));
    assert!(Connection::try_tls_with(gateway.https, "other.example", &aes).is_err());
    let mut any = Connection::tls_with(gateway.https, "other.example", &client(&[&TLS12]));
    assert_eq!(any.get("other.example", "/").status, 200);
    gateway.await_access("TLSv1.2 ECDHE-ECDSA-CHACHA20-POLY1305 .");
}

#[test]
fn sessions_are_resumed_by_default_and_not_without_cache_and_tickets() {
    let (_backend, folder) = site();
    configure(&folder, &[]);
    let gateway = start(&folder);
    for versions in [&[&TLS12], &[&TLS13]] {
        assert!(resumes(&gateway, &client(versions)), "{versions:?}");
    }
    gateway.await_access("TLSv1.2 ECDHE-ECDSA-AES256-GCM-SHA384 r");
    configure(&folder, &[("ssl-session-cache", "false")]);
    await_until("no cache", || !resumes(&gateway, &client(&[&TLS13])));
    assert!(!resumes(&gateway, &client(&[&TLS12])));
    configure(&folder, &[("ssl-session-cache", "false"), ("ssl-session-tickets", "true")]);
    await_until("tickets", || resumes(&gateway, &client(&[&TLS13])));
    assert!(resumes(&gateway, &client(&[&TLS12])));
}

#[test]
fn replicas_with_one_ticket_key_share_sessions_also_after_a_rotation() {
    const SECOND: &str = "MDECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4v";
    let keys = |key| [("ssl-session-tickets", "true"), ("ssl-session-ticket-key", key)];
    let (_backend, folder) = site();
    configure(&folder, &keys(TICKET_KEY));
    let [one, other] = [start(&folder), start(&folder)];
    let config = client(&[&TLS12]);
    let connect = |gateway: &Gateway| {
        let mut connection = Connection::tls_with(gateway.https, HOST, &config);
        assert_eq!(connection.get(HOST, "/").status, 200);
        connection.was_resumed()
    };
    assert!(!connect(&one));
    assert!(connect(&other));
    let generation = one.generation();
    configure(&folder, &keys(SECOND));
    await_until("the new key", || one.generation() > generation);
    assert!(connect(&one), "a ticket under the key before");
}

#[test]
fn a_resumed_session_keeps_its_certificate_and_is_verified_again() {
    let (_backend, folder) = site();
    let authority = Authority::new();
    let trusted = |authority: &Authority| opaque_secret("clients", &[("ca.crt", &*authority.pem())]);
    configure(&folder, &[]);
    folder.write("clients.yaml", trusted(&authority));
    folder.write("ingress.yaml", ingress(HOST).annotation("auth-tls-secret", "default/clients").text());
    folder.write("other.yaml", ingress("other.example").text());
    let gateway = start(&folder);
    let config = authority.issue_client("client", 7).presenting(&[], HTTP_1);
    assert!(resumes(&gateway, &config));
    let mut resumed = Connection::tls_with(gateway.https, HOST, &config);
    let response = resumed.get(HOST, "/");
    assert!(resumed.was_resumed());
    assert_eq!(response.received("ssl-client-subject-dn"), ["CN=client,O=Example"]);
    assert_eq!(resumed.get("other.example", "/").status, 200);
    // Its session belongs to the profile of the host, and to its name.
    let mut open = Connection::tls_with(gateway.https, "other.example", &config);
    assert!(!open.was_resumed());
    assert_eq!(open.get(HOST, "/").status, 421);
    folder.write("clients.yaml", trusted(&Authority::new()));
    await_until("the other authority", || resumed.get(HOST, "/").status == 400);
    let mut late = Connection::tls_with(gateway.https, HOST, &config);
    assert!(late.was_resumed());
    assert_eq!(late.get(HOST, "/").status, 400);
}

#[test]
fn no_session_is_resumed_under_another_verification() {
    let cache = ("ssl-session-tickets", "false");
    let tickets = [("ssl-session-tickets", "true"), ("ssl-session-ticket-key", TICKET_KEY)];
    let variants: [(&str, &[(&str, &str)]); 4] =
        [("TLSv1.2", &[cache]), ("TLSv1.3", &[cache]), ("TLSv1.2", &tickets), ("TLSv1.3", &tickets)];
    for (version, sessions) in variants {
        let (_backend, folder) = site();
        let [ours, theirs] = [Authority::new(), Authority::new()];
        for (name, authority) in [("ours", &ours), ("theirs", &theirs)] {
            folder.write(&format!("{name}.yaml"), opaque_secret(name, &[("ca.crt", &*authority.pem())]));
        }
        configure(&folder, &[&[("ssl-protocols", version)][..], sessions].concat());
        let gateway = start(&folder);
        let client = || ours.issue_client("client", 7).presenting(&[], HTTP_1);
        let status = |config: &Arc<ClientConfig>| {
            let mut connection = Connection::tls_with(gateway.https, HOST, config);
            (connection.was_resumed(), connection.get(HOST, "/").status)
        };
        let kept = client();
        assert!(resumes(&gateway, &kept), "{version} {sessions:?}");
        let verify = |secret: &str| {
            folder.write("ingress.yaml", ingress(HOST).annotation("auth-tls-secret", secret).text());
        };
        verify("default/ours");
        let anonymous = Arc::new(trust::trusting(rustls::ALL_VERSIONS, HTTP_1));
        await_until("verification", || status(&anonymous).1 == 400);
        assert_eq!(status(&kept), (false, 200), "{version} {sessions:?}: its session is not verified");
        assert!(resumes(&gateway, &kept), "{version} {sessions:?}");
        verify("default/theirs");
        await_until("the other authority", || status(&client()).1 == 400);
        assert_eq!(status(&kept), (false, 400), "{version} {sessions:?}: another has verified it");
        folder.write("ingress.yaml", ingress(HOST).text());
        await_until("no verification", || status(&client()).1 == 200);
        assert_eq!(status(&kept), (false, 200), "{version} {sessions:?}");
    }
}

#[test]
fn names_of_no_host_are_refused_if_the_key_says_so() {
    let (_backend, folder) = site();
    configure(&folder, &[]);
    let gateway = start(&folder);
    let served = |name: &str| Connection::try_tls(gateway.https, name).is_ok();
    assert!(served("unknown.example"));
    configure(&folder, &[("ssl-reject-handshake", "true")]);
    await_until("refusals", || !served("unknown.example"));
    assert!(served(HOST) && !served("127.0.0.1"));
    let error = Connection::try_tls(gateway.https, "unknown.example").unwrap_err();
    assert!(error.to_string().contains("UnrecognisedName"), "{error}");
    folder.write("plain.yaml", Ingress::new("plain").path("plain.example", "/", "shop").text());
    await_until("a host without a TLS section", || served("plain.example"));
}
