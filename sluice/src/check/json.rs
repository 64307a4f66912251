//! The report as JSON: problems as on the admin listener, their groups, counts, and the response to
//! each request.

use serde_json::{Value, json};
use sluice_config::{Problem, Severity};
use sluice_controller::{CheckReport, SnippetTranslation};

use super::comparison::{Difference, Verdict};
use super::groups::{ProblemGroup, Total, groups};
use super::responses::{CheckedResponse, Comparison, Responses};

/// Renders the whole report.
pub(super) fn render(report: &CheckReport, responses: Option<&Responses>) -> String {
    let counts = &report.counts;
    let problems: Vec<_> = report.problems.iter().map(Problem::view).collect();
    let group = |ProblemGroup { severity, subject, code, count, objects, .. }: &ProblemGroup<'_>| {
        json!({
            "severity": severity.as_str(),
            "subject": subject,
            "code": code.as_str(),
            "problems": count,
            "objects": objects,
        })
    };
    let groups: Vec<_> = groups(&report.problems).iter().map(group).collect();
    let snippet = |SnippetTranslation { object, field, lines }: &SnippetTranslation| json!({ "object": object.to_string(), "field": field, "directives": lines });
    let snippets: Vec<_> = report.snippets.iter().map(snippet).collect();
    let total = |severity| Total::of(&report.problems, severity).problems;
    let mut answer = json!({
        "problems": problems,
        "groups": groups,
        "snippets": snippets,
        "errors": total(Severity::Error),
        "warnings": total(Severity::Warning),
        "read": counts.objects,
        "skipped": counts.skipped,
        "notServed": {
            "ingressesOfOtherClasses": counts.ingresses.of_other_classes,
            "ingressesOfOtherNamespaces": counts.ingresses.of_other_namespaces,
        },
        "served": {
            "hosts": counts.hosts,
            "rules": counts.rules,
            "closed": counts.closed,
            "pools": counts.pools,
            "endpoints": counts.endpoints,
            "certificates": counts.certificates,
        },
    });
    if let Some(responses) = responses {
        answer["responses"] = responses.responses.iter().map(response).collect();
        let skipped = responses.skipped.iter();
        answer["requestsNotChecked"] = skipped
            .map(|(reason, skipped)| json!({ "reason": reason, "count": skipped.count, "first": skipped.first }))
            .collect();
        answer["comparison"] = responses.comparison.as_ref().map_or(Value::Null, comparison);
    }
    format!("{answer:#}\n")
}

fn response(CheckedResponse { request, count, effective, verdict }: &CheckedResponse) -> Value {
    let explanation = &effective.explanation;
    let mut value = json!({
        "method": request.method.as_str(),
        "url": request.url(),
        "client": request.client.to_string(),
        "requests": count,
        "kind": effective.kind.name(),
        "status": effective.status,
        "location": effective.location,
        "backend": effective.backend,
        "object": explanation.object,
        "rule": explanation.path,
        "policies": explanation.policies,
        "conditions": explanation.conditions,
        "reason": effective.reason(),
    });
    match verdict {
        None => {}
        Some(Verdict::Same) => value["comparison"] = "same".into(),
        Some(Verdict::NotCompared(reason)) => value["comparison"] = json!({ "notCompared": reason }),
        Some(Verdict::Different(differences)) => {
            value["comparison"] =
                json!({ "differences": differences.iter().map(difference).collect::<Vec<_>>() });
        }
    }
    value
}

fn difference(Difference { what, old, new }: &Difference) -> Value {
    json!({ "what": what, "old": old, "new": new })
}

fn comparison(comparison: &Comparison) -> Value {
    let Comparison { old, new, same, different, groups, not_compared } = comparison;
    let groups: Vec<_> = groups
        .iter()
        .map(|group| {
            json!({
                "title": group.title,
                "cause": group.cause,
                "object": group.object,
                "different": group.distinct,
                "requests": group.requests,
            })
        })
        .collect();
    json!({
        "old": old, "new": new, "same": same, "different": different, "groups": groups, "notCompared": not_compared,
    })
}
