//! Host names of an Ingress: those of its rules, corrected invalid ones, and aliases.

use std::sync::Arc;

use sluice_config::dns_name::is_dns_name;
use sluice_config::{ExtendedRegex, HostName, HostPattern};

use crate::store::Ingress;
use crate::translate::expression::Expression;
use crate::translate::routes::RuleRoutes;
use crate::translate::routes::claim::ClaimKind;
use crate::translate::value;

/// Parses `spec.rules[].host`.
pub(super) fn host_pattern(text: &str) -> Result<HostPattern, &'static str> {
    let (name, wildcard) = match text.strip_prefix("*.") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.contains('*') {
        return Err("has a * that is not its whole first label");
    }
    if is_address(name) {
        return Err("is an IP address");
    }
    if name.contains(':') {
        return Err("has a port, which a host name cannot have");
    }
    if !is_host_name(name) {
        return Err("is not a DNS name");
    }
    let name = HostName::new(name);
    Ok(if wildcard { HostPattern::OneLabel(name) } else { HostPattern::Exact(name) })
}

/// Returns the host that the author of an invalid one must have meant: without the port, or an
/// address, for which requests can arrive. API servers reject such hosts; files may contain them.
pub(super) fn meant_by(text: &str) -> Option<HostPattern> {
    let address = text.trim_start_matches('[').trim_end_matches(']');
    if is_address(address) {
        let name = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        return Some(HostPattern::Exact(HostName::new(&name)));
    }
    let (host, port) = text.rsplit_once(':')?;
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    host_pattern(host).ok().or_else(|| meant_by(host))
}

/// Parses an item of `server-alias`. As in nginx, a dot at the beginning adds the names below.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn aliases(text: &str) -> Result<Vec<HostPattern>, String> {
    match text.strip_prefix('.').map(host_pattern) {
        Some(Ok(HostPattern::Exact(name))) => {
            Ok(vec![HostPattern::Exact(name.clone()), HostPattern::Suffix(name)])
        }
        _ => alias(text).map(|pattern| vec![pattern]),
    }
}

/// Parses a name without a dot at the beginning. As in nginx, `*` at the beginning or end stands
/// for any number of labels, and an expression begins with `~`.
fn alias(text: &str) -> Result<HostPattern, String> {
    if let Some(expression) = text.strip_prefix('~') {
        return matching(text, &format!("(?i){expression}"));
    }
    if let Some(beginning) = text.strip_suffix(".*")
        && is_host_name(beginning)
    {
        return matching(text, &format!(r"(?i)^{}\..+$", regex_syntax::escape(beginning)));
    }
    Ok(match host_pattern(text)? {
        HostPattern::OneLabel(parent) => HostPattern::Suffix(parent),
        other => other,
    })
}

/// The names that match an expression. `text` is the original.
fn matching(text: &str, expression: &str) -> Result<HostPattern, String> {
    let read = Expression::read(expression)
        .map_err(|reason| format!("is a regular expression that cannot be read ({reason})"))?;
    let regex = match read.extended {
        Some(regex) => ExtendedRegex { text: text.into(), ..(*regex).clone() },
        None => ExtendedRegex {
            text: text.into(),
            pattern: expression.into(),
            conditions: Vec::new(),
            backtracks: false,
        },
    };
    Ok(HostPattern::Regex(Arc::new(regex)))
}

/// Returns the readable items of `server-alias`, under which requests for a closed Ingress can
/// arrive.
pub(super) fn readable_aliases(ingress: &Ingress) -> Vec<HostPattern> {
    let named = ingress.annotation("server-alias").into_iter().flat_map(value::items);
    named.filter_map(|name| aliases(name).ok()).flatten().collect()
}

/// Returns the host that differs by a leading `www.`.
pub(super) fn sibling(host: &HostPattern) -> Option<HostPattern> {
    let HostPattern::Exact(name) = host else { return None };
    let sibling = match name.as_str().strip_prefix("www.") {
        Some(bare) => bare.to_owned(),
        None => format!("www.{}", name.as_str()),
    };
    host_pattern(&sibling).ok()
}

/// Returns the aliases of an Ingress.
pub(super) fn further(
    aliases: Vec<HostPattern>,
    www: bool,
    hosts: &[(HostPattern, Vec<RuleRoutes>)],
) -> Box<[(HostPattern, ClaimKind)]> {
    let mut found: Vec<(HostPattern, ClaimKind)> =
        aliases.into_iter().map(|alias| (alias, ClaimKind::Alias)).collect();
    for (host, _) in hosts.iter().filter(|_| www) {
        found.extend(sibling(host).map(|sibling| (sibling, ClaimKind::WwwRedirect)));
    }
    found.retain(|(alias, _)| hosts.iter().all(|(host, _)| host != alias));
    found.sort();
    found.dedup_by(|later, first| later.0 == first.0);
    found.into()
}

fn is_address(text: &str) -> bool {
    text.parse::<std::net::IpAddr>().is_ok()
}

fn is_host_name(name: &str) -> bool {
    let has_hyphen_at_end = |label: &str| label.starts_with('-') || label.ends_with('-');
    is_dns_name(name) && !name.split('.').any(has_hyphen_at_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_exact_names_or_one_label_wildcards() {
        let exact = |name| Ok(HostPattern::Exact(HostName::new(name)));
        assert_eq!(host_pattern("Shop.Example."), exact("shop.example"));
        assert_eq!(host_pattern("a_b.example"), exact("a_b.example"));
        assert_eq!(host_pattern("*.Shop.example"), Ok(HostPattern::OneLabel(HostName::new("shop.example"))));
        for bad in
            ["*", "*.", "a.*.b", "*a.b", "1.2.3.4", "::1", "a:80", "a..b", "-a.b", "a b", "é.example", "."]
        {
            assert!(host_pattern(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn an_alias_is_a_name_a_wildcard_at_either_end_or_an_expression() {
        let expression = |text: &str| match alias(text) {
            Ok(HostPattern::Regex(regex)) => (regex.text.to_string(), regex.pattern.to_string()),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(alias("*.Shop.example"), Ok(HostPattern::Suffix(HostName::new("shop.example"))));
        assert_eq!(expression("www.Shop.*"), ("www.Shop.*".into(), r"(?i)^www\.Shop\..+(?:\n??$)".into()));
        assert_eq!(expression(r"~^(?!x)y\d+\."), (r"~^(?!x)y\d+\.".into(), r"(?i)^y\d+\.".into()));
        assert_eq!(expression(r"~^a{2}").1, "(?i)^a{2}");
        for bad in ["~(", "a.*.b", "*.*", ".*", "a*.b"] {
            assert!(alias(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_alias_with_a_leading_dot_is_the_name_and_all_below() {
        let name = HostName::new("shop.example");
        let both = vec![HostPattern::Exact(name.clone()), HostPattern::Suffix(name.clone())];
        assert_eq!(aliases(".Shop.example"), Ok(both));
        assert_eq!(aliases("shop.example"), Ok(vec![HostPattern::Exact(name)]));
        for bad in [".", "..a", ".*.a", ".a.*", ".*", ".1.2.3.4", ".a b"] {
            assert!(aliases(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_host_with_a_port_or_an_address_is_corrected() {
        let exact = |name| Some(HostPattern::Exact(HostName::new(name)));
        for (text, meant) in [
            ("Shop.example:8443", exact("shop.example")),
            ("*.shop.example:443", Some(HostPattern::OneLabel(HostName::new("shop.example")))),
            ("1.2.3.4", exact("1.2.3.4")),
            ("1.2.3.4:80", exact("1.2.3.4")),
            ("::1", exact("[::1]")),
            ("[::1]:80", exact("[::1]")),
            ("*", None),
            ("a b:80", None),
            ("a.*.b", None),
            ("a:b", None),
        ] {
            assert_eq!(meant_by(text), meant, "{text}");
        }
    }
}
