//! Treatment of unreadable values, here and in ingress-nginx.
//!
//! Leniency follows ingress-nginx: a value that it ignores is ignored here, with a warning. An
//! Ingress is rejected, or its routes are closed, only if serving it would disable a protection
//! that its owner requested, or send requests somewhere else.

/// Sluice's treatment of an unreadable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is ignored with a problem, and the default applies.
    Default,
    /// Unreadable entries of the list are skipped with a problem; the others apply.
    SkipEntries,
    /// The routes of the Ingress answer 503; for a ConfigMap key, all routes.
    Close,
    /// The Ingress is rejected: its routes answer 404.
    Reject,
}

/// ingress-nginx's treatment of an unreadable value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferenceTreatment {
    /// It logs a warning, or nothing, and uses the default.
    Default,
    /// It uses the same value as Sluice, in place of the default.
    Fallback,
    /// It skips the unreadable entries of the list.
    SkipEntries,
    /// It answers 503 on the paths of the Ingress.
    Close,
    /// It rejects the Ingress: its previous version stays served, and a new Ingress is not served.
    Reject,
    /// It ignores the check or redirect that the setting belongs to, as a whole.
    Drop,
    /// It copies the text into nginx's configuration, which nginx then rejects as a whole: a
    /// running process keeps its configuration, and a new process has none.
    RefuseAll,
    /// It has no such setting.
    Absent,
}

/// Both treatments, and the reason for a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leniency {
    /// Sluice's treatment.
    pub here: Unreadable,
    /// ingress-nginx's treatment.
    pub reference: ReferenceTreatment,
    /// Reason for a difference; empty without one, and if ingress-nginx rejects its whole
    /// configuration.
    pub reason: &'static str,
}

impl Leniency {
    /// The default applies in both.
    pub(super) const DEFAULT: Self =
        Self { here: Unreadable::Default, reference: ReferenceTreatment::Default, reason: "" };

    /// Returns whether both are the same.
    pub fn is_same(&self) -> bool {
        match self.reference {
            ReferenceTreatment::Default | ReferenceTreatment::Fallback => self.here == Unreadable::Default,
            ReferenceTreatment::SkipEntries => self.here == Unreadable::SkipEntries,
            ReferenceTreatment::Close => self.here == Unreadable::Close,
            ReferenceTreatment::Reject => self.here == Unreadable::Reject,
            ReferenceTreatment::Drop | ReferenceTreatment::RefuseAll | ReferenceTreatment::Absent => false,
        }
    }
}

impl ReferenceTreatment {
    /// Returns the treatment in words, for the documentation.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Default => "the default",
            Self::Fallback => "the same",
            Self::SkipEntries => "skips the entry",
            Self::Close => "503",
            Self::Reject => "rejects the Ingress",
            Self::Drop => "ignores all of its family",
            Self::RefuseAll => "refuses its whole configuration",
            Self::Absent => "does not have it",
        }
    }
}
