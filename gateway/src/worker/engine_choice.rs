//! Which engine carries requests to endpoints.

/// The operator's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// The direct engine.
    #[default]
    Direct,
    /// `HttpProxy` for everything.
    Proxy,
}
