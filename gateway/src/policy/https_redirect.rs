//! `ssl-redirect` and `force-ssl-redirect`: redirects from http to https.
//!
//! As in ingress-nginx, the Location consists of `https://`, the host without the client's port,
//! and the target as received. A final slash is removed, even of `/` and of a query, unless
//! `preserve-trailing-slash` is set.

use http::StatusCode;
use sluice_config::{GlobalSettings, HttpsRedirect, Locations};

/// The properties of a request that decide whether it is redirected.
#[derive(Clone, Copy, Debug)]
pub struct RedirectInput<'a> {
    /// `http` or `https`; with `use-forwarded-headers`, the scheme that a trusted proxy reports. As
    /// in ingress-nginx, it counts in place of the connection's: a proxy may use TLS for clients
    /// that do not.
    pub access_scheme: &'a [u8],
    /// Whether a certificate is configured for this host.
    pub host_has_https: bool,
    /// The path of the rule.
    pub rule_path: &'a str,
}

/// Returns whether the request is redirected.
pub fn applies(policy: &HttpsRedirect, settings: &GlobalSettings, input: &RedirectInput<'_>) -> bool {
    let force = policy.force.unwrap_or(settings.force_ssl_redirect);
    let ssl = policy.ssl.unwrap_or(settings.ssl_redirect);
    let wanted = force || (ssl && input.host_has_https);
    wanted && input.access_scheme == b"http" && !is_exempt(settings, input.rule_path)
}

/// Returns whether `no-tls-redirect-locations` exempts the rule with this path, such as that of a
/// challenge, which certificate authorities fetch over http.
pub(crate) fn is_exempt(settings: &GlobalSettings, rule_path: &str) -> bool {
    let mut prefixes = settings.no_tls_redirect_locations.iter().filter(|prefix| !prefix.is_empty());
    prefixes.any(|prefix| rule_path.starts_with(&**prefix))
}

/// Returns the status of `http-redirect-code`.
pub fn status(settings: &GlobalSettings) -> StatusCode {
    StatusCode::from_u16(settings.http_redirect_code).unwrap_or(StatusCode::PERMANENT_REDIRECT)
}

/// Returns the Location. `host` has no port; `target` is the path and query as received.
pub fn location(own: &Locations, settings: &GlobalSettings, host: &str, target: &str) -> String {
    let target = match own.trailing_slash.unwrap_or(settings.preserve_trailing_slash) {
        true => target,
        false => target.strip_suffix('/').unwrap_or(target),
    };
    match own.port.unwrap_or(settings.port_in_redirects) {
        true => ["https://", host, ":", itoa::Buffer::new().format(settings.https_port), target].concat(),
        false => ["https://", host, target].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: RedirectInput<'_> =
        RedirectInput { access_scheme: b"http", host_has_https: true, rule_path: "/x" };

    #[test]
    fn a_host_with_tls_redirects_unless_disabled() {
        let settings = GlobalSettings::default();
        let own = HttpsRedirect::default();
        assert!(applies(&own, &settings, &PLAIN));
        assert!(!applies(&own, &settings, &RedirectInput { host_has_https: false, ..PLAIN }));
        assert!(!applies(&own, &settings, &RedirectInput { access_scheme: b"https", ..PLAIN }));
        assert!(!applies(&HttpsRedirect { ssl: Some(false), force: None }, &settings, &PLAIN));
        let off = GlobalSettings { ssl_redirect: false, ..GlobalSettings::default() };
        assert!(!applies(&own, &off, &PLAIN));
        assert!(applies(&HttpsRedirect { ssl: Some(true), force: None }, &off, &PLAIN));
    }

    #[test]
    fn force_needs_no_tls_on_the_host() {
        let input = RedirectInput { host_has_https: false, ..PLAIN };
        let own = HttpsRedirect { ssl: Some(false), force: Some(true) };
        assert!(applies(&own, &GlobalSettings::default(), &input));
        let global = GlobalSettings { force_ssl_redirect: true, ..GlobalSettings::default() };
        assert!(applies(&HttpsRedirect::default(), &global, &input));
        assert!(!applies(&HttpsRedirect { ssl: None, force: Some(false) }, &global, &input));
    }

    #[test]
    fn challenges_of_certificate_authorities_pass() {
        let input = RedirectInput { rule_path: "/.well-known/acme-challenge/token", ..PLAIN };
        let own = HttpsRedirect { ssl: None, force: Some(true) };
        assert!(!applies(&own, &GlobalSettings::default(), &input));
        let none = GlobalSettings { no_tls_redirect_locations: Vec::new(), ..GlobalSettings::default() };
        assert!(applies(&own, &none, &input));
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
            assert_eq!(
                location(&Locations::default(), &GlobalSettings::default(), "a.example", target),
                expected
            );
        }
    }

    #[test]
    fn the_slash_may_stay_and_the_port_may_be_named() {
        let settings = GlobalSettings { https_port: 8443, ..GlobalSettings::default() };
        let own = Locations { trailing_slash: Some(true), port: Some(true), relative: None };
        assert_eq!(location(&own, &settings, "a.example", "/x/"), "https://a.example:8443/x/");
        let global = GlobalSettings {
            preserve_trailing_slash: true,
            port_in_redirects: true,
            ..GlobalSettings::default()
        };
        assert_eq!(location(&Locations::default(), &global, "a.example", "/"), "https://a.example:443/");
        let own = Locations { trailing_slash: Some(false), port: Some(false), relative: None };
        assert_eq!(location(&own, &global, "a.example", "/x/"), "https://a.example/x");
    }
}
