//! The typed directives of one block, and how blocks combine: nginx's rules of inheritance.

use std::sync::Arc;

use sluice_config::directives::{AccessRule, FieldChange, Instruction, LocationMatch, ResponseChange, Scope};
use sluice_config::{Directives, Location, LocationBlock, Policies};

use super::settings::SettingOverrides;

/// The typed directives of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    /// Directives of the rewrite module. An `if` selects the scope of its block: one more than its position in
    /// `conditional`.
    pub(super) program: Vec<Instruction>,
    /// The `if` blocks of a location, in order.
    pub(super) conditional: Vec<Self>,
    /// `proxy_hide_header`
    pub(super) hidden: Vec<Arc<str>>,
    /// `more_set_headers`, `more_clear_headers`
    pub(super) changed: Vec<ResponseChange>,
    /// `expires`
    pub(super) expires: Option<Vec<ResponseChange>>,
    /// `add_header`
    pub(super) added: Vec<ResponseChange>,
    /// `more_set_input_headers`, `more_clear_input_headers`
    pub(super) input: Vec<FieldChange>,
    /// `proxy_set_header`, `grpc_set_header`
    pub(super) request: Vec<FieldChange>,
    /// `allow`, `deny`
    pub(super) access: Vec<AccessRule>,
    /// `default_type`
    pub(super) default_type: Option<Arc<str>>,
    /// Fields of the authorisation service that variables refer to.
    pub(super) kept: Vec<Arc<str>>,
    /// Settings that have an annotation of the same meaning.
    pub(super) settings: SettingOverrides,
    /// `location` blocks of a server.
    pub(super) locations: Vec<(LocationMatch, Self)>,
    /// The translation, one line per directive.
    pub(super) lines: Vec<String>,
}

impl Block {
    /// The translation, one line per directive.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Fields of the authorisation service that variables refer to.
    pub(crate) fn kept(&self) -> &[Arc<str>] {
        &self.kept
    }

    /// Changes of the request.
    pub(crate) fn request(&self) -> &[FieldChange] {
        &self.request
    }

    /// Replaces the settings of the policies that the directives name.
    pub(crate) fn apply_settings(&self, policies: &mut Policies) {
        self.settings.apply(policies);
    }

    /// Appends a text of the same level.
    pub(crate) fn extend(&mut self, other: &Self) {
        let Self { program, conditional, hidden, changed, added, input, request, access, .. } = other;
        let offset = u16::try_from(self.conditional.len()).unwrap_or(u16::MAX);
        self.program.extend(program.iter().cloned().map(|instruction| shifted(instruction, offset)));
        self.conditional.extend_from_slice(conditional);
        self.hidden.extend_from_slice(hidden);
        self.changed.extend_from_slice(changed);
        self.added.extend_from_slice(added);
        self.input.extend_from_slice(input);
        self.request.extend_from_slice(request);
        self.access.extend_from_slice(access);
        self.default_type = self.default_type.take().or_else(|| other.default_type.clone());
        self.settings.extend(&other.settings);
        self.expires = self.expires.take().or_else(|| other.expires.clone());
        self.kept.extend_from_slice(&other.kept);
        self.locations.extend_from_slice(&other.locations);
        self.lines.extend_from_slice(&other.lines);
    }
}

/// An instruction whose scopes come behind `offset` others.
fn shifted(instruction: Instruction, offset: u16) -> Instruction {
    match instruction {
        Instruction::If { condition, scope, then } => {
            Instruction::If { condition, scope: scope.map(|scope| scope.saturating_add(offset)), then }
        }
        other => other,
    }
}

/// Combines the directives of a server and of a location. `has_own_added` is whether the location has an `add_header`
/// of the gateway's own, so that it inherits none.
pub(crate) fn resolve(server: &Block, location: &Block, has_own_added: bool) -> Directives {
    let blocks = server.locations.iter().map(|(matches, block)| LocationBlock {
        matches: matches.clone(),
        location: combined(server, block, false),
    });
    Directives {
        server: combined(&Block::default(), server, false),
        blocks: blocks.collect(),
        location: combined(server, location, has_own_added),
    }
}

fn combined(server: &Block, own: &Block, has_own_added: bool) -> Location {
    let outer = match has_own_added {
        true => Block { added: Vec::new(), ..server.clone() },
        false => server.clone(),
    };
    let levels = [&outer, own];
    let scopes = std::iter::once(scope(&levels))
        .chain(own.conditional.iter().map(|block| scope(&[levels[0], levels[1], block])));
    let mut scopes: Vec<Scope> = scopes.collect();
    if scopes.iter().all(|scope| *scope == Scope::default()) {
        scopes.clear();
    }
    Location {
        program: own.program.clone(),
        scopes,
        // Each location sets request fields of its own, so it inherits none.
        request: own.request.clone(),
        access: if own.access.is_empty() { server.access.clone() } else { own.access.clone() },
    }
}

/// The changes that apply in the last of these levels. `add_header` is inherited only by a level without one; the
/// directives of headers-more add to those of the outer levels. Hidden fields add up too, where nginx would show again
/// what an outer level hides.
fn scope(levels: &[&Block]) -> Scope {
    let all = |of: fn(&Block) -> &Vec<ResponseChange>| levels.iter().flat_map(move |level| of(level).iter());
    let added = levels.iter().rev().find(|level| !level.added.is_empty());
    let expires = levels.iter().rev().find_map(|level| level.expires.as_ref());
    let response = all(|level| &level.changed)
        .chain(expires.into_iter().flatten())
        .chain(added.iter().flat_map(|level| &level.added));
    Scope {
        input: levels.iter().flat_map(|level| level.input.iter().cloned()).collect(),
        hidden: levels.iter().flat_map(|level| level.hidden.iter().cloned()).collect(),
        response: response.cloned().collect(),
        default_type: levels.iter().rev().find_map(|level| level.default_type.clone()),
    }
}
