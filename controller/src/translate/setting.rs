//! An entry of a settings table.
//!
//! There are two tables, one of annotations and one of ConfigMap keys. Each is a list of families,
//! and each family a list of entries beside the code it serves. Parsing, messages, `sluice check`
//! and the reference documentation are derived from these entries, so nothing is listed twice. An
//! entry has one [`Type`], which describes and parses its values; its setter receives the parsed
//! value.
//!
//! Tables are created at their first use, because closures with captures, such as a type with a
//! range, cannot be constants.

mod annotation_field;
mod annotation_limits;
mod leniency;
mod markdown;
mod table;

use std::sync::Arc;

use sluice_config::{Code, Moment};

use super::template;
use super::value::{Author, Type, Wrong};
use crate::options::Options;
use crate::store::Kind;

pub(crate) use annotation_field::annotation_field;
pub use annotation_limits::AnnotationLimits;
pub use leniency::{Leniency, ReferenceTreatment, Unreadable};
pub use markdown::{accepting, markdown, support};
pub use table::{Family, Finish, Table};

/// A setting that changes `S`.
pub struct Setting<S> {
    /// Name of the annotation (without its prefix) or key.
    pub name: &'static str,
    /// Older names that still apply.
    pub aliases: &'static [&'static str],
    /// The accepted values in words.
    pub words: String,
    /// The kind of the object that it names.
    pub refers: Option<Kind>,
    /// When the variables of its value are evaluated, if it may have any.
    pub moment: Option<Moment>,
    /// What holds when it is absent, as text; empty for nothing.
    pub default: &'static str,
    /// The ConfigMap key it falls back to.
    pub fallback_key: Option<&'static str>,
    /// The scope of a value.
    pub scope: SettingScope,
    /// The routes of a host that it affects.
    pub reach: Reach,
    /// The setting that it requires.
    pub beside: Option<&'static str>,
    /// The flag that it requires, and whether that is set.
    pub flag: Option<FlagCondition>,
    /// Returns whether a value restricts access, if only some do.
    pub restricts: Option<fn(&str) -> bool>,
    /// Whether it applies to canaries.
    pub on_canary: bool,
    /// Whether it applies to the main Ingress.
    pub on_main: bool,
    /// It restricts access, so an unusable value closes what it would have protected.
    pub protects: bool,
    /// For a key, whether it applies to rules only, and not to requests that no rule matches.
    pub is_of_rules_only: bool,
    /// Its risk rating.
    pub risk: Risk,
    /// Its support status.
    pub support: Support,
    /// It has no effect in ingress-nginx either.
    pub is_idle_in_reference: bool,
    /// Some of its values are known and not served.
    pub is_partial: bool,
    /// Values that are not served, and their effect, unless they close the routes.
    pub except: Option<&'static str>,
    /// Alternative to a setting that will never be served.
    pub never: Option<&'static str>,
    /// For a snippet, its effect while it is not translated.
    pub snippet: Option<NotYet>,
    /// Treatment of an unreadable value.
    pub leniency: Leniency,
    /// For a key, the text that an empty value stands for, if it has a meaning.
    pub empty: Option<&'static str>,
    /// For a key, removes what surrounds a value.
    pub trim: fn(&str) -> &str,
    /// For an annotation, an empty value closes the routes, as in ingress-nginx.
    pub closes_if_empty: bool,
    /// Its value is a secret, which no problem repeats.
    pub is_secret: bool,
    /// One line for people.
    pub doc: &'static str,
    /// Meaning of an unusable value, in words and in settings, if the default would be less safe.
    pub fallback: Option<Fallback<S>>,
    apply: Box<Apply<S>>,
    is_same: Box<IsSame>,
    is_readable: Box<IsReadable>,
}

/// A flag, and whether it is set.
pub type FlagCondition = (&'static str, fn(&Options) -> bool);

/// Returns whether a text is readable.
type IsReadable = dyn Fn(&str, &Author<'_>) -> bool + Send + Sync;

/// Returns whether two texts have the same meaning.
type IsSame = dyn Fn(&str, &str) -> bool + Send + Sync;

/// The meaning of an unusable value: in words, and its effect on the settings.
pub type Fallback<S> = (&'static str, fn(&mut S));

/// Parses a text and, if the setting is served, applies it to the settings.
type Apply<S> = dyn Fn(&str, &Author<'_>, &mut S) -> Result<(), Wrong> + Send + Sync;

/// The scope of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SettingScope {
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
    /// All ratings in ascending order, with their names.
    pub const ALL: &'static [(&'static str, Self)] =
        &[("Low", Self::Low), ("Medium", Self::Medium), ("High", Self::High), ("Critical", Self::Critical)];

    /// Returns the name.
    pub fn as_str(self) -> &'static str {
        Self::ALL[self as usize].0
    }
}

/// A setting without another one that it requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingSetting {
    /// The setting without effect.
    pub name: &'static str,
    /// The code of the problem.
    pub code: Code,
    /// The fault.
    pub reason: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

/// The support status of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// Served.
    Served,
    /// Known, not implemented.
    NotYet(NotYet),
    /// Accepted without effect, for this reason.
    NoEffect(&'static str),
}

/// The effect of a known setting that is not implemented (fail closed, never silently).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotYet {
    /// It restricts access: the routes answer 503.
    Protects,
    /// It changes responses: an annotation closes its routes with 503, a key is refused.
    ChangesAnswers,
    /// Responses are the same without it.
    Harmless,
}

/// The routes of a host that a setting affects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The routes of its Ingress.
    Ingress,
    /// In ingress-nginx all routes of the host; here those of the same namespace, so that an
    /// unavailable setting harms its owner only.
    NamespaceOfHost,
    /// All routes of the host.
    Host,
}

impl<S> Setting<S> {
    fn new<T: PartialEq + 'static>(
        name: &'static str,
        value: Type<T>,
        default: &'static str,
        support: Support,
        doc: &'static str,
        set: impl Fn(&mut S, T) + Send + Sync + 'static,
    ) -> Self {
        let value = Arc::new(value);
        let (compared, tried) = (value.clone(), value.clone());
        Self {
            name,
            aliases: &[],
            words: value.words().to_owned(),
            refers: value.refers(),
            is_partial: value.is_partial(),
            moment: value.moment(),
            empty: value.empty(),
            trim: value.trim(),
            closes_if_empty: false,
            except: None,
            never: None,
            snippet: None,
            default,
            is_idle_in_reference: false,
            fallback_key: None,
            scope: SettingScope::Global,
            reach: Reach::Ingress,
            beside: None,
            flag: None,
            restricts: None,
            on_canary: false,
            on_main: true,
            protects: false,
            is_of_rules_only: false,
            risk: Risk::Low,
            support,
            leniency: Leniency::DEFAULT,
            is_secret: false,
            doc,
            fallback: None,
            apply: Box::new(move |text, author, settings| {
                set(settings, value.parse(text, author)?);
                Ok(())
            }),
            is_readable: Box::new(move |text, author| tried.parse(text, author).is_ok()),
            is_same: Box::new(move |a, b| {
                let read = |text| compared.parse(text, &Author::OPERATOR);
                a.eq_ignore_ascii_case(b) || matches!((read(a), read(b)), (Ok(a), Ok(b)) if a == b)
            }),
        }
    }

    /// Creates a setting that is served; `put` applies its value to the settings.
    pub fn served<T: PartialEq + 'static>(
        name: &'static str,
        value: Type<T>,
        default: &'static str,
        doc: &'static str,
        set: impl Fn(&mut S, T) + Send + Sync + 'static,
    ) -> Self {
        Self::new(name, value, default, Support::Served, doc, set)
    }

    /// Creates a setting that is known, but not implemented.
    pub fn not_yet<T: PartialEq + 'static>(
        name: &'static str,
        value: Type<T>,
        default: &'static str,
        meanwhile: NotYet,
        doc: &'static str,
    ) -> Self {
        Self::new(name, value, default, Support::NotYet(meanwhile), doc, |_, _| {})
    }

    /// Creates a setting without effect.
    pub fn no_effect<T: PartialEq + 'static>(
        name: &'static str,
        value: Type<T>,
        default: &'static str,
        reason: &'static str,
        doc: &'static str,
    ) -> Self {
        Self::new(name, value, default, Support::NoEffect(reason), doc, |_, _| {})
    }

    /// Sets the scope to the whole Ingress, and the risk of the annotation.
    pub fn ingress(mut self, risk: Risk) -> Self {
        self.scope = SettingScope::Ingress;
        self.risk = risk;
        self
    }

    /// Sets the scope to each path, and the risk of the annotation.
    pub fn location(mut self, risk: Risk) -> Self {
        self.scope = SettingScope::Location;
        self.risk = risk;
        self
    }

    /// Has no effect in ingress-nginx 1.15 either, whose nginx ignores the directive.
    pub fn idle_in_reference(mut self) -> Self {
        self.is_idle_in_reference = true;
        self
    }

    /// Applies to all routes of the hosts of its Ingress, of any owner.
    pub fn for_whole_host(mut self) -> Self {
        self.reach = Reach::Host;
        self
    }

    /// Applies to all routes of its namespace on the hosts of its Ingress.
    pub fn for_namespace_of_host(mut self) -> Self {
        self.reach = Reach::NamespaceOfHost;
        self
    }

    /// Requires another setting.
    pub fn beside(mut self, main: &'static str) -> Self {
        self.beside = Some(main);
        self
    }

    /// Requires a flag.
    pub fn with_flag(mut self, name: &'static str, is_set: fn(&Options) -> bool) -> Self {
        self.flag = Some((name, is_set));
        self
    }

    /// Restricts access with some of its values.
    pub fn restricting(mut self, restricts: fn(&str) -> bool) -> Self {
        self.restricts = Some(restricts);
        self
    }

    /// Applies to canaries only.
    pub fn on_canary(mut self) -> Self {
        self.on_main = false;
        self.on_canary_too()
    }

    /// Applies to canaries, too.
    pub fn on_canary_too(mut self) -> Self {
        self.on_canary = true;
        self
    }

    /// Has a value that no problem repeats.
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Keeps requests out.
    pub fn protects(mut self) -> Self {
        self.protects = true;
        self
    }

    /// Applies to rules only: ingress-nginx leaves it out of its server for unknown hosts.
    pub fn of_rules_only(mut self) -> Self {
        self.is_of_rules_only = true;
        self
    }

    /// Serves all values except some; `words` describes these and their effect.
    pub fn except(mut self, words: &'static str) -> Self {
        self.is_partial = true;
        self.except = Some(words);
        self
    }

    /// Falls back to a ConfigMap key.
    pub fn falls_back_to(mut self, key: &'static str) -> Self {
        self.fallback_key = Some(key);
        self
    }

    /// Is a snippet, which has this effect while it is not translated.
    pub fn snippet(mut self, meanwhile: NotYet) -> Self {
        self.snippet = Some(meanwhile);
        self
    }

    /// Will never be served; `instead` describes the alternative.
    pub fn never(mut self, instead: &'static str) -> Self {
        self.never = Some(instead);
        self
    }

    /// Adds older names.
    pub fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// Sets the treatment of unreadable values, here and in ingress-nginx, and the reason for a
    /// difference.
    pub fn unreadable(
        mut self,
        here: Unreadable,
        reference: ReferenceTreatment,
        reason: &'static str,
    ) -> Self {
        self.leniency = Leniency { here, reference, reason };
        self
    }

    /// ingress-nginx copies the text into nginx's configuration unchecked.
    pub fn unchecked_by_reference(mut self) -> Self {
        self.leniency.reference = ReferenceTreatment::RefuseAll;
        self
    }

    /// ingress-nginx does not have it.
    pub fn absent_in_reference(mut self) -> Self {
        self.leniency.reference = ReferenceTreatment::Absent;
        self
    }

    /// Closes the routes if it is empty, as in ingress-nginx. Other annotations count as absent
    /// then.
    pub fn closed_if_empty(mut self) -> Self {
        self.closes_if_empty = true;
        self
    }

    /// Sets the meaning of an unusable value, in place of the default.
    pub fn fallback(mut self, words: &'static str, put: fn(&mut S)) -> Self {
        self.fallback = Some((words, put));
        self
    }

    /// Parses a text and, if the setting is served, applies it to the settings.
    ///
    /// # Errors
    /// The text is unusable; the settings are unchanged.
    pub fn apply(&self, text: &str, author: &Author<'_>, settings: &mut S) -> Result<(), Wrong> {
        (self.apply)(text, author, settings)
    }

    /// The variables of a value that have no value when it is evaluated, in words.
    pub fn without_value(&self, text: &str) -> Option<String> {
        // A text of the rule has `$host` too, if the host is no wildcard, and refuses other
        // variables.
        template::without_value(text, self.moment.filter(|moment| *moment > Moment::Rule)?)
    }

    /// The entries of a list that can be read, joined, and those that cannot.
    pub fn readable_entries<'t>(&self, text: &'t str, author: &Author<'_>) -> (String, Vec<&'t str>) {
        let entries = text.split(|c: char| c == ',' || c.is_whitespace()).filter(|entry| !entry.is_empty());
        let (good, bad): (Vec<_>, Vec<_>) = entries.partition(|entry| (self.is_readable)(entry, author));
        (good.join(","), bad)
    }

    /// Returns the effect of this value while the setting is not implemented or translated.
    pub fn meanwhile(&self, text: &str) -> Option<NotYet> {
        let meanwhile = match self.support {
            Support::NotYet(meanwhile) => meanwhile,
            Support::Served => self.snippet?,
            Support::NoEffect(_) => return None,
        };
        Some(match meanwhile {
            NotYet::ChangesAnswers if self.restricts.is_some_and(|is| is(text)) => NotYet::Protects,
            NotYet::Protects if self.restricts.is_some_and(|is| !is(text)) => NotYet::Harmless,
            meanwhile => meanwhile,
        })
    }

    /// Returns the text that the value of a key stands for; `None` if the key counts as absent.
    pub fn text_of_key<'t>(&self, value: &'t str) -> Option<&'t str> {
        match (self.trim)(value) {
            "" if value.is_empty() => self.empty,
            // A list with one entry, which is empty and unreadable, in ingress-nginx.
            "" if self.protects => Some(value),
            // ingress-nginx reads no boolean in it, and no entry of a list.
            "" => self.empty.map(|_| ""),
            text => Some(text),
        }
    }

    /// Returns its name and older names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<S> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Returns whether this value has no effect.
    pub fn is_idle(&self, text: &str) -> bool {
        (self.is_same)(text, self.default)
    }

    /// Returns whether it restricts access, now or once it is served.
    pub fn is_protection(&self) -> bool {
        self.protects || self.support == Support::NotYet(NotYet::Protects)
    }

    /// Returns whether responses are the same without it.
    pub fn is_harmless(&self) -> bool {
        matches!(self.support, Support::NotYet(NotYet::Harmless) | Support::NoEffect(_))
    }
}

#[cfg(test)]
mod tests;
