//! The form that explains a hypothetical request, and its result: the same explanation as that of
//! `sluice routes --host`.

use askama::Template;
use http::HeaderMap;
use http::uri::Uri;
use serde_json::Value;
use sluice_config::GroupId;

use super::listing::ROWS;
use super::{Frame, Input};
use crate::admin::explain::{self, Query};

/// Maximum length of a shown value in bytes.
const LONGEST: usize = 512;

#[derive(Template)]
#[template(path = "explanation.html")]
pub(super) struct ExplanationPage {
    frame: Frame,
    form: Form,
    /// The request was given, but cannot be explained.
    error: Option<String>,
    result: Option<Found>,
}

/// The fields of the form.
struct Form {
    method: String,
    url: String,
    headers: String,
    client: String,
}

/// The explanation.
struct Found {
    request: String,
    taken: Option<Taken>,
    /// Why no rule takes the request.
    nowhere: &'static str,
    hosts: Vec<HostRules>,
}

/// The rule that matches.
struct Taken {
    origin: String,
    rule: String,
    /// `good`, or `error` if a check ends the request.
    class: &'static str,
    summary: String,
    checks: Vec<Check>,
    pools: Vec<Pool>,
    sent: Option<Sent>,
    /// Policies that differ from the default: name, and value if it is short.
    policies: Vec<(String, String)>,
}

struct Check {
    name: String,
    outcome: String,
    class: &'static str,
    says: String,
}

struct Pool {
    name: String,
    endpoints: String,
}

/// The request that an endpoint receives.
struct Sent {
    line: String,
    backend: String,
    fields: Vec<(String, String)>,
}

struct HostRules {
    host: String,
    rules: Vec<(bool, [String; 5])>,
    /// Number of rules that are not shown.
    more: usize,
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> ExplanationPage {
    let parameters = &input.parameters;
    let form = Form {
        method: Some(parameters.text("method"))
            .filter(|method| !method.is_empty())
            .unwrap_or("GET".to_owned()),
        url: parameters.text("url"),
        headers: parameters.text("headers"),
        client: parameters.text("client"),
    };
    if form.url.is_empty() {
        return ExplanationPage { frame, form, error: None, result: None };
    }
    match query(&form).and_then(|query| explain::explain_query(input.state, query)) {
        Ok(answer) => ExplanationPage { frame, form, error: None, result: Some(found(&answer)) },
        Err(error) => ExplanationPage { frame, form, error: Some(error), result: None },
    }
}

/// Reads the form.
fn query(form: &Form) -> Result<Query, String> {
    let with_scheme = match form.url.contains("://") {
        true => form.url.clone(),
        false => format!("http://{}", form.url),
    };
    let wrong = || format!("{:?} is not a URL: write https://shop.example/cart?item=1", form.url);
    let url: Uri = with_scheme.parse().map_err(|_| wrong())?;
    let host = url.authority().ok_or_else(wrong)?.as_str().to_owned();
    let https = match url.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(wrong()),
    };
    let mut headers = HeaderMap::new();
    for line in form.headers.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = explain::header(line)?;
        headers.append(name, value);
    }
    let target = url.path_and_query().map_or("/", |target| target.as_str()).to_owned();
    let method: http::Method =
        form.method.parse().map_err(|_| format!("{:?} is not a method: write GET", form.method))?;
    Ok(Query {
        group: GroupId::ingress(),
        host,
        target,
        method: method.to_string(),
        headers,
        https,
        client: explain::client(&form.client)?,
    })
}

fn found(answer: &Value) -> Found {
    let request = &answer["request"];
    let scheme = if request["https"] == true { "https" } else { "http" };
    let hosts: Vec<HostRules> = list(&answer["hosts"]).map(host).collect();
    Found {
        request: format!(
            "{} {scheme}://{}{}",
            text(&request["method"]),
            text(&request["host"]),
            text(&request["path"])
        ),
        nowhere: match hosts.is_empty() {
            true => {
                "No rule has this host: the default backend gets the request, or it is answered with 404."
            }
            false => {
                "No rule of the host matches: the default backend gets the request, or it is answered with 404."
            }
        },
        taken: Some(&answer["taken"]).filter(|taken| !taken.is_null()).map(taken),
        hosts,
    }
}

fn taken(taken: &Value) -> Taken {
    let rule = &taken["rule"];
    let checks: Vec<Check> = list(&taken["checks"]).map(check).collect();
    let stop = checks.iter().find(|check| check.class == "error");
    let (class, summary) = match stop {
        Some(stop) => ("error", format!("Ends at the check \"{}\": {}", stop.name, stop.says)),
        None => ("good", format!("Goes to {}", destination(rule))),
    };
    let sent = Some(&taken["sent"]).filter(|sent| !sent.is_null()).map(|sent| Sent {
        line: format!("{} {}", text(&sent["method"]), text(&sent["target"])),
        backend: text(&sent["backend"]),
        fields: list(&sent["fields"]).map(|field| (text(&field["name"]), text(&field["value"]))).collect(),
    });
    let policies = taken["policies"].as_object().into_iter().flatten();
    Taken {
        origin: object(&rule["origin"]),
        rule: format!("{} {}", text(&rule["pathType"]), text(&rule["path"])),
        class,
        summary,
        checks,
        pools: list(&taken["pools"]).map(pool).collect(),
        sent,
        policies: policies.map(|(name, value)| (name.clone(), short(value))).collect(),
    }
}

fn check(check: &Value) -> Check {
    let outcome = text(&check["outcome"]);
    let class = match &*outcome {
        "passes" => "good",
        "depends" | "refuses" => "warning",
        "stops here" => "error",
        _ => "dim",
    };
    Check { name: text(&check["check"]), outcome, class, says: text(&check["says"]) }
}

fn pool(pool: &Value) -> Pool {
    let endpoints = list(&pool["endpoints"]);
    let endpoints: Vec<String> = endpoints
        .take(ROWS)
        .map(|one| format!("{} {}", text(&one["address"]), text(&one["health"])))
        .collect();
    Pool {
        name: format!("{}, {}, {}", text(&pool["pool"]), text(&pool["protocol"]), text(&pool["balance"])),
        endpoints: if endpoints.is_empty() { "no endpoints: 503".to_owned() } else { endpoints.join(", ") },
    }
}

fn host(host: &Value) -> HostRules {
    let all = host["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The rule that matches is always shown.
    let takes = |rule: &Value| rule["reason"] == "takes it";
    let (first, rest) = all.split_at(all.len().min(ROWS));
    let shown = first.iter().chain(rest.iter().filter(|rule| takes(rule)));
    let row = |rule: &Value| {
        let cells = [
            text(&rule["reason"]),
            text(&rule["path"]),
            text(&rule["pathType"]),
            destination(rule),
            object(&rule["origin"]),
        ];
        (takes(rule), cells)
    };
    let rules: Vec<_> = shown.map(row).collect();
    HostRules { host: text(&host["host"]), more: all.len() - rules.len(), rules }
}

/// Describes where a rule of the explanation sends its requests.
fn destination(rule: &Value) -> String {
    if rule["denied"].is_string() {
        return format!("closed with {}: {}", text(&rule["status"]), text(&rule["denied"]));
    }
    let backends: Vec<String> = list(&rule["backends"])
        .map(|backend| match (&backend["service"], &backend["status"]) {
            (_, Value::Number(status)) => format!("{status}: {}", text(&backend["reason"])),
            (Value::Null, _) => text(&backend["reason"]),
            (service, _) => text(service),
        })
        .collect();
    match backends.is_empty() {
        true => format!("{} {}", text(&rule["status"]), text(&rule["location"])),
        false => backends.join(", "),
    }
}

fn object(object: &Value) -> String {
    format!("{} {}/{}", text(&object["kind"]), text(&object["namespace"]), text(&object["name"]))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => sluice_config::text::one_line(text, LONGEST).into_owned(),
        other => other.to_string(),
    }
}

/// Returns the value of a policy if it is a number, a boolean or the like. Texts of objects, which
/// may contain credentials, are not shown.
fn short(value: &Value) -> String {
    match value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => "set".to_owned(),
    }
}
