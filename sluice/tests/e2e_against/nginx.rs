//! A real nginx in the place of the old controller.

use crate::harness::Nginx;

/// Starts nginx with these locations for `shop.example`; `None` if nginx is not installed.
pub(super) fn old_controller(locations: &str) -> Option<Nginx> {
    let http = |address| {
        format!(
            "port_in_redirect off;\nserver {{ listen {address} default_server; return 404; }}\n\
             server {{ listen {address}; server_name shop.example;\n{locations}\n}}\n"
        )
    };
    Nginx::is_installed().then(|| Nginx::start("", http))
}
