//! When the responder of each certificate is asked, and when its last response expires.
//!
//! A responder that cannot be reached is asked about one certificate at a time, at growing
//! intervals, however many certificates name it. Those of other responders are not delayed by it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use rustls::sign::CertifiedKey;
use sluice_config::CertificateId;

use super::backoff::{Backoff, jittered};
use super::responder::Responder;

/// Bounds of the time between two questions about a certificate: responders are asked again after
/// half of the validity of their response.
const SHORTEST: Duration = Duration::from_secs(60);
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// All certificates that are served.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    certificates: HashMap<CertificateId, Scheduled>,
    /// Responders that could not be reached, by URL.
    unreachable: HashMap<Uri, Backoff>,
}

/// A question that is due.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) id: CertificateId,
    /// The version of the certificate.
    pub(super) key: Arc<CertifiedKey>,
    pub(super) responder: Arc<Responder>,
}

#[derive(Debug)]
struct Scheduled {
    /// Identity of this version of the certificate.
    key: Arc<CertifiedKey>,
    /// `None` if the certificate names none.
    responder: Option<Arc<Responder>>,
    /// When it is asked; `None` while it is.
    due: Option<Instant>,
    /// Responses that could not be stapled.
    faults: Backoff,
    /// The end of the response that is stapled.
    until: Option<Instant>,
}

impl Schedule {
    /// Takes over the certificates that are served. New versions are asked about at once.
    pub(super) fn follow(&mut self, certificates: &[(CertificateId, Arc<CertifiedKey>)], now: Instant) {
        let mut before = std::mem::take(&mut self.certificates);
        for (id, key) in certificates {
            let known = before.remove(id).filter(|known| Arc::ptr_eq(&known.key, key));
            let scheduled = known.unwrap_or_else(|| Scheduled {
                key: key.clone(),
                responder: Responder::of(&key.cert).map(Arc::new),
                due: Some(now),
                faults: Backoff::default(),
                until: None,
            });
            self.certificates.insert(id.clone(), scheduled);
        }
        let responders = self.certificates.values().filter_map(|scheduled| scheduled.responder.as_ref());
        let named: HashSet<&Uri> = responders.map(|responder| &responder.url).collect();
        self.unreachable.retain(|url, _| named.contains(url));
    }

    /// Forgets everything. Returns the certificates with a staple.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = (CertificateId, Arc<CertifiedKey>)> + use<> {
        self.unreachable.clear();
        let all = std::mem::take(&mut self.certificates).into_iter();
        all.filter(|(_, scheduled)| scheduled.until.is_some()).map(|(id, scheduled)| (id, scheduled.key))
    }

    /// Takes the question that is due for the longest time.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Question> {
        let due = self.certificates.iter().filter_map(|(id, scheduled)| {
            let due = scheduled.due.filter(|_| self.permitted(scheduled).is_some_and(|from| from <= now))?;
            Some((due, id))
        });
        let id = due.min_by_key(|(due, _)| *due)?.1.clone();
        let scheduled = self.certificates.get_mut(&id)?;
        let responder = scheduled.responder.clone()?;
        scheduled.due = None;
        if let Some(backoff) = self.unreachable.get_mut(&responder.url) {
            backoff.retry = None;
        }
        Some(Question { id, key: scheduled.key.clone(), responder })
    }

    /// Returns the earliest time of the next request about a certificate.
    fn permitted(&self, scheduled: &Scheduled) -> Option<Instant> {
        let due = scheduled.due?;
        match self.unreachable.get(&scheduled.responder.as_ref()?.url) {
            Some(backoff) => Some(backoff.retry?.max(due)),
            None => Some(due),
        }
    }

    /// Takes the certificates whose staple has expired.
    pub(super) fn take_expired(&mut self, now: Instant) -> Vec<(CertificateId, Arc<CertifiedKey>)> {
        let expired = self.certificates.iter_mut().filter_map(|(id, scheduled)| {
            scheduled.until.take_if(|until| *until <= now)?;
            Some((id.clone(), scheduled.key.clone()))
        });
        expired.collect()
    }

    /// Returns when something expires or, with `asks`, is due.
    pub(super) fn next(&self, asks: bool) -> Option<Instant> {
        let all = self.certificates.values();
        all.flat_map(|scheduled| [scheduled.until, self.permitted(scheduled).filter(|_| asks)])
            .flatten()
            .min()
    }

    /// Records a response that can be stapled. Returns whether it is about the version that is
    /// served.
    pub(super) fn answered(&mut self, question: &Question, now: Instant, lifetime: Duration) -> bool {
        self.unreachable.remove(&question.responder.url);
        let Some(scheduled) = self.current(question) else { return false };
        scheduled.due = Some(now + jittered(lifetime / 2).clamp(SHORTEST, LONGEST));
        scheduled.faults = Backoff::default();
        // A year is as good as any longer time.
        scheduled.until = Some(now + lifetime.min(LONGEST * 365));
        true
    }

    /// Records that a responder cannot be reached. Returns whether it is the first
    /// time since the last response.
    pub(super) fn unreachable(&mut self, question: &Question, now: Instant) -> bool {
        let is_first = self.unreachable.entry(question.responder.url.clone()).or_default().fail(now);
        // The interval of the responder decides. Its certificates take turns.
        if let Some(scheduled) = self.current(question) {
            scheduled.due = Some(now);
        }
        is_first
    }

    /// Records a response that cannot be stapled. Returns whether the
    /// response before could be.
    pub(super) fn unusable(&mut self, question: &Question, now: Instant) -> bool {
        self.unreachable.remove(&question.responder.url);
        let Some(scheduled) = self.current(question) else { return false };
        let is_first = scheduled.faults.fail(now);
        scheduled.due = scheduled.faults.retry;
        is_first
    }

    fn current(&mut self, question: &Question) -> Option<&mut Scheduled> {
        let known = self.certificates.get_mut(&question.id);
        known.filter(|scheduled| Arc::ptr_eq(&scheduled.key, &question.key))
    }
}

#[cfg(test)]
mod tests;
