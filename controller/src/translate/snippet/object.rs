//! The snippets of one object.

use std::sync::Arc;

use super::block::Block;

/// Name of the snippet of the locations.
pub(crate) const CONFIGURATION: &str = "configuration-snippet";
/// Name of the snippet of the servers.
pub(crate) const SERVER: &str = "server-snippet";
/// Name of the snippet of the authorisation request.
pub(crate) const AUTHORISATION: &str = "auth-snippet";

/// The typed directives of the snippets of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectSnippets {
    /// `configuration-snippet`
    pub(crate) location: Option<Arc<Block>>,
    /// `server-snippet`
    pub(crate) server: Option<Arc<Block>>,
    /// `auth-snippet`
    pub(crate) authorisation: Option<Arc<Block>>,
    /// Annotations of Sluice's own for the same purposes.
    pub(crate) annotations: Block,
}

impl ObjectSnippets {
    /// The translations, each with the name of its setting.
    pub(crate) fn translations(&self) -> impl Iterator<Item = (&'static str, &Block)> {
        let all =
            [(CONFIGURATION, &self.location), (SERVER, &self.server), (AUTHORISATION, &self.authorisation)];
        all.into_iter().filter_map(|(name, block)| Some((name, &**block.as_ref()?)))
    }
}
