//! The figures as text.

use std::fmt::Write;

use sluice_config::text::one_line;
use sluice_gateway::admin::{RuleLabels, format};

use super::figures::{ReplicaFigures, RuleFigures, TopFigures};
use crate::flags::TopOrder;
use crate::show::table;

/// Number of rules that are named for a replica that lacks them.
const LACKING: usize = 3;
/// Maximum length of a line about a replica in bytes. Lines are escaped, because they contain
/// foreign text that a terminal would interpret.
const LINE: usize = 2048;

/// Returns a summary, what differs between replicas, and the rules.
pub(super) fn render(figures: &TopFigures, order: TopOrder) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = summarise(&mut text, figures, order);
    if figures.replicas.len() > 1 {
        text += &replicas(&figures.replicas);
        text.push('\n');
    }
    match figures.counted {
        false => {
            text += "requests are not counted by rule; start the gateway with --enable-metrics \
                     (chart: controller.metrics.enabled)\n";
        }
        true if figures.rules.is_empty() => text += "no rule had a request; --all also prints such rules\n",
        true => text += &rules(&figures.rules),
    }
    text
}

fn summarise(text: &mut String, figures: &TopFigures, order: TopOrder) -> std::fmt::Result {
    let replicas = figures.replicas.iter().filter(|replica| replica.error.is_none());
    let (mut count, mut rate, mut connections) = (0, 0.0, 0);
    for replica in replicas {
        (count, rate, connections) =
            (count + 1, rate + replica.requests_per_second, connections + replica.connections);
    }
    writeln!(
        text,
        "{}, {} requests/s, {}; the last {:.0} s, by {}",
        counted(count, "replica"),
        per_second(rate),
        counted(connections, "connection"),
        figures.seconds,
        order.name()
    )?;
    for replica in &figures.replicas {
        if let Some(error) = &replica.error {
            writeln!(text, "{}", one_line(&format!("{}: {error}", replica.name), LINE))?;
        }
        if !replica.lacks.is_empty() {
            let named = replica.lacks.iter().take(LACKING).map(rule_name).collect::<Vec<_>>().join(", ");
            let more = replica.lacks.len().saturating_sub(LACKING);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            writeln!(text, "{}", one_line(&format!("{} lacks {named}{more}", replica.name), LINE))?;
        }
    }
    Ok(())
}

/// Returns a number of things.
fn counted(number: i64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

fn rule_name(labels: &RuleLabels) -> String {
    let RuleLabels { host, path, namespace, ingress } = labels;
    format!("{host}{path} ({namespace}/{ingress})")
}

fn replicas(replicas: &[ReplicaFigures]) -> String {
    let mut lines = vec![["REPLICA", "CONFIGURATION", "REQ/S", "CONNECTIONS"].map(str::to_owned).to_vec()];
    for replica in replicas {
        let configuration = match (&replica.error, replica.differs) {
            (Some(_), _) => "-".to_owned(),
            (None, true) => format!("{} differs", replica.configuration),
            (None, false) => replica.configuration.clone(),
        };
        lines.push(vec![
            replica.name.clone(),
            configuration,
            per_second(replica.requests_per_second),
            replica.connections.to_string(),
        ]);
    }
    table::render(&lines)
}

fn rules(rules: &[RuleFigures]) -> String {
    let heading = ["HOST", "PATH", "OWNER", "REQ/S", "5XX", "4XX", "P50", "P99"];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for rule in rules {
        let RuleLabels { host, path, namespace, ingress } = &rule.labels;
        let owner = match (&*rule.kind, &rule.closed) {
            ("", _) => format!("{namespace}/{ingress} (removed)"),
            (kind, None) => format!("{kind} {namespace}/{ingress}"),
            (kind, Some(_)) => format!("{kind} {namespace}/{ingress} (closed)"),
        };
        lines.push(vec![
            if host.is_empty() { "*".to_owned() } else { host.to_string() },
            path.to_string(),
            owner,
            per_second(rule.requests_per_second),
            format::share(rule.server_errors, rule.requests),
            format::share(rule.client_errors, rule.requests),
            format::quantile(&rule.traffic, 0.5, &rule.bounds),
            format::quantile(&rule.traffic, 0.99, &rule.bounds),
        ]);
    }
    table::render(&lines)
}

fn per_second(rate: f64) -> String {
    match rate {
        rate if rate >= 100.0 => format!("{rate:.0}"),
        rate if rate >= 10.0 => format!("{rate:.1}"),
        rate => format!("{rate:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::top::figures::tests::{arguments, replica};

    #[test]
    fn a_rule_has_a_line_with_its_figures() {
        let histories = [replica("edge/a", "1", &[("/", 9, 1)])];
        let text = render(&TopFigures::of(&histories, &arguments(TopOrder::Rate, false)), TopOrder::Rate);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "1 replica, 5.00 requests/s, 3 connections; the last 2 s, by rate");
        assert!(lines[1].starts_with("HOST ") && lines[1].ends_with("P99"), "{text}");
        assert!(
            lines[2].starts_with("shop.example  /     Ingress default/shop  5.00   10.00 %  0 %"),
            "{text}"
        );
        assert!(lines[2].ends_with("> 1.0 s"), "{text}");
    }

    #[test]
    fn replicas_that_differ_are_named() {
        let whole = [("/", 1, 0), ("/new", 1, 0)];
        let histories = [replica("edge/a", "1", &whole), replica("edge/b", "2", &whole[..1])];
        let text = render(&TopFigures::of(&histories, &arguments(TopOrder::Rate, false)), TopOrder::Rate);
        assert!(text.contains("\nedge/b lacks shop.example/new (default/shop)\n"), "{text}");
        assert!(text.contains("\nedge/b   2 differs      0.50   3\n"), "{text}");
    }

    #[test]
    fn without_figures_the_remedy_is_named() {
        let mut history = replica("a", "1", &[("/", 1, 0)]);
        let uncounted =
            sluice_gateway::admin::TrafficSample { at: 4_000, hash: "1".into(), ..Default::default() };
        history.add(uncounted);
        let text = render(&TopFigures::of(&[history], &arguments(TopOrder::Rate, false)), TopOrder::Rate);
        assert!(text.contains("--enable-metrics"), "{text}");
        let idle = [replica("a", "1", &[("/", 0, 0)])];
        let text = render(&TopFigures::of(&idle, &arguments(TopOrder::Rate, false)), TopOrder::Rate);
        assert!(text.contains("--all"), "{text}");
    }
}
