//! The chart for the README: CPU time per request in each scenario, relative to nginx. It follows
//! the reader's light or dark theme and loads no other resources.

use std::fmt::Write;

use super::columns::display;
use super::quoted;
use super::sample::Sample;
use super::scenario::{Entrants, Scenario, Traffic};
use super::summary::Summary;

const WIDTH: f64 = 860.0;
/// Start of the bars.
const LEFT: f64 = 330.0;
/// Width of nginx's bar.
const UNIT: f64 = 150.0;
/// Ratio at which longer bars are cut.
const MOST: f64 = 3.0;
const BAR: f64 = 13.0;
const GAP: f64 = 12.0;
const TOP: f64 = 58.0;

const STYLE: &str = "text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#24292f}\
    .title{font-size:15px;font-weight:600}.scenario{font-weight:600}.small{font-size:10px}\
    .other{fill:#b6bec8}.own{fill:#1f6feb}.quoted{fill:none;stroke:#8c959f;stroke-dasharray:3 2}\
    .line{stroke:#57606a;stroke-dasharray:2 3}\
    @media(prefers-color-scheme:dark){text{fill:#d0d7de}.other{fill:#4d5763}.own{fill:#58a6ff}\
    .quoted{stroke:#8b949e}.line{stroke:#8b949e}}";

struct Bar {
    name: String,
    ratio: f64,
    class: &'static str,
}

/// Draws the chart, without scenarios in which only some peers take part.
pub fn draw(scenarios: &[Scenario], summary: &Summary, own: &str) -> String {
    let mut body = String::new();
    let mut y = TOP;
    for scenario in scenarios.iter().filter(|scenario| {
        scenario.entrants == Entrants::All && !matches!(scenario.traffic, Traffic::Idle(_))
    }) {
        let bars = bars(scenario, summary, own);
        if bars.is_empty() {
            continue;
        }
        text(&mut body, 16.0, y + BAR - 3.0, "scenario", scenario.title);
        for bar in bars {
            let length = bar.ratio.min(MOST) * UNIT;
            text(&mut body, 225.0, y + BAR - 4.0, "small", &bar.name);
            writeln!(
                body,
                r#"<rect class="{}" x="{LEFT}" y="{y:.0}" width="{length:.1}" height="{:.0}"/>"#,
                bar.class,
                BAR - 3.0
            )
            .expect("a String takes any text");
            let label =
                if bar.ratio > MOST { format!("{:.2} ▸", bar.ratio) } else { format!("{:.2}", bar.ratio) };
            text(&mut body, LEFT + length + 5.0, y + BAR - 4.0, "small", &label);
            y += BAR;
        }
        y += GAP;
    }
    let unit = LEFT + UNIT;
    let height = y + 24.0;
    let mut picture = format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0}" viewBox="0 0 {WIDTH} {height:.0}" role="img" aria-label="CPU time per request, nginx is 1">
<style>{STYLE}</style>
"#
    );
    text(&mut picture, 16.0, 26.0, "title", "CPU time per request; nginx is 1, less is better");
    text(
        &mut picture,
        16.0,
        44.0,
        "small",
        "one core each, access log and metrics on; median of interleaved rounds; ingress-nginx 1.15.1 quoted",
    );
    picture.push_str(&body);
    writeln!(
        picture,
        r#"<line class="line" x1="{unit}" x2="{unit}" y1="{:.0}" y2="{:.0}"/>"#,
        TOP - 6.0,
        y - GAP
    )
    .expect("a String takes any text");
    text(
        &mut picture,
        16.0,
        height - 10.0,
        "small",
        "Method: docs/benchmarks.md. All figures: docs/benchmark-figures.md",
    );
    picture.push_str("</svg>\n");
    picture
}

fn bars(scenario: &Scenario, summary: &Summary, own: &str) -> Vec<Bar> {
    let mut bars: Vec<Bar> = summary
        .peers(scenario.name)
        .into_iter()
        .filter(|&peer| peer != "nginx")
        .filter_map(|peer| {
            let ratio = summary.ratio((scenario.name, peer), (scenario.name, "nginx"), Sample::cpu)?.median;
            let class = if peer == own { "own" } else { "other" };
            Some(Bar { name: display(peer).to_owned(), ratio, class })
        })
        .collect();
    if let Some(quoted) = quoted::beside(scenario.name).filter(|_| !bars.is_empty()) {
        bars.push(Bar { name: "ingress-nginx".to_owned(), ratio: quoted.ratio(), class: "quoted" });
    }
    // Sluice first, then the others by ratio.
    bars.sort_by(|one, other| {
        (one.class != "own").cmp(&(other.class != "own")).then(one.ratio.total_cmp(&other.ratio))
    });
    bars
}

fn text(picture: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    writeln!(picture, r#"<text class="{class}" x="{x:.0}" y="{y:.0}">{words}</text>"#)
        .expect("a String takes any text");
}
