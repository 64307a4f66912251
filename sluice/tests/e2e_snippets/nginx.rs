//! A real nginx with the location of ingress-nginx's template, as far as snippets can see it.

use std::net::SocketAddr;
use std::path::Path;

use crate::harness::Nginx;

const HEADERS_MORE: &str = "/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so";

/// Returns whether nginx and headers-more are installed.
pub(super) fn is_installed() -> bool {
    Nginx::is_installed() && Path::new(HEADERS_MORE).exists()
}

/// Starts nginx with these snippets in front of an endpoint.
pub(super) fn start(
    http_snippet: &str,
    server_snippet: &str,
    location_snippet: &str,
    endpoint: SocketAddr,
) -> Nginx {
    let main = format!("load_module {HEADERS_MORE};\n");
    Nginx::start(&main, |address| {
        format!(
            "default_type text/html;\n\
             map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}\nmore_set_headers 'Server: sluice';\n\
             {http_snippet}\n\
             server {{\nlisten {address};\nport_in_redirect off;\n{server_snippet}\nlocation / {{\n\
             proxy_set_header Host $http_host;\nproxy_set_header Upgrade $http_upgrade;\n\
             proxy_set_header Connection $connection_upgrade;\nproxy_set_header X-Real-IP $remote_addr;\n\
             proxy_set_header X-Forwarded-For $remote_addr;\nproxy_http_version 1.1;\n{location_snippet}\n\
             proxy_pass http://{endpoint};\n}}\n}}\n"
        )
    })
}
