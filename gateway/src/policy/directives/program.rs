//! The programs of nginx's rewrite module: `set`, `if`, `rewrite`, `return` and `break`.

use std::ops::Range;
use std::sync::Arc;

use http::StatusCode;
use regex::bytes::Regex;
use sluice_config::directives as contract;

use crate::expression::{ExtendedMatcher, bounded_bytes_regex};
use crate::message::target;
use crate::policy::error::PolicyError;
use crate::policy::rewrite::Outgoing;
use crate::policy::template::Template;
use crate::policy::{Rewrite, Rewritten};
use crate::router::normalise;

/// A program.
#[derive(Debug, Default)]
pub struct DirectiveProgram(Box<[Instruction]>);

#[derive(Debug)]
enum Instruction {
    Set { variable: Arc<str>, value: Template },
    If { condition: Condition, scope: Option<usize>, then: DirectiveProgram },
    Rewrite { rewrite: Rewrite, then: contract::AfterRewrite },
    Return(Return),
    Break,
}

/// The path and query that a program runs for, unless it has changed them.
#[derive(Clone, Copy, Debug)]
pub struct ProgramInput<'r> {
    /// The normalised path.
    pub path: &'r str,
    /// Path and query as the client sent them.
    pub target: &'r str,
}

/// The path and query that a program has set.
#[derive(Debug)]
pub struct RewrittenUri {
    /// For the endpoint.
    pub outgoing: Outgoing,
    /// The normalised path.
    pub path: String,
}

/// The answer of a `return`.
#[derive(Debug)]
pub enum Return {
    /// A status with its standard page.
    Page(StatusCode),
    /// No response.
    Close,
    /// A status with this text.
    Text(StatusCode, Template),
    /// A redirect to this URL or path.
    Redirect(StatusCode, Template),
}

#[derive(Debug)]
enum Condition {
    Truth(Template),
    Equal { value: Template, other: Template, negated: bool },
    Match { value: Template, expression: Expression, negated: bool },
}

/// An expression that is searched in a value.
#[derive(Debug)]
pub(in crate::policy) enum Expression {
    Plain(Regex),
    Extended(ExtendedMatcher),
}

/// Values that a program has assigned so far.
#[derive(Debug, Default)]
pub struct Assigned {
    variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Groups of the last expression that matched, by number and by name.
    groups: Vec<(Box<str>, Vec<u8>)>,
    /// The scope of the last `if` whose condition held.
    pub scope: usize,
    /// The path and query, if a program has changed them.
    pub uri: Option<RewrittenUri>,
}

/// The end of a program.
#[derive(Debug)]
pub enum ProgramOutcome<'p> {
    /// All instructions have run.
    End,
    /// A `break`.
    Break,
    /// The location is chosen anew for the new path.
    Relocate,
    /// A `return`.
    Return(&'p Return),
    /// A `rewrite` that redirects to this URL or path.
    Redirect(StatusCode, String),
    /// A `rewrite` whose result cannot be sent.
    Malformed,
}

impl DirectiveProgram {
    /// Compiles a program.
    ///
    /// # Errors
    /// A status, field name or expression cannot be used.
    pub(super) fn compile(instructions: &[contract::Instruction]) -> Result<Self, PolicyError> {
        instructions.iter().map(Instruction::compile).collect::<Result<_, _>>().map(Self)
    }

    /// Whether it has no instructions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Runs the program. `fill` fills in a template with the values that are assigned so far.
    pub fn run(
        &self,
        input: ProgramInput<'_>,
        assigned: &mut Assigned,
        fill: &impl Fn(&Template, &Assigned) -> Vec<u8>,
    ) -> ProgramOutcome<'_> {
        let mut is_changed = false;
        match self.run_block(input, assigned, &mut is_changed, fill) {
            ProgramOutcome::End if is_changed => ProgramOutcome::Relocate,
            outcome => outcome,
        }
    }

    /// `is_changed` is set by a `rewrite` after which the program continues.
    fn run_block(
        &self,
        input: ProgramInput<'_>,
        assigned: &mut Assigned,
        is_changed: &mut bool,
        fill: &impl Fn(&Template, &Assigned) -> Vec<u8>,
    ) -> ProgramOutcome<'_> {
        for instruction in &self.0 {
            match instruction {
                Instruction::Set { variable, value } => {
                    let value = fill(value, assigned);
                    assigned.set(variable, value);
                }
                Instruction::If { condition, scope, then } => {
                    if !condition.holds(assigned, fill) {
                        continue;
                    }
                    if let Some(scope) = scope {
                        assigned.scope = *scope;
                    }
                    match then.run_block(input, assigned, is_changed, fill) {
                        ProgramOutcome::End => {}
                        other => return other,
                    }
                }
                Instruction::Rewrite { rewrite, then } => {
                    let filled = |template: &Template| fill(template, assigned);
                    let (target, path) = assigned.uri(input);
                    let outgoing = match rewrite.apply(target, path, &filled) {
                        Ok(None) => continue,
                        Ok(Some(Rewritten::Outgoing(outgoing))) => outgoing,
                        Ok(Some(Rewritten::Location(location))) => {
                            let status = match then {
                                contract::AfterRewrite::Redirect(code) => StatusCode::from_u16(*code).ok(),
                                _ => None,
                            };
                            return ProgramOutcome::Redirect(status.unwrap_or(StatusCode::FOUND), location);
                        }
                        Err(_) => return ProgramOutcome::Malformed,
                    };
                    let Some(uri) = RewrittenUri::new(outgoing) else { return ProgramOutcome::Malformed };
                    assigned.uri = Some(uri);
                    match then {
                        contract::AfterRewrite::Last => return ProgramOutcome::Relocate,
                        contract::AfterRewrite::Continue => *is_changed = true,
                        contract::AfterRewrite::Stay | contract::AfterRewrite::Redirect(_) => {
                            return ProgramOutcome::Break;
                        }
                    }
                }
                Instruction::Return(answer) => return ProgramOutcome::Return(answer),
                Instruction::Break => return ProgramOutcome::Break,
            }
        }
        ProgramOutcome::End
    }
}

impl Instruction {
    fn compile(instruction: &contract::Instruction) -> Result<Self, PolicyError> {
        Ok(match instruction {
            contract::Instruction::Set { variable, value } => {
                Self::Set { variable: variable.clone(), value: Template::compile(value)? }
            }
            contract::Instruction::If { condition, scope, then } => Self::If {
                condition: Condition::compile(condition)?,
                scope: scope.map(usize::from),
                then: DirectiveProgram::compile(then)?,
            },
            contract::Instruction::Rewrite { rewrite, then } => {
                Self::Rewrite { rewrite: Rewrite::compile(rewrite)?, then: *then }
            }
            contract::Instruction::Return(answer) => Self::Return(Return::compile(answer)?),
            contract::Instruction::Break => Self::Break,
        })
    }
}

impl Return {
    fn compile(answer: &contract::Return) -> Result<Self, PolicyError> {
        let status = |code: u16| match code {
            200..=599 => StatusCode::from_u16(code).map_err(|_| PolicyError::Status(code)),
            _ => Err(PolicyError::Status(code)),
        };
        Ok(match answer {
            contract::Return::Page(code) => Self::Page(status(*code)?),
            contract::Return::Close => Self::Close,
            contract::Return::Text { status: code, body } => {
                Self::Text(status(*code)?, Template::compile(body)?)
            }
            contract::Return::Redirect { status: code, location } => {
                Self::Redirect(status(*code)?, Template::compile(location)?)
            }
        })
    }
}

impl Condition {
    fn compile(condition: &contract::Condition) -> Result<Self, PolicyError> {
        Ok(match condition {
            contract::Condition::Truth(value) => Self::Truth(Template::compile(value)?),
            contract::Condition::Equal { value, other, negated } => Self::Equal {
                value: Template::compile(value)?,
                other: Template::compile(other)?,
                negated: *negated,
            },
            contract::Condition::Match { value, expression, negated } => Self::Match {
                value: Template::compile(value)?,
                expression: Expression::compile(expression)?,
                negated: *negated,
            },
        })
    }

    fn holds(&self, assigned: &mut Assigned, fill: &impl Fn(&Template, &Assigned) -> Vec<u8>) -> bool {
        match self {
            Self::Truth(value) => !matches!(&fill(value, assigned)[..], b"" | b"0"),
            Self::Equal { value, other, negated } => {
                (fill(value, assigned) == fill(other, assigned)) != *negated
            }
            Self::Match { value, expression, negated } => {
                let value = fill(value, assigned);
                expression.search(&value, assigned) != *negated
            }
        }
    }
}

impl Expression {
    /// Compiles an expression.
    ///
    /// # Errors
    /// It is malformed or too large.
    pub(in crate::policy) fn compile(expression: &sluice_config::Expression) -> Result<Self, PolicyError> {
        let failed = |text: &str| PolicyError::Expression(text.to_owned());
        Ok(match expression {
            sluice_config::Expression::Plain(text) => {
                Self::Plain(bounded_bytes_regex(text).map_err(|_| failed(text))?)
            }
            sluice_config::Expression::Extended(regex) => {
                Self::Extended(ExtendedMatcher::compile(regex).map_err(|_| failed(&regex.text))?)
            }
        })
    }

    /// Whether it matches anywhere in a value.
    pub(super) fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Self::Plain(regex) => regex.is_match(value),
            Self::Extended(regex) => regex.is_match(value),
        }
    }

    fn group_count(&self) -> usize {
        match self {
            Self::Plain(regex) => regex.captures_len(),
            Self::Extended(regex) => regex.group_count(),
        }
    }

    /// The same; keeps the groups of a match.
    pub(in crate::policy) fn search(&self, value: &[u8], assigned: &mut Assigned) -> bool {
        if self.group_count() == 1 {
            let matches = self.is_match(value);
            if matches {
                assigned.groups.clear();
            }
            return matches;
        }
        let (ranges, names) = match self {
            Self::Plain(regex) => {
                let captures = regex.captures(value);
                let ranges = captures.map(|groups| groups.iter().map(|group| Some(group?.range())).collect());
                (ranges, regex.capture_names().collect())
            }
            Self::Extended(regex) => (regex.groups(value), regex.group_names()),
        };
        let Some(ranges) = ranges else { return false };
        assigned.groups.clear();
        for (number, (range, name)) in ranges.into_iter().zip(names).enumerate().skip(1) {
            let text = range.map_or(&b""[..], |range: Range<usize>| &value[range]);
            assigned.groups.push((number.to_string().into(), text.to_vec()));
            assigned.groups.extend(name.map(|name| (name.into(), text.to_vec())));
        }
        true
    }
}

impl RewrittenUri {
    /// `None` if the path is not valid.
    fn new(outgoing: Outgoing) -> Option<Self> {
        let path = outgoing.target().split('?').next().unwrap_or_default();
        let path = normalise(path).ok()?.into_owned();
        Some(Self { outgoing, path })
    }

    /// The query.
    pub fn query(&self) -> Option<&str> {
        target::split(self.outgoing.target()).1
    }
}

impl Assigned {
    /// The target and the normalised path in effect.
    pub fn uri<'a>(&'a self, input: ProgramInput<'a>) -> (&'a str, &'a str) {
        match &self.uri {
            Some(uri) => (uri.outgoing.target(), &uri.path),
            None => (input.target, input.path),
        }
    }

    /// The value of a variable; empty before its `set`.
    pub fn variable(&self, name: &str) -> &[u8] {
        self.variables.iter().find(|(known, _)| **known == *name).map_or(&[], |(_, value)| value)
    }

    /// The text of a group of the last expression that matched.
    pub fn group(&self, name: &str) -> &[u8] {
        self.groups.iter().find(|(known, _)| **known == *name).map_or(&[], |(_, text)| text)
    }

    fn set(&mut self, name: &Arc<str>, value: Vec<u8>) {
        match self.variables.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.variables.push((name.clone(), value)),
        }
    }
}

#[cfg(test)]
mod tests;
