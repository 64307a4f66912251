//! The contexts in which directives stand: which directives nginx permits there.

/// The block of nginx's configuration that a text is pasted into, or a block inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
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
pub(super) struct Context {
    pub(super) place: Place,
    /// Whether it stands in an `if` block.
    pub(super) in_if: bool,
}

impl Context {
    /// The name of the context, for messages.
    pub(super) fn name(self) -> &'static str {
        match (self.place, self.in_if) {
            (Place::Location, false) => "a location",
            (Place::Server, false) => "a server",
            (Place::Block, false) => "a location block of a server snippet",
            (Place::Authorisation, _) => "the location of the authorisation request",
            (Place::Server, true) => "an if block of a server",
            (Place::Location | Place::Block, true) => "an if block of a location",
        }
    }

    /// Whether the context is an `if` block of a server, which permits the rewrite module only.
    pub(super) fn is_server_if(self) -> bool {
        self.in_if && self.place == Place::Server
    }
}
