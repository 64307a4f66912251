//! Variables of `map` and `geo` while they are declared: their names, order and cost.

use std::sync::Arc;

use sluice_config::variable::is_reserved;
use sluice_config::{ComputedVariable, Moment, Template, TemplatePiece, ValueTable, Variable};

use super::fault::Fault;
use super::limits;
use super::program::variable_name;
use super::variables::Declared;
use crate::translate::declarations::HttpDeclarations;
use crate::translate::template;

/// Expressions that the tables may have together.
const MOST_EXPRESSIONS: usize = 200;

/// Tables that one variable may read, itself included: a variable that names another one twice
/// reads that one twice.
const MOST_LOOKUPS: usize = 32;

/// The variables that are declared so far.
#[derive(Default)]
pub(super) struct ComputedBuilder {
    declared: Declared,
    variables: Vec<ComputedVariable>,
    /// The number of tables that each one reads.
    lookups: Vec<usize>,
    expressions: usize,
}

impl ComputedBuilder {
    /// The names that a source or a value may have.
    pub(super) fn declared(&self) -> &Declared {
        &self.declared
    }

    /// Reads the name of a new variable.
    ///
    /// # Errors
    /// It is not a name, or known.
    pub(super) fn name(&self, text: &str) -> Result<Arc<str>, Fault> {
        let name = variable_name(text)?;
        if is_reserved(&name) {
            return Err(format!("{text} is a variable of the gateway; give yours another name").into());
        }
        if template::computed(&name, &self.declared.http).is_some() {
            return Err(format!("{text} is declared twice").into());
        }
        Ok(name)
    }

    /// Reads a text whose value is looked up, or a value.
    ///
    /// # Errors
    /// A variable that does not exist, or is declared later.
    pub(super) fn template(&self, text: &str) -> Result<Template, Fault> {
        Ok(self.declared.template(text, Moment::End).map_err(|reason| {
            format!("{reason}; a map or geo may refer to variables of the gateway and to those above it")
        })?)
    }

    /// Adds a variable. `values` are those of its table.
    ///
    /// # Errors
    /// A bound is exceeded, or a value is not known with its source.
    pub(super) fn add<'v>(
        &mut self,
        variable: ComputedVariable,
        values: impl Iterator<Item = &'v Template> + Clone,
    ) -> Result<(), Fault> {
        if let ValueTable::Texts(table) = &variable.table {
            self.expressions += table.expressions.len();
        }
        if self.expressions > MOST_EXPRESSIONS {
            return Err(format!("there are more than {MOST_EXPRESSIONS} expressions").into());
        }
        let dearest = values.clone().map(|value| self.lookups_of(value)).max().unwrap_or_default();
        let lookups = 1 + self.lookups_of(&variable.source) + dearest;
        if lookups > MOST_LOOKUPS {
            return Err(format!("a value reads more than {MOST_LOOKUPS} tables").into());
        }
        let known = values.clone().map(known).fold(known(&variable.source), Moment::max);
        if known == Moment::End || known == Moment::Never {
            return Err("it has a variable that is known only when the request ends, or never".into());
        }
        if known > Moment::Authentication && values.clone().any(has_variables) {
            return Err("its text is known with the response, so its values cannot have variables".into());
        }
        self.declared.http.variables.push((variable.name.clone(), known));
        self.lookups.push(lookups);
        self.variables.push(variable);
        Ok(())
    }

    /// Reads `limit_req_zone` or `limit_conn_zone`. Returns the translation in words.
    pub(super) fn zone(&mut self, name: &str, arguments: &[String]) -> Result<String, Fault> {
        let zone = limits::zone(name, arguments, &self.declared)?;
        let words = format!("{} counts requests by {}", zone.name, arguments.join(" "));
        self.declared.http.zones.push(zone);
        Ok(words)
    }

    /// The variables, and the names that are declared.
    pub(super) fn finish(self) -> (Arc<[ComputedVariable]>, HttpDeclarations) {
        (self.variables.into(), self.declared.http)
    }

    /// The tables that a text reads.
    fn lookups_of(&self, template: &Template) -> usize {
        let of_piece = |piece: &TemplatePiece| match piece {
            TemplatePiece::Variable(Variable::Computed { name, .. }) => {
                let at = self.variables.iter().position(|known| known.name == *name);
                at.and_then(|at| self.lookups.get(at)).copied().unwrap_or_default()
            }
            _ => 0,
        };
        template.pieces.iter().map(of_piece).sum()
    }
}

/// When the value of a text is known.
fn known(template: &Template) -> Moment {
    let of_piece = |piece: &TemplatePiece| match piece {
        TemplatePiece::Text(_) => Moment::Rule,
        TemplatePiece::Variable(variable) => variable.known(),
    };
    template.pieces.iter().map(of_piece).max().unwrap_or(Moment::Rule)
}

fn has_variables(template: &Template) -> bool {
    template.pieces.iter().any(|piece| matches!(piece, TemplatePiece::Variable(_)))
}
