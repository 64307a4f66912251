//! The report of a program: figures, and whether they are within their bounds.

use serde_json::{Value, json};

/// One figure.
#[derive(Clone, Debug)]
struct Figure {
    run: String,
    name: String,
    value: f64,
    unit: &'static str,
    bound: Bound,
}

/// The bound of a figure.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// None: for information.
    None,
    /// Larger values are a failure.
    AtMost(f64),
    /// Smaller values are a failure.
    AtLeast(f64),
    /// Other values are a failure.
    Exactly(f64),
    /// Larger values are a remark, because they depend on the machine.
    Aim(f64),
}

/// All figures of a program, in print order.
#[derive(Clone, Debug, Default)]
pub struct Report {
    figures: Vec<Figure>,
    remarks: Vec<String>,
}

impl Report {
    /// Adds a figure of one of the program's runs.
    pub fn add(&mut self, run: &str, name: &str, value: f64, unit: &'static str, bound: Bound) {
        self.figures.push(Figure { run: run.to_owned(), name: name.to_owned(), value, unit, bound });
    }

    /// Adds a line of text, such as an example of a failure.
    pub fn remark(&mut self, text: String) {
        self.remarks.push(text);
    }

    /// Returns whether every figure is within its bound.
    pub fn passed(&self) -> bool {
        self.figures.iter().all(|figure| figure.verdict() != "FAILED")
    }

    /// Returns the report as a table.
    pub fn to_table(&self) -> String {
        let mut text =
            format!("{:<10} {:<42} {:>12}  {:<10} {}\n", "RUN", "FIGURE", "VALUE", "BOUND", "VERDICT");
        for figure in &self.figures {
            let value = format!("{} {}", number(figure.value), figure.unit);
            text.push_str(
                format!(
                    "{:<10} {:<42} {:>12}  {:<10} {}",
                    figure.run,
                    figure.name,
                    value.trim_end(),
                    figure.bound.words(),
                    figure.verdict()
                )
                .trim_end(),
            );
            text.push('\n');
        }
        for remark in &self.remarks {
            text.push_str(remark);
            text.push('\n');
        }
        text.push_str(if self.passed() { "passed\n" } else { "FAILED\n" });
        text
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let figures: Vec<Value> = self
            .figures
            .iter()
            .map(|figure| {
                json!({
                    "run": figure.run, "name": figure.name, "value": figure.value, "unit": figure.unit,
                    "bound": figure.bound.words(), "verdict": figure.verdict(),
                })
            })
            .collect();
        json!({"passed": self.passed(), "figures": figures, "remarks": self.remarks})
    }
}

impl Figure {
    fn verdict(&self) -> &'static str {
        let (holds, fails) = match self.bound {
            Bound::None => return "",
            Bound::AtMost(limit) => (self.value <= limit, "FAILED"),
            Bound::AtLeast(limit) => (self.value >= limit, "FAILED"),
            Bound::Exactly(wanted) => (self.value == wanted, "FAILED"),
            Bound::Aim(limit) => (self.value <= limit, "missed"),
        };
        if holds { "ok" } else { fails }
    }
}

impl Bound {
    fn words(self) -> String {
        match self {
            Self::None => String::new(),
            Self::AtMost(limit) => format!("<= {}", number(limit)),
            Self::AtLeast(limit) => format!(">= {}", number(limit)),
            Self::Exactly(wanted) => format!("= {}", number(wanted)),
            Self::Aim(limit) => format!("aim {}", number(limit)),
        }
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_bound_fails_and_a_missed_aim_does_not() {
        let mut report = Report::default();
        report.add("quiet", "mean", 3.5, "ms", Bound::Aim(2.0));
        report.add("quiet", "failed requests", 0.0, "", Bound::Exactly(0.0));
        assert!(report.passed());
        assert!(report.to_table().contains("missed"));
        report.add("busy", "failed requests", 1.0, "", Bound::Exactly(0.0));
        assert!(!report.passed());
        assert_eq!(report.to_json()["figures"][2]["verdict"], "FAILED");
    }
}
