//! Explanation of a request: `sluice routes --host shop.example --path /cart`.

use std::fmt::Write;

use serde_json::Value;
use sluice_config::text::one_line;

use super::layout::{destination, object, text};
use super::table;
use crate::admin_client::encoded;
use crate::flags::ExplainRequest;

/// Maximum length of a printed value in bytes.
const MOST: usize = 2048;

/// Returns the path and query on the admin listener.
pub(crate) fn page(request: &ExplainRequest) -> String {
    let ExplainRequest { host, path, method, headers, https, client } = request;
    let mut page =
        format!("explain?host={}&path={}&method={}", encoded(host), encoded(path), encoded(method));
    for header in headers {
        page += &format!("&header={}", encoded(header));
    }
    if *https {
        page += "&https";
    }
    if !client.is_empty() {
        page += &format!("&client={}", encoded(client));
    }
    page
}

/// Renders the result for the request, then the reason for each rule.
pub(crate) fn render(answer: &Value) -> String {
    let mut said = String::new();
    let taken = &answer["taken"];
    if taken.is_null() {
        line(&mut said, &format!("no rule takes it{}", nowhere(answer)));
        let unmatched = &answer["unmatched"];
        if !unmatched.is_null() {
            line(&mut said, &format!("settings of {} apply to it", object(&unmatched["rule"]["origin"])));
            outcome(&mut said, unmatched, true);
            checks(&mut said, unmatched);
        }
    } else {
        let rule = &taken["rule"];
        line(
            &mut said,
            &format!(
                "taken by {}: {} {}",
                object(&rule["origin"]),
                text(&rule["pathType"]),
                text(&rule["path"])
            ),
        );
        outcome(&mut said, taken, answer["response"].is_null());
        checks(&mut said, taken);
        sent(&mut said, &taken["sent"]);
    }
    for host in answer["hosts"].as_array().into_iter().flatten() {
        line(&mut said, &format!("\nrules of {}, in their order:", text(&host["host"])));
        let mut lines = vec![["", "PATH", "TYPE", "METHOD", "TO", "FROM"].map(str::to_owned).to_vec()];
        for rule in host["rules"].as_array().into_iter().flatten() {
            lines.push(vec![
                text(&rule["reason"]),
                text(&rule["path"]),
                text(&rule["pathType"]),
                text(&rule["method"]),
                destination(rule),
                object(&rule["origin"]),
            ]);
        }
        said += &table::render(&lines);
    }
    said
}

/// Appends the result of each check, in the order of the pipeline.
fn checks(said: &mut String, taken: &Value) {
    let mut lines = vec![["CHECK", "OUTCOME", "WHY"].map(str::to_owned).to_vec()];
    for check in taken["checks"].as_array().into_iter().flatten() {
        lines.push(["check", "outcome", "says"].map(|part| text(&check[part])).to_vec());
    }
    if lines.len() > 1 {
        line(said, "\nchecks, in their order:");
        *said += &table::render(&lines);
    }
}

/// Appends the request that an endpoint receives.
fn sent(said: &mut String, sent: &Value) {
    if sent.is_null() {
        return;
    }
    line(
        said,
        &format!(
            "\nan endpoint of {} receives: {} {}",
            text(&sent["backend"]),
            text(&sent["method"]),
            text(&sent["target"])
        ),
    );
    fields(said, &sent["fields"]);
}

fn nowhere(answer: &Value) -> &'static str {
    match answer["hosts"].as_array().is_some_and(|hosts| !hosts.is_empty()) {
        true => ": the default backend gets it, or it is answered with 404",
        false => ", and no rule has its host: the default backend gets it, or it is answered with 404",
    }
}

/// Appends where the request goes. A hypothetical request can be asked for again.
fn outcome(said: &mut String, taken: &Value, is_hypothetical: bool) {
    let rule = &taken["rule"];
    if let Some(status) = taken["closed"].as_u64() {
        line(said, &format!("  closed with {status}: {}", text(&rule["denied"])));
        return;
    }
    if taken["redirectedToHttps"] == true {
        let hint = if is_hypothetical { "; ask with --https for what follows" } else { "" };
        line(said, &format!("  redirected to https{hint}"));
        return;
    }
    line(said, &format!("  goes to {}", destination(rule)));
    for pool in taken["pools"].as_array().into_iter().flatten() {
        let endpoints: Vec<String> = pool["endpoints"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|endpoint| format!("{} {}", text(&endpoint["address"]), text(&endpoint["health"])))
            .collect();
        let endpoints =
            if endpoints.is_empty() { "no endpoints: 503".to_owned() } else { endpoints.join(", ") };
        line(said, &format!("  pool {}, {}: {endpoints}", text(&pool["pool"]), text(&pool["balance"])));
    }
    for (name, value) in taken["policies"].as_object().into_iter().flatten() {
        line(said, &format!("  policy {name}: {value}"));
    }
}

/// Appends fields of a head, one line each.
pub(crate) fn fields(said: &mut String, fields: &Value) {
    for field in fields.as_array().into_iter().flatten() {
        line(said, &format!("  {}: {}", text(&field["name"]), text(&field["value"])));
    }
}

/// Appends a line, escaped because it contains foreign text that a terminal would interpret.
pub(crate) fn line(said: &mut String, text: &str) {
    let (blank, text) = text.strip_prefix('\n').map_or(("", text), |text| ("\n", text));
    writeln!(said, "{blank}{}", one_line(text, MOST)).expect("a String takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_argument_stays_one_query_value() {
        let request = ExplainRequest {
            host: "shop.example".to_owned(),
            path: "/a b?x=1&y".to_owned(),
            method: "GET".to_owned(),
            headers: vec!["x-beta: 1".to_owned()],
            https: true,
            client: "2001:db8::1".to_owned(),
        };
        assert_eq!(
            page(&request),
            "explain?host=shop.example&path=/a%20b%3Fx%3D1%26y&method=GET&header=x-beta%3A%201&https&client=2001%3Adb8%3A%3A1"
        );
    }
}
