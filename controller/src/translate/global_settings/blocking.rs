//! Keys about clients that are blocked on every host.

use std::sync::Arc;

use sluice_config::Blocked;

use super::{Key, LIMIT_ACROSS_REPLICAS};
use crate::translate::expression::Expressions;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::snippet::grammar;
use crate::translate::template;
use crate::translate::value::{self, Type, Wrong};

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "limit-req-status-code",
            value::within(400, 599).map(status),
            "503",
            "Status of requests refused by limit-rps and limit-rpm.",
            |settings, value| settings.global.limit_rate_status = value,
        ),
        Key::served(
            "limit-conn-status-code",
            value::within(400, 599).map(status),
            "503",
            "Status of requests refused by limit-connections.",
            |settings, value| settings.global.limit_connections_status = value,
        ),
        Key::served(
            "limit-conn-zone-variable",
            template::key(),
            "$binary_remote_addr",
            "Requests with the same value of this text count as one client for limit-connections, \
             limit-rps and limit-rpm; requests with an empty value are not limited.",
            |settings, value| settings.global.limit_key = value,
        )
        .unchecked_by_reference(),
        Key::served(
            LIMIT_ACROSS_REPLICAS,
            value::bool(),
            "false",
            "limit-rps, limit-rpm, limit-connections and the limits of snippets apply to all replicas of \
             the gateway together (docs/limits.md).",
            |settings, value| settings.limit_across_replicas = value,
        )
        .absent_in_reference(),
        Key::served(
            "denylist-source-range",
            value::networks(),
            "",
            "Clients from these networks get 403, on routes without their own list.",
            |settings, value| settings.global.sources.deny = Some(value),
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .protects()
        .of_rules_only(),
        Key::served(
            "whitelist-source-range",
            value::networks(),
            "",
            "Only clients from these networks are served, on routes without their own list; others get 403.",
            |settings, value| settings.global.sources.allow = Some(value),
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::RefuseAll, "")
        .protects()
        .of_rules_only(),
        Key::served(
            "block-cidrs",
            value::networks(),
            "",
            "Clients from these networks get 403 from every host, before all other checks.",
            |settings, value| settings.global.blocks.networks = value,
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .protects(),
        Key::served(
            "block-user-agents",
            block_list(),
            "",
            "User-Agents that get 403 from every host: complete values in any case, or regular expressions \
             after ~ (~* for any case).",
            |settings, value| settings.global.blocks.user_agents = value,
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .protects(),
        Key::served(
            "block-referers",
            block_list(),
            "",
            "Referers that get 403 from every host; see block-user-agents.",
            |settings, value| settings.global.blocks.referers = value,
        )
        .unreadable(Unreadable::Close, ReferenceTreatment::RefuseAll, "")
        .protects(),
    ]
}

fn status(code: u32) -> u16 {
    // The range was checked.
    u16::try_from(code).unwrap_or(503)
}

/// The same as [`blocked`], not empty: an empty list, which would stop no client, is assumed to be
/// an error.
fn block_list() -> Type<Arc<[Blocked]>> {
    blocked().and_then(|values| match values.is_empty() {
        true => Err("names no value"),
        false => Ok(values),
    })
}

/// Field values in the syntax of nginx's `map`: ingress-nginx writes each item there as a word, so
/// that quotes around it and its escapes are not part of the value.
pub(super) fn blocked() -> Type<Arc<[Blocked]>> {
    value::list()
        .and_then(|items| items.iter().map(|item| read_blocked(item)).collect::<Result<Arc<[_]>, Wrong>>())
}

fn read_blocked(item: &str) -> Result<Blocked, Wrong> {
    let word = grammar::word(item).map_err(|fault| format!("has {item:?}, where {}", fault.reason))?;
    let Some(expression) = word.strip_prefix('~') else {
        // A backslash takes the special meaning from the first character.
        return Ok(Blocked::Text(word.strip_prefix('\\').unwrap_or(&word).into()));
    };
    let expression = match expression.strip_prefix('*') {
        Some(any_case) => format!("(?i){any_case}"),
        None => expression.to_owned(),
    };
    let unreadable = |reason| format!("has {item:?}, a regular expression that cannot be read ({reason})");
    let read = Expressions::default().read(&expression).map_err(unreadable)?;
    Ok(match &read.extended {
        Some(apart) => Blocked::Extended(apart.clone()),
        None => Blocked::Regex(expression.into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn blocked_values_are_texts_or_expressions() {
        let read = |text: &str| blocked().parse(text, &Author::OPERATOR);
        let expected = [
            Blocked::Text("Bad Bot/1.0".into()),
            Blocked::Regex("^curl".into()),
            Blocked::Regex("(?i)spider".into()),
        ];
        assert_eq!(*read("Bad Bot/1.0, ~^curl,~*spider").unwrap(), expected);
        let with_look_ahead = read("~*^(?!.*good).*bot, ~^Mozilla/(?=4)").unwrap();
        let [Blocked::Extended(any_case), Blocked::Extended(exact_case)] = &*with_look_ahead else {
            panic!("{with_look_ahead:?}")
        };
        assert_eq!((&*any_case.pattern, any_case.conditions.len()), ("(?i)^.*bot", 1));
        assert_eq!(&*exact_case.pattern, "^Mozilla/");
        for text in ["~*(?=x)", "~^.*(?!x)", "~(?<!x)bot"] {
            let read = read(text).unwrap();
            assert!(matches!(&*read, [Blocked::Extended(regex)] if regex.backtracks), "{text}");
        }
        assert!(read("~(").is_err());
    }

    #[test]
    fn a_quoted_blocked_value_is_what_nginx_reads() {
        let read = |text: &str| blocked().parse(text, &Author::OPERATOR);
        let expected = [
            Blocked::Regex("(?i)bad bot".into()),
            Blocked::Text("curl/1".into()),
            Blocked::Regex("(?i)evil".into()),
            Blocked::Text("".into()),
        ];
        assert_eq!(*read("\"~*bad bot\",'curl/1',~*evil,\"\"").unwrap(), expected);
        let escaped = [
            Blocked::Regex("a\\.b".into()),
            Blocked::Text("a\"b\t".into()),
            Blocked::Regex("a\\.b".into()),
            Blocked::Text("~a".into()),
        ];
        assert_eq!(*read(r#""~a\\.b","a\"b\t",~a\.b,\~a"#).unwrap(), escaped);
        for text in ["\"~*bad bot", "\"a\"b", "\"a\" b", "a\\", "\"a,b\""] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
