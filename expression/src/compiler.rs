//! Compiles a parsed expression into a program.

use std::collections::HashMap;

use fancy_regex::{Assertion, BacktrackingControlVerb, Expr, LookAround};

use crate::characters::CharacterSet;
use crate::error::ExpressionError;
use crate::program::{Instruction, Position, Program, Starts};

/// Maximum number of instructions, and of nodes that the compiler visits.
const LIMIT: usize = 10_000;
/// Maximum number of ranges of characters in all different sets: 128 KiB. `\w` has 800.
const MOST_RANGES: usize = 16_384;

/// Names of groups, with their numbers.
pub(crate) type Named = Vec<(Box<str>, usize)>;

/// Compiles an expression.
///
/// # Errors
/// It is malformed, too large, or has a construct that the engine does not have.
pub(crate) fn compile(pattern: &str) -> Result<(Program, Named), ExpressionError> {
    let one_line = |error: fancy_regex::Error| {
        ExpressionError::Malformed(error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    let tree = Expr::parse_tree(pattern).map_err(one_line)?;
    let groups = groups_in(&tree.expr) + 1;
    let mut compiler = Compiler {
        instructions: Vec::new(),
        slots: 2 * groups,
        groups,
        next_group: 1,
        visited: 0,
        sets: HashMap::new(),
        ranges: 0,
    };
    compiler.expression(&tree.expr)?;
    compiler.push(Instruction::Match)?;
    let Compiler { instructions, slots, .. } = compiler;
    let named = tree.named_groups.iter();
    let named =
        named.flat_map(|(name, numbers)| numbers.iter().map(|number| (name.as_str().into(), *number)));
    let starts = starts(&tree.expr);
    Ok((Program { instructions, slots, groups, starts }, named.collect()))
}

struct Compiler {
    instructions: Vec<Instruction>,
    slots: usize,
    groups: usize,
    /// Number of the next group. Repetitions of one group have the same number.
    next_group: usize,
    visited: usize,
    /// Sets of characters by their text, and whether they ignore case: a repetition reads its own
    /// once.
    sets: HashMap<(String, bool), CharacterSet>,
    /// Ranges of all of them.
    ranges: usize,
}

type Compiled = Result<(), ExpressionError>;

impl Compiler {
    fn push(&mut self, instruction: Instruction) -> Compiled {
        if self.instructions.len() >= LIMIT {
            return Err(ExpressionError::TooLarge);
        }
        self.instructions.push(instruction);
        Ok(())
    }

    /// Adds an instruction whose target is set when it is known.
    fn reserve(&mut self) -> Result<usize, ExpressionError> {
        self.push(Instruction::Fail)?;
        Ok(self.instructions.len() - 1)
    }

    fn register(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn here(&self) -> usize {
        self.instructions.len()
    }

    fn expression(&mut self, expression: &Expr) -> Compiled {
        self.visited += 1;
        if self.visited > LIMIT {
            return Err(ExpressionError::TooLarge);
        }
        match expression {
            Expr::Empty => Ok(()),
            Expr::Any { newline: true, .. } => self.push(Instruction::Any),
            Expr::Any { newline: false, .. } => self.push(Instruction::AnyInLine),
            Expr::Assertion(assertion) => self.push(Instruction::Assert(position(*assertion)?)),
            Expr::GeneralNewline { .. } => self.line_end(),
            Expr::Literal { val, casei } => self.literal(val, *casei),
            Expr::LiteralBytes { bytes } => self.push(Instruction::Literal(bytes.as_slice().into())),
            Expr::Delegate { inner, casei } => {
                let set = self.set(inner, *casei)?;
                self.push(Instruction::Character(set))
            }
            Expr::Concat(parts) => parts.iter().try_for_each(|part| self.expression(part)),
            Expr::Alt(branches) => self.branches(branches, Self::expression),
            Expr::Group(inner) => self.group(inner),
            Expr::LookAround(inner, kind) => self.look_around(inner, *kind),
            Expr::AtomicGroup(inner) => self.atomic(|this| this.expression(inner)),
            Expr::Repeat { child, lo, hi, greedy } => self.repeat(child, *lo, *hi, *greedy),
            Expr::Backref { group, casei } => {
                let (group, any_case) = (self.existing(*group)?, *casei);
                self.push(Instruction::Reference { group, any_case })
            }
            // The end of the previous match is the beginning of the text.
            Expr::ContinueFromPreviousMatchEnd => self.push(Instruction::Assert(Position::TextStart)),
            Expr::KeepOut => self.push(Instruction::Save(0)),
            Expr::Conditional { condition, true_branch, false_branch } => {
                self.conditional(condition, true_branch, false_branch)
            }
            Expr::BacktrackingControlVerb(BacktrackingControlVerb::Fail) => self.push(Instruction::Fail),
            Expr::BacktrackingControlVerb(_) => Err(ExpressionError::NotSupported("a control verb")),
            Expr::SubroutineCall(_)
            | Expr::DefineGroup { .. }
            | Expr::BackrefWithRelativeRecursionLevel { .. } => {
                Err(ExpressionError::NotSupported("recursion"))
            }
            Expr::BackrefExistsCondition { .. } | Expr::Absent(_) | Expr::AstNode(..) => {
                Err(ExpressionError::NotSupported("this construct"))
            }
        }
    }

    fn set(&mut self, text: &str, any_case: bool) -> Result<CharacterSet, ExpressionError> {
        let key = (text.to_owned(), any_case);
        if let Some(set) = self.sets.get(&key) {
            return Ok(set.clone());
        }
        let set = CharacterSet::read(text, any_case)?;
        self.ranges += set.len();
        if self.ranges > MOST_RANGES {
            return Err(ExpressionError::TooLarge);
        }
        self.sets.insert(key, set.clone());
        Ok(set)
    }

    fn existing(&self, group: usize) -> Result<usize, ExpressionError> {
        if group < self.groups { Ok(group) } else { Err(ExpressionError::NoSuchGroup(group)) }
    }

    /// `\R`: a pair of carriage return and line feed is never split.
    fn line_end(&mut self) -> Compiled {
        self.atomic(|this| {
            let split = this.reserve()?;
            this.push(Instruction::Literal((*b"\r\n").into()))?;
            let jump = this.reserve()?;
            this.instructions[split] = Instruction::Split { first: split + 1, second: this.here() };
            this.push(Instruction::Character(CharacterSet::line_ends()))?;
            this.instructions[jump] = Instruction::Jump(this.here());
            Ok(())
        })
    }

    fn literal(&mut self, text: &str, any_case: bool) -> Compiled {
        let mut plain = String::new();
        for c in text.chars() {
            let set = if any_case { CharacterSet::any_case(c) } else { CharacterSet::only(c) };
            match set.single() {
                Some(c) => plain.push(c),
                None => {
                    self.plain(&mut plain)?;
                    self.push(Instruction::Character(set))?;
                }
            }
        }
        self.plain(&mut plain)
    }

    fn plain(&mut self, text: &mut String) -> Compiled {
        if !text.is_empty() {
            self.push(Instruction::Literal(std::mem::take(text).into_bytes().into()))?;
        }
        Ok(())
    }

    /// Compiles branches, each with `compile`.
    fn branches(&mut self, branches: &[Expr], compile: impl Fn(&mut Self, &Expr) -> Compiled) -> Compiled {
        let mut jumps = Vec::new();
        for (number, branch) in branches.iter().enumerate() {
            if number + 1 == branches.len() {
                compile(self, branch)?;
                break;
            }
            let split = self.reserve()?;
            compile(self, branch)?;
            jumps.push(self.reserve()?);
            self.instructions[split] = Instruction::Split { first: split + 1, second: self.here() };
        }
        for jump in jumps {
            self.instructions[jump] = Instruction::Jump(self.here());
        }
        Ok(())
    }

    fn group(&mut self, inner: &Expr) -> Compiled {
        let number = self.next_group;
        self.next_group += 1;
        self.push(Instruction::Save(2 * number))?;
        self.expression(inner)?;
        self.push(Instruction::Save(2 * number + 1))
    }

    fn atomic(&mut self, body: impl FnOnce(&mut Self) -> Compiled) -> Compiled {
        let height = self.register();
        self.push(Instruction::Fence(height))?;
        body(self)?;
        self.push(Instruction::Cut(height))
    }

    fn look_around(&mut self, inner: &Expr, kind: LookAround) -> Compiled {
        let body = |this: &mut Self| match kind {
            LookAround::LookAhead | LookAround::LookAheadNeg => this.expression(inner),
            LookAround::LookBehind | LookAround::LookBehindNeg => match inner {
                Expr::Alt(branches) => this.branches(branches, Self::behind),
                _ => this.behind(inner),
            },
        };
        match kind {
            LookAround::LookAhead | LookAround::LookBehind => {
                let place = self.register();
                self.push(Instruction::Save(place))?;
                self.atomic(body)?;
                self.push(Instruction::Restore(place))
            }
            LookAround::LookAheadNeg | LookAround::LookBehindNeg => {
                let height = self.register();
                self.push(Instruction::Fence(height))?;
                let split = self.reserve()?;
                body(self)?;
                self.push(Instruction::Refuse(height))?;
                self.instructions[split] = Instruction::Split { first: split + 1, second: self.here() };
                Ok(())
            }
        }
    }

    /// A branch of a look-behind. Its length is fixed, so that it ends where it began to look.
    fn behind(&mut self, branch: &Expr) -> Compiled {
        let length = length(branch).ok_or(ExpressionError::VariableLookBehind)?;
        self.push(Instruction::Back(length))?;
        self.expression(branch)
    }

    fn repeat(&mut self, child: &Expr, least: usize, most: usize, greedy: bool) -> Compiled {
        if most < least {
            return Err(ExpressionError::Malformed("numbers out of order in a quantifier".to_owned()));
        }
        let first_group = self.next_group;
        let copy = |this: &mut Self| {
            this.next_group = first_group;
            this.expression(child)
        };
        for _ in 0..least {
            copy(self)?;
        }
        if most == usize::MAX {
            self.unlimited(child, greedy, copy)?;
        } else {
            let mut splits = Vec::new();
            for _ in least..most {
                splits.push(self.reserve()?);
                copy(self)?;
            }
            let end = self.here();
            for split in splits {
                self.instructions[split] = choice(greedy, split + 1, end);
            }
        }
        self.next_group = first_group + groups_in(child);
        Ok(())
    }

    /// Any number of repetitions. One that matches nothing is the last.
    fn unlimited(&mut self, child: &Expr, greedy: bool, copy: impl Fn(&mut Self) -> Compiled) -> Compiled {
        let split = self.reserve()?;
        if length(child).is_some_and(|length| length > 0) {
            copy(self)?;
            self.push(Instruction::Jump(split))?;
        } else {
            let since = self.register();
            self.push(Instruction::Save(since))?;
            copy(self)?;
            self.push(Instruction::Repeat { body: split, since })?;
        }
        self.instructions[split] = choice(greedy, split + 1, self.here());
        Ok(())
    }

    fn conditional(&mut self, condition: &Expr, yes: &Expr, no: &Expr) -> Compiled {
        let Expr::BackrefExistsCondition { group, relative_recursion_level: None } = condition else {
            return Err(ExpressionError::NotSupported("a condition other than a group"));
        };
        let group = self.existing(*group)?;
        let test = self.reserve()?;
        self.expression(yes)?;
        let jump = self.reserve()?;
        self.instructions[test] = Instruction::UnlessGroup { group, otherwise: self.here() };
        self.expression(no)?;
        self.instructions[jump] = Instruction::Jump(self.here());
        Ok(())
    }
}

/// A choice between a repetition and what follows it.
fn choice(greedy: bool, body: usize, after: usize) -> Instruction {
    let (first, second) = if greedy { (body, after) } else { (after, body) };
    Instruction::Split { first, second }
}

fn position(assertion: Assertion) -> Result<Position, ExpressionError> {
    Ok(match assertion {
        Assertion::StartText => Position::TextStart,
        Assertion::EndText => Position::TextEnd,
        Assertion::EndTextIgnoreTrailingNewlines { crlf: false } => Position::LastLineEnd,
        Assertion::StartLine { crlf: false } => Position::LineStart,
        Assertion::EndLine { crlf: false } => Position::LineEnd,
        Assertion::WordBoundary => Position::WordBoundary,
        Assertion::NotWordBoundary => Position::NotWordBoundary,
        _ => return Err(ExpressionError::NotSupported("this assertion")),
    })
}

/// Returns the number of groups in an expression.
fn groups_in(expression: &Expr) -> usize {
    let own = usize::from(matches!(expression, Expr::Group(_)));
    own + expression.children_iter().map(groups_in).sum::<usize>()
}

/// Returns the number of characters that an expression matches, if it is fixed.
fn length(expression: &Expr) -> Option<usize> {
    match expression {
        Expr::Empty | Expr::Assertion(_) | Expr::LookAround(..) | Expr::KeepOut => Some(0),
        Expr::ContinueFromPreviousMatchEnd | Expr::BacktrackingControlVerb(_) => Some(0),
        Expr::Any { .. } | Expr::Delegate { .. } => Some(1),
        Expr::Literal { val, .. } => Some(val.chars().count()),
        Expr::Concat(parts) => parts.iter().try_fold(0_usize, |sum, part| sum.checked_add(length(part)?)),
        Expr::Alt(branches) => {
            let mut lengths = branches.iter().map(length);
            let first = lengths.next()??;
            lengths.all(|length| length == Some(first)).then_some(first)
        }
        Expr::Group(inner) => length(inner),
        Expr::AtomicGroup(inner) => length(inner),
        Expr::Repeat { child, lo, hi, .. } if lo == hi => length(child)?.checked_mul(*lo),
        _ => None,
    }
}

/// Returns the positions at which a match can begin.
fn starts(expression: &Expr) -> Starts {
    match expression {
        Expr::Assertion(Assertion::StartText) | Expr::ContinueFromPreviousMatchEnd => Starts::Text,
        Expr::Concat(parts) => parts.first().map_or(Starts::All, starts),
        Expr::Group(inner) => match starts(inner) {
            // A reference to the group could need a shorter text.
            Starts::Lines => Starts::All,
            starts => starts,
        },
        Expr::Repeat { child, lo: 0, hi: usize::MAX, greedy: true } => match **child {
            Expr::Any { newline: false, .. } => Starts::Lines,
            Expr::Any { newline: true, .. } => Starts::Text,
            _ => Starts::All,
        },
        _ => Starts::All,
    }
}
