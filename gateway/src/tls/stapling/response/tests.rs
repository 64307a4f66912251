use sluice_testing::certificate::Authority;
use sluice_testing::ocsp::{Signer, Statement};

use super::*;

const LIFETIME: Duration = Duration::from_secs(3600);

/// An authority, and the responder of a certificate that it has issued.
fn issued() -> (Authority, Responder) {
    let authority = Authority::new();
    let certificate = authority.issue_with_responder(&["shop.example"], "http://ocsp.example/");
    let chain = [certificate.der.into(), authority.der().clone()];
    let responder = Responder::of(&chain).expect("it names one");
    (authority, responder)
}

fn respond(signer: &Signer, responder: &Responder, statement: Statement) -> Result<Staple, ResponseFault> {
    let response = signer.respond(&responder.request().unwrap(), statement);
    check(&response, responder, SystemTime::now())
}

#[test]
fn a_response_is_stapled_until_its_end() {
    let (authority, responder) = issued();
    assert_eq!(responder.url, "http://ocsp.example/");
    let good = Statement::good(LIFETIME);
    let staple = respond(&authority.signer(), &responder, good).unwrap();
    let lifetime = staple.until.duration_since(SystemTime::now()).unwrap();
    assert!(lifetime <= LIFETIME && lifetime > LIFETIME / 2, "{lifetime:?}");
    let endless = respond(&authority.signer(), &responder, Statement { until: None, ..good });
    assert!(endless.unwrap().until <= SystemTime::now() + ENDLESS);
}

#[test]
fn responses_that_clients_reject_are_not_stapled() {
    let (authority, responder) = issued();
    let good = Statement::good(LIFETIME);
    let now = SystemTime::now();
    let refused = |signer: &Signer, statement| respond(signer, &responder, statement).unwrap_err();
    let own = authority.signer();
    assert!(matches!(refused(&own, Statement { revoked: true, ..good }), ResponseFault::NotGood(_)));
    let past = Statement { since: now - 2 * LIFETIME, until: Some(now - LIFETIME), ..good };
    assert!(matches!(refused(&own, past), ResponseFault::Time));
    let future = Statement { since: now + LIFETIME, until: Some(now + 2 * LIFETIME), ..good };
    assert!(matches!(refused(&own, future), ResponseFault::Time));
    assert!(matches!(refused(&Authority::new().signer(), good), ResponseFault::Signature));
    let (_, other) = issued();
    let unrelated = own.respond(&other.request().unwrap(), good);
    assert!(matches!(check(&unrelated, &responder, now), Err(ResponseFault::Unrelated)));
    let mut forged = own.respond(&responder.request().unwrap(), good);
    *forged.last_mut().unwrap() ^= 1;
    assert!(matches!(check(&forged, &responder, now), Err(ResponseFault::Signature)));
    let try_later = [0x30, 3, 0x0a, 1, 3];
    assert!(matches!(check(&try_later, &responder, now), Err(ResponseFault::Status(_))));
    assert!(matches!(check(b"<html>", &responder, now), Err(ResponseFault::Malformed(_))));
}

#[test]
fn another_signer_needs_the_permission_of_the_issuer() {
    let (authority, responder) = issued();
    let good = Statement::good(LIFETIME);
    let by = |signer: &Signer| respond(signer, &responder, good);
    assert!(by(&authority.delegate(true)).is_ok());
    assert!(matches!(by(&authority.delegate(false)), Err(ResponseFault::Signature)));
    assert!(matches!(by(&Authority::new().delegate(true)), Err(ResponseFault::Signature)));
}

#[test]
fn without_an_http_responder_or_the_issuer_nothing_is_asked() {
    let authority = Authority::new();
    let issuer = || authority.der().clone();
    let none = |chain: &[CertificateDer<'_>]| Responder::of(chain).is_none();
    assert!(none(&[authority.issue(&["a.example"]).der.into(), issuer()]));
    for url in ["https://ocsp.example/", "ldap://ocsp.example/", "ocsp.example"] {
        let certificate = authority.issue_with_responder(&["a.example"], url);
        assert!(none(&[certificate.der.into(), issuer()]), "{url}");
    }
    let certificate = authority.issue_with_responder(&["a.example"], "http://ocsp.example/");
    assert!(none(&[certificate.der.clone().into()]));
    assert!(none(&[certificate.der.into(), Authority::new().der().clone()]));
}
