//! `sluice tap`: requests as they end, from all replicas.

use std::io::{ErrorKind, Write, stdout};
use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;
use sluice_config::text::one_line;

use super::Replica;
use super::live::{LiveEvent, LiveEvents};
use super::replica::prefix;
use crate::flags::{Output, TapArguments};
use crate::output::note;
use crate::show::layout::{object, text};

/// Maximum length of a printed line in bytes.
const LINE: usize = 4096;

/// Prints requests until the time is over, or as many have been printed as were wanted.
///
/// # Errors
/// No replica can be read.
pub(super) fn run(arguments: &TapArguments, replicas: &[Replica]) -> Result<ExitCode> {
    let mut events = LiveEvents::read(replicas, "tap", &arguments.requests)?;
    note(format_args!("sluice: reading requests for {} s", arguments.requests.time.as_secs()));
    let mut left = arguments.count.map_or(u64::MAX, NonZeroU64::get);
    let mut status = ExitCode::SUCCESS;
    while left > 0
        && let Some((replica, event)) = events.next()
    {
        let place = prefix(&replica);
        match event {
            LiveEvent::Begun => {}
            LiveEvent::Request(request) => {
                left -= 1;
                let line = match arguments.output {
                    Output::Json => json(&request, &replica),
                    Output::Table => line(&request, &replica),
                };
                match writeln!(stdout(), "{line}") {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
                    other => other?,
                }
            }
            LiveEvent::Lost(count) => {
                note(format_args!(
                    "sluice: {place}{count} requests were not read in time; --sample reads fewer"
                ));
            }
            LiveEvent::Ended(reason) => note(format_args!("sluice: {place}{}", one_line(&reason, LINE))),
            LiveEvent::Failed(error) => {
                note(format_args!("sluice: {place}{}", one_line(&error, LINE)));
                status = ExitCode::FAILURE;
            }
        }
    }
    Ok(status)
}

fn json(request: &Value, replica: &str) -> String {
    let mut request = request.clone();
    if !replica.is_empty() {
        request["replica"] = replica.into();
    }
    request.to_string()
}

/// Returns a line of text, escaped because it contains foreign text.
fn line(request: &Value, replica: &str) -> String {
    let rule = &request["rule"];
    let rule = match rule.is_null() {
        true => "no rule".to_owned(),
        false => format!("{} {}", object(rule), text(&rule["path"])),
    };
    let mut parts = vec![
        time(request).to_owned(),
        text(&request["client"]),
        text(&request["method"]),
        format!("{}{}", text(&request["host"]), text(&request["target"])),
        text(&request["status"]),
        format!("{} ms", text(&request["millis"])),
        endpoint(request),
        format!("({rule})"),
    ];
    if !replica.is_empty() {
        parts.insert(1, replica.to_owned());
    }
    one_line(&parts.join(" "), LINE).into_owned()
}

/// Returns the endpoint of the last attempt, with the number of attempts if there were several.
fn endpoint(request: &Value) -> String {
    match request["attempts"].as_u64() {
        Some(attempts) if attempts > 1 => format!("{} ({attempts} attempts)", text(&request["endpoint"])),
        _ => text(&request["endpoint"]),
    }
}

/// Returns the time of the day.
fn time(request: &Value) -> &str {
    let time = request["time"].as_str().unwrap_or("-");
    time.split_once('T').map_or(time, |(_, time)| time)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_one_line_that_cannot_control_the_terminal() {
        let rule = json!({"kind": "Ingress", "namespace": "default", "name": "shop", "path": "/cart"});
        let mut request = json!({"time": "2026-11-26T04:01:12.123Z", "client": "192.0.2.7", "method": "GET",
            "host": "shop.example", "target": "/cart\u{1b}[2J", "status": 502, "millis": 12.5,
            "endpoint": "10.0.0.1:80", "attempts": 2, "rule": rule});
        assert_eq!(
            line(&request, ""),
            "04:01:12.123Z 192.0.2.7 GET shop.example/cart\\u{1b}[2J 502 12.5 ms 10.0.0.1:80 (2 attempts) \
             (Ingress default/shop /cart)"
        );
        (request["rule"], request["attempts"]) = (Value::Null, json!(0));
        request["endpoint"] = Value::Null;
        let line = line(&request, "edge/a");
        assert!(
            line.starts_with("04:01:12.123Z edge/a 192.0.2.7") && line.ends_with("ms - (no rule)"),
            "{line}"
        );
    }
}
