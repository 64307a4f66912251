//! A real Prometheus that scrapes one gateway.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use sluice_lab::programs::{Unit, find};
use sluice_testing::client::Connection;
use sluice_testing::ports;
use sluice_testing::wait::await_until;
use tempfile::TempDir;

/// A running Prometheus. It is killed on drop.
pub(crate) struct Prometheus {
    address: SocketAddr,
    child: Child,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a Prometheus that scrapes the page of a gateway every second, with the labels that a
    /// ServiceMonitor gives to a Pod of ingress-nginx, and waits until it is ready. Returns `None`
    /// if it is not built (`make test` builds it).
    pub(crate) fn scraping(page: SocketAddr) -> Option<Self> {
        let program = find(Unit::Prometheus, "prometheus").ok()?;
        let folder = tempfile::tempdir().expect("a folder");
        let config = folder.path().join("prometheus.yml");
        let labels =
            "{namespace: ingress-nginx, pod: controller-0, container: controller, endpoint: metrics}";
        let text = format!(
            "scrape_configs:\n- job_name: ingress-nginx\n  scrape_interval: 1s\n  scrape_timeout: 1s\n  \
             static_configs:\n  - targets: [\"{page}\"]\n    labels: {labels}\n"
        );
        fs::write(&config, text).expect("the configuration");
        let [address] = ports::addresses();
        let child = Command::new(program)
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus");
        let prometheus = Self { address, child, _folder: folder };
        await_until("a ready Prometheus", || prometheus.get("/-/ready").is_some());
        Some(prometheus)
    }

    /// Returns the values of a query now.
    ///
    /// # Panics
    /// Prometheus cannot evaluate it.
    pub(crate) fn values(&self, query: &str) -> Vec<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.get(&format!("/api/v1/query?query={encoded}")).expect("an answer");
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        let results = answer["data"]["result"].as_array().expect("a vector");
        let value = |result: &Value| result["value"][1].as_str().expect("a value").parse().expect("a number");
        results.iter().map(value).collect()
    }

    /// Returns the JSON of a page, or null if it is another text; `None` without a success.
    fn get(&self, target: &str) -> Option<Value> {
        let mut connection = Connection::try_plain(self.address).ok()?;
        let response = connection.try_request("GET", "localhost", target, &[], "").ok()??;
        let text = response.text();
        (response.status < 500).then(|| serde_json::from_str(&text).unwrap_or_default())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
