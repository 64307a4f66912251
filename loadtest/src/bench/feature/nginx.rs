//! The features as nginx directives.

use std::fmt::Write;

use super::{ADDED, Feature, PAGE_ORIGIN, REQUESTS_PER_SECOND, allowed_networks};
use crate::bench::nginx_module::NginxModule;

const PASS: &str = "proxy_pass http://origin;";
/// The core rule set of Debian's package `modsecurity-crs`, with the engine's settings that
/// Sluice's agent has.
const MODSECURITY_RULES: &str = "
      SecRuleEngine On
      SecRequestBodyAccess On
      SecAuditEngine Off
      Include /etc/modsecurity/crs/crs-setup.conf
      Include /usr/share/modsecurity-crs/rules/*.conf
    ";
const REWRITE: &str = "rewrite \"(?i)/api(/|$)(.*)\" /$2 break;";

impl Feature {
    /// Returns the module that nginx needs for it.
    pub fn nginx_module(self) -> Option<NginxModule> {
        match self {
            Self::Brotli(_) => Some(NginxModule::BROTLI),
            Self::Firewall => Some(NginxModule::MODSECURITY),
            _ => None,
        }
    }

    /// Returns directives for all servers.
    pub fn shared_directives(self) -> String {
        match self {
            Self::Policies => format!(
                "  limit_req_zone $binary_remote_addr zone=clients:5m rate={REQUESTS_PER_SECOND}r/s;\n"
            ),
            // The folder of the process is in memory. An open file is reused, in nginx's favour.
            Self::CacheHit => "  proxy_cache_path cache keys_zone=bench:10m use_temp_path=off;\n  \
                               sendfile on;\n  open_file_cache max=1000;\n"
                .to_owned(),
            Self::Canary => "  split_clients $request_id $side { 10% canary; * origin; }\n".to_owned(),
            _ => String::new(),
        }
    }

    /// Returns the locations of a server. `users` is the htpasswd file.
    pub fn locations(self, users: &str) -> String {
        match self {
            Self::Policies => with_policies(),
            Self::Rewrite => format!("location ~* \"^/api(/|$)(.*)\" {{ {REWRITE} {PASS} }}"),
            Self::Gzip(_) => format!(
                "location / {{ gzip on; gzip_comp_level 1; gzip_types text/plain; gzip_min_length 256; \
                 gzip_proxied any; gzip_vary on; {PASS} }}"
            ),
            Self::Brotli(_) => format!(
                "location / {{ brotli on; brotli_comp_level 4; brotli_types text/plain; \
                 brotli_min_length 20; {PASS} }}"
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
            Self::Canary => "location / { proxy_pass http://$side; }".to_owned(),
            Self::Mirror => format!(
                "location = /_mirror {{ internal; proxy_pass http://origin$request_uri; }}\n    \
                 location / {{ mirror /_mirror; {PASS} }}"
            ),
            // 8 KiB in memory and the rest in a file, as in ingress-nginx. Here the file is in
            // memory too.
            Self::Buffered => {
                format!("location / {{ proxy_request_buffering on; client_body_buffer_size 8k; {PASS} }}")
            }
            Self::CacheHit => format!(
                "location / {{ proxy_cache bench; proxy_cache_valid 200 1h; proxy_cache_lock on; \
                 proxy_cache_key $scheme$host$request_uri; {PASS} }}"
            ),
            Self::Firewall => {
                format!("location / {{ modsecurity on; modsecurity_rules '{MODSECURITY_RULES}'; {PASS} }}")
            }
            Self::Tracing | Self::NoFirewall => format!("location / {{ {PASS} }}"),
            Self::Grpc => "location / { grpc_pass grpc://origin; }".to_owned(),
        }
    }
}

fn with_policies() -> String {
    let mut text = String::from("location ~* \"^/api(/|$)(.*)\" {\n");
    for network in allowed_networks() {
        writeln!(text, "      allow {network};").expect("a String takes any text");
    }
    text.push_str("      deny all;\n");
    for (name, value) in ADDED {
        writeln!(text, "      add_header {name} {value} always;").expect("a String takes any text");
    }
    write!(
        text,
        "      limit_req zone=clients burst={} nodelay;\n      \
         if ($http_origin = \"{PAGE_ORIGIN}\") {{ set $cors true; }}\n      \
         if ($request_method = OPTIONS) {{ set $cors ${{cors}}options; }}\n      \
         if ($cors = \"trueoptions\") {{ return 204; }}\n      \
         add_header Access-Control-Allow-Origin $http_origin always;\n      \
         add_header Access-Control-Allow-Credentials true always;\n      {REWRITE}\n      {PASS}\n    }}",
        REQUESTS_PER_SECOND * 5
    )
    .expect("a String takes any text");
    text
}
