//! What is done with a value that cannot be read, here and in ingress-nginx.
//!
//! Leniency follows ingress-nginx: what it reads leniently is read leniently here, with a warning.
//! An Ingress is rejected, or its routes closed, only where serving it would disable a protection
//! that its owner asked for, or send requests somewhere else.

/// What Sluice does with a value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// It is ignored with a problem, and the default applies.
    Default,
    /// The entries of the list that cannot be read are skipped with a problem, and the others
    /// apply.
    SkipEntries,
    /// The routes of the Ingress answer 503; for a ConfigMap key, all routes.
    Close,
    /// The Ingress is rejected: its routes answer 404.
    Reject,
}

/// What ingress-nginx does with a value that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// It logs a warning, or nothing, and uses the default.
    Default,
    /// It skips the entries of the list that it cannot read.
    SkipEntries,
    /// It answers 503 on the paths of the Ingress.
    Close,
    /// It does not take the Ingress over: what was served before stays, and a new Ingress is not
    /// served.
    Reject,
    /// It ignores the check or redirect that the setting belongs to, as a whole.
    Drop,
    /// It copies the text into nginx's configuration, which nginx then refuses as a whole: the
    /// process goes on with the configuration that it has, and a new process has none.
    RefuseAll,
    /// It has no such setting.
    Absent,
}

/// Both, and why they differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leniency {
    /// What Sluice does.
    pub here: Unreadable,
    /// What ingress-nginx does.
    pub reference: Reference,
    /// Why that is not the same; empty where it is, and where ingress-nginx refuses its whole
    /// configuration.
    pub reason: &'static str,
}

impl Leniency {
    /// The default applies in both.
    pub(super) const DEFAULT: Self =
        Self { here: Unreadable::Default, reference: Reference::Default, reason: "" };

    /// Whether both do the same.
    pub fn is_same(&self) -> bool {
        match self.reference {
            Reference::Default => self.here == Unreadable::Default,
            Reference::SkipEntries => self.here == Unreadable::SkipEntries,
            Reference::Close => self.here == Unreadable::Close,
            Reference::Reject => self.here == Unreadable::Reject,
            Reference::Drop | Reference::RefuseAll | Reference::Absent => false,
        }
    }
}

impl Reference {
    /// In words, for the documentation.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Default => "the default",
            Self::SkipEntries => "skips the entry",
            Self::Close => "503",
            Self::Reject => "rejects the Ingress",
            Self::Drop => "ignores all of its family",
            Self::RefuseAll => "refuses its whole configuration",
            Self::Absent => "does not have it",
        }
    }
}
