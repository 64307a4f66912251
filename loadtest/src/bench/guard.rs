//! The guard against regressions: a short run against plain Pingora, as a ratio, whose median may be so much and no more.
//! Both run on the same core in turn, so that a machine's mood takes hold of both.

use super::machine::Cores;
use super::sample::Sample;
use super::scenario::Scenario;
use super::summary::Summary;
use super::tool;

/// Whether a run holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardResult {
    /// It does, or nothing was asked of it.
    Passed,
    /// It does not.
    Failed,
}

/// Whether this machine can measure at all.
///
/// # Errors
/// It has one core, or programs are missing: which, and how to install them.
pub fn possible() -> anyhow::Result<()> {
    Cores::find()?;
    tool::find("wrk", "wrk").map(|_| ())
}

/// Holds the median ratio of every scenario against a limit.
///
/// # Errors
/// A scenario has no figures.
pub fn check(
    scenarios: &[Scenario],
    summary: &Summary,
    own: &str,
    limit: f64,
) -> anyhow::Result<GuardResult> {
    let mut verdict = GuardResult::Passed;
    println!();
    for scenario in scenarios {
        let ratio = summary.ratio((scenario.name, own), (scenario.name, "vanilla"), Sample::cpu);
        let ratio =
            ratio.ok_or_else(|| anyhow::anyhow!("{} has no figures beside plain Pingora", scenario.name))?;
        let holds = ratio.median <= limit;
        let word = if holds { "ok" } else { "FAILED" };
        println!(
            "guard: {}: {:.2} of plain Pingora's CPU time, limit {limit}: {word}",
            scenario.title, ratio.median
        );
        if !holds {
            verdict = GuardResult::Failed;
        }
    }
    Ok(verdict)
}
