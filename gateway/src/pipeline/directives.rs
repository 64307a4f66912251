//! The stages of snippets: the program of the server, the choice of a `location` block, and the
//! program of the location.
//!
//! The programs run before access checks and authentication, as in nginx's rewrite phase. Values of
//! fields are filled in when the program ends, from the block that is then in effect, and again
//! when the annotation `rewrite-target` has changed the path, whose `rewrite` follows the program.

use std::sync::{Arc, LazyLock};

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};

use super::checks::host_of_url;
use super::directive_state::{DirectiveState, LeftLocation, directives};
use super::exchange::{Exchange, Verdict};
use super::stages::{StageInput, Step};
use crate::body::substitution::Substitution;
use crate::message::answer::Answer;
use crate::message::edit::{Edit, EditableName, HeadMut};
use crate::message::request_head::RequestHead;
use crate::policy::assigned::{Assigned, ProgramInput, RewrittenUri};
use crate::policy::directives::{
    ActiveLocation, ChangeLevel, Directives, FieldChanges, FilledValues, Location, ProgramOutcome, Return,
    Scope,
};
use crate::policy::outgoing::Outgoing;
use crate::policy::template::{Template, TemplateContext};
use crate::route::{Route, RouteAction};
use crate::variable::HeadValues;

/// nginx's status for a request that gets no response.
static NO_RESPONSE: LazyLock<StatusCode> =
    LazyLock::new(|| StatusCode::from_u16(444).unwrap_or(StatusCode::FORBIDDEN));

/// Locations that a request may choose anew, as in nginx; a further one answers 500.
const MOST_RELOCATIONS: u8 = 10;

/// The directives in effect, with the values for this request.
struct Effective<'e> {
    location: &'e Location,
    scope: &'e Scope,
    state: Option<&'e DirectiveState>,
}

impl Exchange {
    /// Runs the program of the server and, if a `location` block of the server takes the path,
    /// answers by that block.
    pub(super) fn follow_server(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(directives) = directives(route) else { return Step::Continue(()) };
        let has_left_server = self.directive_state().is_some_and(|state| state.has_left_server);
        if !has_left_server && !directives.server.program.is_empty() {
            self.enter(ActiveLocation::Server);
            self.run_program(directives, route, input)?;
            let state = self.state_of_directives();
            state.has_left_server = true;
            // `break` keeps no location, because none is chosen yet.
            state.relocates = state.assigned.uri.is_some();
            if state.relocates {
                return Step::Continue(());
            }
        }
        match directives.block(self.uri(input).1) {
            None => Step::Continue(()),
            Some(at) => {
                self.enter(ActiveLocation::Block(at));
                let path = self.uri(input).1.to_owned();
                directives.keep_groups_of_block(at, &path, &mut self.state_of_directives().assigned);
                self.run_program(directives, route, input)?;
                if self.relocates() {
                    return Step::Continue(());
                }
                Step::Break(self.answer_of_block(directives.location(ActiveLocation::Block(at)), input))
            }
        }
    }

    /// Runs the program of the rule's location. nginx appends a slash to a path before that.
    pub(super) fn follow_location(&mut self, route: &Route, input: &StageInput<'_>) -> Step {
        let Some(directives) = directives(route) else { return Step::Continue(()) };
        let has_state = self.directive_state().is_some();
        let appends_slash =
            matches!(&route.action, RouteAction::Redirect(redirect) if redirect.appends_slash());
        if appends_slash {
            self.enter_without_program(route, input);
            return Step::Continue(());
        }
        if directives.own.is_fixed() && !has_state {
            return Step::Continue(());
        }
        self.enter(ActiveLocation::Own);
        self.run_program(directives, route, input)
    }

    /// Enters the rule's location and fills in its values, for an answer that nginx gives when it
    /// has chosen the location, before the program.
    pub(super) fn enter_without_program(&mut self, route: &Route, input: &StageInput<'_>) {
        let Some(directives) = directives(route) else { return };
        if self.directive_state().is_some() || !directives.own.is_fixed() {
            self.enter(ActiveLocation::Own);
            self.fill(directives, route, input);
        }
    }

    /// Enters the server and fills in its values, for an answer to a request without a location.
    pub(super) fn enter_server(&mut self, route: &Route, input: &StageInput<'_>) {
        if let Some(directives) = directives(route) {
            self.enter(ActiveLocation::Server);
            self.fill(directives, route, input);
        }
    }

    /// Fills in values again after `rewrite-target` has changed the path, and keeps the groups of
    /// its expression.
    pub(super) fn fill_rewritten(
        &mut self,
        groups: Vec<Vec<u8>>,
        outgoing: &Outgoing,
        route: &Route,
        input: &StageInput<'_>,
    ) {
        let Some(directives) = directives(route).filter(|_| self.directive_state().is_some()) else { return };
        let state = self.state_of_directives();
        state.assigned.keep_groups(groups);
        state.for_endpoint = RewrittenUri::new(outgoing.clone());
        self.fill(directives, route, input);
    }

    /// The target and the normalised path in effect: those of the client, or those of a program.
    pub(super) fn uri<'a>(&'a self, input: &StageInput<'a>) -> (&'a str, &'a str) {
        let sent = ProgramInput { path: input.path, target: input.head.target };
        self.assigned().map_or((sent.target, sent.path), |assigned| assigned.uri(sent))
    }

    /// Whether a location must be chosen for the path that a program has set.
    pub(super) fn relocates(&self) -> bool {
        self.directive_state().is_some_and(|state| state.relocates)
    }

    /// Leaves the location, before another one is chosen. Returns whether nginx permits one more;
    /// otherwise the location stays in effect for the answer.
    pub(super) fn leave_location(&mut self) -> bool {
        let route = self.route.clone();
        let state = self.state_of_directives();
        let is_server = state.active == ActiveLocation::Server;
        state.relocates = false;
        state.relocations += u8::from(!is_server);
        state.has_left_server = true;
        if state.relocations > MOST_RELOCATIONS {
            return false;
        }
        let input = state.input.take();
        (state.request, state.response, state.substitution) = (None, None, None);
        // nginx's server has no such phase.
        if let Some(route) = route.filter(|_| !is_server) {
            let (active, scope) = (state.active, state.assigned.scope);
            let left = LeftLocation { route, active, scope, input };
            state.left.extend(left.changes().is_some_and(|changes| !changes.is_empty()).then_some(left));
        }
        true
    }

    /// Whether a `break` of the location skips the rewriting of the rule, which follows it.
    pub(super) fn skips_rewriting(&self) -> bool {
        self.directive_state().is_some_and(|state| state.is_broken)
    }

    /// Changes the client's fields, before the gateway adds its own.
    pub(super) fn change_client_fields(&self, head: &mut Edit<'_, impl HeadMut>) {
        for (changes, filled) in self.client_field_changes() {
            changes.apply(filled, head);
        }
    }

    /// The changes of the client's fields: those of locations that programs have left, then those
    /// of the scope in effect.
    fn client_field_changes(&self) -> impl Iterator<Item = (&FieldChanges, Option<&FilledValues>)> {
        let effective = self.effective();
        let current = effective.map(|Effective { scope, state, .. }| {
            (&scope.input, state.and_then(|state| state.input.as_ref()))
        });
        let left = self.left_locations().iter();
        left.filter_map(|left| Some((left.changes()?, left.input.as_ref()))).chain(current)
    }

    fn left_locations(&self) -> &[LeftLocation] {
        self.directive_state().map_or(&[], |state| &state.left)
    }

    /// Returns the names of the client's fields that directives change, each followed by the number
    /// of its new values, and these.
    pub(super) fn changed_client_fields(&self, head: &RequestHead<'_>) -> Vec<Vec<u8>> {
        let names: Vec<_> = self.client_field_changes().flat_map(|(changes, _)| changes.names()).collect();
        if names.is_empty() {
            return Vec::new();
        }
        let mut fields: Vec<(HeaderName, HeaderValue)> = head.headers.parsed().collect();
        self.change_client_fields(&mut Edit::new(&mut fields));
        let mut parts = Vec::with_capacity(3 * names.len());
        for name in names {
            let of_name = fields.iter().filter(|(known, _)| known.as_str() == name);
            parts.push(name.as_bytes().to_vec());
            parts.push(of_name.clone().count().to_le_bytes().to_vec());
            parts.extend(of_name.map(|(_, value)| value.as_bytes().to_vec()));
        }
        parts
    }

    /// Returns [`changed_client_fields`](Self::changed_client_fields) if a program has left a
    /// location: endpoints get its changes, so stored responses depend on them. Those of the
    /// location in effect follow from its rule and scope.
    pub(super) fn client_fields_of_left_locations(&self, head: &RequestHead<'_>) -> Vec<Vec<u8>> {
        match self.left_locations() {
            [] => Vec::new(),
            _ => self.changed_client_fields(head),
        }
    }

    /// Whether a location that a program has left gives endpoints an `Authorization` that depends
    /// on the request.
    pub(super) fn left_location_sets_credentials(&self) -> bool {
        let changes = self.left_locations().iter().filter_map(LeftLocation::changes);
        changes.into_iter().any(FieldChanges::sets_credentials)
    }

    /// Changes the fields for the endpoint.
    pub(super) fn change_request_fields(&self, head: &mut Edit<'_, impl HeadMut>) {
        if let Some(Effective { location, state, .. }) = self.effective() {
            location.request.apply(state.and_then(|state| state.request.as_ref()), head);
        }
    }

    /// The scope in effect, whose changes of the request may differ from those of others.
    pub(super) fn scope_of_directives(&self) -> usize {
        self.assigned().map_or(0, |assigned| assigned.scope)
    }

    /// The values of fields for the endpoint that only this client may have.
    pub(super) fn directive_values_of_client(&self) -> impl Iterator<Item = &HeaderValue> {
        let input = self.client_field_changes();
        let request = self.effective().map(|Effective { location, state, .. }| {
            (&location.request, state.and_then(|state| state.request.as_ref()))
        });
        input.chain(request).flat_map(|(changes, filled)| changes.values_of_client(filled))
    }

    /// Removes fields of an endpoint that the directives hide.
    pub(super) fn hide_by_directives(&self, head: &mut Edit<'_, impl HeadMut>) {
        let hidden = self.effective().map(|effective| &effective.scope.hidden[..]);
        for name in hidden.unwrap_or_default() {
            head.remove(name);
        }
    }

    /// Returns the names of trailers of endpoints that clients do not see; `None`: the standard
    /// ones.
    pub(super) fn hidden_trailers(&self) -> Option<Arc<[EditableName]>> {
        let of_settings = &self.compiled_settings().hidden_trailers;
        let scope = self.effective().map(|effective| effective.scope);
        match scope.filter(|scope| !scope.hidden.is_empty() || !scope.passed.is_empty()) {
            None => of_settings.0.clone(),
            Some(scope) => {
                let names = of_settings.names().iter().filter(|name| !scope.passed.contains(name));
                Some(names.chain(&scope.hidden).cloned().collect())
            }
        }
    }

    /// Returns whether clients see a field of endpoints that the global settings hide.
    pub(super) fn passes_field(&self, name: &HeaderName) -> bool {
        self.effective().is_some_and(|effective| effective.scope.passed.iter().any(|one| one.get() == name))
    }

    /// The texts that are replaced in the response of an endpoint.
    pub(super) fn substitution(&self) -> Option<Substitution> {
        let Effective { location, state, .. } = self.effective()?;
        let filled = state.and_then(|state| state.substitution.clone());
        filled.or_else(|| location.substitution.as_ref().map(|texts| texts.fixed().clone()))
    }

    /// Changes the fields of a response with this status.
    pub(super) fn change_response_fields(
        &self,
        level: ChangeLevel,
        status: StatusCode,
        head: &mut Edit<'_, impl HeadMut>,
    ) {
        if let Some(Effective { scope, state, .. }) = self.effective() {
            let filled = state.and_then(|state| state.response.as_ref());
            let is_late = filled.is_some_and(|filled| filled.late().next().is_some());
            match is_late {
                true => self.with_response_context(status, |context| {
                    scope.response.apply(level, status.as_u16(), filled, Some(context), head);
                }),
                false => scope.response.apply(level, status.as_u16(), filled, None, head),
            }
        }
    }

    /// The values of response fields that are known with the response.
    pub(super) fn late_values(&self) -> impl Iterator<Item = &Template> {
        let filled = self.directive_state().and_then(|state| state.response.as_ref());
        filled.into_iter().flat_map(FilledValues::late)
    }

    /// The values that programs have assigned.
    pub(super) fn assigned(&self) -> Option<&Assigned> {
        self.directive_state().map(|state| &state.assigned)
    }

    /// A closed rule has no location in nginx's configuration, so no directives apply to its
    /// answer.
    fn effective(&self) -> Option<Effective<'_>> {
        let route = self.route.as_deref().filter(|route| route.deny.is_none())?;
        let directives = directives(route)?;
        let state = self.directive_state();
        let location = directives.location(state.map(|state| state.active).unwrap_or_default());
        let scope = location.scope(state.map_or(0, |state| state.assigned.scope));
        Some(Effective { location, scope, state })
    }

    fn directive_state(&self) -> Option<&DirectiveState> {
        self.extras.as_ref()?.directives.as_deref()
    }

    fn state_of_directives(&mut self) -> &mut DirectiveState {
        self.extras.get_or_insert_default().directives.get_or_insert_default()
    }

    /// Continues in another location, with the variables that are assigned.
    fn enter(&mut self, active: ActiveLocation) {
        let state = self.state_of_directives();
        state.active = active;
        state.for_endpoint = None;
        state.assigned.scope = 0;
    }

    /// Runs the program of the active location, then fills in the values of its fields.
    fn run_program(&mut self, directives: &Directives, route: &Route, input: &StageInput<'_>) -> Step {
        let mut state = std::mem::take(self.state_of_directives());
        let location = directives.location(state.active);
        let fill = |template: &Template, assigned: &Assigned| {
            template.fill(&self.program_context(assigned, route, input))
        };
        let request = ProgramInput { path: input.path, target: input.head.target };
        let outcome = location.program.run(request, &mut state.assigned, &fill);
        state.relocates = matches!(outcome, ProgramOutcome::Relocate);
        state.is_broken = matches!(outcome, ProgramOutcome::Break) && state.active == ActiveLocation::Own;
        let text = match outcome {
            ProgramOutcome::Return(Return::Text(_, text) | Return::Redirect(_, text)) => {
                fill(text, &state.assigned)
            }
            _ => Vec::new(),
        };
        self.fill_state(&mut state, directives, route, input);
        let default_type = location.scope(state.assigned.scope).default_type.clone();
        *self.state_of_directives() = state;
        match outcome {
            ProgramOutcome::End | ProgramOutcome::Break | ProgramOutcome::Relocate => {
                let uri = self.assigned().and_then(|assigned| assigned.uri.as_ref());
                let outgoing = uri.map(|uri| Box::new(uri.outgoing.clone()));
                if let Some(new) = outgoing.as_ref().filter(|new| self.outgoing.as_ref() != Some(*new)) {
                    self.log_rewrite(route, input.path, new);
                }
                self.outgoing = outgoing.or(self.outgoing.take());
                Step::Continue(())
            }
            ProgramOutcome::Return(answer) => Step::Break(self.returned(answer, text, default_type, input)),
            ProgramOutcome::Redirect(status, location) => {
                Step::Break(self.redirect_to_url(status, location, input))
            }
            ProgramOutcome::Malformed => Step::Break(self.refused(StatusCode::BAD_REQUEST)),
        }
    }

    /// Fills in values again that may refer to the reply of the authorisation service.
    pub(super) fn fill_directives(&mut self, route: &Route, input: &StageInput<'_>) {
        if let (Some(directives), true) = (directives(route), self.directive_state().is_some()) {
            // The client's fields are changed before authentication.
            let client_fields = self.state_of_directives().input.take();
            self.fill(directives, route, input);
            self.state_of_directives().input = client_fields;
        }
    }

    /// Fills in the values of the location in effect.
    fn fill(&mut self, directives: &Directives, route: &Route, input: &StageInput<'_>) {
        let mut state = std::mem::take(self.state_of_directives());
        self.fill_state(&mut state, directives, route, input);
        *self.state_of_directives() = state;
    }

    /// Fills in the values of the fields that the scope in effect changes.
    fn fill_state(
        &self,
        state: &mut DirectiveState,
        directives: &Directives,
        route: &Route,
        input: &StageInput<'_>,
    ) {
        let location = directives.location(state.active);
        let scope = location.scope(state.assigned.scope);
        let context = self.program_context(&state.assigned, route, input);
        let head = with_uri(context.head, state.for_endpoint.as_ref());
        let context = TemplateContext { head, ..context };
        let filled =
            (scope.input.fill(&context), location.request.fill(&context), scope.response.fill(&context));
        (state.input, state.request, state.response) = filled;
        state.substitution = location.substitution.as_ref().and_then(|texts| texts.fill(&context));
    }

    /// The values for templates while a program runs.
    fn program_context<'f>(
        &'f self,
        assigned: &'f Assigned,
        route: &'f Route,
        input: &'f StageInput<'f>,
    ) -> TemplateContext<'f> {
        let context = self.template_context(Some(route), input);
        let head = with_uri(context.head, assigned.uri.as_deref());
        TemplateContext { assigned: Some(assigned), head, ..context }
    }

    /// The answer of a `return`.
    fn returned(
        &self,
        answer: &Return,
        text: Vec<u8>,
        default_type: Option<HeaderValue>,
        input: &StageInput<'_>,
    ) -> Verdict {
        match answer {
            Return::Page(status) => self.refused(*status),
            Return::Close => Verdict::Answer(Answer::silent(*NO_RESPONSE)),
            Return::Text(status, _) => {
                let answer = Answer::text(*status, default_type, text.into());
                Verdict::Answer(self.with_response_headers(answer))
            }
            Return::Redirect(status, _) => match String::from_utf8(text) {
                Ok(url) => self.redirect_to_url(*status, url, input),
                Err(_) => self.refused(StatusCode::BAD_REQUEST),
            },
        }
    }

    /// Whether the directives of the server, or of one of its blocks, are in effect.
    fn is_outside_location(&self) -> bool {
        let state = self.effective().and_then(|effective| effective.state);
        state.is_some_and(|state| state.active != ActiveLocation::Own)
    }

    /// A redirect to a URL, or to a path of the same host.
    pub(super) fn redirect_to_url(&self, status: StatusCode, url: String, input: &StageInput<'_>) -> Verdict {
        match url.starts_with('/') {
            true => {
                let host = host_of_url(input.head.authority);
                let url = match self.is_outside_location() {
                    true => self.absolute_outside_location(&url),
                    false => self.absolute(&url),
                };
                self.redirect_to(status, host, url.unwrap_or_default())
            }
            // A URL needs no host of the request.
            false => self.redirect_to(status, "url", url),
        }
    }

    /// The answer of a block whose program has none: there is no file to serve.
    fn answer_of_block(&self, location: &Location, input: &StageInput<'_>) -> Verdict {
        let is_refused = location.access.admits(self.client.address) == Some(false);
        let reads = [Method::GET, Method::HEAD, Method::POST].contains(input.head.method);
        self.refused(match (is_refused, reads) {
            (true, _) => StatusCode::FORBIDDEN,
            (false, true) => StatusCode::NOT_FOUND,
            (false, false) => StatusCode::METHOD_NOT_ALLOWED,
        })
    }
}

/// The values of a head whose path and query are replaced.
fn with_uri<'f>(head: HeadValues<'f>, uri: Option<&'f RewrittenUri>) -> HeadValues<'f> {
    match uri {
        Some(uri) => HeadValues { path: Some(uri.path.as_bytes()), query: uri.query(), ..head },
        None => head,
    }
}
