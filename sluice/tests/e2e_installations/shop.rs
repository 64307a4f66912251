//! A shop of the size that most clusters have: storefront, API, checkout, media, back office,
//! monitoring. The annotations are those that the documentation of ingress-nginx, cert-manager,
//! Grafana and Keycloak recommends for these uses.

use super::objects::{Ingress, certificate, secret, service, settings};

/// A namespace, a name, a host, paths, and annotations.
type Application = (
    &'static str,
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
    &'static [(&'static str, &'static str)],
);

const CERT_MANAGER: (&str, &str) = ("cert-manager.io/cluster-issuer", "letsencrypt");
const PREFIX: &str = "Prefix";

const APPLICATIONS: [Application; 9] = [
    (
        "shop",
        "storefront",
        "www.shop.example",
        &[("/", PREFIX, "storefront"), ("/media", PREFIX, "media")],
        &[
            CERT_MANAGER,
            ("from-to-www-redirect", "true"),
            (
                "configuration-snippet",
                "more_set_headers \"X-Frame-Options: SAMEORIGIN\" \"X-Content-Type-Options: nosniff\";",
            ),
        ],
    ),
    (
        "shop",
        "api",
        "api.shop.example",
        &[("/v2(/|$)(.*)", "ImplementationSpecific", "api")],
        &[
            CERT_MANAGER,
            ("use-regex", "true"),
            ("rewrite-target", "/$2"),
            ("enable-cors", "true"),
            ("cors-allow-origin", "https://www.shop.example"),
            ("limit-rps", "100"),
            ("limit-burst-multiplier", "10"),
        ],
    ),
    (
        "shop",
        "checkout",
        "www.shop.example",
        &[("/checkout", PREFIX, "checkout")],
        &[
            CERT_MANAGER,
            ("affinity", "cookie"),
            ("session-cookie-name", "checkout"),
            ("session-cookie-secure", "true"),
        ],
    ),
    (
        "shop",
        "checkout-next",
        "www.shop.example",
        &[("/checkout", PREFIX, "checkout-next")],
        &[("canary", "true"), ("canary-by-header", "X-Preview"), ("canary-weight", "10")],
    ),
    (
        "shop",
        "campaign",
        "www.shop.example",
        &[("/summer", PREFIX, "storefront")],
        &[("temporal-redirect", "https://www.shop.example/sale")],
    ),
    (
        "back-office",
        "admin",
        "admin.shop.example",
        &[("/", PREFIX, "admin")],
        &[CERT_MANAGER, ("whitelist-source-range", "10.0.0.0/8,192.0.2.0/24"), ("proxy-body-size", "64m")],
    ),
    (
        "back-office",
        "reports",
        "reports.shop.example",
        &[("/", PREFIX, "reports")],
        &[
            ("auth-type", "basic"),
            ("auth-secret", "reports-users"),
            ("auth-realm", "Reports"),
            ("proxy-read-timeout", "600"),
        ],
    ),
    (
        "monitoring",
        "grafana",
        "grafana.shop.example",
        &[("/", PREFIX, "grafana")],
        &[
            ("auth-url", "https://login.shop.example/oauth2/auth"),
            ("auth-signin", "https://login.shop.example/oauth2/start?rd=https://$host$escaped_request_uri"),
            ("proxy-buffer-size", "16k"),
        ],
    ),
    (
        "monitoring",
        "status",
        "status.shop.example",
        &[("/", PREFIX, "status")],
        &[
            ("ssl-redirect", "false"),
            ("app-root", "/overview"),
            ("server-snippet", "location = /ping { return 200 pong; }"),
        ],
    ),
];

pub(super) fn objects() -> String {
    let mut text = settings(&[
        ("allow-snippet-annotations", "true"),
        ("annotations-risk-level", "Critical"),
        ("use-forwarded-headers", "true"),
        ("proxy-real-ip-cidr", "10.0.0.0/8"),
        ("hsts-max-age", "31536000"),
        ("enable-brotli", "true"),
        ("block-user-agents", "~*scrapy"),
        ("log-format-escape-json", "true"),
        ("log-format-upstream", LOG_FORMAT),
    ]);
    for namespace in ["shop", "back-office", "monitoring"] {
        text += &certificate(namespace, "shop.example");
    }
    text += &secret("back-office", "reports-users", "auth", "reports:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=");
    for (namespace, name, host, paths, annotations) in APPLICATIONS {
        text += &Ingress { namespace, name, host, paths, annotations }.text();
    }
    for (namespace, name) in [
        ("shop", "storefront"),
        ("shop", "media"),
        ("shop", "api"),
        ("shop", "checkout"),
        ("shop", "checkout-next"),
        ("back-office", "admin"),
        ("back-office", "reports"),
        ("monitoring", "grafana"),
        ("monitoring", "status"),
    ] {
        text += &service(namespace, name);
    }
    text
}

/// A format as the guides for Loki and Elasticsearch recommend.
const LOG_FORMAT: &str = r#"{"time":"$time_iso8601","remote_addr":"$remote_addr","host":"$host","scheme":"$scheme","method":"$request_method","uri":"$request_uri","status":"$status","upstream":"$proxy_upstream_name","upstream_addr":"$upstream_addr","user":"$remote_user","agent":"$http_user_agent"}"#;

/// The access log of an hour, without most of its repetitions.
pub(super) fn access_log() -> String {
    let line = |client: &str,
                scheme: &str,
                host: &str,
                uri: &str,
                status: u16,
                upstream: &str,
                endpoint: &str,
                user: &str| {
        format!(
            "{{\"time\":\"2026-03-02T08:00:00+00:00\",\"remote_addr\":\"{client}\",\"host\":\"{host}\",\"scheme\":\"{scheme}\",\
             \"method\":\"GET\",\"uri\":\"{uri}\",\"status\":\"{status}\",\"upstream\":\"{upstream}\",\"upstream_addr\":\"{endpoint}\",\
             \"user\":\"{user}\",\"agent\":\"Mozilla/5.0\"}}\n"
        )
    };
    let (client, office, pod) = ("203.0.113.9", "10.1.2.3", "10.0.0.1:8080");
    let page =
        |uri: &str, upstream: &str| line(client, "https", "www.shop.example", uri, 200, upstream, pod, "");
    [
        page("/", "shop-storefront-80"),
        page("/", "shop-storefront-80"),
        page("/search?q=caf%C3%A9", "shop-storefront-80"),
        page("/media/logo.svg", "shop-media-80"),
        page("/checkout/cart", "shop-checkout-80"),
        line(client, "http", "www.shop.example", "/", 308, "shop-storefront-80", "", ""),
        line(client, "https", "shop.example", "/", 308, "", "", ""),
        line(client, "https", "www.shop.example", "/summer/2026", 302, "shop-storefront-80", "", ""),
        line(client, "https", "api.shop.example", "/v2/items", 200, "shop-api-80", pod, ""),
        line(client, "https", "api.shop.example", "/v1/items", 404, "upstream-default-backend", "", ""),
        line(client, "https", "admin.shop.example", "/", 403, "back-office-admin-80", "", ""),
        line(office, "https", "admin.shop.example", "/orders", 200, "back-office-admin-80", pod, ""),
        line(client, "https", "reports.shop.example", "/", 401, "back-office-reports-80", "", ""),
        line(
            office,
            "https",
            "reports.shop.example",
            "/daily",
            200,
            "back-office-reports-80",
            pod,
            "reports",
        ),
        line(client, "https", "grafana.shop.example", "/", 302, "monitoring-grafana-80", "", ""),
        line(client, "https", "status.shop.example", "/", 302, "monitoring-status-80", "", ""),
        line(client, "https", "status.shop.example", "/ping", 200, "", "", ""),
    ]
    .concat()
}
