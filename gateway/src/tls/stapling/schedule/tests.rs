use sluice_testing::certificate::Authority;

use super::*;
use crate::tls::provider::provider;

const HOUR: Duration = Duration::from_secs(3600);
const URL: &str = "http://ocsp.example/";

fn certified(url: &str) -> Arc<CertifiedKey> {
    let authority = Authority::new();
    let certificate = authority.issue_with_responder(&["shop.example"], url);
    let key = rustls_pki_types::PrivatePkcs8KeyDer::from(certificate.key_der).into();
    let chain = vec![certificate.der.into(), authority.der().clone()];
    Arc::new(CertifiedKey::from_der(chain, key, &provider()).unwrap())
}

fn id(name: &str) -> CertificateId {
    CertificateId::new("default", name)
}

/// A schedule of certificates with these names and responders.
fn schedule_of(certificates: &[(&str, &str)], now: Instant) -> Schedule {
    let certificates: Vec<_> = certificates.iter().map(|(name, url)| (id(name), certified(url))).collect();
    let mut schedule = Schedule::default();
    schedule.follow(&certificates, now);
    schedule
}

#[test]
fn each_certificate_is_asked_about_once_at_a_time() {
    let now = Instant::now();
    let mut schedule = schedule_of(&[("a", URL)], now);
    assert_eq!(schedule.next(true), Some(now));
    assert_eq!(schedule.next(false), None);
    let question = schedule.take_due(now).unwrap();
    assert_eq!(question.id, id("a"));
    assert!(schedule.take_due(now).is_none() && schedule.next(true).is_none());
    schedule.follow(&[(id("a"), question.key.clone())], now);
    assert!(schedule.take_due(now).is_none(), "it is the same version");
    assert!(schedule.answered(&question, now, HOUR));
    let next = schedule.next(true).unwrap() - now;
    assert!(next <= HOUR / 2 && next >= HOUR * 7 / 16, "{next:?}");
    assert!(schedule.take_expired(now + HOUR - Duration::from_secs(1)).is_empty());
    assert_eq!(schedule.take_expired(now + HOUR).len(), 1);
    assert!(schedule.take_expired(now + HOUR).is_empty());
}

#[test]
fn a_new_version_is_queried_at_once_and_responses_for_the_old_dropped() {
    let now = Instant::now();
    let mut schedule = schedule_of(&[("a", URL)], now);
    let old = schedule.take_due(now).unwrap();
    let new = certified(URL);
    schedule.follow(&[(id("a"), new.clone())], now);
    assert!(!schedule.answered(&old, now, HOUR));
    assert!(!schedule.unusable(&old, now));
    assert!(Arc::ptr_eq(&schedule.take_due(now).unwrap().key, &new));
    schedule.follow(&[], now);
    assert_eq!(schedule.next(true), None);
    assert!(!schedule.answered(&old, now, HOUR), "it is released");
}

#[test]
fn a_dead_responder_is_asked_ever_more_rarely_and_changes_nothing() {
    let mut now = Instant::now();
    let mut schedule = schedule_of(&[("a", URL)], now);
    let question = schedule.take_due(now).unwrap();
    schedule.answered(&question, now, HOUR * 24 * 7);
    now = schedule.next(true).unwrap();
    for hours in [1, 0, 0, 0] {
        assert!(schedule.take_expired(now).is_empty(), "the last response is valid");
        let question = schedule.take_due(now).unwrap();
        assert_eq!(schedule.unreachable(&question, now), hours == 1, "only the first failure is reported");
        let next = schedule.next(true).unwrap();
        assert!(next > now && schedule.take_due(now).is_none());
        now = next;
    }
    assert_eq!(schedule.take_all().count(), 1);
}

#[test]
fn certificates_of_a_dead_responder_take_turns_and_delay_no_other() {
    let mut now = Instant::now();
    let dead = "http://dead.example/";
    let mut schedule = schedule_of(&[("a", dead), ("b", dead), ("c", dead), ("d", URL)], now);
    let mut first: Vec<Question> = std::iter::from_fn(|| schedule.take_due(now)).collect();
    first.retain(|question| question.responder.url == dead);
    let reports: Vec<bool> = first.iter().map(|question| schedule.unreachable(question, now)).collect();
    assert_eq!(reports, [true, false, false], "one report for all that were asked together");
    let mut asked = Vec::new();
    for _ in 0..3 {
        now = schedule.next(true).unwrap();
        let question = schedule.take_due(now).unwrap();
        assert!(schedule.take_due(now).is_none(), "one at a time");
        assert!(!schedule.unreachable(&question, now));
        asked.push(question.id);
    }
    asked.sort();
    assert_eq!(asked, [id("a"), id("b"), id("c")]);
    now = schedule.next(true).unwrap();
    let question = schedule.take_due(now).unwrap();
    schedule.answered(&question, now, HOUR);
    assert!(
        schedule.take_due(now).is_some() && schedule.take_due(now).is_some(),
        "the others follow at once"
    );
}

#[test]
fn an_unusable_response_delays_its_certificate_only() {
    let now = Instant::now();
    let mut schedule = schedule_of(&[("a", URL), ("b", URL)], now);
    let question = schedule.take_due(now).unwrap();
    assert!(schedule.unusable(&question, now));
    let other = schedule.take_due(now).unwrap();
    assert_ne!(other.id, question.id);
    assert!(schedule.answered(&other, now, HOUR));
    let retry = schedule.next(true).unwrap();
    let again = schedule.take_due(retry).unwrap();
    assert_eq!(again.id, question.id);
    assert!(!schedule.unusable(&again, retry), "it is reported already");
}
