//! The contexts in which directives stand: which directives nginx permits there.

use super::fault::Fault;

/// The block of nginx's configuration that a text is pasted into, or a block inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SnippetContext {
    /// A location that forwards to the Service of a path.
    Location,
    /// A server.
    Server,
    /// A `location` block of a server snippet.
    Block,
    /// The location that asks the authorisation service.
    Authorisation,
}

/// Where a directive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectiveContext {
    pub(super) place: SnippetContext,
    /// Whether it stands in an `if` block.
    pub(super) in_if: bool,
}

impl DirectiveContext {
    /// The fault of a directive that nginx does not permit in this context.
    pub(super) fn not_permitted(self) -> Fault {
        format!("nginx does not permit it in {}", self.name()).into()
    }

    /// The fault of a directive that nginx permits in this context, and Sluice does not translate.
    pub(super) fn not_translated(self) -> Fault {
        format!("it is not translated in {}", self.name()).into()
    }

    /// Checks that a directive acts on requests to endpoints here: a `location` block sends none.
    /// `effect` completes the message about a block.
    pub(super) fn must_forward(self, effect: &str) -> Result<(), Fault> {
        match self.place {
            _ if self.in_if => Err(self.not_permitted()),
            SnippetContext::Block => Err(format!("a location block answers itself, so that {effect}").into()),
            SnippetContext::Location | SnippetContext::Server | SnippetContext::Authorisation => Ok(()),
        }
    }

    /// The name of the context, for messages.
    fn name(self) -> &'static str {
        match (self.place, self.in_if) {
            (SnippetContext::Location, false) => "a location",
            (SnippetContext::Server, false) => "a server",
            (SnippetContext::Block, false) => "a location block of a server snippet",
            (SnippetContext::Authorisation, _) => "the location of the authorisation request",
            (SnippetContext::Server, true) => "an if block of a server",
            (SnippetContext::Location | SnippetContext::Block, true) => "an if block of a location",
        }
    }

    /// Whether the context is an `if` block of a server, which permits the rewrite module only.
    pub(super) fn is_server_if(self) -> bool {
        self.in_if && self.place == SnippetContext::Server
    }
}
