//! Applications behind oauth2-proxy, as in its documentation. Each has a canary created by Flagger
//! or Argo Rollouts, or written by hand.

use super::objects::{Ingress, certificate, service, settings};

const AUTH: [(&str, &str); 3] = [
    ("auth-url", "https://$host/oauth2/auth"),
    ("auth-signin", "https://$host/oauth2/start?rd=$escaped_request_uri"),
    ("auth-response-headers", "X-Auth-Request-User, X-Auth-Request-Email, Authorization"),
];
/// Recommended by the documentation of oauth2-proxy for cookies larger than 4 KiB.
const COOKIES: (&str, &str) = (
    "configuration-snippet",
    "auth_request_set $name_upstream_1 $upstream_cookie_name_1;\naccess_by_lua_block { }",
);

pub(super) fn objects() -> String {
    let namespace = "production";
    let mut text = certificate(namespace, "apps.example.com");
    text += &settings(&[
        ("proxy-buffer-size", "16k"),
        ("large-client-header-buffers", "4 32k"),
        ("use-forwarded-headers", "true"),
        ("global-auth-signin-redirect-param", "rd"),
        ("no-auth-locations", "/.well-known/acme-challenge,/healthz"),
    ]);
    for number in 0..40 {
        let (name, host) = (format!("app-{number:02}"), format!("app-{number:02}.apps.example.com"));
        let canary_service = format!("{name}-canary");
        let mut annotations = AUTH.to_vec();
        match number % 8 {
            1 => annotations.push(("auth-cache-key", "$cookie__oauth2_proxy")),
            2 => annotations.push(("proxy-buffer-size", "16k")),
            3 => annotations.push(COOKIES),
            4 => annotations.push(("auth-snippet", "proxy_set_header X-Debug 1;")),
            5 => annotations.extend([("affinity", "cookie"), ("affinity-canary-behavior", "sticky")]),
            6 => annotations.push(("auth-response-header", "X-Auth-Request-Groups")),
            _ => {}
        }
        let main = Ingress {
            namespace,
            name: &name,
            host: &host,
            paths: &[("/", "Prefix", &name)],
            annotations: &annotations,
        };
        let pages = Ingress {
            namespace,
            name: &format!("{name}-oauth2"),
            host: &host,
            paths: &[("/oauth2", "Prefix", "oauth2-proxy")],
            annotations: &[],
        };
        let mut canary = vec![("canary", "true")];
        match number % 5 {
            // Flagger, between two releases and during one.
            0 => canary.push(("canary-weight", "0")),
            1 => canary.push(("canary-weight", "30")),
            // Argo Rollouts.
            2 => canary.extend([("canary-by-header", "X-Canary"), ("canary-weight", "5")]),
            // Written by hand: the canary repeats annotations of the main Ingress.
            3 => canary.extend([("canary-weight", "10%"), AUTH[0], AUTH[1]]),
            _ => canary.extend([("canary-by-cookie", "beta"), ("canary-by-header-value", "yes")]),
        }
        let path = if number == 39 { "/new" } else { "/" };
        let release = Ingress {
            namespace,
            name: &canary_service,
            host: &host,
            paths: &[(path, "Prefix", &canary_service)],
            annotations: &canary,
        };
        text += &main.text();
        text += &pages.text();
        text += &release.text();
        text += &service(namespace, &name);
        if number != 38 {
            text += &service(namespace, &canary_service);
        }
    }
    text + &service(namespace, "oauth2-proxy")
}

/// A page, and the page of the sign-in, of each application.
pub(super) fn urls() -> String {
    let urls = (0..40).flat_map(|number| {
        ["/", "/new", "/oauth2/start"].map(|path| format!("https://app-{number:02}.apps.example.com{path}\n"))
    });
    urls.collect()
}
