//! `block-cidrs`, `block-user-agents` and `block-referers`: requests that are answered with 403 on
//! every host, before any other check.

use std::net::IpAddr;

use http::header::{HeaderName, REFERER, USER_AGENT};
use regex::bytes::{RegexSet, RegexSetBuilder};
use sluice_config::Blocked;
use sluice_expression::needs_characters;

use super::networks::Networks;
use crate::expression::{ExpressionError, ExtendedMatcher, SIZE_LIMIT};
use crate::message::fields::Fields;

/// Compiled lists of blocked clients.
#[derive(Debug)]
pub(crate) struct Blocks {
    networks: Networks,
    user_agents: ValuePatterns,
    referers: ValuePatterns,
}

/// A list of strings and regular expressions, with the semantics of nginx's `map`.
#[derive(Debug)]
pub(crate) struct ValuePatterns {
    texts: Box<[Box<[u8]>]>,
    expressions: Option<RegexSet>,
    extended: Box<[ExtendedMatcher]>,
}

impl Blocks {
    /// Compiles the lists. Returns `None` if they are empty.
    ///
    /// # Errors
    /// An expression does not compile. Translation has already compiled each of them.
    pub(crate) fn compile(blocks: &sluice_config::Blocks) -> Result<Option<Self>, ExpressionError> {
        let sluice_config::Blocks { networks, user_agents, referers } = blocks;
        if networks.is_empty() && user_agents.is_empty() && referers.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            networks: Networks::compile(networks),
            user_agents: ValuePatterns::compile(user_agents)?,
            referers: ValuePatterns::compile(referers)?,
        }))
    }

    /// Returns whether the request is blocked.
    pub(crate) fn blocks(&self, client: IpAddr, fields: &impl Fields) -> bool {
        self.networks.contains(client)
            || self.user_agents.have_field(&USER_AGENT, fields)
            || self.referers.have_field(&REFERER, fields)
    }
}

impl ValuePatterns {
    /// Compiles the list.
    ///
    /// # Errors
    /// An expression does not compile.
    pub(crate) fn compile(values: &[Blocked]) -> Result<Self, ExpressionError> {
        let texts = values.iter().filter_map(|value| match value {
            Blocked::Text(text) => Some(text.as_bytes().into()),
            Blocked::Regex(_) | Blocked::Extended(_) => None,
        });
        let expressions: Vec<&str> = values
            .iter()
            .filter_map(|value| match value {
                Blocked::Regex(expression) => Some(&**expression),
                Blocked::Text(_) | Blocked::Extended(_) => None,
            })
            .collect();
        let extended = values.iter().filter_map(|value| match value {
            Blocked::Extended(regex) => Some(ExtendedMatcher::compile(regex)),
            Blocked::Text(_) | Blocked::Regex(_) => None,
        });
        let set = || {
            RegexSetBuilder::new(&expressions)
                .unicode(expressions.iter().any(|expression| needs_characters(expression)))
                .size_limit(SIZE_LIMIT * expressions.len())
                .dfa_size_limit(SIZE_LIMIT)
                .build()
        };
        Ok(Self {
            texts: texts.collect(),
            expressions: if expressions.is_empty() { None } else { Some(set()?) },
            extended: extended.collect::<Result<_, _>>()?,
        })
    }

    /// Treats a missing field as empty, as nginx does: `~^$` blocks clients without a `User-Agent`.
    /// Several lines are one value.
    fn have_field(&self, name: &HeaderName, fields: &impl Fields) -> bool {
        !self.is_empty() && self.have(&fields.joined(name).unwrap_or_default())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.expressions.is_none() && self.extended.is_empty()
    }

    /// Returns whether the list contains or matches `value`.
    pub(crate) fn have(&self, value: &[u8]) -> bool {
        self.texts.iter().any(|text| text.eq_ignore_ascii_case(value))
            || self.expressions.as_ref().is_some_and(|set| set.is_match(value))
            || self.extended.iter().any(|regex| regex.is_match(value))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};
    use sluice_config::{ExtendedRegex, LookAhead, Network};

    use super::*;

    #[test]
    fn addresses_texts_and_expressions_block() {
        let blocks = sluice_config::Blocks {
            networks: [Network { address: [192, 0, 2, 0].into(), prefix: 24 }].into(),
            user_agents: [Blocked::Text("BadBot/1.0".into()), Blocked::Regex("(?i)curl".into())].into(),
            referers: [Blocked::Regex("^$".into())].into(),
        };
        let blocks = Blocks::compile(&blocks).unwrap().unwrap();
        let blocked = |last: [u8; 4], agent: &str, referer: Option<&str>| {
            let mut fields = HeaderMap::new();
            fields.insert(USER_AGENT, agent.parse().unwrap());
            if let Some(referer) = referer {
                fields.insert(REFERER, referer.parse().unwrap());
            }
            blocks.blocks(last.into(), &fields)
        };
        let (inside, outside) = ([192, 0, 2, 9], [192, 0, 3, 9]);
        assert!(!blocked(outside, "Mozilla", Some("https://a.example")));
        assert!(blocked(inside, "Mozilla", Some("https://a.example")));
        assert!(blocked(outside, "badbot/1.0", Some("x")));
        assert!(!blocked(outside, "badbot/1.0 more", Some("x")), "a text is the whole value");
        assert!(blocked(outside, "my CURL 8", Some("x")));
        assert!(blocked(outside, "Mozilla", None), "what is not there is empty");
        assert!(Blocks::compile(&sluice_config::Blocks::default()).unwrap().is_none());
    }

    #[test]
    fn a_second_line_kept_a_client_from_being_blocked() {
        let list = [Blocked::Regex("(?i)badbot".into()), Blocked::Text("one, two".into())];
        let blocks = sluice_config::Blocks { user_agents: list.into(), ..sluice_config::Blocks::default() };
        let blocks = Blocks::compile(&blocks).unwrap().unwrap();
        let blocked = |lines: &[&'static str]| {
            let lines = lines.iter().map(|line| (USER_AGENT, HeaderValue::from_static(line)));
            blocks.blocks([192, 0, 2, 1].into(), &lines.collect::<HeaderMap>())
        };
        assert!(blocked(&["good", "BadBot"]) && blocked(&["one", "two"]));
        assert!(!blocked(&["good", "better"]) && !blocked(&[]));
    }

    #[test]
    fn a_byte_that_is_not_utf_8_kept_a_client_from_being_blocked() {
        let values = ValuePatterns::compile(&[Blocked::Regex("(?i)mozilla.*badbot".into())]).unwrap();
        assert!(values.have(b"Mozilla\xff badbot") && !values.have(b"Mozilla\xff bot"));
    }

    #[test]
    fn an_expression_with_look_ahead_blocks() {
        let condition = LookAhead { pattern: "^(?:.*good)".into(), negative: true };
        let regex = ExtendedRegex {
            text: "^(?!.*good).*bot".into(),
            pattern: "^.*bot".into(),
            conditions: vec![condition],
            backtracks: false,
        };
        let values = ValuePatterns::compile(&[Blocked::Extended(regex.into())]).unwrap();
        assert!(!values.is_empty());
        assert_eq!(
            [&b"a bot"[..], b"a good bot", b"a browser"].map(|value| values.have(value)),
            [true, false, false]
        );
    }

    #[test]
    fn an_expression_that_cannot_be_read_is_an_error() {
        let user_agents = [Blocked::Regex("(".into())].into();
        let blocks = sluice_config::Blocks { user_agents, ..sluice_config::Blocks::default() };
        assert!(Blocks::compile(&blocks).is_err());
    }
}
