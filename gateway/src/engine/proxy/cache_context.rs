//! The state of a request that uses the cache.

use http::header::HeaderMap;

use crate::pipeline::Next;

/// The state of a request that uses the cache.
#[derive(Default)]
pub(super) struct CacheContext {
    /// A stale response was found.
    pub(super) found_stale: bool,
    /// Bytes of the body that is being stored.
    pub(super) stored: usize,
    /// The fields of the request as the endpoint gets them, once `Vary` names some.
    pub(super) selecting: Option<HeaderMap>,
    /// The pipeline has judged the head of this attempt's response: before the hook for it, for the
    /// decision whether a stale response is sent instead.
    pub(super) is_judged: bool,
    /// Its decision.
    pub(super) judged: Option<Next>,
}

impl CacheContext {
    /// Begins an attempt.
    pub(super) fn begin_attempt(&mut self) {
        (self.is_judged, self.judged) = (false, None);
    }

    /// Returns the pipeline's decision about the response head, if it was made before.
    pub(super) fn take_judgement(&mut self) -> Option<Option<Next>> {
        self.is_judged.then(|| self.judged.take())
    }
}
