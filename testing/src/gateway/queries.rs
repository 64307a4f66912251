//! Requests to the health and admin listeners of a gateway.

use super::Gateway;
use crate::client::{Connection, Response};

impl Gateway {
    /// Returns the status of `/healthz`; `None` without a response.
    pub fn health(&self) -> Option<u16> {
        self.probe("/healthz").map(|response| response.status)
    }

    /// Requests a path of the health listener; returns `None` without a response.
    pub fn probe(&self, path: &str) -> Option<Response> {
        let mut connection = Connection::try_plain(self.healthz).ok()?;
        connection.try_request("GET", "probe", path, &[("Connection", "close")], "").ok()?
    }

    /// Returns the metrics page.
    #[track_caller]
    pub fn metrics(&self) -> String {
        self.probe("/metrics").expect("no metrics").text()
    }

    /// Returns the value of a series, given as on the metrics page.
    ///
    /// # Panics
    /// There is no such series, or its value is not a number without a fraction.
    #[track_caller]
    pub fn metric(&self, series: &str) -> u64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
    }

    /// Returns the generation of the current configuration, which increases with each change.
    pub fn generation(&self) -> u64 {
        self.metric("sluice_generation")
    }

    /// Requests a path of the admin listener.
    #[track_caller]
    pub fn ask(&self, path: &str) -> Response {
        Connection::plain(self.admin).request(
            "GET",
            &self.admin.to_string(),
            path,
            &[("Connection", "close")],
            "",
        )
    }

    /// Returns the problems, one line each: `Kind namespace/name: field: message; remedy`.
    #[track_caller]
    pub fn problems(&self) -> String {
        let answer = self.ask("/problems").json();
        let problems = answer.as_array().expect("an array of problems").iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let line = |problem: &serde_json::Value| {
            let [kind, namespace, name] =
                ["kind", "namespace", "name"].map(|part| text(&problem["object"][part]));
            let [field, message, remedy] = ["field", "message", "remedy"].map(|part| text(&problem[part]));
            format!("{kind} {namespace}/{name}: {field}: {message}; {remedy}\n")
        };
        problems.map(line).collect()
    }
}
