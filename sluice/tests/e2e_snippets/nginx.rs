//! A real nginx with the location of ingress-nginx's template, as far as snippets can see it.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{Connection, Folder, await_until, ports};

const PROGRAM: &str = "/usr/sbin/nginx";
const HEADERS_MORE: &str = "/usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so";

/// A running nginx; killed when it is dropped.
pub(super) struct Nginx {
    pub(super) address: SocketAddr,
    child: Child,
    _folder: Folder,
}

impl Nginx {
    /// Whether nginx and headers-more are installed.
    pub(super) fn is_installed() -> bool {
        Path::new(PROGRAM).exists() && Path::new(HEADERS_MORE).exists()
    }

    /// Starts nginx with these snippets in front of an endpoint.
    pub(super) fn start(server_snippet: &str, location_snippet: &str, endpoint: SocketAddr) -> Self {
        let [address] = ports::addresses();
        let folder = Folder::empty();
        let prefix = folder.path().to_str().unwrap();
        let mut text = format!(
            "load_module {HEADERS_MORE};\ndaemon off;\nmaster_process off;\npid {prefix}/pid;\nerror_log stderr;\n\
             events {{}}\nhttp {{\naccess_log off;\ndefault_type text/html;\n"
        );
        for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"] {
            writeln!(text, "{kind}_temp_path {prefix}/{kind};").unwrap();
        }
        write!(
            text,
            "map $http_upgrade $connection_upgrade {{ default upgrade; '' ''; }}\nmore_set_headers 'Server: sluice';\n\
             server {{\nlisten {address};\nport_in_redirect off;\n{server_snippet}\nlocation / {{\n\
             proxy_set_header Host $http_host;\nproxy_set_header Upgrade $http_upgrade;\n\
             proxy_set_header Connection $connection_upgrade;\nproxy_set_header X-Real-IP $remote_addr;\n\
             proxy_set_header X-Forwarded-For $remote_addr;\nproxy_http_version 1.1;\n{location_snippet}\n\
             proxy_pass http://{endpoint};\n}}\n}}\n}}\n"
        )
        .unwrap();
        folder.write("nginx.conf", &text);
        let child = Command::new(PROGRAM)
            .args(["-p", prefix, "-c", folder.file("nginx.conf").to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self { address, child, _folder: folder };
        await_until("nginx to listen", || Connection::try_plain(address).is_ok());
        nginx
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
