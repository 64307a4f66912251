//! The result of one check of the pipeline.

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckOutcome {
    /// The rule has no such check.
    Nothing,
    /// The request continues.
    Passes,
    /// The result depends on a step that is not performed here.
    Depends,
    /// The check does not admit the client; with `satisfy: any`, another one may.
    Refuses,
    /// The pipeline ends here with a response.
    Stops,
    /// An earlier check ends the pipeline.
    NotReached,
}

impl CheckOutcome {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Nothing => "-",
            Self::Passes => "passes",
            Self::Depends => "depends",
            Self::Refuses => "refuses",
            Self::Stops => "stops here",
            Self::NotReached => "not reached",
        }
    }
}

/// The result of a check and its explanation.
pub(super) type Check = (CheckOutcome, String);
