//! wrk: HTTP/1.1 at full speed.

use std::fmt::Write;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;

use super::Work;
use crate::bench::setup::{HOST, Setup, hosts};
use crate::bench::tool;

/// Number of requests that are prepared and sent in turn.
const READY: usize = 1000;

/// The kind of requests.
#[derive(Clone, Copy, Debug)]
pub struct Wrk {
    /// Whether to use TLS.
    pub tls: bool,
    /// Number of connections.
    pub connections: u32,
    /// The path.
    pub path: &'static str,
    /// Whether each request uses a new connection.
    pub close: bool,
    /// Bytes of the request body. With 0, requests are GETs.
    pub body: usize,
    /// Additional fields.
    pub fields: &'static [(&'static str, &'static str)],
    /// Number of hosts to request in turn, at most 1,000, spread over all hosts. 0 requests the
    /// default host, without a script.
    pub hosts: usize,
}

impl Wrk {
    /// Returns GETs of a path over kept plain connections.
    pub const fn get(path: &'static str, connections: u32) -> Self {
        Self { tls: false, connections, path, close: false, body: 0, fields: &[], hosts: 0 }
    }

    /// Runs wrk.
    ///
    /// # Errors
    /// wrk is missing or fails.
    pub fn run(&self, setup: &Setup, duration: Duration) -> anyhow::Result<Work> {
        let (scheme, port) =
            if self.tls { ("https", setup.https.port()) } else { ("http", setup.http.port()) };
        setup.folder.try_write("wrk.lua", self.script(setup.setting.routes))?;
        setup.folder.try_write("openssl.cnf", super::h2load::OPENSSL)?;
        // wrk accepts whole seconds only.
        let seconds = duration.as_secs().max(1);
        let output = Command::new(tool::find("wrk", "wrk")?)
            .args(["-t1", &format!("-c{}", self.connections), &format!("-d{seconds}s")])
            .args(["-s", &setup.path("wrk.lua"), &format!("{scheme}://{HOST}:{port}{}", self.path)])
            .env("OPENSSL_CONF", setup.file("openssl.cnf"))
            .output()
            .context("cannot run wrk")?;
        let text = String::from_utf8_lossy(&output.stdout);
        parse(&text).with_context(|| format!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr)))
    }

    fn script(&self, routes: usize) -> String {
        let mut script = String::from("wrk.headers[\"User-Agent\"] = \"wrk\"\n");
        for (name, value) in self.fields {
            writeln!(script, "wrk.headers[{name:?}] = {value:?}").expect("a String takes any text");
        }
        if self.close {
            script.push_str("wrk.headers[\"Connection\"] = \"close\"\n");
        }
        if self.body > 0 {
            write!(script, "wrk.method = \"POST\"\nwrk.body = string.rep(\"x\", {})\n", self.body)
                .expect("a String takes any text");
        }
        if self.hosts > 0 {
            let hosts = hosts(routes);
            let step = hosts.len().div_ceil(self.hosts);
            let some: Vec<&String> = hosts.iter().step_by(step).collect();
            write!(
                script,
                "local hosts = {{ {} }}\nlocal requests, turn = {{}}, 0\nfunction init()\n  \
                 for i = 1, {READY} do\n    wrk.headers[\"Host\"] = hosts[(i - 1) % #hosts + 1]\n    \
                 requests[i] = wrk.format()\n  end\nend\nfunction request()\n  turn = turn % {READY} + 1\n  \
                 return requests[turn]\nend\n",
                some.iter().map(|host| format!("\"{host}\"")).collect::<Vec<_>>().join(", ")
            )
            .expect("a String takes any text");
        }
        script
    }
}

fn parse(text: &str) -> Option<Work> {
    let line = |part: &str| text.lines().find(|line| line.contains(part));
    let numbers = |line: &str| -> Vec<u64> {
        let words = line.split(|letter: char| !letter.is_ascii_digit());
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let summary = line(" requests in ")?;
    let answered: u64 = summary.trim().split(' ').next()?.parse().ok()?;
    let rate: f64 = line("Requests/sec:")?.split(':').nth(1)?.trim().parse().ok()?;
    // The request count includes responses other than 2xx, but not broken connections.
    let refused = line("Non-2xx").map(numbers).and_then(|numbers| numbers.last().copied()).unwrap_or(0);
    let broken: u64 = line("Socket errors:").map(numbers).unwrap_or_default().iter().sum();
    let elapsed = Duration::from_secs_f64(answered as f64 / rate.max(1.0));
    let served = answered.saturating_sub(refused);
    Some(Work { served, failed: refused + broken, in_time: served, elapsed, latency: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_wrk_is_parsed() {
        let text = "Running 3s test @ http://localhost:1/\n  1 threads and 64 connections\n  \
                    Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     1.00ms\n  \
                    90000 requests in 3.00s, 9.00MB read\n  \
                    Socket errors: connect 0, read 2, write 0, timeout 1\n  \
                    Non-2xx or 3xx responses: 30\nRequests/sec:  30000.00\nTransfer/sec:      3.00MB\n";
        let work = parse(text).unwrap();
        assert_eq!((work.served, work.failed), (89_970, 33));
        assert_eq!(work.elapsed, Duration::from_secs(3));
        assert!(parse("unable to connect").is_none());
    }
}
