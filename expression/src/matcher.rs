//! Executes a program on a text.

use std::ops::Range;

use crate::characters;
use crate::error::StepLimitReached;
use crate::program::{Instruction, Position, Program, Starts};

/// The value of a slot that was never set.
const UNSET: usize = usize::MAX;

/// Bytes that an instruction may compare in one step.
const BYTES_PER_STEP: usize = 16;

/// The byte ranges of the groups of a match: the whole match, then each group that took part.
pub type Groups = Vec<Option<Range<usize>>>;

/// What is undone or tried when a path fails, newest last.
#[derive(Debug)]
enum Pending {
    /// Another path.
    Branch { instruction: usize, at: usize },
    /// The previous value of a slot.
    Slot { slot: usize, value: usize },
}

/// Searches a text for the first match.
///
/// # Errors
/// No step is left.
pub(crate) fn search(
    program: &Program,
    text: &[u8],
    steps: &mut u32,
) -> Result<Option<Groups>, StepLimitReached> {
    let mut run = Run { program, text, steps, slots: vec![UNSET; program.slots], pending: Vec::new() };
    let mut start = 0;
    loop {
        if run.matches_at(start)? {
            return Ok(Some(run.groups()));
        }
        let next = match program.starts {
            Starts::Text => None,
            Starts::All => {
                let length = characters::first(&text[start..]).map_or(1, |(_, length)| length);
                (start < text.len()).then_some(start + length)
            }
            Starts::Lines => {
                run.count((text.len() - start) / BYTES_PER_STEP)?;
                text[start..].iter().position(|byte| *byte == b'\n').map(|end| start + end + 1)
            }
        };
        let Some(next) = next else { return Ok(None) };
        start = next;
    }
}

/// A search in progress.
struct Run<'a> {
    program: &'a Program,
    text: &'a [u8],
    steps: &'a mut u32,
    slots: Vec<usize>,
    pending: Vec<Pending>,
}

impl Run<'_> {
    /// Counts a step, and more where an instruction does more.
    fn count(&mut self, additional: usize) -> Result<(), StepLimitReached> {
        let taken = u32::try_from(additional).unwrap_or(u32::MAX).saturating_add(1);
        *self.steps = self.steps.saturating_sub(taken);
        if *self.steps == 0 { Err(StepLimitReached) } else { Ok(()) }
    }

    /// Returns whether the program matches from a position.
    fn matches_at(&mut self, start: usize) -> Result<bool, StepLimitReached> {
        // An attempt that failed has restored the other slots.
        self.slots[0] = start;
        let (mut at, mut instruction) = (start, 0);
        loop {
            let next = match self.execute(instruction, &mut at)? {
                Next::Match => {
                    self.slots[1] = at;
                    return Ok(true);
                }
                Next::Instruction(next) => Some(next),
                Next::Fail => self.backtrack(0, &mut at),
            };
            match next {
                Some(next) => instruction = next,
                None => return Ok(false),
            }
        }
    }

    fn execute(&mut self, number: usize, at: &mut usize) -> Result<Next, StepLimitReached> {
        self.count(0)?;
        let rest = &self.text[*at..];
        let following = Next::Instruction(number + 1);
        let program = self.program;
        let holds = match &program.instructions[number] {
            Instruction::Match => return Ok(Next::Match),
            Instruction::Fail => false,
            Instruction::Jump(target) => return Ok(Next::Instruction(*target)),
            Instruction::Character(set) => advance(at, rest, |c| set.contains(c)),
            Instruction::Any => advance(at, rest, |_| true),
            Instruction::AnyInLine => advance(at, rest, |c| c != '\n'),
            Instruction::Literal(bytes) => {
                let holds = rest.starts_with(bytes);
                *at += if holds { bytes.len() } else { 0 };
                self.count(bytes.len() / BYTES_PER_STEP)?;
                holds
            }
            Instruction::Assert(position) => self.is_at(*position, *at),
            Instruction::Split { first, second } => {
                self.pending.push(Pending::Branch { instruction: *second, at: *at });
                return Ok(Next::Instruction(*first));
            }
            Instruction::Save(slot) => self.set(*slot, *at),
            Instruction::Restore(slot) => {
                *at = self.slots[*slot];
                true
            }
            Instruction::Back(characters) => {
                self.count(*characters)?;
                self.back(*characters, at)
            }
            Instruction::Fence(slot) => self.set(*slot, self.pending.len()),
            Instruction::Cut(slot) => {
                let height = self.slots[*slot];
                self.count(self.pending.len().saturating_sub(height))?;
                self.cut(height)
            }
            Instruction::Refuse(slot) => {
                let height = self.slots[*slot];
                self.discard(height);
                false
            }
            Instruction::Repeat { body, since } => {
                if self.slots[*since] != *at {
                    return Ok(Next::Instruction(*body));
                }
                true
            }
            Instruction::Reference { group, any_case } => self.reference(*group, *any_case, at)?,
            Instruction::UnlessGroup { group, otherwise } => {
                if self.slots[2 * group + 1] == UNSET {
                    return Ok(Next::Instruction(*otherwise));
                }
                true
            }
        };
        Ok(if holds { following } else { Next::Fail })
    }

    /// Sets a slot. Always holds.
    fn set(&mut self, slot: usize, value: usize) -> bool {
        self.pending.push(Pending::Slot { slot, value: self.slots[slot] });
        self.slots[slot] = value;
        true
    }

    /// Returns to the newest branch above a height.
    fn backtrack(&mut self, height: usize, at: &mut usize) -> Option<usize> {
        while self.pending.len() > height {
            match self.pending.pop()? {
                Pending::Branch { instruction, at: place } => {
                    *at = place;
                    return Some(instruction);
                }
                Pending::Slot { slot, value } => self.slots[slot] = value,
            }
        }
        None
    }

    /// Drops all branches above a height and undoes their slots.
    fn discard(&mut self, height: usize) {
        while self.pending.len() > height {
            if let Some(Pending::Slot { slot, value }) = self.pending.pop() {
                self.slots[slot] = value;
            }
        }
    }

    /// Drops the branches above a height and keeps the slots. Always holds.
    fn cut(&mut self, height: usize) -> bool {
        let mut kept = height;
        for place in height..self.pending.len() {
            if matches!(self.pending[place], Pending::Slot { .. }) {
                self.pending.swap(kept, place);
                kept += 1;
            }
        }
        self.pending.truncate(kept);
        true
    }

    fn back(&self, characters: usize, at: &mut usize) -> bool {
        for _ in 0..characters {
            let Some((_, length)) = characters::last(&self.text[..*at]) else { return false };
            *at -= length;
        }
        true
    }

    fn reference(&mut self, group: usize, any_case: bool, at: &mut usize) -> Result<bool, StepLimitReached> {
        let (start, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        if end == UNSET || start > end {
            return Ok(false);
        }
        let (wanted, rest) = (&self.text[start..end], &self.text[*at..]);
        let holds = match rest.get(..wanted.len()) {
            Some(found) if any_case => found.eq_ignore_ascii_case(wanted),
            Some(found) => found == wanted,
            None => false,
        };
        *at += if holds { wanted.len() } else { 0 };
        self.count((end - start) / BYTES_PER_STEP)?;
        Ok(holds)
    }

    fn is_at(&self, position: Position, at: usize) -> bool {
        let (before, after) = (&self.text[..at], &self.text[at..]);
        match position {
            Position::TextStart => before.is_empty(),
            Position::TextEnd => after.is_empty(),
            Position::LastLineEnd => matches!(after, [] | [b'\n']),
            Position::LineStart => matches!(before, [] | [.., b'\n']),
            Position::LineEnd => matches!(after, [] | [b'\n', ..]),
            Position::WordBoundary => is_word_boundary(before, after),
            Position::NotWordBoundary => !is_word_boundary(before, after),
        }
    }

    fn groups(&self) -> Groups {
        let bounds = self.slots.chunks_exact(2).take(self.program.groups);
        bounds.map(|bounds| (bounds[1] != UNSET).then(|| bounds[0].min(bounds[1])..bounds[1])).collect()
    }
}

/// What follows an instruction.
enum Next {
    Instruction(usize),
    Fail,
    Match,
}

/// Goes past a character that is accepted.
fn advance(at: &mut usize, rest: &[u8], accept: impl FnOnce(char) -> bool) -> bool {
    match characters::first(rest) {
        Some((c, length)) if accept(c) => {
            *at += length;
            true
        }
        _ => false,
    }
}

fn is_word_boundary(before: &[u8], after: &[u8]) -> bool {
    let is_word = |found: Option<(char, usize)>| found.is_some_and(|(c, _)| c == '_' || c.is_alphanumeric());
    is_word(characters::last(before)) != is_word(characters::first(after))
}
