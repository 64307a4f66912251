//! Figures of ingress-nginx, as ratios to plain nginx.
//!
//! Measured by the Sluice project with ingress-nginx 1.15.1, November 2026: with its controller,
//! template, Lua, logs and metrics enabled, its nginx processes only, one core, in one run with
//! plain nginx. It is not available as a package, so these figures are quoted and not measured
//! again.

/// The source of the figures.
pub const SOURCE: &str = "measured by the Sluice project with ingress-nginx 1.15.1, November 2026";

/// CPU time per request in microseconds, measured in one run.
#[derive(Clone, Copy, Debug)]
pub struct Quoted {
    /// The corresponding scenario.
    pub scenario: &'static str,
    /// ingress-nginx.
    pub ingress_nginx: f64,
    /// Plain nginx.
    pub nginx: f64,
    /// The maximum cost at which Sluice aims, relative to ingress-nginx.
    pub aim: Option<f64>,
}

impl Quoted {
    /// Returns the ratio of ingress-nginx to plain nginx.
    pub fn ratio(self) -> f64 {
        self.ingress_nginx / self.nginx
    }
}

/// All quoted figures.
pub const FIGURES: [Quoted; 7] = [
    Quoted { scenario: "h1", ingress_nginx: 29.7, nginx: 12.2, aim: Some(0.5) },
    Quoted { scenario: "h1-10k", ingress_nginx: 45.1, nginx: 16.9, aim: Some(0.5) },
    Quoted { scenario: "h1-1m", ingress_nginx: 1697.0, nginx: 546.0, aim: Some(0.25) },
    Quoted { scenario: "h1-close", ingress_nginx: 45.0, nginx: 31.8, aim: Some(0.85) },
    Quoted { scenario: "tls-h1", ingress_nginx: 27.1, nginx: 17.5, aim: Some(0.6) },
    Quoted { scenario: "tls-h2-10", ingress_nginx: 45.0, nginx: 15.7, aim: Some(0.6) },
    Quoted { scenario: "fixed-5000", ingress_nginx: 40.7, nginx: 20.3, aim: None },
];

/// Returns the figure for a scenario.
pub fn beside(scenario: &str) -> Option<Quoted> {
    FIGURES.into_iter().find(|quoted| quoted.scenario == scenario)
}
