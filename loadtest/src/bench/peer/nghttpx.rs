//! nghttpx, the reference for HTTP/2 clients: one worker, kept connections to the origin.

use std::process::Command;

use anyhow::Context;

use crate::bench::setup::{ACCESS_LOG, Setup};
use crate::bench::tool;

const LOG_FORMAT: &str = r#"$remote_addr - - [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" 0 $request_time [origin] [] $backend_host:$backend_port - - -"#;

/// Returns the command that runs it.
pub(super) fn command(setup: &Setup) -> anyhow::Result<Command> {
    let mut command = Command::new(tool::find("nghttpx", "nghttp2-proxy")?);
    // Without its own file it would read the system's configuration.
    setup.folder.try_write("nghttpx.conf", "")?;
    command.arg(format!("--conf={}", setup.path("nghttpx.conf")));
    command.arg(format!("--frontend={},{};no-tls", setup.http.ip(), setup.http.port()));
    command.arg(format!("--frontend={},{}", setup.https.ip(), setup.https.port()));
    command.arg(format!("--backend={},{}", setup.origin.ip(), setup.origin.port()));
    command.args(["--workers=1", "--single-thread", "--no-ocsp", "--add-x-forwarded-for"]);
    command.args(["--frontend-http2-max-concurrent-streams=128", "--log-level=WARN"]);
    command.args(["--tls-min-proto-version=TLSv1.2", "--max-worker-processes=1"]);
    let log = setup.file("error.log");
    command.arg(format!("--errorlog-file={}", log.display()));
    if setup.setting.access_log {
        command.arg(format!("--accesslog-file={}", setup.path(ACCESS_LOG)));
        command.arg(format!("--accesslog-format={LOG_FORMAT}"));
    }
    command.args([setup.file("tls.key"), setup.file("tls.crt")]);
    Ok(command)
}

/// Returns its version.
pub(super) fn version() -> anyhow::Result<String> {
    let program = tool::find("nghttpx", "nghttp2-proxy")?;
    let text =
        tool::output(&program.display().to_string(), &["--version"]).context("nghttpx does not run")?;
    Ok(text.rsplit('/').next().unwrap_or_default().to_owned())
}
