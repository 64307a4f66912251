//! Why a policy cannot be built. Its host is refused as a whole: a policy is never skipped.

/// A value of the contract that cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// No header can have this name.
    #[error("header name `{0}` is not one (RFC 9110 section 5.1); correct it")]
    HeaderName(String),
    /// A rule may not change this header.
    #[error(
        "header `{0}` belongs to the gateway: it is about the connection, the length of the message or where it goes; remove it from the changes of this rule"
    )]
    OwnHeader(String),
    /// No header can have this value.
    #[error("value of header `{0}` holds a control character; correct it")]
    HeaderValue(String),
    /// A session cookie cannot be made.
    #[error(
        "session cookie `{0}`: name, path or domain holds a character that a cookie cannot have (RFC 6265 section 4.1.1); correct it"
    )]
    Cookie(String),
    /// The status is none, or none that can be given here.
    #[error(
        "status {0} cannot be used here; give one from 200 to 599, for a redirect 301, 302, 303, 307 or 308"
    )]
    Status(u16),
    /// A canary cannot be chosen as the rule asks.
    #[error("canary: {0}; correct it")]
    Canary(String),
    /// A path cannot be rewritten as the rule asks.
    #[error("rewriting: {0}; correct the path or the target")]
    Rewrite(String),
    /// The contract is broken: a resource is of another kind than its key says.
    #[error("{0} is of another kind; this is a defect of Sluice, please report it")]
    Resource(String),
    /// A certificate, or the name that it is to be for, cannot be used.
    #[error("TLS towards endpoints: {0}; correct the Secret or the name")]
    Certificate(String),
    /// A regular expression cannot be compiled.
    #[error("expression {0:?} cannot be read or is too large; correct it")]
    Expression(String),
    /// A filter that this version does not know.
    #[error("a filter of this rule is not known to this version; remove it or upgrade")]
    UnknownFilter,
    /// The contract is broken: a pool was never sent.
    #[error("pool {0} is not known; this is a defect of Sluice, please report it")]
    Pool(String),
    /// No question can have this method.
    #[error(
        "method {0} cannot be used for a question of our own; use GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS"
    )]
    Method(String),
}
