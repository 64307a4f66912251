//! The figures as text: one table per scenario.

use std::fmt::Write;

use super::sample::Sample;
use super::scenario::{Scenario, Traffic};
use super::summary::{Ratio, Summary};

/// Returns a table for each scenario with samples, with CPU time as ratios to the `bases`.
pub fn tables(scenarios: &[Scenario], summary: &Summary, bases: &[&str]) -> String {
    let mut text = String::new();
    for scenario in scenarios {
        let peers = summary.peers(scenario.name);
        if !peers.is_empty() {
            let lines = match scenario.traffic {
                Traffic::Idle(_) => idle(scenario, &peers, summary),
                _ => requests(scenario, &peers, summary, bases),
            };
            write!(text, "\n{} ({})\n{lines}", scenario.title, scenario.name)
                .expect("a String takes any text");
        }
    }
    text
}

fn requests(scenario: &Scenario, peers: &[&str], summary: &Summary, bases: &[&str]) -> String {
    let columns: String = bases.iter().map(|base| format!(" {:<20}", format!("to {base}"))).collect();
    let latency =
        if matches!(scenario.traffic, Traffic::Paced { .. }) { " p50 / p99 / p99.9 ms" } else { "" };
    let header = format!(
        "  {:<14} {:>8} {:>8} {:>8} {:>9} {:>7} {columns}{latency}",
        "", "CPU us", "user", "system", "req/s", "MiB"
    );
    let mut text = format!("{}\n", header.trim_end());
    for peer in peers {
        let figure = |figure: fn(&Sample) -> f64| summary.median(scenario.name, peer, figure).unwrap_or(0.0);
        let ratios: String = bases
            .iter()
            .map(|base| {
                ratio(summary.ratio((scenario.name, peer), (base_scenario(scenario), base), Sample::cpu))
            })
            .map(|ratio| format!(" {ratio:<20}"))
            .collect();
        let latency = match scenario.traffic {
            Traffic::Paced { .. } => format!(
                "{:.2} / {:.2} / {:.2}",
                figure(|sample| sample.work.latency.unwrap_or_default().p50),
                figure(|sample| sample.work.latency.unwrap_or_default().p99),
                figure(|sample| sample.work.latency.unwrap_or_default().p999),
            ),
            _ => String::new(),
        };
        let mut remarks = String::new();
        for (word, figure) in
            [("failed", Sample::failures as fn(&Sample) -> f64), ("not logged", Sample::unlogged_share)]
        {
            let worst = summary.worst(scenario.name, peer, figure);
            if worst > 0.0 {
                write!(remarks, " {word}: {:.3} %", worst * 100.0).expect("a String takes any text");
            }
        }
        let line = format!(
            "  {:<14} {:>8.1} {:>8.1} {:>8.1} {:>9.0} {:>7.1} {ratios} {latency}{remarks}",
            peer,
            figure(Sample::cpu),
            figure(Sample::user),
            figure(|sample| sample.cpu() - sample.user()),
            figure(Sample::rate),
            figure(|sample| sample.under_load as f64 / 1_048_576.0),
        );
        writeln!(text, "{}", line.trim_end()).expect("a String takes any text");
    }
    text
}

/// Returns the scenario with the figures of the other peers, for scenarios in which only Sluice
/// runs.
pub fn base_scenario(scenario: &Scenario) -> &'static str {
    match scenario.name {
        name if name.starts_with("h1-no") || name == "h1-bare" => "h1",
        "changes-50" => "fixed-5000",
        name => name,
    }
}

fn idle(scenario: &Scenario, peers: &[&str], summary: &Summary) -> String {
    let mut text = format!("  {:<14} {:>9} {:>12} {:>11}\n", "", "KiB each", "given back", "MiB at rest");
    for peer in peers {
        let figure = |figure: fn(&Sample) -> f64| summary.median(scenario.name, peer, figure).unwrap_or(0.0);
        writeln!(
            text,
            "  {:<14} {:>9.1} {:>10.0} % {:>11.1}",
            peer,
            figure(|sample| sample.idle.map_or(0.0, |idle| idle.each / 1024.0)),
            figure(|sample| sample.idle.map_or(0.0, |idle| idle.given_back * 100.0)),
            figure(|sample| sample.at_rest as f64 / 1_048_576.0),
        )
        .expect("a String takes any text");
    }
    text
}

/// Formats a ratio with its range.
pub fn ratio(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(String::new, |ratio| {
        format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.least, ratio.most)
    })
}
