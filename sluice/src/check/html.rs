//! The report as one self-contained HTML page that a team can share: no scripts, nothing from the
//! network, light and dark. All text from objects, logs and responses is escaped.

mod responses;

use std::collections::BTreeSet;
use std::fmt::{Display, Formatter, Result};

use sluice_config::text::HtmlText;
use sluice_config::{ObjectRef, Severity};
use sluice_controller::{CheckReport, SnippetTranslation};

use super::counts::Counted;
use super::groups::{ProblemGroup, Total, groups};
use super::responses::Responses;

const STYLE: &str = include_str!("html/style.css");
/// Maximum number of objects listed per cause.
const OBJECTS: usize = 200;

/// Renders the whole report.
pub(super) fn render(report: &CheckReport, responses: Option<&Responses>) -> String {
    Page { report, responses }.to_string()
}

struct Page<'r> {
    report: &'r CheckReport,
    responses: Option<&'r Responses>,
}

impl Display for Page<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self { report, responses } = self;
        write!(
            f,
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>Report of sluice check</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
             <h1>Report of sluice check</h1>\n<p class=\"dim\">sluice {}</p>\n",
            env!("CARGO_PKG_VERSION")
        )?;
        self.numbers(f)?;
        f.write_str("</header>\n<nav aria-label=\"Parts of the report\"><ul>\n")?;
        if let Some(responses) = responses {
            if responses.comparison.is_some() {
                f.write_str("<li><a href=\"#differences\">Differences</a></li>\n")?;
            }
            f.write_str("<li><a href=\"#responses\">Responses</a></li>\n")?;
        }
        f.write_str("<li><a href=\"#problems\">Problems</a></li>\n")?;
        if !report.snippets.is_empty() {
            f.write_str("<li><a href=\"#snippets\">Snippets</a></li>\n")?;
        }
        f.write_str("</ul></nav>\n<main>\n")?;
        if let Some(responses) = responses {
            responses::Differences(responses, &report.problems).fmt(f)?;
            responses::Table(responses).fmt(f)?;
        }
        self.problems(f)?;
        self.snippets(f)?;
        f.write_str("</main>\n</body>\n</html>\n")
    }
}

impl Page<'_> {
    /// The numbers at the start.
    fn numbers(&self, f: &mut Formatter<'_>) -> Result {
        let Self { report, responses } = self;
        f.write_str("<ul class=\"numbers\">\n")?;
        let mut number = |count: usize, name: &str, class: &str| {
            let class = if count == 0 { "good" } else { class };
            writeln!(f, "<li><strong class=\"{class}\">{count}</strong> {name}</li>")
        };
        if let Some(comparison) = responses.and_then(|responses| responses.comparison.as_ref()) {
            number(comparison.different, "different responses", "error")?;
            number(comparison.same, "equal responses", "good")?;
        }
        for severity in Severity::ALL {
            let class = if severity == Severity::Error { "error" } else { "warning" };
            number(Total::of(&report.problems, severity).problems, &format!("{severity}s"), class)?;
        }
        number(report.counts.hosts, "hosts", "")?;
        number(report.counts.rules, "rules", "")?;
        f.write_str("</ul>\n")?;
        let counted = Counted { report, responses: *responses };
        for line in counted.to_string().lines() {
            writeln!(f, "<p>{}</p>", HtmlText(line))?;
        }
        Ok(())
    }

    fn problems(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("<section aria-labelledby=\"problems\">\n<h2 id=\"problems\">Problems</h2>\n")?;
        let groups = groups(&self.report.problems);
        if groups.is_empty() {
            f.write_str("<p>Every object is served as specified.</p>\n")?;
        }
        for group in &groups {
            problem(f, group)?;
        }
        f.write_str("</section>\n")
    }

    fn snippets(&self, f: &mut Formatter<'_>) -> Result {
        if self.report.snippets.is_empty() {
            return Ok(());
        }
        f.write_str("<section aria-labelledby=\"snippets\">\n<h2 id=\"snippets\">Snippets</h2>\n")?;
        for SnippetTranslation { object, field, lines } in &self.report.snippets {
            let object = object.to_string();
            let (object, field) = (HtmlText(&object), HtmlText(field));
            writeln!(f, "<details><summary><h3>{object}</h3> <code>{field}</code></summary><div><ul>")?;
            for line in lines {
                writeln!(f, "<li><code>{}</code></li>", HtmlText(line))?;
            }
            f.write_str("</ul></div></details>\n")?;
        }
        f.write_str("</section>\n")
    }
}

fn problem(f: &mut Formatter<'_>, group: &ProblemGroup<'_>) -> Result {
    let ProblemGroup { severity, subject, code, count, objects, causes } = group;
    let (class, subject) = (severity.as_str(), if subject.is_empty() { "the object" } else { subject });
    writeln!(
        f,
        "<details><summary><span class=\"{class}\">{severity}</span> <h3><code>{}</code></h3> \
         <span class=\"dim\">{code}, {count} in {objects} objects</span></summary><div>",
        HtmlText(subject)
    )?;
    for cause in causes {
        writeln!(f, "<p>{}; {}</p>", HtmlText(cause.message), HtmlText(cause.remedy))?;
        list(f, &cause.objects)?;
        if !cause.alike.is_empty() {
            f.write_str("<p>The same with other names:</p>\n")?;
            list(f, &cause.alike)?;
        }
    }
    f.write_str("</div></details>\n")
}

fn list(f: &mut Formatter<'_>, objects: &BTreeSet<&ObjectRef>) -> Result {
    f.write_str("<ul>\n")?;
    for object in objects.iter().take(OBJECTS) {
        writeln!(f, "<li>{}</li>", HtmlText(&object.to_string()))?;
    }
    if let more @ 1.. = objects.len().saturating_sub(OBJECTS) {
        writeln!(f, "<li>and {more} more; <code>-o json</code> has all</li>")?;
    }
    f.write_str("</ul>\n")
}
