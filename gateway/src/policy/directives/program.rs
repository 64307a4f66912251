//! The programs of nginx's rewrite module: `set`, `if`, `rewrite`, `return` and `break`.

use std::sync::Arc;

use http::StatusCode;
use sluice_config::directives as contract;

use crate::policy::assigned::{Assigned, GroupNames, ProgramInput, RewrittenUri};
use crate::policy::error::PolicyError;
use crate::policy::expression::Expression;
use crate::policy::template::Template;
use crate::policy::{Rewrite, Rewritten};

/// A program.
#[derive(Debug, Default)]
pub struct DirectiveProgram(Box<[Instruction]>);

#[derive(Debug)]
enum Instruction {
    Set { variable: Arc<str>, value: Template },
    If { condition: Condition, scope: Option<usize>, then: DirectiveProgram },
    Rewrite { rewrite: Rewrite, names: GroupNames, then: contract::AfterRewrite },
    Return(Return),
    Break,
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
                Instruction::Rewrite { rewrite, names, then } => {
                    let uri = assigned.uri.clone();
                    let (target, path) = input.or(uri.as_deref());
                    let found = match rewrite.find(target, path) {
                        Ok(Some(found)) => found,
                        Ok(None) => {
                            assigned.keep_groups(Vec::new());
                            continue;
                        }
                        Err(_) => return ProgramOutcome::Malformed,
                    };
                    assigned.keep_match(found.groups(), names);
                    let filled = |template: &Template| fill(template, assigned);
                    let outgoing = match rewrite.expand(target, &found, &filled) {
                        Ok(Rewritten::Outgoing(outgoing)) => outgoing,
                        Ok(Rewritten::Location(location)) => {
                            let status = match then {
                                contract::AfterRewrite::Redirect(code) => StatusCode::from_u16(*code).ok(),
                                _ => None,
                            };
                            return ProgramOutcome::Redirect(status.unwrap_or(StatusCode::FOUND), location);
                        }
                        Err(_) => return ProgramOutcome::Malformed,
                    };
                    let Some(uri) = RewrittenUri::new(outgoing) else { return ProgramOutcome::Malformed };
                    assigned.uri = Some(Arc::new(uri));
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
                let rewrite = Rewrite::compile(rewrite)?;
                Self::Rewrite { names: GroupNames::new(&rewrite.group_names()), rewrite, then: *then }
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

#[cfg(test)]
mod tests;
