//! The choice of stages for one request.

use std::sync::Arc;

use super::compression::{ClientEncodings, CompressionRules};

/// The stages for the bodies of one request. The default is none.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Maximum number of bytes in the request body, if its head does not announce the length.
    pub(crate) limit: Option<u64>,
    /// Buffers the whole request body; the value is the number of bytes held in memory.
    pub(crate) buffer: Option<u64>,
    /// Compresses the response if the rules allow it.
    pub(crate) compression: Option<(Arc<CompressionRules>, ClientEncodings)>,
    /// Bytes per second of the response, and the number of bytes sent before the limit applies.
    pub(crate) rate: Option<(u64, u64)>,
    /// Copies the request body to a mirror.
    pub(crate) mirror: bool,
}

impl Plan {
    /// Returns whether no stage is needed.
    pub(crate) fn is_empty(&self) -> bool {
        let Self { limit, buffer, compression, rate, mirror } = self;
        limit.is_none() && buffer.is_none() && compression.is_none() && rate.is_none() && !mirror
    }
}
