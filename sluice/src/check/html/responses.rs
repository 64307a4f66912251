//! The differences by cause, and the table of responses.

use std::fmt::{Display, Formatter, Result};

use sluice_config::Problem;
use sluice_config::text::HtmlText;

use crate::check::counts::counted;
use crate::check::effective::ResponseKind;
use crate::check::groups::related;
use crate::check::response_groups::response_groups;
use crate::check::responses::Responses;

/// Maximum number of URLs listed per group.
const URLS: usize = 100;

/// The section of differences; nothing if nothing was compared.
pub(super) struct Differences<'r>(pub(super) &'r Responses, pub(super) &'r [Problem]);

impl Display for Differences<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(responses, problems) = self;
        let Some(comparison) = &responses.comparison else { return Ok(()) };
        writeln!(
            f,
            "<section aria-labelledby=\"differences\">\n<h2 id=\"differences\">Differences</h2>\n\
             <p>Old: {}. New: {}.</p>",
            HtmlText(&comparison.old),
            HtmlText(&comparison.new)
        )?;
        if comparison.groups.is_empty() {
            f.write_str("<p class=\"good\">No response differs.</p>\n")?;
        }
        for group in &comparison.groups {
            writeln!(
                f,
                "<details open><summary><h3>{}</h3> <span class=\"dim\">{}</span></summary><div>\n\
                 <p>Because: {}</p>",
                HtmlText(&group.title),
                counted(group.requests, group.distinct),
                HtmlText(&group.cause)
            )?;
            for problem in related(problems, group.object.as_deref()) {
                writeln!(f, "<p>Problem: {}; {}</p>", HtmlText(&problem.message), HtmlText(&problem.remedy))?;
            }
            f.write_str(
                "<div class=\"scroll\"><table><caption>Examples</caption><thead><tr><th scope=\"col\">Request</th>\
                 <th scope=\"col\">What</th><th scope=\"col\">Old</th><th scope=\"col\">New</th></tr></thead><tbody>\n",
            )?;
            for (url, differences) in &group.examples {
                for difference in differences {
                    let [url, what] = [url, &difference.what].map(|text| HtmlText(text));
                    let [old, new] = [&difference.old, &difference.new].map(|text| HtmlText(text));
                    writeln!(
                        f,
                        "<tr><th scope=\"row\"><code>{url}</code></th><td>{what}</td><td>{old}</td><td>{new}</td></tr>"
                    )?;
                }
            }
            f.write_str("</tbody></table></div></div></details>\n")?;
        }
        f.write_str("</section>\n")
    }
}

/// The table of responses.
pub(super) struct Table<'r>(pub(super) &'r Responses);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(
            "<section aria-labelledby=\"responses\">\n<h2 id=\"responses\">Responses</h2>\n<div class=\"scroll\"><table>\
             <caption>What requests get, by the rule that decides</caption><thead><tr><th scope=\"col\" class=\"number\">Requests</th>\
             <th scope=\"col\">Response</th><th scope=\"col\">Why</th><th scope=\"col\">URLs</th></tr></thead><tbody>\n",
        )?;
        for group in response_groups(self.0) {
            let class = match group.kind {
                ResponseKind::Backend | ResponseKind::Redirect | ResponseKind::PassedThrough => "",
                ResponseKind::Denied | ResponseKind::Fixed => "warning",
                _ => "error",
            };
            write!(
                f,
                "<tr><td class=\"number\">{}</td><td class=\"{class}\">{}</td><td>{}",
                group.requests,
                HtmlText(&group.summary()),
                HtmlText(&group.reason)
            )?;
            for condition in group.conditions {
                write!(f, "<br><span class=\"dim\">Depends on {}</span>", HtmlText(condition))?;
            }
            if !group.policies.is_empty() {
                write!(
                    f,
                    "<br><span class=\"dim\">Policies: {}</span>",
                    HtmlText(&group.policies.join(", "))
                )?;
            }
            f.write_str("</td><td>")?;
            for response in group.responses.iter().take(URLS) {
                let url = format!("{} {}", response.request.method, response.request.url());
                write!(f, "<code>{}</code><br>", HtmlText(&url))?;
            }
            if let more @ 1.. = group.responses.len().saturating_sub(URLS) {
                write!(f, "and {more} more")?;
            }
            f.write_str("</td></tr>\n")?;
        }
        f.write_str("</tbody></table></div>\n</section>\n")
    }
}
