//! Directives of snippets, compiled: programs of nginx's rewrite module, changes of heads, and
//! `location` blocks.
//!
//! A snippet of plain header fields compiles to a list of edits with ready values, as annotations
//! do; only programs and values with variables cost a request more.

mod access;
mod fields;
mod program;
mod selection;
mod substitution;

use http::HeaderValue;
use sluice_config::Match;

use super::assigned::Assigned;
use super::error::PolicyError;
use super::limits::{Limiter, ZoneLimits};
use super::template::Template;
use crate::message::edit::EditableName;

pub use access::AccessList;
pub use fields::{ChangeLevel, FieldChanges, FilledValues, ResponseChanges};
pub use program::{DirectiveProgram, ProgramOutcome, Return};
use selection::{BlockSelector, RouteRank};
pub use substitution::SubstitutedTexts;

/// The directives of one rule.
#[derive(Debug)]
pub struct Directives {
    /// The server.
    pub server: Location,
    /// The location of the rule.
    pub own: Location,
    blocks: Box<[Location]>,
    selector: BlockSelector,
    rank: RouteRank,
}

/// The directives of one location.
#[derive(Debug)]
pub struct Location {
    /// Its program.
    pub program: DirectiveProgram,
    /// Changes of heads; the first scope is that of the location.
    scopes: Box<[Scope]>,
    /// Changes of the request for the endpoint.
    pub request: FieldChanges,
    /// `allow` and `deny`.
    pub access: AccessList,
    /// `limit_req` and `limit_conn`.
    pub limits: Option<ZoneLimits>,
    /// `sub_filter`
    pub substitution: Option<SubstitutedTexts>,
}

/// Changes of heads in a location or an `if` block.
#[derive(Debug, Default)]
pub struct Scope {
    /// Changes of the client's fields.
    pub input: FieldChanges,
    /// Fields of endpoints that clients do not see.
    pub hidden: Box<[EditableName]>,
    /// Fields of endpoints that the global settings hide, and clients see.
    pub passed: Box<[EditableName]>,
    /// Changes of the response.
    pub response: ResponseChanges,
    /// Content type of texts that `return` answers with.
    pub default_type: Option<HeaderValue>,
}

/// The location whose directives apply to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActiveLocation {
    /// The server, before a location is chosen.
    Server,
    /// That of the rule.
    #[default]
    Own,
    /// A block of the server.
    Block(usize),
}

impl Directives {
    /// Compiles the directives of a rule with this match.
    ///
    /// # Errors
    /// A field, status or expression cannot be used.
    pub fn compile(
        directives: &sluice_config::Directives,
        matches: &Match,
        limiter: &Limiter,
    ) -> Result<Self, PolicyError> {
        let sluice_config::Directives { server, blocks, location, is_expression } = directives;
        Ok(Self {
            server: Location::compile(server, limiter)?,
            own: Location::compile(location, limiter)?,
            selector: BlockSelector::compile(blocks)?,
            blocks: blocks
                .iter()
                .map(|block| Location::compile(&block.location, limiter))
                .collect::<Result<_, _>>()?,
            rank: match is_expression {
                true => RouteRank::Expression,
                false => RouteRank::of(&matches.path),
            },
        })
    }

    /// The location that `active` names.
    pub fn location(&self, active: ActiveLocation) -> &Location {
        match active {
            ActiveLocation::Server => &self.server,
            ActiveLocation::Own => &self.own,
            ActiveLocation::Block(at) => self.blocks.get(at).unwrap_or(&self.own),
        }
    }

    /// The block that takes a path in place of the rule, if one does.
    pub fn block(&self, path: &str) -> Option<usize> {
        self.selector.select(path, self.rank)
    }

    /// Keeps the groups of the expression of a block that takes `path`, as nginx does when it
    /// chooses the block.
    pub fn keep_groups_of_block(&self, at: usize, path: &str, assigned: &mut Assigned) {
        self.selector.keep_groups(at, path, assigned);
    }
}

impl Location {
    fn compile(location: &sluice_config::Location, limiter: &Limiter) -> Result<Self, PolicyError> {
        let sluice_config::Location { program, scopes, request, access, limits, substitution } = location;
        Ok(Self {
            program: DirectiveProgram::compile(program)?,
            scopes: match scopes.is_empty() {
                true => Box::new([Scope::default()]),
                false => scopes.iter().map(Scope::compile).collect::<Result<_, _>>()?,
            },
            request: FieldChanges::compile(request)?,
            access: AccessList::compile(access),
            limits: ZoneLimits::compile(limits, limiter)?,
            substitution: substitution.as_ref().map(SubstitutedTexts::compile).transpose()?,
        })
    }

    /// The scope at a position.
    pub fn scope(&self, at: usize) -> &Scope {
        self.scopes.get(at).unwrap_or(&self.scopes[0])
    }

    /// Whether endpoints may get an `Authorization` that depends on the request.
    pub fn sets_credentials(&self) -> bool {
        self.request.sets_credentials() || self.scopes.iter().any(|scope| scope.input.sets_credentials())
    }

    /// Whether nothing depends on the request: there is no program, and no value has variables.
    pub fn is_fixed(&self) -> bool {
        self.program.is_empty()
            && !self.request.has_variables()
            && !self.scopes[0].has_variables()
            && !self.substitution.as_ref().is_some_and(SubstitutedTexts::has_variables)
    }
}

impl Scope {
    fn compile(scope: &sluice_config::directives::Scope) -> Result<Self, PolicyError> {
        let sluice_config::directives::Scope { input, hidden, passed, response, of_location, default_type } =
            scope;
        let names = |names: &[std::sync::Arc<str>]| {
            names.iter().map(|name| super::header_set::name(name)).collect::<Result<_, _>>()
        };
        let content_type = |text: &std::sync::Arc<str>| {
            HeaderValue::from_str(text).map_err(|_| PolicyError::HeaderValue("Content-Type".to_owned()))
        };
        Ok(Self {
            input: FieldChanges::compile(input)?,
            hidden: names(hidden)?,
            passed: names(passed)?,
            response: ResponseChanges::compile(response, *of_location)?,
            default_type: default_type.as_ref().map(content_type).transpose()?,
        })
    }

    /// Whether a value depends on the request.
    fn has_variables(&self) -> bool {
        self.input.has_variables() || self.response.has_variables()
    }
}

/// Compiles a template that may be a fixed value.
fn value(
    template: &sluice_config::Template,
    name: &str,
) -> Result<Result<HeaderValue, Template>, PolicyError> {
    let template = Template::compile(template)?;
    match template.is_plain() {
        true => HeaderValue::from_bytes(&template.text())
            .map(Ok)
            .map_err(|_| PolicyError::HeaderValue(name.to_owned())),
        false => Ok(Err(template)),
    }
}
