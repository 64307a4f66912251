//! Texts with variables in snippets: those of nginx, those that the snippet sets, and groups of its
//! expressions. A group with a name is a variable, which a match sets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use sluice_config::variable::is_reserved;
use sluice_config::{Moment, Template, Variable};

use super::fault::Fault;
use crate::translate::declarations::{HttpDeclarations, SnippetVariables};
use crate::translate::expression::Expression;
use crate::translate::template;

/// The names that a text declares, and those of `http-snippet`.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    /// Variables that `set` assigns, in lower case.
    pub(super) assigned: BTreeSet<Arc<str>>,
    /// Variables that the location and its server both assign, in lower case.
    pub(super) twice_assigned: BTreeSet<Arc<str>>,
    /// Variables of `auth_request_set`, in lower case, with the fields that they stand for.
    pub(super) authorised: BTreeMap<Arc<str>, Arc<str>>,
    /// The highest number of a group.
    pub(super) groups: usize,
    /// Names of groups, in lower case.
    pub(super) names: BTreeSet<Arc<str>>,
    /// Names that `http-snippet` declares.
    pub(super) http: HttpDeclarations,
}

impl Declared {
    /// Adds the variables that the other snippets of the object assign. A subrequest of nginx runs
    /// the program of the server again, so a variable of both has no value of one moment.
    pub(super) fn share(&mut self, variables: &SnippetVariables) {
        let SnippetVariables { location, server } = variables;
        self.twice_assigned = location.intersection(server).cloned().collect();
        self.assigned = location.symmetric_difference(server).cloned().collect();
    }

    /// Adds the groups of an expression that is searched when the program runs.
    pub(super) fn add_groups(&mut self, expression: &Expression) {
        self.groups = self.groups.max(expression.groups - 1);
        self.names.extend(expression.names.keys().map(|name| name.to_ascii_lowercase().into()));
    }

    /// Checks that a snippet may assign a variable of this name.
    ///
    /// # Errors
    /// It is a variable of the gateway, or of `map` or `geo`.
    pub(super) fn check_assignable(&self, name: &str) -> Result<(), Fault> {
        if is_reserved(name) {
            return Err(format!("${name} is a variable of the gateway; give yours another name").into());
        }
        match template::computed(name, &self.http) {
            Some(_) => Err(format!("${name} is a variable of map or geo; give yours another name").into()),
            None => Ok(()),
        }
    }

    /// The variable of this name, if there is one.
    fn variable(&self, name: &str) -> Option<Variable> {
        let lower: Arc<str> = name.to_ascii_lowercase().into();
        if self.assigned.contains(&lower) || self.names.contains(&lower) {
            return Some(Variable::Assigned(lower));
        }
        if let Some(field) = self.authorised.get(&lower) {
            return Some(Variable::Authorised(field.clone()));
        }
        let is_group = name.parse::<usize>().is_ok_and(|number| (1..=self.groups.min(9)).contains(&number));
        if is_group {
            return Some(Variable::Group(name.into()));
        }
        template::computed(name, &self.http).or_else(|| Variable::named(name))
    }

    /// Parses a text that is evaluated at this moment.
    ///
    /// # Errors
    /// A variable that does not exist, or has no value at that moment.
    pub(super) fn template(&self, text: &str, moment: Moment) -> Result<Template, String> {
        template::parse_with(text, |name| self.known(name, moment))
    }

    /// The variable of this name in a text that is evaluated at this moment.
    ///
    /// # Errors
    /// It does not exist, or has no value at that moment.
    pub(super) fn known(&self, name: &str, moment: Moment) -> Result<Variable, String> {
        match self.variable(name) {
            // A variable that `auth_request_set` declares is empty before the reply.
            Some(variable @ Variable::Authorised(_)) => Ok(variable),
            Some(variable) if variable.known() <= moment => Ok(variable),
            Some(variable) => Err(template::missing_value(name, moment).unwrap_or_else(|| {
                format!("${name} has no value yet: it is known {}", variable.known().as_str())
            })),
            None if self.twice_assigned.contains(&*name.to_ascii_lowercase()) => Err(format!(
                "configuration-snippet and server-snippet both assign ${name}, and nginx runs server-snippet again for \
                 the authorisation request; use two variables"
            )),
            None if name.parse::<usize>().is_ok() => {
                Err(format!("no expression of the snippet has a group ${name}"))
            }
            None => Err(format!(
                "the variable ${name} is neither served nor set in the snippet, and no map or geo declares it"
            )),
        }
    }
}
