//! A real nginx in the place of the old controller.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::harness::{Connection, Folder, await_until, ports};

const PROGRAM: &str = "/usr/sbin/nginx";

/// A running nginx; killed when it is dropped.
pub(super) struct OldController {
    pub(super) address: SocketAddr,
    child: Child,
    _folder: Folder,
}

impl OldController {
    /// Starts nginx with these locations for `shop.example`; `None` if nginx is not installed.
    pub(super) fn start(locations: &str) -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            return None;
        }
        let [address] = ports::addresses();
        let folder = Folder::empty();
        let prefix = folder.path().to_str().unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {prefix}/{kind};\n"))
            .concat();
        folder.write(
            "nginx.conf",
            format!(
                "daemon off;\nmaster_process off;\npid {prefix}/pid;\nerror_log stderr;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
                 port_in_redirect off;\nserver {{ listen {address} default_server; return 404; }}\n\
                 server {{ listen {address}; server_name shop.example;\n{locations}\n}}\n}}\n"
            ),
        );
        let child = Command::new(PROGRAM)
            .args(["-p", prefix, "-c", folder.file("nginx.conf").to_str().unwrap()])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let nginx = Self { address, child, _folder: folder };
        await_until("nginx to listen", || Connection::try_plain(address).is_ok());
        Some(nginx)
    }
}

impl Drop for OldController {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
