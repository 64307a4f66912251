//! The pages of generated responses: small HTML with nginx's reason phrases, which probes and
//! people look for, and without a product name.

use std::collections::HashMap;
use std::sync::LazyLock;

use bytes::Bytes;
use http::StatusCode;

/// Reason phrases in which nginx differs from RFC 9110.
const PHRASES: [(u16, &str); 9] = [
    (302, "Found"),
    (401, "Authorization Required"),
    (405, "Not Allowed"),
    (408, "Request Time-out"),
    (413, "Request Entity Too Large"),
    (414, "Request-URI Too Large"),
    (416, "Requested Range Not Satisfiable"),
    (503, "Service Temporarily Unavailable"),
    (504, "Gateway Time-out"),
];

static PAGES: LazyLock<HashMap<StatusCode, Bytes>> = LazyLock::new(|| {
    (100..=599)
        .filter_map(|code| StatusCode::from_u16(code).ok())
        .filter(|status| phrase(*status).is_some())
        .map(|status| (status, render(status)))
        .collect()
});

/// Returns the page for a status. Empty for statuses without content (RFC 9110 §15).
pub(super) fn page(status: StatusCode) -> Bytes {
    if status.is_informational() || matches!(status.as_u16(), 204 | 205 | 304) {
        return Bytes::new();
    }
    PAGES.get(&status).cloned().unwrap_or_else(|| render(status))
}

/// Returns the page for a head that is too large: status 400, with a text that names the cause.
pub(super) fn page_of_large_head() -> Bytes {
    page_of("Request Header Or Cookie Too Large")
}

/// Returns nginx's page for one of its own statuses (494 to 497), which is sent with status 400.
pub(super) fn page_of(reason: &str) -> Bytes {
    format!(
        "<html>\r\n<head><title>400 {reason}</title></head>\r\n<body>\r\n<center><h1>400 Bad Request</h1></center>\r\n\
         <center>{reason}</center>\r\n</body>\r\n</html>\r\n"
    )
    .into()
}

fn phrase(status: StatusCode) -> Option<&'static str> {
    let own = PHRASES.iter().find(|(code, _)| *code == status.as_u16()).map(|(_, phrase)| *phrase);
    own.or_else(|| status.canonical_reason())
}

fn render(status: StatusCode) -> Bytes {
    let title = match phrase(status) {
        Some(phrase) => format!("{} {phrase}", status.as_u16()),
        None => status.as_u16().to_string(),
    };
    format!(
        "<html>\r\n<head><title>{title}</title></head>\r\n<body>\r\n<center><h1>{title}</h1></center>\r\n\
         </body>\r\n</html>\r\n"
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_carry_the_phrases_of_nginx() {
        for (code, title) in [
            (308, "308 Permanent Redirect"),
            (400, "400 Bad Request"),
            (401, "401 Authorization Required"),
            (403, "403 Forbidden"),
            (404, "404 Not Found"),
            (413, "413 Request Entity Too Large"),
            (414, "414 Request-URI Too Large"),
            (502, "502 Bad Gateway"),
            (503, "503 Service Temporarily Unavailable"),
            (504, "504 Gateway Time-out"),
            (599, "599"),
        ] {
            let page = page(StatusCode::from_u16(code).unwrap());
            let text = std::str::from_utf8(&page).unwrap();
            assert!(
                text.starts_with(&format!("<html>\r\n<head><title>{title}</title></head>\r\n")),
                "{text}"
            );
            assert!(!text.to_lowercase().contains("nginx") && !text.to_lowercase().contains("pingora"));
        }
    }

    #[test]
    fn statuses_without_content_have_no_page() {
        assert!(page(StatusCode::NO_CONTENT).is_empty());
        assert!(page(StatusCode::NOT_MODIFIED).is_empty());
    }
}
