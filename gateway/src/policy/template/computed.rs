//! Variables that are looked up in a table when they are used (`map` and `geo` of nginx).
//!
//! A table refers only to variables before it, so an evaluation ends. The control plane bounds the
//! number of lookups that one variable causes.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use super::{Template, TemplateContext};
use crate::policy::assigned::Assigned;
use crate::policy::error::PolicyError;
use crate::policy::expression::Expression;

/// The computed variables, by name.
#[derive(Debug, Default)]
pub struct ComputedVariables(HashMap<Arc<str>, ComputedVariable>);

#[derive(Debug)]
struct ComputedVariable {
    source: Template,
    table: ValueTable,
}

#[derive(Debug)]
enum ValueTable {
    Texts(TextTable),
    Addresses(AddressTable),
}

#[derive(Debug)]
struct TextTable {
    removes_final_dot: bool,
    exact: TextMap,
    suffixes: TextMap,
    prefixes: TextMap,
    expressions: Box<[(Expression, Template)]>,
    default: Template,
}

/// Values by text in lower case.
type TextMap = HashMap<Box<[u8]>, Template>;

#[derive(Debug)]
struct AddressTable {
    ranges: Box<[(IpAddr, IpAddr, Arc<str>)]>,
    default: Arc<str>,
}

impl ComputedVariables {
    /// Compiles the variables.
    ///
    /// # Errors
    /// An expression or the name of a field cannot be used.
    pub fn compile(variables: &[sluice_config::ComputedVariable]) -> Result<Self, PolicyError> {
        let one = |variable: &sluice_config::ComputedVariable| {
            let sluice_config::ComputedVariable { name, source, table } = variable;
            let table = match table {
                sluice_config::ValueTable::Texts(table) => ValueTable::Texts(TextTable::compile(table)?),
                sluice_config::ValueTable::Addresses(table) => {
                    ValueTable::Addresses(AddressTable::compile(table))
                }
            };
            Ok((name.clone(), ComputedVariable { source: Template::compile(source)?, table }))
        };
        variables.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Appends the value of a variable for a request.
    pub fn write(&self, name: &str, context: &TemplateContext<'_>, out: &mut Vec<u8>) {
        if let Some(ComputedVariable { source, table }) = self.0.get(name) {
            let text = source.fill(context);
            table.with_value(&text, |value, groups| {
                let context = TemplateContext { assigned: groups, ..*context };
                out.extend_from_slice(&value.fill(&context));
            });
        }
    }

    /// The text that a variable looks up.
    pub fn source(&self, name: &str) -> Option<&Template> {
        self.0.get(name).map(|variable| &variable.source)
    }

    /// Appends the value of a variable that looks up `text`, which is known with the response. Its
    /// values have no variables.
    pub fn write_of_response(&self, name: &str, text: &[u8], out: &mut Vec<u8>) {
        if let Some(variable) = self.0.get(name) {
            variable.table.with_value(text, |value, _| out.extend_from_slice(&value.text()));
        }
    }
}

/// A value of a table: a template, or text of an address table.
enum FoundValue<'t> {
    Template(&'t Template),
    Text(&'t str),
}

impl FoundValue<'_> {
    fn fill(&self, context: &TemplateContext<'_>) -> Vec<u8> {
        match self {
            Self::Template(template) => template.fill(context),
            Self::Text(text) => text.as_bytes().to_vec(),
        }
    }

    fn text(&self) -> Vec<u8> {
        match self {
            Self::Template(template) => template.text(),
            Self::Text(text) => text.as_bytes().to_vec(),
        }
    }
}

impl ValueTable {
    /// Calls `use_it` with the value of a text and the groups of its expression.
    fn with_value(&self, text: &[u8], use_it: impl FnOnce(FoundValue<'_>, Option<&Assigned>)) {
        match self {
            Self::Texts(table) => {
                let mut groups = Assigned::default();
                use_it(FoundValue::Template(table.find(text, &mut groups)), Some(&groups));
            }
            Self::Addresses(table) => use_it(FoundValue::Text(table.find(text)), None),
        }
    }
}

impl TextTable {
    fn compile(table: &sluice_config::TextTable) -> Result<Self, PolicyError> {
        let sluice_config::TextTable { removes_final_dot, exact, suffixes, prefixes, expressions, default } =
            table;
        let texts = |texts: &[(Arc<str>, sluice_config::Template)]| -> Result<TextMap, PolicyError> {
            let one = |(text, value): &(Arc<str>, _)| {
                Ok((text.to_ascii_lowercase().into_bytes().into(), Template::compile(value)?))
            };
            texts.iter().map(one).collect()
        };
        Ok(Self {
            removes_final_dot: *removes_final_dot,
            exact: texts(exact)?,
            suffixes: texts(suffixes)?,
            prefixes: texts(prefixes)?,
            expressions: expressions
                .iter()
                .map(|(expression, value)| Ok((Expression::compile(expression)?, Template::compile(value)?)))
                .collect::<Result<_, PolicyError>>()?,
            default: Template::compile(default)?,
        })
    }

    fn find(&self, text: &[u8], groups: &mut Assigned) -> &Template {
        let text = match text {
            [rest @ .., b'.'] if self.removes_final_dot => rest,
            text => text,
        };
        if let Some(value) = self.find_text(&text.to_ascii_lowercase()) {
            return value;
        }
        let mut expressions = self.expressions.iter().filter(|_| !text.is_empty());
        let found = expressions.find(|(expression, _)| expression.search(text, groups));
        found.map_or(&self.default, |(_, value)| value)
    }

    fn find_text(&self, lower: &[u8]) -> Option<&Template> {
        if let Some(value) = self.exact.get(lower) {
            return Some(value);
        }
        if self.suffixes.is_empty() && self.prefixes.is_empty() {
            return None;
        }
        let dots = || lower.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
        let suffix = dots().filter(|at| *at > 0).find_map(|at| self.suffixes.get(&lower[at..]));
        let longest_first = || dots().filter(|at| at + 1 < lower.len()).collect::<Vec<_>>().into_iter().rev();
        suffix.or_else(|| longest_first().find_map(|at| self.prefixes.get(&lower[..=at])))
    }
}

impl AddressTable {
    fn compile(table: &sluice_config::AddressTable) -> Self {
        let sluice_config::AddressTable { ranges, default } = table;
        let ranges = ranges.iter().map(|range| (range.first, range.last, range.value.clone()));
        Self { ranges: ranges.collect(), default: default.clone() }
    }

    /// The value of an address. As in nginx, a text that is none counts as 255.255.255.255.
    fn find(&self, text: &[u8]) -> &str {
        let address = str::from_utf8(text).ok().and_then(|text| text.parse::<IpAddr>().ok());
        let address = address.map_or(IpAddr::from([255; 4]), |address| address.to_canonical());
        let found =
            self.ranges.binary_search_by(|(first, last, _)| match (address < *first, address > *last) {
                (true, _) => Ordering::Greater,
                (_, true) => Ordering::Less,
                _ => Ordering::Equal,
            });
        found.ok().and_then(|at| self.ranges.get(at)).map_or(&self.default, |(.., value)| value)
    }
}

#[cfg(test)]
mod tests;
