//! A standard error that takes no lines: full, closed, or not read.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::process::Stdio;

use rustix::fs::OFlags;

use crate::harness::gateway::run_with_standard_error;
use crate::harness::{Backend, Folder, Gateway, Ingress, await_until, get, site};

/// Lines of this metric could not be written.
const DROPPED: &str = "sluice_log_dropped_lines_total";

fn full_device() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

fn closed_pipe() -> Stdio {
    io::pipe().unwrap().1.into()
}

/// A pipe that holds as much as it can.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = io::pipe().unwrap();
    // Opened again, it does not block, and the original still does.
    let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let mut again = File::options().write(true).custom_flags(flags).open(path).unwrap();
    while again.write(b".").is_ok() {}
    (reader, writer)
}

/// Adds an Ingress with a problem, which is logged, and waits until it is served.
fn await_change(folder: &Folder, gateway: &Gateway) {
    let more = Ingress::new("more").path("more.example", "/", "shop").annotation("ssl-redirct", "true");
    folder.write("more.yaml", more.text());
    await_until("the change", || get(gateway.http, "more.example", "/").status == 200);
}

#[test]
fn a_gateway_whose_standard_error_is_full_or_closed_serves_on() {
    for standard_error in [full_device, closed_pipe] {
        let backend = Backend::echo("shop");
        let folder = Folder::with(site("shop", "shop.example", &[&backend]));
        let mut gateway = Gateway::with_standard_error(&folder, standard_error);
        assert_eq!(get(gateway.http, "shop.example", "/").status, 200);
        await_change(&folder, &gateway);
        assert_eq!(get(gateway.http, "shop.example", "/").status, 200);
        assert!(gateway.metric(DROPPED) > 0);
        gateway.terminate();
        assert_eq!(gateway.await_exit().code(), Some(0));
    }
}

#[test]
fn changes_apply_and_sigterm_ends_while_standard_error_is_not_read() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let (reader, writer) = full_pipe();
    let mut gateway = Gateway::with_standard_error(&folder, || writer.try_clone().unwrap().into());
    await_change(&folder, &gateway);
    assert_eq!(get(gateway.http, "shop.example", "/").status, 200);
    gateway.terminate();
    assert_eq!(gateway.await_exit().code(), Some(0));
    drop(reader);
}

#[test]
fn commands_keep_their_exit_status_with_a_full_standard_error() {
    for (words, status) in [(&["check", "--manifests", "/none/at/all"][..], 2), (&["--nonsense"], 2)] {
        let output = run_with_standard_error(words, full_device());
        assert_eq!(output.status.code(), Some(status), "{words:?}");
    }
}
