//! Errors of compiling a policy. The whole host is rejected then: a policy is never skipped.

/// A value of the contract that cannot be implemented.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Invalid header name.
    #[error("`{0}` is not a valid header name (RFC 9110 section 5.1); correct it")]
    HeaderName(String),
    /// Header that a rule may not change.
    #[error(
        "header `{0}` belongs to the gateway: it is about the connection, the length of the message or where it goes; remove it from the changes of this rule"
    )]
    OwnHeader(String),
    /// Invalid header value.
    #[error("value of header `{0}` holds a control character; correct it")]
    HeaderValue(String),
    /// Invalid name, path or domain of a session cookie.
    #[error(
        "session cookie `{0}`: name, path or domain holds a character that a cookie cannot have (RFC 6265 section 4.1.1); correct it"
    )]
    Cookie(String),
    /// Invalid status, or one that is not allowed here.
    #[error(
        "status {0} cannot be used here; give one from 200 to 599, for a redirect 301, 302, 303, 307 or 308"
    )]
    Status(u16),
    /// Invalid condition of a canary.
    #[error("canary: {0}; correct it")]
    Canary(String),
    /// Invalid rewrite of a path.
    #[error("rewriting: {0}; correct the path or the target")]
    Rewrite(String),
    /// Violation of the contract: the kind of a resource does not match its key.
    #[error("{0} is of another kind; this is a defect of Sluice, please report it")]
    Resource(String),
    /// Unusable certificate, or unusable name for one.
    #[error("TLS towards endpoints: {0}; correct the Secret or the name")]
    Certificate(String),
    /// Unusable certificate authorities of clients.
    #[error("client certificates: {0}; correct the Secret")]
    ClientAuthorities(String),
    /// Invalid regular expression.
    #[error("expression {0:?} cannot be read or is too large; correct it")]
    Expression(String),
    /// Violation of the contract: a pool was not sent before the rule that refers to it.
    #[error("pool {0} is not known; this is a defect of Sluice, please report it")]
    Pool(String),
    /// Error page that is not a path of the host.
    #[error("error page {0:?} is not a path of the host (RFC 9112 section 3.2.1); correct it")]
    ErrorPage(String),
    /// Method that a subrequest cannot have.
    #[error("{0:?} is not a method (RFC 9110 section 9.1); correct it")]
    Method(String),
}
