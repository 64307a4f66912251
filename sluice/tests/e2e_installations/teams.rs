//! Thirty teams with ten applications each. The annotations are those that charts and guides of
//! these applications recommend, and typical mistakes.

use super::objects::{Ingress, certificate, secret, service, settings};

/// An application: its name, its annotations and its path.
type Application = (&'static str, &'static [(&'static str, &'static str)], (&'static str, &'static str));

const CERT_MANAGER: (&str, &str) = ("cert-manager.io/cluster-issuer", "letsencrypt");
const PREFIX: &str = "Prefix";
const ANY: &str = "ImplementationSpecific";

/// The applications of each team.
const APPLICATIONS: [Application; 10] = [
    ("web", &[CERT_MANAGER, ("force-ssl-redirect", "true"), ("proxy-body-size", "8m")], ("/", PREFIX)),
    (
        "api",
        &[
            ("enable-cors", "true"),
            ("cors-allow-origin", "https://*.example.com, https://localhost:3000"),
            ("cors-allow-credentials", "true"),
            ("limit-rps", "50"),
            ("use-regex", "true"),
            ("rewrite-target", "/$2"),
        ],
        ("/v1(/|$)(.*)", ANY),
    ),
    (
        "grafana",
        &[
            ("auth-type", "basic"),
            ("auth-secret", "basic-auth"),
            ("auth-realm", "Authentication Required"),
            ("proxy-read-timeout", "3600"),
        ],
        ("/", PREFIX),
    ),
    (
        "registry",
        &[
            ("proxy-body-size", "0"),
            ("proxy-request-buffering", "off"),
            ("proxy-buffering", "off"),
            ("proxy-read-timeout", "900"),
            ("proxy-send-timeout", "900"),
        ],
        ("/", PREFIX),
    ),
    ("argocd", &[("ssl-redirect", "true"), ("backend-protocol", "HTTPS")], ("/", PREFIX)),
    ("jenkins", &[("proxy-body-size", "50m"), ("proxy-request-buffering", "off")], ("/jenkins", PREFIX)),
    (
        "keycloak",
        &[("proxy-buffer-size", "128k"), ("proxy-buffers-number", "4"), ("affinity", "cookie")],
        ("/auth", PREFIX),
    ),
    (
        "sockets",
        &[
            ("proxy-read-timeout", "3600"),
            ("proxy-send-timeout", "3600"),
            ("affinity", "cookie"),
            ("session-cookie-name", "route"),
            ("session-cookie-max-age", "172800"),
            ("proxy-http-version", "1.1"),
        ],
        ("/ws", PREFIX),
    ),
    ("admin", &[("whitelist-source-range", "10.0.0.0/8,192.168.0.0/16"), CERT_MANAGER], ("/admin", PREFIX)),
    (
        "docs",
        &[("permanent-redirect", "https://docs.example.com"), ("from-to-www-redirect", "true")],
        ("/", PREFIX),
    ),
];

/// Additional annotations: the application, every how many teams it applies, and the annotation.
const ODDITIES: [(&str, usize, (&str, &str)); 24] = [
    // Old names, names of other controllers, and misspellings.
    ("web", 3, ("kubernetes.io/tls-acme", "true")),
    ("web", 4, ("external-dns.alpha.kubernetes.io/hostname", "web.example.com")),
    ("web", 5, ("traefik.ingress.kubernetes.io/router.entrypoints", "websecure")),
    ("web", 7, ("proxy-body-sizes", "20m")),
    ("argocd", 6, ("secure-backends", "true")),
    ("jenkins", 8, ("add-base-url", "true")),
    // Values that users of nginx copy from other documentation.
    ("registry", 9, ("proxy-connect-timeout", "60s")),
    ("jenkins", 10, ("client-max-body-size", "50m")),
    ("keycloak", 11, ("proxy-busy-buffers-size", "256k")),
    ("api", 12, ("limit-rpm", "many")),
    ("admin", 13, ("denylist-source-range", "10.6.6.6/33")),
    ("grafana", 14, ("auth-secret-type", "auth-file")),
    ("docs", 9, ("permanent-redirect-code", "308")),
    // Configuration text for nginx.
    ("web", 2, ("configuration-snippet", "more_set_headers \"X-Frame-Options: DENY\";")),
    ("api", 6, ("server-snippet", "location /healthz { return 200; }")),
    ("keycloak", 15, ("configuration-snippet", "proxy_set_header X-Forwarded-Port 443;")),
    ("admin", 10, ("enable-modsecurity", "true")),
    // Rarely used features.
    ("argocd", 5, ("ssl-passthrough", "true")),
    ("sockets", 6, ("upstream-hash-by", "$remote_addr")),
    ("sockets", 7, ("load-balance", "ewma")),
    ("admin", 6, ("satisfy", "any")),
    ("registry", 12, ("upstream-vhost", "registry.internal")),
    ("docs", 15, ("enable-access-log", "false")),
    ("grafana", 15, ("enable-opentelemetry", "true")),
];

pub(super) fn objects() -> String {
    let mut text = settings(&[
        ("use-forwarded-headers", "true"),
        ("proxy-body-size", "20m"),
        ("server-tokens", "false"),
        ("enable-brotli", "true"),
        ("ssl-protocols", "TLSv1.2 TLSv1.3"),
        ("log-format-escape-json", "true"),
        ("hsts", "true"),
        ("worker-processes", "4"),
        ("allow-snippet-annotations", "true"),
        ("enable-vts-status", "true"),
    ]);
    for number in 0..30 {
        let (namespace, domain) = (format!("team-{number:02}"), format!("team-{number:02}.example.com"));
        text += &certificate(&namespace, &domain);
        // Two teams have lost their Secret, and one has an invalid line that htpasswd would not
        // write.
        match number {
            11 | 23 => {}
            17 => text += &secret(&namespace, "basic-auth", "auth", "admin:secret\n"),
            _ => text += &secret(&namespace, "basic-auth", "auth", "admin:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
        }
        for (name, annotations, (path, kind)) in APPLICATIONS {
            let own = ODDITIES.iter().filter(|(of, every, _)| *of == name && number % every == 0);
            let annotations: Vec<_> =
                annotations.iter().copied().chain(own.map(|(_, _, odd)| *odd)).collect();
            let host = format!("{name}.{domain}");
            let ingress = Ingress {
                namespace: &namespace,
                name,
                host: &host,
                paths: &[(path, kind, name)],
                annotations: &annotations,
            };
            text += &ingress.text();
            // A few applications were removed, but not their Ingresses.
            if !(name == "jenkins" && number % 10 == 3) {
                text += &service(&namespace, name);
            }
        }
    }
    // One team uses a host of another team.
    text.replace("web.team-29.example.com", "web.team-28.example.com")
}

/// A URL of each application.
pub(super) fn urls() -> String {
    let urls = (0..30).flat_map(|number| {
        APPLICATIONS.map(|(name, _, (path, _))| {
            let path = path.replace("(/|$)(.*)", "/items");
            format!("https://{name}.team-{number:02}.example.com{path}\n")
        })
    });
    urls.collect()
}
