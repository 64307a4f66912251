//! Variables that an `auth-snippet` shares with the other snippets of its object.

use std::sync::Arc;

use sluice_config::directives::{FieldChange, FieldOperation, Instruction};
use sluice_config::{TemplatePiece, Variable};

use super::block::Block;
use super::{grammar, program};
use crate::translate::declarations::{NO_DECLARATIONS, SnippetVariables};

/// The variables that the texts of `configuration-snippet` and `server-snippet` assign. A malformed
/// text, which closes the routes, assigns none.
pub(crate) fn assigned_variables(location: &str, server: &str) -> SnippetVariables {
    let assigned = |text| {
        let directives = grammar::parse(text).unwrap_or_default();
        program::declared(&directives, &NO_DECLARATIONS).assigned
    };
    SnippetVariables { location: assigned(location), server: assigned(server) }
}

impl Block {
    /// The changes of the request. Variables that the program of `location` assigns are empty.
    pub(crate) fn request_without_variables_of(&self, location: Option<&Self>) -> Vec<FieldChange> {
        let program = location.map_or(&[][..], |location| &location.program[..]);
        let is_kept = |piece: &TemplatePiece| match piece {
            TemplatePiece::Variable(Variable::Assigned(name)) => !assigns(program, name),
            _ => true,
        };
        let mut changes = self.request(false);
        for FieldChange { operation, .. } in &mut changes {
            if let FieldOperation::Set(value) | FieldOperation::Append(value) = operation {
                value.pieces.retain(is_kept);
            }
        }
        changes
    }
}

/// Whether a program assigns the variable.
fn assigns(program: &[Instruction], name: &Arc<str>) -> bool {
    program.iter().any(|instruction| match instruction {
        Instruction::Set { variable, .. } => variable == name,
        Instruction::If { then, .. } => assigns(then, name),
        _ => false,
    })
}
