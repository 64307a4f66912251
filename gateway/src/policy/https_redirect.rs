//! `ssl-redirect` and `force-ssl-redirect`: from http to https.
//!
//! As in ingress-nginx the Location is `https://`, the host without the client's port, and the target as sent but for a
//! final slash, which is cut even of `/` and of a query, unless `preserve-trailing-slash` says otherwise.

use http::StatusCode;
use sluice_config::{HttpsRedirect, Locations, Tuning};

/// The properties of a request that decide whether it is redirected.
#[derive(Clone, Copy, Debug)]
pub struct RedirectInput<'a> {
    /// Whether the connection has TLS.
    pub https: bool,
    /// `http` or `https`; with `use-forwarded-headers` what the client's proxy says.
    pub access_scheme: &'a [u8],
    /// Whether an object configures TLS for this host.
    pub host_has_tls: bool,
    /// The normalised path.
    pub path: &'a str,
}

/// Whether the request is redirected.
pub fn applies(policy: &HttpsRedirect, tuning: &Tuning, facts: &RedirectInput<'_>) -> bool {
    let force = policy.force.unwrap_or(tuning.force_ssl_redirect);
    let ssl = policy.ssl.unwrap_or(tuning.ssl_redirect);
    let wanted = force || (ssl && facts.host_has_tls && !facts.https);
    wanted && facts.access_scheme == b"http" && !exempt(tuning, facts.path)
}

/// `no-tls-redirect-locations`: what certificate authorities ask for over http.
fn exempt(tuning: &Tuning, path: &str) -> bool {
    tuning.no_tls_redirect_locations.iter().any(|prefix| !prefix.is_empty() && path.starts_with(&**prefix))
}

/// `http-redirect-code`.
pub fn status(tuning: &Tuning) -> StatusCode {
    StatusCode::from_u16(tuning.http_redirect_code).unwrap_or(StatusCode::PERMANENT_REDIRECT)
}

/// Where it is redirected to. `host` has no port; `target` is path and query as sent.
pub fn location(own: &Locations, tuning: &Tuning, host: &str, target: &str) -> String {
    let target = match own.trailing_slash.unwrap_or(tuning.preserve_trailing_slash) {
        true => target,
        false => target.strip_suffix('/').unwrap_or(target),
    };
    match own.port.unwrap_or(tuning.port_in_redirects) {
        true => ["https://", host, ":", itoa::Buffer::new().format(tuning.https_port), target].concat(),
        false => ["https://", host, target].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RedirectInput<'_> =
        RedirectInput { https: false, access_scheme: b"http", host_has_tls: true, path: "/x" };

    #[test]
    fn a_host_with_tls_redirects_unless_told_not_to() {
        let tuning = Tuning::default();
        let own = HttpsRedirect::default();
        assert!(applies(&own, &tuning, &PLAIN));
        assert!(!applies(&own, &tuning, &RedirectInput { host_has_tls: false, ..PLAIN }));
        assert!(!applies(&own, &tuning, &RedirectInput { https: true, access_scheme: b"https", ..PLAIN }));
        assert!(!applies(&own, &tuning, &RedirectInput { access_scheme: b"https", ..PLAIN }));
        assert!(!applies(&HttpsRedirect { ssl: Some(false), force: None }, &tuning, &PLAIN));
        let off = Tuning { ssl_redirect: false, ..Tuning::default() };
        assert!(!applies(&own, &off, &PLAIN));
        assert!(applies(&HttpsRedirect { ssl: Some(true), force: None }, &off, &PLAIN));
    }

    #[test]
    fn force_needs_no_tls_on_the_host() {
        let facts = RedirectInput { host_has_tls: false, ..PLAIN };
        let own = HttpsRedirect { ssl: Some(false), force: Some(true) };
        assert!(applies(&own, &Tuning::default(), &facts));
        let global = Tuning { force_ssl_redirect: true, ..Tuning::default() };
        assert!(applies(&HttpsRedirect::default(), &global, &facts));
        assert!(!applies(&HttpsRedirect { ssl: None, force: Some(false) }, &global, &facts));
    }

    #[test]
    fn challenges_of_certificate_authorities_pass() {
        let facts = RedirectInput { path: "/.well-known/acme-challenge/token", ..PLAIN };
        let own = HttpsRedirect { ssl: None, force: Some(true) };
        assert!(!applies(&own, &Tuning::default(), &facts));
        let none = Tuning { no_tls_redirect_locations: Vec::new(), ..Tuning::default() };
        assert!(applies(&own, &none, &facts));
    }

    #[test]
    fn the_final_slash_is_cut() {
        for (target, expected) in [
            ("/", "https://a.example"),
            ("/x", "https://a.example/x"),
            ("/x/", "https://a.example/x"),
            ("/x?y=1", "https://a.example/x?y=1"),
            ("/x?y=/", "https://a.example/x?y="),
        ] {
            assert_eq!(location(&Locations::default(), &Tuning::default(), "a.example", target), expected);
        }
    }

    #[test]
    fn the_slash_may_stay_and_the_port_may_be_named() {
        let tuning = Tuning { https_port: 8443, ..Tuning::default() };
        let own = Locations { trailing_slash: Some(true), port: Some(true), relative: None };
        assert_eq!(location(&own, &tuning, "a.example", "/x/"), "https://a.example:8443/x/");
        let global = Tuning { preserve_trailing_slash: true, port_in_redirects: true, ..Tuning::default() };
        assert_eq!(location(&Locations::default(), &global, "a.example", "/"), "https://a.example:443/");
        let own = Locations { trailing_slash: Some(false), port: Some(false), relative: None };
        assert_eq!(location(&own, &global, "a.example", "/x/"), "https://a.example/x");
    }
}
