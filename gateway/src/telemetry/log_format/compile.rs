//! Compilation of a format: separates the values of the request head, which must be saved, from the
//! other values and the text.

use std::mem;

use sluice_config::Variable;

use super::{Before, LogFormat, Piece, Value};
use crate::variable::CompiledVariable;

/// Pieces collected since the last value that is not a header field.
#[derive(Default)]
struct PendingPieces {
    pieces: Vec<Piece>,
    /// Literal text after the pieces.
    text: Vec<u8>,
}

impl LogFormat {
    /// Compiles a format.
    pub fn compile(format: &sluice_config::LogFormat) -> Self {
        let (mut runs, mut steps, mut before) = (Vec::new(), Vec::new(), PendingPieces::default());
        for piece in &*format.pieces {
            match piece {
                sluice_config::TemplatePiece::Text(text) => before.push_text(text.as_bytes()),
                sluice_config::TemplatePiece::Variable(variable) => match CompiledVariable::compile(variable)
                {
                    Ok(CompiledVariable::Head(value)) => before.push(Piece::Value(value)),
                    Ok(CompiledVariable::Computed(name, _)) => before.push(Piece::Computed(name)),
                    Ok(CompiledVariable::Constant(text)) => before.push_text(&text),
                    Ok(compiled) => steps.push((before.take(&mut runs), Value::of(compiled))),
                    // Translation passes on valid names only.
                    Err(_) => steps.push((before.take(&mut runs), Value::Record(Variable::Unserved))),
                },
            }
        }
        before.push_text(b"\n");
        let end = before.take(&mut runs);
        let of_response = |(_, value): &(_, Value)| matches!(value, Value::Upstream(_) | Value::Sent(_));
        Self {
            needs_response: steps.iter().any(of_response),
            needs_body: steps.iter().any(|(_, value)| matches!(value, Value::Body)),
            runs: runs.into(),
            steps: steps.into(),
            end,
            escape: format.escape,
        }
    }
}

impl PendingPieces {
    fn push_text(&mut self, text: &[u8]) {
        self.text.extend_from_slice(text);
    }

    fn push(&mut self, piece: Piece) {
        self.end_text();
        self.pieces.push(piece);
    }

    fn end_text(&mut self) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(mem::take(&mut self.text).into()));
        }
    }

    /// Ends the pending pieces. If they contain values of the head, adds them to `runs`.
    fn take(&mut self, runs: &mut Vec<Box<[Piece]>>) -> Before {
        if self.pieces.is_empty() {
            return Before::Text(mem::take(&mut self.text).into());
        }
        self.end_text();
        runs.push(mem::take(&mut self.pieces).into());
        Before::Head
    }
}

impl Value {
    /// The value of a variable that is neither constant nor from the head of the request.
    fn of(compiled: CompiledVariable) -> Self {
        match compiled {
            CompiledVariable::Upstream(name) => Self::Upstream(name),
            CompiledVariable::Sent(name) => Self::Sent(name),
            CompiledVariable::Body => Self::Body,
            CompiledVariable::Record(variable) => Self::Record(variable),
            // Formats have no variables of snippets.
            _ => Self::Record(Variable::Unserved),
        }
    }
}
