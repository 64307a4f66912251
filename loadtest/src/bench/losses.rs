//! The figures in which another proxy is better than Sluice.

use super::columns::{PEERS, display};
use super::sample::Sample;
use super::scenario::{Entrants, Scenario, Traffic};
use super::summary::{Summary, busy_rate};

/// A figure to compare.
struct Figure {
    title: &'static str,
    of: fn(&Summary, &Scenario, &str) -> Option<f64>,
    /// Whether larger values are better.
    more: bool,
}

const FIGURES: [Figure; 7] = [
    Figure { title: "CPU time", of: cpu, more: false },
    Figure { title: "requests a second", of: rate, more: true },
    Figure {
        title: "p50",
        of: |summary, scenario, peer| latency(summary, scenario, peer, |p| p.p50),
        more: false,
    },
    Figure {
        title: "p99",
        of: |summary, scenario, peer| latency(summary, scenario, peer, |p| p.p99),
        more: false,
    },
    Figure {
        title: "p99.9",
        of: |summary, scenario, peer| latency(summary, scenario, peer, |p| p.p999),
        more: false,
    },
    Figure { title: "memory", of: memory, more: false },
    Figure { title: "memory given back", of: given_back, more: true },
];

/// Returns the section of the document.
pub fn list(summary: &Summary, scenarios: &[Scenario], own: &str) -> String {
    let mut text = String::from(
        "\n### Where others are better\n\nEvery figure of this page in which another proxy was better, with the ratio of \
         Sluice's figure to it:\n\n",
    );
    let mut lost = false;
    for figure in FIGURES {
        for scenario in scenarios.iter().filter(|scenario| scenario.entrants != Entrants::Sluice) {
            let Some(ours) = (figure.of)(summary, scenario, own) else { continue };
            let ahead: Vec<String> = PEERS
                .into_iter()
                .filter_map(|peer| {
                    let ratio = ours / (figure.of)(summary, scenario, peer)?;
                    let behind = if figure.more { ratio < 1.0 } else { ratio > 1.0 };
                    behind.then(|| format!("{} ({ratio:.2})", display(peer)))
                })
                .collect();
            if !ahead.is_empty() {
                lost = true;
                text.push_str(&format!("- {}, {}: {}\n", figure.title, scenario.title, ahead.join(", ")));
            }
        }
    }
    if !lost {
        text.push_str("- nothing\n");
    }
    text
}

fn is_idle(scenario: &Scenario) -> bool {
    matches!(scenario.traffic, Traffic::Idle(_))
}

fn cpu(summary: &Summary, scenario: &Scenario, peer: &str) -> Option<f64> {
    if is_idle(scenario) { None } else { summary.median(scenario.name, peer, Sample::cpu) }
}

fn rate(summary: &Summary, scenario: &Scenario, peer: &str) -> Option<f64> {
    match scenario.traffic {
        Traffic::Idle(_) | Traffic::Paced { .. } => None,
        _ => busy_rate(summary, scenario.name, peer),
    }
}

fn latency(
    summary: &Summary,
    scenario: &Scenario,
    peer: &str,
    figure: fn(&super::load::Latency) -> f64,
) -> Option<f64> {
    let Traffic::Paced { .. } = scenario.traffic else { return None };
    summary.median(scenario.name, peer, |sample| sample.work.latency.as_ref().map_or(f64::NAN, figure))
}

/// Returns the memory under load, or of one idle connection.
fn memory(summary: &Summary, scenario: &Scenario, peer: &str) -> Option<f64> {
    let bytes = |sample: &Sample| sample.idle.map_or(sample.under_load as f64, |idle| idle.each);
    summary.median(scenario.name, peer, bytes).filter(|&bytes| bytes > 0.0)
}

fn given_back(summary: &Summary, scenario: &Scenario, peer: &str) -> Option<f64> {
    if !is_idle(scenario) {
        return None;
    }
    summary.median(scenario.name, peer, |sample| sample.idle.map_or(f64::NAN, |idle| idle.given_back))
}
