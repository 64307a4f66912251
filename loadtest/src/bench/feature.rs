//! What a dressed route costs: one feature each, configured alike in Sluice and in nginx, which is what people come from.
//!
//! Sluice gets the annotations and keys that an operator writes; nginx gets the directives that ingress-nginx makes of
//! them, as far as its own modules go (no Lua). gRPC is held against HAProxy and Envoy too.

/// A feature that a route uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// A path with a capture, rewritten.
    Rewrite,
    /// A text of 10 KiB, compressed with gzip at level 1.
    Gzip,
    /// A user name and a password (apr1, a thousand rounds of MD5), the same with every request.
    BasicAuth,
    /// Another program is asked about each request.
    ExternalAuth,
    /// Each request goes to a second endpoint too.
    Mirror,
    /// gRPC over h2c to the endpoint.
    Grpc,
}

/// The fields that requests carry.
type Fields = &'static [(&'static str, &'static str)];

/// The htpasswd file for `user` with the password `secret`.
pub const HTPASSWD: &str = "user:$apr1$k9sBench$Zxli8L7.2h9ejtnNCIgYf.\n";

impl Feature {
    /// What is asked for.
    pub const fn path(self) -> &'static str {
        match self {
            Self::Rewrite => "/api/item",
            Self::Gzip => "/text",
            Self::BasicAuth | Self::ExternalAuth | Self::Mirror | Self::Grpc => "/",
        }
    }

    /// What requests carry besides.
    pub const fn fields(self) -> Fields {
        match self {
            Self::Gzip => &[("Accept-Encoding", "gzip")],
            // user:secret
            Self::BasicAuth => &[("Authorization", "Basic dXNlcjpzZWNyZXQ=")],
            Self::Rewrite | Self::ExternalAuth | Self::Mirror | Self::Grpc => &[],
        }
    }

    /// The annotations of the Ingress, without their prefix.
    pub fn annotations(self, origin: &str) -> Vec<(&'static str, String)> {
        match self {
            Self::Rewrite => vec![("use-regex", "true".into()), ("rewrite-target", "/$2".into())],
            Self::Gzip => Vec::new(),
            Self::BasicAuth => vec![("auth-type", "basic".into()), ("auth-secret", "users".into())],
            Self::ExternalAuth => vec![("auth-url", format!("http://{origin}/auth"))],
            Self::Mirror => vec![("mirror-target", format!("http://{origin}$request_uri"))],
            Self::Grpc => vec![("backend-protocol", "GRPC".into())],
        }
    }

    /// The path of the Ingress and its type.
    pub const fn route(self) -> (&'static str, &'static str) {
        match self {
            Self::Rewrite => ("/api(/|$)(.*)", "ImplementationSpecific"),
            _ => ("/", "Prefix"),
        }
    }

    /// The keys of the ConfigMap.
    pub const fn keys(self) -> Fields {
        match self {
            Self::Gzip => &[("use-gzip", "true"), ("gzip-level", "1"), ("gzip-types", "text/plain")],
            _ => &[],
        }
    }

    /// nginx's locations. `users` is the htpasswd file.
    pub fn locations(self, users: &str) -> String {
        const PASS: &str = "proxy_pass http://origin;";
        match self {
            Self::Rewrite => format!(
                "location ~* \"^/api(/|$)(.*)\" {{ rewrite \"(?i)/api(/|$)(.*)\" /$2 break; {PASS} }}"
            ),
            Self::Gzip => format!(
                "location / {{ gzip on; gzip_comp_level 1; gzip_types text/plain; gzip_min_length 256; \
                 gzip_proxied any; gzip_vary on; {PASS} }}"
            ),
            Self::BasicAuth => {
                format!("location / {{ auth_basic bench; auth_basic_user_file {users}; {PASS} }}")
            }
            Self::ExternalAuth => format!(
                "location = /_auth {{ internal; proxy_pass_request_body off; \
                 proxy_set_header Content-Length \"\"; proxy_set_header Host $proxy_host; \
                 proxy_set_header X-Original-URL $scheme://$http_host$request_uri; \
                 proxy_set_header X-Original-Method $request_method; \
                 proxy_pass http://origin/auth; }}\n    location / {{ auth_request /_auth; {PASS} }}"
            ),
            Self::Mirror => format!(
                "location = /_mirror {{ internal; proxy_pass http://origin$request_uri; }}\n    \
                 location / {{ mirror /_mirror; {PASS} }}"
            ),
            Self::Grpc => "location / { grpc_pass grpc://origin; }".to_owned(),
        }
    }
}
