//! The guard against regressions: a short run against plain Pingora whose median ratio must not
//! exceed a limit. Both run alternately on the same core, so noise of the machine affects both.

use super::machine::Cores;
use super::sample::Sample;
use super::scenario::Scenario;
use super::summary::Summary;
use super::tool;

/// The result of the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardResult {
    /// Within the limit, or nothing was checked.
    Passed,
    /// Above the limit.
    Failed,
}

/// Checks that this machine can run the benchmark.
///
/// # Errors
/// It has only one core, or programs are missing; the message states which and how to install them.
pub fn possible() -> anyhow::Result<()> {
    Cores::find()?;
    tool::find("wrk", "wrk").map(|_| ())
}

/// Compares the median ratio of every scenario with a limit.
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
