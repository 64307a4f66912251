//! h2load: HTTP/2 over TLS at full speed.

use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::Work;
use crate::bench::origin::grpc::MESSAGE;
use crate::bench::setup::{HOST, Setup};
use crate::bench::tool;

/// TLS settings of clients with OpenSSL: a single suite that all peers support and that is fastest
/// on machines with AES instructions.
pub(super) const OPENSSL: &str = "openssl_conf = default\n[default]\nssl_conf = ssl\n[ssl]\n\
    system_default = system\n[system]\nMinProtocol = TLSv1.3\nCiphersuites = TLS_AES_128_GCM_SHA256\n\
    Groups = X25519\n";

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct H2load {
    /// Number of connections.
    pub connections: u32,
    /// Concurrent streams per connection.
    pub streams: u32,
    /// The gRPC method to call instead of a GET.
    pub grpc: Option<&'static str>,
}

impl H2load {
    /// Runs h2load.
    ///
    /// # Errors
    /// h2load is missing or fails.
    pub fn run(&self, setup: &Setup, duration: Duration) -> anyhow::Result<Work> {
        setup.folder.try_write("openssl.cnf", OPENSSL)?;
        let mut command = Command::new(tool::find("h2load", "nghttp2-client")?);
        if self.grpc.is_some() {
            setup.folder.try_write("message", MESSAGE)?;
            command.args(["-d", &setup.path("message"), "-H", "content-type: application/grpc"]);
            command.args(["-H", "te: trailers"]);
        }
        let output = command
            .args(["-t1", &format!("-c{}", self.connections), &format!("-m{}", self.streams)])
            .args(["-D", &duration.as_secs().max(1).to_string()])
            .arg(format!("https://{HOST}:{}{}", setup.https.port(), self.grpc.unwrap_or("/")))
            .env("OPENSSL_CONF", setup.file("openssl.cnf"))
            .output()
            .context("cannot run h2load")?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).with_context(|| format!("h2load: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn parse(text: &str) -> Option<Work> {
    let finished = text.lines().find_map(|line| line.strip_prefix("finished in "))?;
    let rate: f64 = finished.split(", ").nth(1)?.strip_suffix(" req/s")?.parse().ok()?;
    let statuses = text.lines().find_map(|line| line.strip_prefix("status codes: "))?;
    let count = |name: &str| -> Option<u64> {
        statuses.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
    };
    let served = count("2xx")?;
    let requests = text.lines().find_map(|line| line.strip_prefix("requests: "))?;
    let failed = |name: &str| -> u64 {
        let part = requests.split(", ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok());
        part.unwrap_or(0)
    };
    let refused = count("3xx")? + count("4xx")? + count("5xx")?;
    Some(Work {
        served,
        in_time: served,
        failed: refused + failed("errored") + failed("timeout"),
        elapsed: Duration::from_secs_f64(served as f64 / rate.max(1.0)),
        latency: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_h2load_is_parsed() {
        let text = "finished in 3.00s, 20000.00 req/s, 3.00MB/s\n\
                    requests: 60000 total, 60100 started, 60000 done, 59990 succeeded, 10 failed, 3 errored, \
                    0 timeout\nstatus codes: 59990 2xx, 0 3xx, 2 4xx, 5 5xx\n";
        let work = parse(text).unwrap();
        assert_eq!((work.served, work.failed), (59_990, 10));
        assert!((work.elapsed.as_secs_f64() - 2.9995).abs() < 1e-9);
    }
}
