//! Which stages one request gets.

use std::sync::Arc;

use super::compression::{ClientEncodings, CompressionRules};

/// What is done to the bodies of one request. The default is nothing.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Bytes that the request body may have, where its head does not tell how many it has.
    pub(crate) limit: Option<u64>,
    /// The request body waits until it is whole, with so many bytes of it in memory.
    pub(crate) buffer: Option<u64>,
    /// The response may be compressed.
    pub(crate) compression: Option<(Arc<CompressionRules>, ClientEncodings)>,
    /// Bytes of the response that go out in a second, and those that are free before.
    pub(crate) rate: Option<(u64, u64)>,
    /// The request is copied to another place.
    pub(crate) mirror: bool,
}

impl Plan {
    /// Whether nothing is done.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { limit, buffer, compression, rate, mirror } = self;
        limit.is_none() && buffer.is_none() && compression.is_none() && rate.is_none() && !mirror
    }
}
