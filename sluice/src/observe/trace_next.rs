//! `sluice trace-next`: every step of the next request at any replica.

use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::Value;

use super::Replica;
use super::live::{LiveEvent, LiveEvents};
use crate::flags::{Output, TraceNext};
use crate::output::{note, print};
use crate::show::explanation::{self, fields, line};
use crate::show::layout::{object, text};
use crate::show::table;

/// Waits for the request and prints it.
///
/// # Errors
/// No replica can be read, or there is no such request.
pub(super) fn run(arguments: &TraceNext, replicas: &[Replica]) -> Result<ExitCode> {
    let mut events = LiveEvents::read(replicas, "trace-next", &arguments.requests)?;
    note(format_args!("sluice: waiting for a request"));
    let mut last = "no replica could be read".to_owned();
    while let Some((replica, event)) = events.next() {
        match event {
            LiveEvent::Begun | LiveEvent::Lost(_) => {}
            LiveEvent::Ended(reason) | LiveEvent::Failed(reason) => last = reason,
            LiveEvent::Request(mut request) => {
                if !replica.is_empty() {
                    request["replica"] = replica.into();
                }
                return Ok(print(&match arguments.output {
                    Output::Json => serde_json::to_string_pretty(&request)? + "\n",
                    Output::Table => render(&request),
                }));
            }
        }
    }
    bail!(last)
}

/// Renders the request, the explanation of its rule, its attempts, and its response.
fn render(traced: &Value) -> String {
    let mut said = String::new();
    let request = &traced["request"];
    let scheme = if request["https"] == true { "https" } else { "http" };
    let replica = traced["replica"].as_str().map(|name| format!(" at {name}")).unwrap_or_default();
    line(
        &mut said,
        &format!(
            "{} {} {}{replica}",
            text(&traced["time"]),
            text(&traced["client"]),
            text(&request["version"])
        ),
    );
    let url = format!("{scheme}://{}{}", text(&traced["host"]), text(&traced["target"]));
    line(&mut said, &format!("{} {url}", text(&traced["method"])));
    fields(&mut said, &request["fields"]);
    said.push('\n');
    said += &explanation::render(traced);
    served_by(&mut said, traced);
    attempts(&mut said, &traced["attemptDetails"]);
    let response = &traced["response"];
    line(
        &mut said,
        &format!(
            "\nanswered with {} after {} ms, {} bytes",
            text(&traced["status"]),
            text(&traced["millis"]),
            text(&response["bytesSent"])
        ),
    );
    fields(&mut said, &response["fields"]);
    said
}

/// Appends the rule that served the request, if it is another one than that of its first path.
fn served_by(said: &mut String, traced: &Value) {
    let (rule, explained) = (&traced["rule"], &traced["taken"]["rule"]["origin"]);
    let is_same = ["kind", "namespace", "name"].iter().all(|part| rule[part] == explained[part]);
    if !rule.is_null() && !is_same {
        line(
            said,
            &format!(
                "\nserved by {} {}: a snippet or a change of the configuration has led there",
                object(rule),
                text(&rule["path"])
            ),
        );
    }
}

fn attempts(said: &mut String, attempts: &Value) {
    let columns = [
        ("ENDPOINT", "address"),
        ("AFTER", "afterMillis"),
        ("CONNECTED", "connectMillis"),
        ("HEAD", "headMillis"),
        ("ENDED", "millis"),
        ("STATUS", "status"),
        ("FAILURE", "failure"),
    ];
    let mut lines = vec![columns.map(|(heading, _)| heading.to_owned()).to_vec()];
    for attempt in attempts.as_array().into_iter().flatten() {
        lines.push(columns.map(|(_, name)| text(&attempt[name])).to_vec());
    }
    if lines.len() > 1 {
        line(said, "\nattempts, with times in ms:");
        *said += &table::render(&lines);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_step_of_a_request_is_rendered() {
        let origin = json!({"kind": "Ingress", "namespace": "default", "name": "shop", "path": "/"});
        let field = json!([{"name": "x-own", "value": "1"}]);
        let traced = json!({
            "time": "2026-11-26T04:01:12.123Z", "client": "192.0.2.7", "method": "GET", "host": "shop.example",
            "target": "/cart", "status": 200, "millis": 3.5, "rule": origin, "replica": "edge/a",
            "request": {"https": true, "version": "HTTP/2", "fields": field},
            "taken": {
                "rule": {"origin": origin, "pathType": "Prefix", "path": "/", "backends": [{"service": "default-shop-80"}]},
                "checks": [{"check": "limits", "outcome": "passes", "says": "5 requests a second"}],
                "sent": {"backend": "default-shop-80", "method": "GET", "target": "/cart", "fields": field},
            },
            "hosts": [],
            "attemptDetails": [{"address": "10.0.0.1:80", "afterMillis": 0.1, "connectMillis": 0.2, "headMillis": 2.5,
                "millis": 3.0, "status": 200, "failure": null}],
            "response": {"bytesSent": 512, "fields": field},
        });
        let text = render(&traced);
        for part in [
            "2026-11-26T04:01:12.123Z 192.0.2.7 HTTP/2 at edge/a\nGET https://shop.example/cart\n  x-own: 1\n",
            "\ntaken by Ingress default/shop: Prefix /\n  goes to default-shop-80\n",
            "\nlimits  passes   5 requests a second\n",
            "\nan endpoint of default-shop-80 receives: GET /cart\n  x-own: 1\n",
            "\n10.0.0.1:80  0.1    0.2        2.5   3.0    200     -\n",
            "\nanswered with 200 after 3.5 ms, 512 bytes\n  x-own: 1\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("served by"), "{text}");
    }
}
