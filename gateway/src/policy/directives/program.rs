//! The programs of nginx's rewrite module: `set`, `if`, `rewrite`, `return` and `break`.

use std::sync::Arc;

use http::StatusCode;
use regex::bytes::Regex;
use sluice_config::directives as contract;

use crate::policy::error::PolicyError;
use crate::policy::look_ahead::LookAheadMatcher;
use crate::policy::rewrite::Outgoing;
use crate::policy::template::Template;
use crate::policy::{Rewrite, Rewritten};
use crate::router::bounded_bytes_regex;

/// A program.
#[derive(Debug, Default)]
pub struct Program(Box<[Instruction]>);

#[derive(Debug)]
enum Instruction {
    Set { variable: Arc<str>, value: Template },
    If { condition: Condition, scope: Option<usize>, then: Program },
    Rewrite { rewrite: Rewrite, then: contract::AfterRewrite },
    Return(Return),
    Break,
}

/// The request that a program runs for.
#[derive(Clone, Copy, Debug)]
pub struct ProgramInput<'r> {
    /// The normalised path.
    pub path: &'r str,
    /// Path and query as the client sent them.
    pub target: &'r str,
}

/// The answer of a `return`.
#[derive(Debug)]
pub enum Return {
    /// A status with its standard page.
    Page(StatusCode),
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
pub(super) enum Expression {
    Plain(Regex),
    LookAhead(LookAheadMatcher),
}

/// Values that a program has assigned so far.
#[derive(Debug, Default)]
pub struct Assigned {
    variables: Vec<(Arc<str>, Vec<u8>)>,
    /// Groups of the last expression that matched, by number and by name.
    groups: Vec<(Box<str>, Vec<u8>)>,
    /// The scope of the last `if` whose condition held.
    pub scope: usize,
}

/// The end of a program.
#[derive(Debug)]
pub enum Outcome<'p> {
    /// All instructions have run.
    End,
    /// A `break`.
    Break,
    /// A `return`.
    Return(&'p Return),
    /// A `rewrite` that redirects to this URL or path.
    Redirect(StatusCode, String),
    /// A `rewrite` after which the endpoint gets another path.
    Rewritten(Outgoing),
    /// A `rewrite` whose result cannot be sent.
    Malformed,
}

impl Program {
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
    ) -> Outcome<'_> {
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
                    match then.run(input, assigned, fill) {
                        Outcome::End => {}
                        other => return other,
                    }
                }
                Instruction::Rewrite { rewrite, then } => {
                    let filled = |template: &Template| fill(template, assigned);
                    let status = match then {
                        contract::AfterRewrite::Stay => None,
                        contract::AfterRewrite::Redirect(code) => StatusCode::from_u16(*code).ok(),
                    };
                    match rewrite.apply(input.target, input.path, &filled) {
                        Ok(None) => {}
                        Ok(Some(Rewritten::Outgoing(outgoing))) => return Outcome::Rewritten(outgoing),
                        Ok(Some(Rewritten::Location(location))) => {
                            return Outcome::Redirect(status.unwrap_or(StatusCode::FOUND), location);
                        }
                        Err(_) => return Outcome::Malformed,
                    }
                }
                Instruction::Return(answer) => return Outcome::Return(answer),
                Instruction::Break => return Outcome::Break,
            }
        }
        Outcome::End
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
                then: Program::compile(then)?,
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
    pub(super) fn compile(expression: &contract::Expression) -> Result<Self, PolicyError> {
        let failed = |text: &str| PolicyError::Expression(text.to_owned());
        Ok(match expression {
            contract::Expression::Plain(text) => {
                Self::Plain(bounded_bytes_regex(text).map_err(|_| failed(text))?)
            }
            contract::Expression::LookAhead(regex) => {
                Self::LookAhead(LookAheadMatcher::compile(regex).map_err(|_| failed(&regex.text))?)
            }
        })
    }

    /// Whether it matches anywhere in a value.
    pub(super) fn is_match(&self, value: &[u8]) -> bool {
        match self {
            Self::Plain(regex) => regex.is_match(value),
            Self::LookAhead(regex) => regex.is_match(value),
        }
    }

    /// The same; keeps the groups of a match.
    fn search(&self, value: &[u8], assigned: &mut Assigned) -> bool {
        let regex = match self {
            Self::Plain(regex) if regex.captures_len() > 1 => regex,
            _ => {
                let matches = self.is_match(value);
                if matches {
                    assigned.groups.clear();
                }
                return matches;
            }
        };
        let Some(captures) = regex.captures(value) else { return false };
        assigned.groups.clear();
        for (number, name) in regex.capture_names().enumerate().skip(1) {
            let text = captures.get(number).map_or(&b""[..], |group| group.as_bytes());
            assigned.groups.push((number.to_string().into(), text.to_vec()));
            assigned.groups.extend(name.map(|name| (name.into(), text.to_vec())));
        }
        true
    }
}

impl Assigned {
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
