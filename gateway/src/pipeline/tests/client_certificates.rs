//! Requests for hosts that verify clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use http::header::HeaderMap;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls_pki_types::CertificateDer;
use sluice_config::{
    CaBundle, CertificateErrorPage, Change, ClientAuthorities, ClientCertificateMode, ClientCertificates,
    ClientVerification, Delta, Host, NamespacedName, Resource, ResourceKey, ResourceKind, Rule,
};

use super::fixture::*;
use crate::connection::info::ConnectionInfo;
use crate::message::answer::Answer;
use crate::pipeline::originator::Originator;
use crate::pipeline::{Exchange, Verdict};
use crate::state::snapshot::PublishedSnapshot;
use crate::tls::ClientTls;

pub(super) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// Returns an authority with a unique name: with equal names, a certificate of one would have a
/// wrong signature for the other.
pub(super) fn authority() -> Issuer {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mut params = CertificateParams::default();
    let number = COUNT.fetch_add(1, Relaxed);
    params.distinguished_name.push(DnType::CommonName, format!("authority {number}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    Issuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

pub(super) fn client(issuer: &Issuer, name: &str) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

fn key() -> ResourceKey {
    ResourceKey { kind: ResourceKind::ClientAuthorities, name: NamespacedName::new("shop", "ca") }
}

pub(super) fn verification() -> ClientVerification {
    ClientVerification { authorities: key(), depth: 1 }
}

pub(super) fn policy(mode: ClientCertificateMode) -> ClientCertificates {
    ClientCertificates {
        mode,
        verification: verification(),
        error_page: None,
        subject: None,
        passes_certificate: false,
    }
}

fn plane(policy: ClientCertificates, trusted: Option<&Issuer>) -> Plane {
    let mut plane = Plane::simple(&[1]);
    verify(&mut plane, policy, vec![rule("/", forward("web"))]);
    if let Some(issuer) = trusted {
        trust(&mut plane, issuer);
    }
    plane
}

/// Has clients of the host with these rules verified.
pub(super) fn verify(plane: &mut Plane, policy: ClientCertificates, rules: Vec<Rule>) {
    let host = Host {
        key: host_key(exact("a.example")),
        alias_of: None,
        tls: None,
        has_https: false,
        passthrough: None,
        client_certificates: Some(Arc::new(policy)),
        cipher_suites: None,
        rules,
        fall_through: false,
    };
    assert_eq!(plane.put_host(host), []);
}

pub(super) fn trust(plane: &mut Plane, issuer: &Issuer) {
    let authorities = CaBundle { certificates: vec![issuer.der().to_vec()] };
    let content = Resource::ClientAuthorities(ClientAuthorities { authorities, revocations: Vec::new() });
    let change = Change::Put(key(), Arc::new(content));
    assert_eq!(plane.apply(Delta { resources: vec![change], ..Delta::default() }), []);
}

/// A connection on which this certificate was presented.
pub(super) fn connection_with(
    verification: Option<ClientVerification>,
    certificate: Option<&CertificateDer<'static>>,
) -> Arc<ConnectionInfo> {
    let mut connection = connection_from("192.0.2.7:5000", true);
    let chain = certificate.map(std::slice::from_ref);
    let client = verification.map(|one| Box::new(ClientTls::new(Arc::new(one), chain)));
    connection.tls.as_mut().unwrap().client = client;
    Arc::new(connection)
}

fn begin(plane: &Plane, connection: &Arc<ConnectionInfo>) -> Result<Box<Exchange>, Answer> {
    let request = Request::get("a.example", "/").with("ssl_client_verify", "SUCCESS");
    let request = request.with("ssl-client-subject-dn", "CN=admin");
    match Exchange::begin(PublishedSnapshot::take(&plane.state), connection, &request.head()) {
        (exchange, Verdict::Forward) => Ok(exchange),
        (_, Verdict::Answer(answer)) => Err(answer),
        (_, verdict) => panic!("{verdict:?}"),
    }
}

fn refused(plane: &Plane, connection: &Arc<ConnectionInfo>) -> (u16, String) {
    let answer = begin(plane, connection).unwrap_err();
    (answer.status.as_u16(), String::from_utf8(answer.body.to_vec()).unwrap())
}

fn certificate_fields(plane: &Plane, connection: &Arc<ConnectionInfo>) -> HeaderMap {
    let exchange = begin(plane, connection).unwrap();
    let mut head = http::Request::new(());
    head.headers_mut().insert("ssl_client_verify", http::HeaderValue::from_static("SUCCESS"));
    head.headers_mut().insert("ssl-client-subject-dn", http::HeaderValue::from_static("CN=admin"));
    exchange.upstream_request(&mut head);
    head.into_parts().0.headers
}

#[test]
fn a_required_certificate_is_verified() {
    let (ours, theirs) = (authority(), authority());
    let plane = plane(policy(ClientCertificateMode::Required), Some(&ours));
    let good = connection_with(Some(verification()), Some(&client(&ours, "ann")));
    let head = certificate_fields(&plane, &good);
    assert_eq!(head["ssl-client-verify"], "SUCCESS");
    assert_eq!(head["ssl-client-subject-dn"], "CN=ann");
    assert!(!head.contains_key("ssl_client_verify") && !head.contains_key("ssl-client-cert"));
    let (status, page) = refused(&plane, &connection_with(Some(verification()), None));
    assert!(
        status == 400 && page.contains("<center>No required SSL certificate was sent</center>"),
        "{page}"
    );
    let bad = connection_with(Some(verification()), Some(&client(&theirs, "ann")));
    let (status, page) = refused(&plane, &bad);
    assert!(status == 400 && page.contains("<center>The SSL certificate error</center>"), "{page}");
}

#[test]
fn a_connection_is_verified_anew_when_the_authorities_change() {
    let (ours, theirs) = (authority(), authority());
    let mut plane = plane(policy(ClientCertificateMode::Required), Some(&ours));
    let connection = connection_with(Some(verification()), Some(&client(&ours, "ann")));
    assert!(begin(&plane, &connection).is_ok());
    trust(&mut plane, &theirs);
    assert_eq!(refused(&plane, &connection).0, 400);
    trust(&mut plane, &ours);
    assert!(begin(&plane, &connection).is_ok());
    plane.apply(Delta { resources: vec![Change::Remove(key())], ..Delta::default() });
    assert_eq!(refused(&plane, &connection).0, 403, "closed without authorities");
}

#[test]
fn a_connection_for_another_verification_is_misdirected() {
    let ours = authority();
    let plane = plane(policy(ClientCertificateMode::Optional), Some(&ours));
    let certificate = client(&ours, "ann");
    let deeper = ClientVerification { depth: 2, ..verification() };
    for verification in [None, Some(deeper)] {
        assert_eq!(refused(&plane, &connection_with(verification, Some(&certificate))).0, 421);
    }
}

#[test]
fn an_earlier_connection_of_the_host_is_judged_by_its_own_certificate() {
    let (ours, theirs) = (authority(), authority());
    let (own, foreign) = (client(&ours, "ann"), client(&theirs, "ann"));
    let deeper = || Some(ClientVerification { depth: 2, ..verification() });
    let earlier = |verification, certificate: Option<&CertificateDer<'static>>| {
        let mut connection = Arc::into_inner(connection_with(verification, certificate)).unwrap();
        connection.tls.as_mut().unwrap().server_name = Some("a.example".into());
        Arc::new(connection)
    };
    let answer = |plane: &Plane, connection: &Arc<ConnectionInfo>| {
        let answer = begin(plane, connection).err().map(|answer| (answer.status.as_u16(), answer.close));
        assert!(connection.is_retired());
        answer
    };
    let required = plane(policy(ClientCertificateMode::Required), Some(&ours));
    let good = earlier(deeper(), Some(&own));
    assert_eq!(answer(&required, &good), None);
    assert_eq!(certificate_fields(&required, &good)["ssl-client-verify"], "SUCCESS");
    for unacceptable in [earlier(None, None), earlier(deeper(), None), earlier(deeper(), Some(&foreign))] {
        assert_eq!(answer(&required, &unacceptable), Some((421, true)));
    }
    let optional = plane(policy(ClientCertificateMode::Optional), Some(&ours));
    for without in [earlier(None, None), earlier(deeper(), None)] {
        assert_eq!(answer(&optional, &without), None);
        assert_eq!(certificate_fields(&optional, &without)["ssl-client-verify"], "NONE");
    }
    assert_eq!(answer(&optional, &earlier(deeper(), Some(&foreign))), Some((421, true)));
    let subject = Some("CN=ann$".into());
    let named = ClientCertificates { subject, ..policy(ClientCertificateMode::Optional) };
    assert_eq!(answer(&plane(named, Some(&ours)), &earlier(None, None)), Some((421, true)));
    let closed = plane(policy(ClientCertificateMode::Required), None);
    assert_eq!(answer(&closed, &earlier(deeper(), Some(&own))), Some((403, false)));
}

#[test]
fn the_depth_of_the_configuration_applies_to_an_earlier_connection() {
    let ours = authority();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "an intermediate");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let intermediate = Issuer::signed_by(params, KeyPair::generate().unwrap(), &ours).unwrap();
    let chain = [client(&intermediate, "ann"), intermediate.der().clone()];
    let mut connection = connection_from("192.0.2.7:5000", true);
    let tls = connection.tls.as_mut().unwrap();
    tls.server_name = Some("a.example".into());
    tls.client = Some(Box::new(ClientTls::new(Arc::new(verification()), Some(&chain))));
    let connection = Arc::new(connection);
    let mut plane = plane(policy(ClientCertificateMode::Required), Some(&ours));
    assert!(begin(&plane, &connection).is_ok());
    let at_depth = |depth| ClientCertificates {
        verification: ClientVerification { depth, ..verification() },
        ..policy(ClientCertificateMode::Required)
    };
    verify(&mut plane, at_depth(0), vec![rule("/", forward("web"))]);
    assert_eq!(refused(&plane, &connection).0, 421);
    verify(&mut plane, at_depth(2), vec![rule("/", forward("web"))]);
    assert!(begin(&plane, &connection).is_ok());
}

#[test]
fn modes_differ_in_what_they_accept() {
    let (ours, theirs) = (authority(), authority());
    let own = [None, Some(client(&ours, "ann")), Some(client(&theirs, "ann"))];
    for (mode, accepted) in [
        (ClientCertificateMode::Off, ["NONE"; 3]),
        (ClientCertificateMode::Optional, ["NONE", "SUCCESS", ""]),
        (
            ClientCertificateMode::OptionalAnyAuthority,
            ["NONE", "SUCCESS", "FAILED:unable to verify the first certificate"],
        ),
    ] {
        let plane = plane(policy(mode), Some(&ours));
        for (certificate, verify) in own.iter().zip(accepted) {
            let connection = connection_with(Some(verification()), certificate.as_ref());
            match verify {
                "" => assert_eq!(refused(&plane, &connection).0, 400, "{mode:?}"),
                verify => assert_eq!(
                    certificate_fields(&plane, &connection)["ssl-client-verify"],
                    verify,
                    "{mode:?}"
                ),
            }
        }
    }
}

#[test]
fn a_subject_must_match() {
    let ours = authority();
    let subject = Some("CN=ann$".into());
    for mode in [ClientCertificateMode::Required, ClientCertificateMode::Optional, ClientCertificateMode::Off]
    {
        let plane = plane(ClientCertificates { subject: subject.clone(), ..policy(mode) }, Some(&ours));
        let from = |name| connection_with(Some(verification()), Some(&client(&ours, name)));
        assert_eq!(begin(&plane, &from("ann")).is_ok(), mode != ClientCertificateMode::Off);
        let (status, text) = refused(&plane, &from("anne"));
        assert_eq!((status, &*text), (403, "client certificate unauthorized"));
        assert_eq!(refused(&plane, &connection(false)).0, 403, "without TLS");
    }
}

#[test]
fn an_error_page_replaces_both_refusals() {
    let (ours, theirs) = (authority(), authority());
    let error_page = Some(CertificateErrorPage::Url("https://help.example/".into()));
    let plane =
        plane(ClientCertificates { error_page, ..policy(ClientCertificateMode::Required) }, Some(&ours));
    for certificate in [None, Some(client(&theirs, "ann"))] {
        let connection = connection_with(Some(verification()), certificate.as_ref());
        let answer = begin(&plane, &connection).unwrap_err();
        assert_eq!(
            (answer.status.as_u16(), field(&answer, "location")),
            (302, Some("https://help.example/"))
        );
    }
}

#[test]
fn without_tls_there_is_no_certificate() {
    let plane = plane(policy(ClientCertificateMode::Required), Some(&authority()));
    let (status, page) = refused(&plane, &connection(false));
    assert!(status == 400 && page.contains("No required SSL certificate was sent"), "{page}");
    let optional = self::plane(policy(ClientCertificateMode::Optional), Some(&authority()));
    let head = certificate_fields(&optional, &connection(false));
    assert!(!head.contains_key("ssl-client-verify") && !head.contains_key("ssl-client-subject-dn"));
}
