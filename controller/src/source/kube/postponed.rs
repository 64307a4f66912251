//! `Retry-After`: the wait that an API server, or a proxy in front of it, requests.

use std::time::Duration;

use http::{HeaderMap, Response, StatusCode, header};
use jiff::Timestamp;
use tower::BoxError;

/// Maximum accepted wait, because a server may recover much earlier than it announced.
const LONGEST: Duration = Duration::from_secs(120);

/// A response that requests a later attempt. It is an error type because kube's own error has no
/// header fields.
#[derive(Debug, thiserror::Error)]
#[error("it answers {status} and asks to wait for {} s", after.as_secs())]
pub(crate) struct Postponed {
    /// Status of the response.
    pub(crate) status: StatusCode,
    /// Time until the next attempt.
    pub(crate) after: Duration,
}

/// Converts a response that requests a later attempt into an error.
///
/// # Errors
/// [`Postponed`].
pub(crate) fn refuse<B>(response: Response<B>) -> Result<Response<B>, BoxError> {
    match retry_after(response.status(), response.headers()) {
        Some(after) => Err(Postponed { status: response.status(), after }.into()),
        None => Ok(response),
    }
}

/// Returns the requested wait, given in seconds or as a date (RFC 9110 §10.2.3). `None` unless the
/// failure is temporary.
pub(super) fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    if status != StatusCode::TOO_MANY_REQUESTS && !status.is_server_error() {
        return None;
    }
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let after = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
            date.duration_since(Timestamp::now()).try_into().unwrap_or_default()
        }
    };
    Some(after.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(status: u16, text: &str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(header::RETRY_AFTER, text.parse().unwrap())]);
        retry_after(StatusCode::from_u16(status).unwrap(), &headers)
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        assert_eq!(read(429, "30"), Some(Duration::from_secs(30)));
        assert_eq!(read(503, "86400"), Some(LONGEST));
        assert_eq!(read(503, "Tue, 31 Dec 2199 23:59:59 GMT"), Some(LONGEST));
        assert_eq!(read(503, "Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(read(503, "soon"), None);
        assert_eq!(read(200, "30"), None);
    }
}
