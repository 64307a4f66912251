//! The typed directives of one block, and how blocks combine: nginx's rules of inheritance.

use std::sync::Arc;

use sluice_config::directives::{
    AccessRule, FieldChange, FieldOperation, Instruction, LocationMatch, ResponseChange, Scope,
};
use sluice_config::{Directives, Location, LocationBlock, Policies};

use super::limits::LimitDirectives;
use super::request_fields::{OF_GATEWAY, repeat};
use super::settings::SettingOverrides;
use super::substitution::SubstitutionDirectives;

/// The typed directives of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    /// Directives of the rewrite module. An `if` selects the scope of its block: one more than its
    /// position in `conditional`.
    pub(super) program: Vec<Instruction>,
    /// The `if` blocks of a location, in order.
    pub(super) conditional: Vec<Self>,
    /// `proxy_hide_header`
    pub(super) hidden: Vec<Arc<str>>,
    /// `proxy_pass_header`
    pub(super) passed: Vec<Arc<str>>,
    /// `more_set_headers`, `more_clear_headers`
    pub(super) changed: Vec<ResponseChange>,
    /// `expires`
    pub(super) expires: Option<Vec<ResponseChange>>,
    /// `add_header`
    pub(super) added: Vec<ResponseChange>,
    /// `more_set_input_headers`, `more_clear_input_headers`
    pub(super) input: Vec<FieldChange>,
    /// `proxy_set_header`
    pub(super) request: Vec<FieldChange>,
    /// `grpc_set_header`
    pub(super) grpc_request: Vec<FieldChange>,
    /// `allow`, `deny`
    pub(super) access: Vec<AccessRule>,
    /// `sub_filter`
    pub(super) substitution: SubstitutionDirectives,
    /// `limit_req`, `limit_conn`
    pub(super) limits: LimitDirectives,
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

    /// The directives of the rewrite module, without those of its blocks.
    pub(crate) fn program(&self) -> &[Instruction] {
        &self.program
    }

    /// Fields of the authorisation service that variables refer to.
    pub(crate) fn kept(&self) -> &[Arc<str>] {
        &self.kept
    }

    /// Returns the changes of the request: those for the protocol of the endpoints, and those for
    /// the other one whose fields they do not name. nginx has no effect for these, but which
    /// directive fits a protocol is easy to get wrong. A field of the gateway has a value already,
    /// to which they would add another one.
    pub(crate) fn request(&self, passes_grpc: bool) -> Vec<FieldChange> {
        let (own, other) = match passes_grpc {
            false => (&self.request, &self.grpc_request),
            true => (&self.grpc_request, &self.request),
        };
        let adds = |change: &FieldChange| matches!(change.operation, FieldOperation::Append(_));
        let has_value = |change: &&FieldChange| {
            let is_of_gateway = OF_GATEWAY.contains(&&*change.name);
            is_of_gateway && adds(change) || own.iter().any(|named| named.name == change.name)
        };
        own.iter().chain(other.iter().filter(|change| !has_value(change))).cloned().collect()
    }

    /// Sets what the directives of a server set, and the location's do not.
    pub(crate) fn apply_server_settings(&self, policies: &mut Policies) {
        self.settings.apply_server(policies);
    }

    /// Replaces the settings of the policies that the directives name.
    pub(crate) fn apply_settings(&self, passes_grpc: bool, policies: &mut Policies) {
        self.settings.apply(passes_grpc, policies);
    }

    /// Returns the directives of a server without `location` blocks of expressions: those that
    /// nginx has behind the location of the rule, which is an expression, too.
    pub(crate) fn behind_expression(&self) -> Self {
        let mut block = self.clone();
        block.locations.retain(|(matches, _)| !matches!(matches, LocationMatch::Expression(_)));
        block
    }

    /// Appends a text of the same level. A request field that both set is sent twice, as in nginx.
    pub(crate) fn extend(&mut self, other: &Self) {
        let (request, grpc_request) = (self.request.len(), self.grpc_request.len());
        self.append(other);
        repeat(&mut self.request, request);
        repeat(&mut self.grpc_request, grpc_request);
    }

    /// Appends directives of the same level, whose request fields replace those that are set.
    pub(crate) fn append(&mut self, other: &Self) {
        let Self { program, conditional, hidden, changed, added, input, request, access, .. } = other;
        let offset = u16::try_from(self.conditional.len()).unwrap_or(u16::MAX);
        self.program.extend(program.iter().cloned().map(|instruction| shifted(instruction, offset)));
        self.conditional.extend_from_slice(conditional);
        self.hidden.extend_from_slice(hidden);
        self.changed.extend_from_slice(changed);
        self.added.extend_from_slice(added);
        self.input.extend_from_slice(input);
        self.request.extend_from_slice(request);
        self.grpc_request.extend_from_slice(&other.grpc_request);
        self.access.extend_from_slice(access);
        self.default_type = self.default_type.take().or_else(|| other.default_type.clone());
        self.limits.extend(&other.limits);
        self.substitution.extend(&other.substitution);
        self.passed.extend_from_slice(&other.passed);
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

/// Directives that ingress-nginx's template has in a location, so that it inherits none of its
/// server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TemplateDirectives {
    /// `add_header`
    pub(crate) adds_header: bool,
    /// `limit_req`
    pub(crate) limits_rate: bool,
    /// `limit_conn`
    pub(crate) limits_number: bool,
    /// `grpc_pass` in place of `proxy_pass`
    pub(crate) passes_grpc: bool,
    /// `location ~*`
    pub(crate) is_expression: bool,
}

/// Combines the directives of a server and of a location.
pub(crate) fn resolve(server: &Block, location: &Block, template: TemplateDirectives) -> Directives {
    let blocks = server.locations.iter().map(|(matches, block)| LocationBlock {
        matches: matches.clone(),
        location: combined(server, block, TemplateDirectives::default()),
    });
    Directives {
        is_expression: template.is_expression && !server.locations.is_empty(),
        server: combined(&Block::default(), server, TemplateDirectives::default()),
        blocks: blocks.collect(),
        location: combined(server, location, template),
    }
}

/// Sets the policies that the directives of a server and of a location determine.
pub(crate) fn apply(server: &Block, location: &Block, template: TemplateDirectives, policies: &mut Policies) {
    let directives = resolve(server, location, template);
    location.apply_settings(template.passes_grpc, policies);
    server.apply_server_settings(policies);
    policies.directives = (!directives.is_empty()).then(|| Arc::new(directives));
}

fn combined(server: &Block, own: &Block, template: TemplateDirectives) -> Location {
    let outer = match template.adds_header {
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
        request: own.request(template.passes_grpc),
        substitution: own.substitution.combined(&server.substitution),
        limits: own.limits.combined(&server.limits, template.limits_rate, template.limits_number),
        access: if own.access.is_empty() { server.access.clone() } else { own.access.clone() },
    }
}

/// The changes that apply in the last of these levels. `add_header` is inherited only by a level
/// without one; the directives of headers-more add to those of the outer levels. Hidden fields add
/// up too, where nginx would show again what an outer level hides.
fn scope(levels: &[&Block]) -> Scope {
    let all = |of: fn(&Block) -> &Vec<ResponseChange>| levels.iter().flat_map(move |level| of(level).iter());
    let added = levels.iter().rev().find(|level| !level.added.is_empty());
    let expires = levels.iter().rev().find_map(|level| level.expires.as_ref());
    let response = all(|level| &level.changed)
        .chain(expires.into_iter().flatten())
        .chain(added.iter().flat_map(|level| &level.added));
    let passed: Vec<Arc<str>> = levels.iter().flat_map(|level| level.passed.iter().cloned()).collect();
    let hidden = levels.iter().flat_map(|level| level.hidden.iter());
    Scope {
        // Those of headers-more, except of an `if`. nginx adds the fields of `expires` and
        // `add_header` when headers-more is done.
        of_location: levels.iter().take(2).map(|level| level.changed.len()).sum(),
        input: levels.iter().flat_map(|level| level.input.iter().cloned()).collect(),
        hidden: hidden.filter(|name| !passed.contains(name)).cloned().collect(),
        passed,
        response: response.cloned().collect(),
        default_type: levels.iter().rev().find_map(|level| level.default_type.clone()),
    }
}
