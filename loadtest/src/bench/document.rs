//! The figures of `docs/benchmark-figures.md`: a run replaces everything between two marks.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value};

use super::columns::{PEERS, display};
use super::picture;
use super::quoted::{FIGURES, SOURCE};
use super::sample::Sample;
use super::scenario::{Entrants, Scenario, Traffic};
use super::summary::{BUSY, Ratio, Summary, busy_rate, median};
use super::{losses, table};

const BEGIN: &str = "<!-- figures: written by `bench --write-docs` -->\n";
const END: &str = "<!-- end of figures -->";

/// The content of a document.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    /// The scenarios that ran.
    pub scenarios: &'a [Scenario],
    /// Their figures.
    pub summary: &'a Summary,
    /// Number of rounds.
    pub own: &'a str,
    /// Processor, kernel and date.
    pub rounds: usize,
    /// Processor, kernel, day.
    pub machine: &'a Value,
    /// Programs and their versions.
    pub versions: &'a Map<String, Value>,
}

impl Document<'_> {
    /// Writes the figures into `benchmark-figures.md` and the chart into `benchmarks.svg` of a
    /// folder.
    ///
    /// # Errors
    /// nginx, the reference of all ratios, took no part; or the document or its marks are missing.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.versions.contains_key("nginx"),
            "nginx is missing; the document needs its figures as the reference"
        );
        let path = folder.join("benchmark-figures.md");
        let old = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let marks = || format!("{} lacks the marks of the figures", path.display());
        let (before, rest) = old.split_once(BEGIN).with_context(marks)?;
        let (_, after) = rest.split_once(END).with_context(marks)?;
        let new = format!("{before}{BEGIN}{}{END}{after}", self.figures()?);
        fs::write(&path, new).with_context(|| format!("cannot write {}", path.display()))?;
        let path = folder.join("benchmarks.svg");
        fs::write(&path, picture::draw(self.scenarios, self.summary, self.own))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn figures(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        let word = |name: &str| self.machine[name].as_str().unwrap_or("?");
        let versions: Vec<String> = self
            .versions
            .iter()
            .map(|(name, version)| format!("{} {}", display(name), version.as_str().unwrap_or("?")))
            .collect();
        writeln!(
            text,
            "\n{}, {} cores, Linux {}, {}; commit {}; rounds: {}. {}.\n",
            word("processor"),
            self.machine["cores"],
            word("kernel"),
            word("day"),
            word("commit"),
            self.rounds,
            versions.join(", ")
        )?;
        self.cpu(&mut text)?;
        self.rates(&mut text)?;
        self.latencies(&mut text)?;
        self.memory(&mut text)?;
        self.own_costs(&mut text)?;
        self.quoted(&mut text)?;
        text.push_str(&losses::list(self.summary, self.scenarios, self.own));
        Ok(text)
    }

    fn main_scenarios(&self) -> impl Iterator<Item = &Scenario> {
        self.scenarios.iter().filter(|scenario| {
            scenario.entrants != Entrants::Sluice && !matches!(scenario.traffic, Traffic::Idle(_))
        })
    }

    fn over_nginx(&self, scenario: &str, peer: &str) -> Option<Ratio> {
        self.summary.ratio((scenario, peer), (scenario, "nginx"), Sample::cpu)
    }

    fn header(&self, text: &mut String, columns: &[&str]) -> std::fmt::Result {
        let names: Vec<&str> = columns.iter().map(|peer| display(peer)).collect();
        writeln!(text, "| | {} |\n|---|{}", names.join(" | "), "---|".repeat(columns.len()))
    }

    /// Returns the columns: Sluice, its other builds, then the other peers of the run.
    fn columns(&self) -> Vec<&str> {
        let others = PEERS.into_iter().filter(|&peer| self.versions.contains_key(peer));
        let builds = self.versions.keys().map(String::as_str).filter(|name| !PEERS.contains(name));
        std::iter::once(self.own).chain(builds.filter(|&name| name != self.own)).chain(others).collect()
    }

    fn cpu(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "### CPU time per request, as a ratio to nginx (range over the rounds)\n")?;
        let mut columns = self.columns();
        columns.retain(|&peer| peer != "nginx");
        columns.push("nginx, µs");
        self.header(text, &columns)?;
        columns.pop();
        for scenario in self.main_scenarios() {
            let cells: Vec<String> =
                columns.iter().map(|peer| table::ratio(self.over_nginx(scenario.name, peer))).collect();
            let nginx = self.summary.median(scenario.name, "nginx", Sample::cpu).unwrap_or(0.0);
            writeln!(text, "| {} | {} | {nginx:.1} |", scenario.title, cells.join(" | "))?;
        }
        match self.noise() {
            Some(noise) => writeln!(
                text,
                "\nNoise: half of Sluice's ranges are wider than ±{:.0} % of their median. Treat smaller differences as \
                 noise.",
                noise * 100.0
            ),
            None => Ok(()),
        }
    }

    /// Returns half the range of a ratio relative to the ratio: the median over the scenarios.
    fn noise(&self) -> Option<f64> {
        let ratios = self.main_scenarios().filter_map(|scenario| self.over_nginx(scenario.name, self.own));
        median(ratios.map(|ratio| (ratio.most - ratio.least) / 2.0 / ratio.median).collect())
    }

    fn rates(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n### Requests a second of one core\n")?;
        let columns = self.columns();
        self.header(text, &columns)?;
        for scenario in
            self.main_scenarios().filter(|scenario| !matches!(scenario.traffic, Traffic::Paced { .. }))
        {
            let cell = |peer: &&str| busy_rate(self.summary, scenario.name, peer);
            let cells: Vec<String> = columns
                .iter()
                .map(|peer| cell(peer).map_or_else(String::new, |rate| format!("{rate:.0}")))
                .collect();
            if cells.iter().any(|cell| !cell.is_empty()) {
                writeln!(text, "| {} | {} |", scenario.title, cells.join(" | "))?;
            }
        }
        writeln!(
            text,
            "\nOnly where the proxy kept its core busy for at least {:.0} % of the time: elsewhere the load generator was \
             the limit.",
            BUSY * 100.0
        )
    }

    fn latencies(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n### Latency at a fixed rate, milliseconds: p50 / p99 / p99.9\n")?;
        let columns = self.columns();
        self.header(text, &columns)?;
        for scenario in
            self.scenarios.iter().filter(|scenario| matches!(scenario.traffic, Traffic::Paced { .. }))
        {
            let cell = |peer: &&str| {
                let latency = |figure: fn(&Sample) -> f64| self.summary.median(scenario.name, peer, figure);
                let p50 = latency(|sample| sample.work.latency.unwrap_or_default().p50)?;
                let p99 = latency(|sample| sample.work.latency.unwrap_or_default().p99)?;
                let p999 = latency(|sample| sample.work.latency.unwrap_or_default().p999)?;
                Some(format!("{p50:.2} / {p99:.2} / {p999:.2}"))
            };
            let cells: Vec<String> = columns.iter().map(|peer| cell(peer).unwrap_or_default()).collect();
            writeln!(text, "| {} | {} |", scenario.title, cells.join(" | "))?;
        }
        Ok(())
    }

    fn memory(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n### Memory\n")?;
        let columns = self.columns();
        self.header(text, &columns)?;
        let mut row = |title: &str, scenario: &str, figure: fn(&Sample) -> f64, digits: usize| {
            let cells: Vec<String> = columns
                .iter()
                .map(|peer| self.summary.median(scenario, peer, figure))
                .map(|figure| figure.map_or_else(String::new, |figure| format!("{figure:.digits$}")))
                .collect();
            match cells.iter().all(String::is_empty) {
                true => Ok(()),
                false => writeln!(text, "| {title} | {} |", cells.join(" | ")),
            }
        };
        row("at rest, MiB", "h1", |sample| sample.at_rest as f64 / 1_048_576.0, 1)?;
        row("under load (0.1 KiB), MiB", "h1", |sample| sample.under_load as f64 / 1_048_576.0, 1)?;
        row("under load (1 MiB), MiB", "h1-1m", |sample| sample.under_load as f64 / 1_048_576.0, 1)?;
        row("10,000 routes, MiB", "routes-10000", |sample| sample.under_load as f64 / 1_048_576.0, 1)?;
        let each = |sample: &Sample| sample.idle.map_or(0.0, |idle| idle.each / 1024.0);
        let back = |sample: &Sample| sample.idle.map_or(0.0, |idle| idle.given_back * 100.0);
        row("idle connection, KiB", "idle", each, 1)?;
        row("given back after closing, %", "idle", back, 0)?;
        row("idle connection on TLS, KiB", "tls-idle", each, 1)?;
        row("given back after closing, %", "tls-idle", back, 0)?;
        row("idle TCP connection, KiB", "tcp-idle", each, 1)?;
        row("given back after closing, %", "tcp-idle", back, 0)
    }

    fn own_costs(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n### What Sluice's own parts cost: CPU time as a ratio within a round\n")?;
        writeln!(text, "| | ratio |\n|---|---|")?;
        for (title, with, without) in [
            ("access log", "h1", "h1-no-log"),
            ("metrics", "h1", "h1-no-metrics"),
            ("access log and metrics together", "h1", "h1-bare"),
            ("rewrite, CORS, headers, 1,000 networks, rate limit", "policies", "h1"),
            ("10,000 routes over 1, 1 asked", "routes-10000-1", "routes-1"),
            ("10,000 routes over 1, 1,000 asked in turn", "routes-10000", "routes-1"),
            ("50 changes a second, at 5,000 requests/s", "changes-50", "fixed-5000"),
        ] {
            let ratio = self.summary.ratio((with, self.own), (without, self.own), Sample::cpu);
            if ratio.is_some() {
                writeln!(text, "| {title} | {} |", table::ratio(ratio))?;
            }
        }
        Ok(())
    }

    fn quoted(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n### Against ingress-nginx\n")?;
        writeln!(text, "Quoted: {SOURCE}, in one run with plain nginx. Ratios to plain nginx.\n")?;
        writeln!(
            text,
            "| | ingress-nginx | Sluice | Sluice over ingress-nginx | aim |\n|---|---|---|---|---|"
        )?;
        for quoted in FIGURES {
            let title = self
                .scenarios
                .iter()
                .find(|scenario| scenario.name == quoted.scenario)
                .map(|scenario| scenario.title);
            if let (Some(title), Some(own)) = (title, self.over_nginx(quoted.scenario, self.own)) {
                let aim = quoted.aim.map_or_else(String::new, |aim| format!("at most {aim}"));
                let ratio = quoted.ratio();
                writeln!(
                    text,
                    "| {title} | {ratio:.2} | {:.2} | {:.2} | {aim} |",
                    own.median,
                    own.median / ratio
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::scenario;
    use crate::bench::summary::tests::sample;

    #[test]
    fn only_text_between_the_marks_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("benchmark-figures.md");
        let summary =
            Summary::new(vec![sample(0, "sluice", 30), sample(0, "nginx", 20), sample(0, "haproxy", 60)]);
        let versions = json!({"sluice": "1", "nginx": "2", "haproxy": "3"});
        let document = Document {
            scenarios: &scenario::all(),
            summary: &summary,
            own: "sluice",
            rounds: 1,
            machine: &json!({"processor": "a processor", "cores": 2}),
            versions: versions.as_object().unwrap(),
        };
        fs::write(&path, "no marks").unwrap();
        assert!(document.write(folder.path()).is_err());
        fs::write(&path, format!("before\n{BEGIN}old\n{END}\nafter\n")).unwrap();
        document.write(folder.path()).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("before\n") && text.ends_with("\nafter\n") && !text.contains("old"));
        assert!(
            text.contains("| HTTP/1.1, 0.1 KiB | 1.50 (1.50 to 1.50) | 3.00 (3.00 to 3.00) | 20.0 |"),
            "{text}"
        );
        assert!(text.contains("- CPU time, HTTP/1.1, 0.1 KiB: nginx (1.50)"), "{text}");
        assert!(!text.contains("no profile"), "{text}");
        // Writing again replaces the first figures.
        document.write(folder.path()).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        let picture = fs::read_to_string(folder.path().join("benchmarks.svg")).unwrap();
        assert!(picture.contains(r#"class="own" x="330" y="58" width="225.0""#), "{picture}");
    }

    #[test]
    fn another_build_has_a_column_of_its_own() {
        let samples = [("sluice", 30), ("unprofiled", 25), ("nginx", 20), ("haproxy", 60)];
        let summary = Summary::new(samples.map(|(name, cpu)| sample(0, name, cpu)).into());
        let versions = json!({"sluice": "1", "unprofiled": "1", "nginx": "2", "haproxy": "3"});
        let document = Document {
            scenarios: &scenario::all(),
            summary: &summary,
            own: "sluice",
            rounds: 1,
            machine: &json!({}),
            versions: versions.as_object().unwrap(),
        };
        let text = document.figures().unwrap();
        assert!(text.contains("| | Sluice | Sluice, no profile | HAProxy | nginx, µs |"), "{text}");
        assert!(
            text.contains("| 1.50 (1.50 to 1.50) | 1.25 (1.25 to 1.25) | 3.00 (3.00 to 3.00) | 20.0 |"),
            "{text}"
        );
    }
}
