//! The text of `rewrite-target`: parsed once, and resolved for each path that it is used with.

use std::sync::Arc;

use sluice_config::{Expression as Form, Moment, Rewrite, RewritePart, RewriteQuery, RewriteTemplate};

use crate::translate::expression::{Expression, Expressions};
use crate::translate::template::{self, Segment};

/// A text with references to groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupText(Box<[TextPart]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TextPart {
    Plain(Arc<str>),
    Number(usize),
    Name(Box<str>),
}

/// A parsed target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RewriteTarget {
    path: GroupText,
    /// The part after a question mark.
    query: Option<GroupText>,
    /// Whether the client's query is appended: not if the target ends with a question mark.
    appends: bool,
    redirects: bool,
}

/// Why a path cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RewriteError {
    /// No group or variable has this name. nginx would reject its configuration.
    #[error(
        "rewrite-target or x-forwarded-prefix names ${name}, and the path {path:?} has no such group, and no variable has that name"
    )]
    NoGroup {
        /// The name.
        name: String,
        /// The path.
        path: String,
    },
    /// The path is not a readable expression.
    #[error("the path {path:?} is a regular expression that cannot be read: {reason}")]
    Expression {
        /// The path.
        path: String,
        /// The reason.
        reason: String,
    },
}

impl GroupText {
    /// Reads a text with groups and variables.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let part = |segment| match segment {
            Segment::Text(text) => Ok(TextPart::Plain(text.into())),
            Segment::Name(name) => match name.as_bytes() {
                [digit @ b'1'..=b'9'] => Ok(TextPart::Number(usize::from(digit - b'0'))),
                [b'0'..=b'9', _, ..] => {
                    Err(format!("has ${{{name}}}, which is neither a group nor a variable"))
                }
                _ => Ok(TextPart::Name(name.into())),
            },
        };
        Ok(Self(template::segments(text)?.into_iter().map(part).collect::<Result<_, _>>()?))
    }

    fn resolve(&self, groups: &PathGroups<'_>) -> Result<RewriteTemplate, RewriteError> {
        self.0.iter().map(|part| groups.resolve(part)).collect()
    }

    fn has_groups(&self) -> bool {
        self.0.iter().any(|part| !matches!(part, TextPart::Plain(_)))
    }

    fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|part| match part {
            TextPart::Number(number) => Some(*number),
            TextPart::Plain(_) | TextPart::Name(_) => None,
        })
    }
}

impl RewriteTarget {
    /// Parses a target.
    ///
    /// # Errors
    /// It has a character that no URL can have, or an invalid `${NAME}`; completes "the value ...".
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let redirects = ["http://", "https://"].iter().any(|scheme| text.starts_with(scheme));
        let (text, appends) = match text.strip_suffix('?') {
            Some(rest) => (rest, false),
            None => (text, true),
        };
        let (path, query) = match text.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (text, None),
        };
        let odd = |text: &str| text.bytes().any(|b| !b.is_ascii_graphic() || b"\"#<>\\^`|".contains(&b));
        if odd(text) {
            return Err("has characters that no URL can have".to_owned());
        }
        Ok(Self {
            path: GroupText::read(path)?,
            query: query.map(GroupText::read).transpose()?,
            appends,
            redirects,
        })
    }

    /// Returns the rewriting of one path, and the first group number that the path lacks.
    pub(crate) fn resolve(
        &self,
        path: &str,
        prefix: Option<&GroupText>,
        expressions: &Expressions,
    ) -> Result<(Rewrite, Option<usize>), RewriteError> {
        let texts = || [Some(&self.path), self.query.as_ref(), prefix].into_iter().flatten();
        let groups = match texts().any(GroupText::has_groups) {
            true => PathGroups::of(path, expressions)?,
            false => PathGroups { path, searched: None },
        };
        let lacking = texts().flat_map(GroupText::numbers).find(|number| !groups.has(*number));
        let rewrite = Rewrite {
            path: self.path.resolve(&groups)?,
            query: match (&self.query, self.appends) {
                (None, true) => RewriteQuery::Keep,
                (query, append) => RewriteQuery::Replace {
                    query: query
                        .as_ref()
                        .map(|query| query.resolve(&groups))
                        .transpose()?
                        .unwrap_or_default(),
                    append,
                },
            },
            redirects: self.redirects,
            forwarded_prefix: prefix.map(|prefix| prefix.resolve(&groups)).transpose()?,
            pattern: groups.searched.map(|(pattern, _)| pattern),
        };
        Ok((rewrite, lacking))
    }
}

/// The groups of a path.
struct PathGroups<'a> {
    path: &'a str,
    /// The expression that finds them, if needed.
    searched: Option<(Form, Arc<Expression>)>,
}

impl<'a> PathGroups<'a> {
    fn of(path: &'a str, expressions: &Expressions) -> Result<Self, RewriteError> {
        let anchored = expressions.read(&format!("(?i)^{path}"));
        let searched = match anchored.as_ref().map(|read| (read, &read.extended)) {
            Ok((read, Some(regex))) if regex.backtracks => (Form::Extended(regex.clone()), read.clone()),
            // Look-ahead was evaluated when the path was chosen.
            Ok((read, Some(regex))) => (Form::Plain(regex.pattern.clone()), read.clone()),
            _ => {
                let pattern = format!("(?i){path}");
                let read = expressions.read(&pattern).map_err(|reason| RewriteError::Expression {
                    path: path.to_owned(),
                    reason: reason.to_string(),
                })?;
                (read.in_form(&pattern), read)
            }
        };
        Ok(Self { path, searched: Some(searched) })
    }

    fn has(&self, number: usize) -> bool {
        self.searched.as_ref().is_some_and(|(_, read)| number < read.groups)
    }

    /// Resolves a part. A number that the path lacks is empty, as in nginx.
    fn resolve(&self, part: &TextPart) -> Result<RewritePart, RewriteError> {
        match part {
            TextPart::Plain(text) => Ok(RewritePart::Text(text.clone())),
            TextPart::Number(number) if self.has(*number) => Ok(RewritePart::Group(*number)),
            TextPart::Number(_) => Ok(RewritePart::Text("".into())),
            TextPart::Name(name) => match self.searched.as_ref().and_then(|(_, read)| read.names.get(name)) {
                Some(number) => Ok(RewritePart::Group(*number)),
                None => template::variable(name, Moment::Request).map(RewritePart::Variable).map_err(|_| {
                    RewriteError::NoGroup { name: name.to_string(), path: self.path.to_owned() }
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::RewritePart::{Group, Text as Plain};
    use sluice_config::Variable;

    use super::*;

    fn resolve(target: &str, path: &str) -> Result<Rewrite, RewriteError> {
        Ok(with_lacking(target, path)?.0)
    }

    fn with_lacking(target: &str, path: &str) -> Result<(Rewrite, Option<usize>), RewriteError> {
        RewriteTarget::read(target).unwrap().resolve(path, None, &Expressions::default())
    }

    #[test]
    fn groups_are_numbers_of_one_digit_or_names_of_the_path() {
        let rewrite = resolve("/a/$2$10-$tail", "/x(/)(.*)(?<tail>y)").unwrap();
        let expected = [Plain("/a/".into()), Group(2), Group(1), Plain("0-".into()), Group(3)];
        assert_eq!(rewrite.path, expected);
        assert_eq!(rewrite.pattern, Some(Form::Plain("(?i)/x(/)(.*)(?<tail>y)".into())));
        assert_eq!(resolve("${1}0", "/(.)").unwrap().path, [Group(1), Plain("0".into())]);
        for bad in ["/$", "/$-", "/a b", "/a#b", "/${1", "/${1x}"] {
            assert!(RewriteTarget::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_target_without_groups_needs_nothing_of_its_path() {
        let rewrite = resolve("/a", "/x(").unwrap();
        assert_eq!((rewrite.pattern, rewrite.path), (None, vec![Plain("/a".into())]));
    }

    #[test]
    fn a_missing_group_is_empty_and_reported() {
        let (rewrite, lacking) = with_lacking("/a/$2-$1", "/x(.*)").unwrap();
        assert_eq!(rewrite.path, [Plain("/a/".into()), Plain("".into()), Plain("-".into()), Group(1)]);
        assert_eq!(lacking, Some(2));
        assert_eq!(with_lacking("/$1?a=$3", "/x").unwrap().1, Some(1));
        assert_eq!(with_lacking("/$1", "/x(.*)").unwrap().1, None);
    }

    #[test]
    fn a_name_that_the_path_lacks_is_a_fault() {
        for (target, path) in [("/$nothing", "/x(.*)"), ("/$0", "/x(.*)")] {
            let fault = resolve(target, path).unwrap_err();
            assert!(fault.to_string().contains("no such group"), "{fault}");
        }
        let fault = resolve("/$1", "/x(?C1)(.*)").unwrap_err().to_string();
        assert!(fault.contains("unrecognized flag"), "{fault}");
    }

    #[test]
    fn a_name_that_is_no_group_is_a_variable() {
        let rewrite = resolve("/$host/${arg_x}", "/x").unwrap();
        let variable = |variable| RewritePart::Variable(variable);
        let argument = variable(Variable::Argument("x".into()));
        assert_eq!(rewrite.path, [Plain("/".into()), variable(Variable::Host), Plain("/".into()), argument]);
        assert_eq!(resolve("/$host", "/(?<host>.*)").unwrap().path, [Plain("/".into()), Group(1)]);
    }

    #[test]
    fn a_target_query_precedes_the_clients_unless_it_ends_in_a_mark() {
        let query = |target| resolve(target, "/(.*)").unwrap().query;
        assert_eq!(query("/a"), RewriteQuery::Keep);
        let b = vec![Plain("b=".into()), Group(1)];
        assert_eq!(query("/a?b=$1"), RewriteQuery::Replace { query: b.clone(), append: true });
        assert_eq!(query("/a?b=$1?"), RewriteQuery::Replace { query: b, append: false });
        assert_eq!(query("/a?"), RewriteQuery::Replace { query: Vec::new(), append: false });
        assert!(resolve("https://b.example/$1", "/(.*)").unwrap().redirects);
    }
}
