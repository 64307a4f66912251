//! The columns of each view: one line per rule, endpoint, certificate or problem.

use serde_json::Value;

use crate::flags::ConfigurationView;

/// A heading, and a function that formats a cell from an object of the response and the part of it
/// for this line.
type Column = (&'static str, fn(&Value, &Value) -> String);

const ROUTES: [Column; 6] = [
    ("HOST", |host, _| text(&host["host"])),
    ("TLS", |host, _| match (&host["passthrough"], &host["tls"], &host["certificate"]) {
        (Value::String(service), ..) => format!("passed to {service}"),
        (_, Value::Bool(true), Value::Null) => "default".to_owned(),
        (_, _, certificate) => text(certificate),
    }),
    ("PATH", |_, rule| text(&rule["path"])),
    ("TYPE", |host, rule| match &host["stream"]["protocol"] {
        Value::Null => text(&rule["pathType"]),
        protocol => text(protocol),
    }),
    ("TO", |host, rule| match &host["stream"]["service"] {
        Value::Null => destination(rule),
        service => text(service),
    }),
    ("FROM", |host, rule| match &host["stream"] {
        Value::Null => object(&rule["origin"]),
        _ => "-".to_owned(),
    }),
];

const BACKENDS: [Column; 6] = [
    ("POOL", |pool, _| text(&pool["pool"])),
    ("PROTOCOL", |pool, _| text(&pool["protocol"])),
    ("BALANCE", |pool, _| text(&pool["balance"])),
    ("ENDPOINT", |_, endpoint| text(&endpoint["address"])),
    ("HEALTH", |_, endpoint| text(&endpoint["health"])),
    ("IN-FLIGHT", |_, endpoint| text(&endpoint["inFlight"])),
];

const CERTS: [Column; 5] = [
    ("SECRET", |certificate, _| text(&certificate["secret"])),
    ("NAMES", |certificate, _| text(&certificate["names"])),
    ("ISSUER", |certificate, _| text(&certificate["issuerCommonName"])),
    ("EXPIRES", |certificate, _| moment(&certificate["notAfter"])),
    ("HOSTS", |certificate, _| text(&certificate["hosts"])),
];

const PROBLEMS: [Column; 6] = [
    ("SEVERITY", |problem, _| text(&problem["severity"])),
    ("CODE", |problem, _| text(&problem["code"])),
    ("OBJECT", |problem, _| object(&problem["object"])),
    ("FIELD", |problem, _| text(&problem["field"])),
    ("WHAT", |problem, _| text(&problem["message"])),
    ("REMEDY", |problem, _| text(&problem["remedy"])),
];

/// Returns the heading and the cells, line by line.
pub(super) fn lines(view: ConfigurationView, answer: &Value) -> Vec<Vec<String>> {
    let (columns, parts): (&[Column], Option<&str>) = match view {
        ConfigurationView::Routes => (&ROUTES, Some("rules")),
        ConfigurationView::Backends => (&BACKENDS, Some("endpoints")),
        ConfigurationView::Certs => (&CERTS, None),
        ConfigurationView::Problems => (&PROBLEMS, None),
    };
    let mut lines = vec![columns.iter().map(|(heading, _)| (*heading).to_owned()).collect()];
    for whole in answer.as_array().into_iter().flatten() {
        let line = |part: &Value| columns.iter().map(|(_, cell)| cell(whole, part)).collect();
        match parts.and_then(|parts| whole[parts].as_array()).filter(|parts| !parts.is_empty()) {
            Some(parts) => lines.extend(parts.iter().map(line)),
            // A pool without endpoints has a line, too.
            None => lines.push(line(&Value::Null)),
        }
    }
    lines
}

/// Describes the destination of a rule.
pub(super) fn destination(rule: &Value) -> String {
    if rule["denied"].is_string() {
        return format!("{} ({})", text(&rule["status"]), text(&rule["denied"]));
    }
    let backends = rule["backends"].as_array().map(Vec::as_slice).unwrap_or_default();
    if backends.is_empty() {
        return format!("{} {}", text(&rule["status"]), text(&rule["location"]));
    }
    let one = |backend: &Value| match (&backend["service"], &backend["status"]) {
        (service, Value::Number(status)) => {
            format!("{status} ({}: {})", text(service), text(&backend["reason"]))
        }
        (Value::Null, _) => text(&backend["reason"]),
        (service, _) => text(service),
    };
    backends.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Formats an object reference as `Kind namespace/name`.
pub(crate) fn object(object: &Value) -> String {
    let (kind, namespace, name) = (text(&object["kind"]), text(&object["namespace"]), text(&object["name"]));
    if namespace == "-" { format!("{kind} {name}") } else { format!("{kind} {namespace}/{name}") }
}

/// Formats Unix seconds as a date.
fn moment(value: &Value) -> String {
    let moment = value.as_i64().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    moment.map_or_else(|| "-".to_owned(), |moment| moment.to_string())
}

pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_route_has_a_line_per_rule() {
        let origin = json!({"kind": "Ingress", "namespace": "default", "name": "shop"});
        let rules = json!([
            {"path": "/", "pathType": "Prefix", "backends": [{"service": "default-shop-80"}], "origin": origin},
            {"path": "/x", "pathType": "Exact", "backends": [{"status": 503, "reason": "no such Service"}], "origin": origin},
            {"path": "/y", "pathType": "Exact", "backends": [], "status": 301, "location": "https://a", "origin": origin},
        ]);
        let answer = json!([{"host": "shop.example", "tls": true, "certificate": null, "rules": rules}]);
        let lines = lines(ConfigurationView::Routes, &answer);
        assert_eq!(lines[0], ["HOST", "TLS", "PATH", "TYPE", "TO", "FROM"]);
        assert_eq!(
            lines[1],
            ["shop.example", "default", "/", "Prefix", "default-shop-80", "Ingress default/shop"]
        );
        assert_eq!(lines[2][4], "503 (-: no such Service)");
        assert_eq!(lines[3][4], "301 https://a");
    }

    #[test]
    fn streams_and_hosts_that_are_passed_through_have_a_line() {
        let origin = json!({"kind": "Ingress", "namespace": "default", "name": "shop"});
        let rules = json!([{"path": "/", "pathType": "Prefix", "backends": [{"service": "default-shop-443"}],
            "origin": origin}]);
        let stream = json!({"protocol": "TCP", "port": 5432, "service": "shop-db-5432"});
        let answer = json!([
            {"host": "shop.example", "tls": false, "passthrough": "default-shop-443", "rules": rules},
            {"host": "tcp/5432", "tls": false, "rules": [], "stream": stream},
        ]);
        let lines = lines(ConfigurationView::Routes, &answer);
        assert_eq!(lines[1][1], "passed to default-shop-443");
        assert_eq!(lines[2], ["tcp/5432", "-", "-", "TCP", "shop-db-5432", "-"]);
    }

    #[test]
    fn a_pool_has_a_line_per_endpoint_and_one_without() {
        let endpoint = json!({"address": "127.0.0.1:1", "health": "healthy", "inFlight": 2});
        let answer = json!([
            {"pool": "default/shop:http", "protocol": "http", "balance": "round-robin", "endpoints": [endpoint]},
            {"pool": "default/empty:http", "protocol": "http", "balance": "round-robin", "endpoints": []},
        ]);
        let lines = lines(ConfigurationView::Backends, &answer);
        assert_eq!(lines[1][3..], ["127.0.0.1:1", "healthy", "2"]);
        assert_eq!(lines[2][3..], ["-", "-", "-"]);
    }

    #[test]
    fn certificates_and_problems_have_a_line_each() {
        let certificate = json!({"secret": "default/tls", "names": ["a", "b"], "notAfter": 0, "hosts": []});
        let certs = lines(ConfigurationView::Certs, &json!([certificate]));
        assert_eq!(certs[1], ["default/tls", "a,b", "-", "1970-01-01T00:00:00Z", "-"]);
        let problem = json!({
            "severity": "error", "object": {"kind": "IngressClass", "namespace": "", "name": "nginx"},
            "field": "spec", "code": "PathInvalid", "message": "bad", "remedy": "mend it",
        });
        let problems = lines(ConfigurationView::Problems, &json!([problem]));
        assert_eq!(problems[1], ["error", "PathInvalid", "IngressClass nginx", "spec", "bad", "mend it"]);
    }
}
