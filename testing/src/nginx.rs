//! A real nginx, for comparisons.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::client::Connection;
use crate::folder::Folder;
use crate::ports;
use crate::wait::await_until;

const PROGRAM: &str = "/usr/sbin/nginx";

/// A running nginx; killed when it is dropped.
pub struct Nginx {
    /// The address that it was given.
    pub address: SocketAddr,
    child: Child,
    _folder: Folder,
}

impl Nginx {
    /// Returns whether nginx is installed.
    pub fn is_installed() -> bool {
        Path::new(PROGRAM).exists()
    }

    /// Starts nginx with directives of the main level and of the http block, for the address that
    /// it is to listen on.
    ///
    /// # Panics
    /// nginx cannot be started, or does not listen in time.
    #[track_caller]
    pub fn start(main: &str, http: impl FnOnce(SocketAddr) -> String) -> Self {
        let [address] = ports::addresses();
        let folder = Folder::empty();
        let prefix = folder.path().to_str().unwrap();
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {prefix}/{kind};\n"))
            .concat();
        let http = http(address);
        folder.write(
            "nginx.conf",
            format!(
                "{main}daemon off;\nmaster_process off;\npid {prefix}/pid;\nerror_log stderr;\nevents {{}}\n\
                 http {{\naccess_log off;\n{temporary}{http}}}\n"
            ),
        );
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
