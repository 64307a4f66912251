//! The figures for people: a table for each rung.

use std::fmt::Write;

use super::rung::{Load, Rung};
use super::sample::Sample;
use super::summary::{Ratio, Summary};

/// The proxies that ratios are taken to.
pub const BASES: [&str; 2] = ["nginx", "vanilla"];

/// All rungs that have samples.
pub fn tables(rungs: &[Rung], summary: &Summary) -> String {
    let mut text = String::new();
    for rung in rungs {
        let peers = summary.peers(rung.name);
        if !peers.is_empty() {
            let lines = match rung.load {
                Load::Idle { .. } => idle(rung, &peers, summary),
                _ => requests(rung, &peers, summary),
            };
            write!(text, "\n{} ({})\n{lines}", rung.title, rung.name).expect("a String takes any text");
        }
    }
    text
}

fn requests(rung: &Rung, peers: &[&str], summary: &Summary) -> String {
    let mut text = format!(
        "  {:<14} {:>8} {:>8} {:>8} {:>9} {:>7}  {:<19} {:<19} {}\n",
        "", "CPU us", "user", "system", "req/s", "MiB", "to nginx", "to vanilla", "p50 / p99 / p99.9 ms"
    );
    for peer in peers {
        let figure = |figure: fn(&Sample) -> f64| summary.median(rung.name, peer, figure).unwrap_or(0.0);
        let [to_nginx, to_vanilla] =
            BASES.map(|base| ratio(summary.ratio((rung.name, peer), (base_rung(rung), base), Sample::cpu)));
        let latency = match rung.load {
            Load::Paced { .. } => format!(
                "{:.2} / {:.2} / {:.2}",
                figure(|sample| sample.work.latency.unwrap_or_default().p50),
                figure(|sample| sample.work.latency.unwrap_or_default().p99),
                figure(|sample| sample.work.latency.unwrap_or_default().p999),
            ),
            _ => String::new(),
        };
        let failures = figure(Sample::failures);
        let failures =
            if failures > 0.0 { format!("failed {:.3} %", failures * 100.0) } else { String::new() };
        let line = format!(
            "  {:<14} {:>8.1} {:>8.1} {:>8.1} {:>9.0} {:>7.1}  {:<19} {:<19} {latency} {failures}",
            peer,
            figure(Sample::cpu),
            figure(Sample::user),
            figure(|sample| sample.cpu() - sample.user()),
            figure(Sample::rate),
            figure(|sample| sample.under_load as f64 / 1_048_576.0),
            to_nginx,
            to_vanilla,
        );
        writeln!(text, "{}", line.trim_end()).expect("a String takes any text");
    }
    text
}

/// The rung that holds the figures of the others, where Sluice runs alone.
pub fn base_rung(rung: &Rung) -> &'static str {
    match rung.name {
        name if name.starts_with("h1-no") || name == "h1-bare" => "h1",
        "changes-50" => "fixed-5000",
        name => name,
    }
}

fn idle(rung: &Rung, peers: &[&str], summary: &Summary) -> String {
    let mut text = format!("  {:<14} {:>9} {:>12} {:>11}\n", "", "KiB each", "given back", "MiB at rest");
    for peer in peers {
        let figure = |figure: fn(&Sample) -> f64| summary.median(rung.name, peer, figure).unwrap_or(0.0);
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

/// A ratio with its spread.
pub fn ratio(ratio: Option<Ratio>) -> String {
    ratio.map_or_else(String::new, |ratio| {
        format!("{:.2} ({:.2} to {:.2})", ratio.median, ratio.least, ratio.most)
    })
}
