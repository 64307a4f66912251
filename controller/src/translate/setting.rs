//! One entry of a settings table.
//!
//! There are two tables, one of annotations and one of ConfigMap keys. Each is the concatenation of families,
//! each family a list of entries beside the code it serves. Parsing, messages, `sluice check` and the
//! reference documentation all come from these entries: what is not in a table does not exist, and nothing is
//! listed twice.

use super::value::Value;
use crate::store::Kind;

/// A setting that changes `S` when it is given.
pub struct Setting<S: 'static> {
    /// Name of the annotation (without its prefix) or key.
    pub name: &'static str,
    /// Older names that are still honoured.
    pub aliases: &'static [&'static str],
    /// What it accepts.
    pub value: Value,
    /// What holds when it is absent, as text; empty for nothing.
    pub default: &'static str,
    /// Further values, beside the default, that ask for nothing.
    pub idle: &'static [&'static str],
    /// The ConfigMap key it falls back to.
    pub fallback: Option<&'static str>,
    /// What one value is for.
    pub scope: Scope,
    /// Whether it holds for all routes of a host as soon as one Ingress has it.
    pub whole_host: bool,
    /// The kind of the object that it names. Its setter gets `namespace/name`, and only where the Ingress may name it.
    pub refers: Option<Kind>,
    /// It keeps requests out, so that a value that cannot be used closes what it would have protected.
    pub protects: bool,
    /// How much it lets its author do.
    pub risk: Risk,
    /// What Sluice makes of it.
    pub support: Support<S>,
    /// What an invalid value does.
    pub on_invalid: OnInvalid,
    /// One line for people.
    pub doc: &'static str,
}

/// What one value of a setting is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole Ingress or host.
    Ingress,
    /// Each path.
    Location,
    /// The whole program.
    Global,
}

/// ingress-nginx's rating of an annotation, compared with `annotations-risk-level`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Risk {
    /// Harmless.
    Low,
    /// May surprise.
    Medium,
    /// May reach beyond the Ingress.
    High,
    /// Runs its author's text.
    Critical,
}

impl Risk {
    /// All, in rising order, as they are spelled.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Low, "Low"), (Self::Medium, "Medium"), (Self::High, "High"), (Self::Critical, "Critical")];

    /// As it is spelled.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Parses a text into a type and puts it into the settings.
pub type Apply<S> = fn(&str, &mut S) -> Result<(), Fault>;

/// Why a text could not be applied.
#[derive(Debug)]
pub enum Fault {
    /// It is none of the values there are; completes "the value ...".
    Invalid(String),
    /// It is a value that is known and not implemented yet.
    NotYet,
}

/// What settings lack that mean something together only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The one that cannot be carried out.
    pub annotation: &'static str,
    /// What is wrong with it.
    pub reason: &'static str,
    /// How to fix it.
    pub remedy: &'static str,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Invalid(reason)
    }
}

/// What Sluice makes of a setting.
pub enum Support<S: 'static> {
    /// Served: how the text changes the settings.
    Served(Apply<S>),
    /// Known, not implemented yet.
    NotYet(NotYet),
    /// Accepted, never with an effect, and why.
    NoEffect(&'static str),
}

/// What a known setting that is not implemented yet does meanwhile (fail closed, never silently).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// It keeps requests out: the routes answer 503 rather than stand open.
    Protects,
    /// It changes what is answered: an annotation closes its routes with 503, a key is refused.
    ChangesAnswers,
    /// Requests are answered alike without it.
    Harmless,
}

/// What an invalid value does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnInvalid {
    /// The Ingress is rejected, and all its routes answer 404. With `--enable-annotation-validation=false` they
    /// answer 503.
    Reject,
    /// The default is used.
    Default,
}

impl<S> Setting<S> {
    const fn new(
        name: &'static str,
        value: Value,
        default: &'static str,
        support: Support<S>,
        doc: &'static str,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            value,
            default,
            idle: &[],
            fallback: None,
            scope: Scope::Global,
            whole_host: false,
            refers: None,
            protects: false,
            risk: Risk::Low,
            support,
            on_invalid: OnInvalid::Reject,
            doc,
        }
    }

    /// A setting that is served by `apply`.
    pub const fn served(
        name: &'static str,
        value: Value,
        default: &'static str,
        doc: &'static str,
        apply: Apply<S>,
    ) -> Self {
        Self::new(name, value, default, Support::Served(apply), doc)
    }

    /// A setting that is known, but not implemented yet.
    pub const fn not_yet(
        name: &'static str,
        value: Value,
        default: &'static str,
        meanwhile: NotYet,
        doc: &'static str,
    ) -> Self {
        Self::new(name, value, default, Support::NotYet(meanwhile), doc)
    }

    /// A setting that never has an effect.
    pub const fn no_effect(
        name: &'static str,
        value: Value,
        default: &'static str,
        reason: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::new(name, value, default, Support::NoEffect(reason), doc)
    }

    /// Annotation for the whole Ingress, of this risk.
    pub const fn ingress(mut self, risk: Risk) -> Self {
        self.scope = Scope::Ingress;
        self.risk = risk;
        self
    }

    /// Annotation for each path, of this risk.
    pub const fn location(mut self, risk: Risk) -> Self {
        self.scope = Scope::Location;
        self.risk = risk;
        self
    }

    /// Holds for all routes of the hosts of its Ingress, whoever they belong to.
    pub const fn for_whole_host(mut self) -> Self {
        self.whole_host = true;
        self
    }

    /// Keeps requests out.
    pub const fn protects(mut self) -> Self {
        self.protects = true;
        self
    }

    /// Names an object of this kind.
    pub const fn refers_to(mut self, kind: Kind) -> Self {
        self.refers = Some(kind);
        self
    }

    /// Falls back to this ConfigMap key.
    pub const fn falls_back_to(mut self, key: &'static str) -> Self {
        self.fallback = Some(key);
        self
    }

    /// Has older names.
    pub const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// These values ask for nothing either.
    pub const fn idle_at(mut self, values: &'static [&'static str]) -> Self {
        self.idle = values;
        self
    }

    /// An invalid value means the default.
    pub const fn invalid_means_default(mut self) -> Self {
        self.on_invalid = OnInvalid::Default;
        self
    }

    /// Its name and its older names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<S> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Whether this value asks for nothing but what holds without it.
    pub fn is_idle(&self, text: &str) -> bool {
        self.value.same(text, self.default) || self.idle.iter().any(|idle| self.value.same(text, idle))
    }
}

/// All entries of a table, family by family.
pub fn entries<S>(families: &'static [&'static [Setting<S>]]) -> impl Iterator<Item = &'static Setting<S>> {
    families.iter().flat_map(|family| family.iter())
}

/// A table as Markdown, for the reference documentation.
pub fn markdown<S>(families: &'static [&'static [Setting<S>]]) -> String {
    let mut text = String::from("| name | type | default | scope | risk | support | meaning |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    for entry in entries(families) {
        let support = match &entry.support {
            Support::Served(_) if entry.on_invalid == OnInvalid::Default => {
                "served; an invalid value is ignored".to_owned()
            }
            Support::Served(_) => "served".to_owned(),
            Support::NotYet(NotYet::Harmless) => "not yet; ignored with a warning".to_owned(),
            Support::NotYet(NotYet::Protects) if entry.whole_host => {
                "not yet; all routes of its hosts answer 503".to_owned()
            }
            Support::NotYet(NotYet::Protects) => "not yet; routes answer 503".to_owned(),
            Support::NotYet(NotYet::ChangesAnswers) if entry.scope == Scope::Global => {
                "not yet; refused".to_owned()
            }
            Support::NotYet(NotYet::ChangesAnswers) => "not yet; routes answer 503".to_owned(),
            Support::NoEffect(reason) => format!("no effect: {reason}"),
        };
        let scope = match entry.scope {
            Scope::Ingress => "Ingress",
            Scope::Location => "path",
            Scope::Global => "all",
        };
        let default = match (entry.fallback, entry.default) {
            (Some(key), "") => format!("ConfigMap `{key}`"),
            (Some(key), default) => format!("ConfigMap `{key}` (`{default}`)"),
            (None, "") => String::new(),
            (None, default) => format!("`{default}`"),
        };
        let names: Vec<String> = entry.names().map(|name| format!("`{name}`")).collect();
        let row = [
            names.join(", "),
            match entry.refers {
                Some(kind) => format!("{} of a {}", entry.value.describe(), kind.as_str()),
                None => entry.value.describe(),
            },
            default,
            scope.to_owned(),
            entry.risk.as_str().to_owned(),
            support,
            entry.doc.to_owned(),
        ];
        let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// The known name nearest to `name`, if one is near enough to be a slip of the pen.
pub fn nearest<S>(families: &'static [&'static [Setting<S>]], name: &str) -> Option<&'static str> {
    entries(families)
        .flat_map(Setting::names)
        .map(|known| (distance(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= name.len().max(6) / 3)
        .map(|(_, known)| known)
}

/// Levenshtein's distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests;
