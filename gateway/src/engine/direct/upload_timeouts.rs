//! Time limits of the request on its way to an endpoint.

use std::time::Duration;

use crate::pipeline::{Originator, Upstream};

/// Time limits of an attempt's request; `None` is no limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct UploadTimeouts {
    /// Time limit for the client's next bytes.
    pub(super) client: Option<Duration>,
    /// Time limit for the endpoint to accept more bytes.
    pub(super) endpoint: Option<Duration>,
}

impl UploadTimeouts {
    pub(super) fn new(originator: &impl Originator, upstream: &Upstream) -> Self {
        Self { client: originator.body_timeout(), endpoint: upstream.send_timeout }
    }
}
