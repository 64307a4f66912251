//! The figures for people: a table for each rung.

use std::fmt::Write;

use super::rung::{Load, Rung};
use super::sample::Sample;
use super::summary::{Ratio, Summary};

/// All rungs that have samples, with CPU time as ratios to some of the proxies.
pub fn tables(rungs: &[Rung], summary: &Summary, bases: &[&str]) -> String {
    let mut text = String::new();
    for rung in rungs {
        let peers = summary.peers(rung.name);
        if !peers.is_empty() {
            let lines = match rung.load {
                Load::Idle { .. } => idle(rung, &peers, summary),
                _ => requests(rung, &peers, summary, bases),
            };
            write!(text, "\n{} ({})\n{lines}", rung.title, rung.name).expect("a String takes any text");
        }
    }
    text
}

fn requests(rung: &Rung, peers: &[&str], summary: &Summary, bases: &[&str]) -> String {
    let columns: String = bases.iter().map(|base| format!(" {:<20}", format!("to {base}"))).collect();
    let latency = if matches!(rung.load, Load::Paced { .. }) { " p50 / p99 / p99.9 ms" } else { "" };
    let header = format!(
        "  {:<14} {:>8} {:>8} {:>8} {:>9} {:>7} {columns}{latency}",
        "", "CPU us", "user", "system", "req/s", "MiB"
    );
    let mut text = format!("{}\n", header.trim_end());
    for peer in peers {
        let figure = |figure: fn(&Sample) -> f64| summary.median(rung.name, peer, figure).unwrap_or(0.0);
        let ratios: String = bases
            .iter()
            .map(|base| ratio(summary.ratio((rung.name, peer), (base_rung(rung), base), Sample::cpu)))
            .map(|ratio| format!(" {ratio:<20}"))
            .collect();
        let latency = match rung.load {
            Load::Paced { .. } => format!(
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
            let worst = summary.worst(rung.name, peer, figure);
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
