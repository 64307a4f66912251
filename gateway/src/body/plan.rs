//! The body stages of one request.

use std::sync::Arc;

use sluice_config::ResponseBuffering;

use super::compression::{ClientEncodings, CompressionRules};
use super::substitution::Substitution;

/// A stage on bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyStage {
    /// Limits the bytes of a request body whose length is unknown.
    Limit,
    /// Holds the request body until it is whole.
    Buffer,
    /// Copies the request body to a mirror, or to a firewall that only detects.
    Copy,
    /// Holds the response until the firewall has decided.
    Hold,
    /// Buffers the response while the client is slow.
    ResponseBuffer,
    /// Replaces texts in the response.
    Substitution,
    /// Compresses the response.
    Compression,
    /// Limits the rate of the response.
    Rate,
}

/// All stages, in the order in which bytes pass them: the request body from the client to the
/// endpoint, then the response body from the endpoint to the client.
pub(crate) const ORDER: [BodyStage; 8] = [
    BodyStage::Limit,
    BodyStage::Buffer,
    BodyStage::Copy,
    BodyStage::Hold,
    BodyStage::ResponseBuffer,
    BodyStage::Substitution,
    BodyStage::Compression,
    BodyStage::Rate,
];

/// The settings of the stages that one request needs. The default is none.
#[derive(Debug, Default)]
pub(crate) struct BodyPlan {
    /// Bytes that the request body may have, if its head states no length.
    pub(crate) limit: Option<u64>,
    /// The request body is buffered, with so many bytes of it in memory.
    pub(crate) buffer: Option<u64>,
    /// The response is buffered while the client is slow.
    pub(crate) response_buffering: Option<ResponseBuffering>,
    /// Replaces texts in the response.
    pub(crate) substitution: Option<Substitution>,
    /// Compresses the response if the rules allow it.
    pub(crate) compression: Option<(Arc<CompressionRules>, ClientEncodings)>,
    /// The method is HEAD: the response describes the body of the response to GET and has none.
    pub(crate) is_head: bool,
    /// The log needs the fields of the response that the client gets.
    pub(crate) keeps_fields: bool,
    /// Bytes of the response per second, and bytes before the limit applies.
    pub(crate) rate: Option<(u64, u64)>,
    /// The request is copied to a mirror.
    pub(crate) mirror: bool,
    /// The response may be inspected before the client gets it.
    pub(crate) holds_response: bool,
    /// The whole request body is inspected before it is forwarded. It is buffered, or gathered.
    pub(crate) inspects: bool,
    /// A copy of the request body is inspected while it is forwarded.
    pub(crate) inspects_copy: bool,
}

impl BodyPlan {
    /// Returns whether the request needs a stage.
    pub(crate) fn needs(&self, stage: BodyStage) -> bool {
        match stage {
            BodyStage::Limit => self.limit.is_some(),
            BodyStage::Buffer => self.buffer.is_some(),
            BodyStage::Copy => self.mirror || self.inspects_copy,
            BodyStage::Hold => self.holds_response,
            BodyStage::ResponseBuffer => self.response_buffering.is_some(),
            BodyStage::Substitution => self.substitution.is_some(),
            BodyStage::Compression => self.compression.is_some(),
            BodyStage::Rate => self.rate.is_some(),
        }
    }

    /// Returns whether the request needs no stage.
    pub(crate) fn is_empty(&self) -> bool {
        !ORDER.iter().any(|stage| self.needs(*stage))
    }
}
