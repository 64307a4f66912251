//! Results that are counted.

/// Result of the copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MirrorOutcome {
    /// The mirror responded, with any status.
    Answered,
    /// The mirror did not respond, or the request itself was aborted.
    Failed,
    /// The copy, or a part of its body, exceeded the available capacity.
    Dropped,
}

/// Result of the inspection of a request by the web application firewall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InspectionOutcome {
    /// The request passed.
    Passed,
    /// A rule stopped it.
    Denied,
    /// The agent did not decide, and the rules enforce: 503.
    Closed,
    /// The agent did not decide, and the rules only detect.
    Uninspected,
}

/// Reason for closing a connection that must start with a PROXY protocol header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyProtocolFault {
    /// The peer is not trusted.
    Untrusted,
    /// The connection starts with other bytes.
    Missing,
    /// The header is malformed.
    Malformed,
    /// The header did not arrive in time.
    Late,
}
