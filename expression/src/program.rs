//! The instructions of a compiled expression.

use crate::characters::CharacterSet;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) instructions: Vec<Instruction>,
    /// Number of slots: two per group, then the registers of instructions.
    pub(crate) slots: usize,
    /// Number of groups, including the whole match.
    pub(crate) groups: usize,
    pub(crate) starts: Starts,
}

/// The positions of a text at which a match can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Starts {
    /// Every character.
    All,
    /// The beginning of the text: the expression begins with `^`.
    Text,
    /// The beginning of each line: the expression begins with `.*`, which would also match from a
    /// later character only if it matched from the first. PCRE has the same rule.
    Lines,
}

/// One instruction. Each takes a bounded time per step that it counts.
#[derive(Debug)]
pub(crate) enum Instruction {
    /// One character of a set.
    Character(CharacterSet),
    /// These bytes.
    Literal(Box<[u8]>),
    /// Any character.
    Any,
    /// Any character except a line feed.
    AnyInLine,
    /// A condition on the position.
    Assert(Position),
    /// Tries `first`; `second` if it fails.
    Split {
        first: usize,
        second: usize,
    },
    Jump(usize),
    /// Stores the position in a slot.
    Save(usize),
    /// Continues at the position of a slot.
    Restore(usize),
    /// Goes back by a number of characters.
    Back(usize),
    /// Stores the height of the stack in a slot.
    Fence(usize),
    /// Drops all alternatives above the height of a slot.
    Cut(usize),
    /// Fails together with all alternatives above the height of a slot.
    Refuse(usize),
    /// Jumps to `body` unless the position is still that of the slot `since`.
    Repeat {
        body: usize,
        since: usize,
    },
    /// The text of a group.
    Reference {
        group: usize,
        any_case: bool,
    },
    /// Jumps if a group took no part so far.
    UnlessGroup {
        group: usize,
        otherwise: usize,
    },
    Fail,
    Match,
}

/// A condition on the position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    TextStart,
    TextEnd,
    /// The end of the text, or before a line feed that ends it.
    LastLineEnd,
    LineStart,
    LineEnd,
    WordBoundary,
    NotWordBoundary,
}
