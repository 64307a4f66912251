//! The reference documentation of a table: its support status, then each family.

use std::fmt::Write;

use sluice_config::Moment;

use super::{NotYet, Reach, ReferenceTreatment, Setting, SettingScope, Support, Table, Unreadable};

/// The support level of a setting. Served settings come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SupportLevel {
    Full,
    Partial,
    Ignored,
    Refused,
    NoEffect,
    NoEffectEither,
}

impl SupportLevel {
    const ALL: [Self; 6] =
        [Self::Full, Self::NoEffectEither, Self::Partial, Self::Ignored, Self::Refused, Self::NoEffect];

    fn of<S>(entry: &Setting<S>) -> Self {
        match entry.support {
            Support::Served if entry.is_partial => Self::Partial,
            Support::Served => Self::Full,
            Support::NotYet(NotYet::Harmless) => Self::Ignored,
            Support::NotYet(NotYet::Protects | NotYet::ChangesAnswers) => Self::Refused,
            Support::NoEffect(_) if entry.is_idle_in_reference => Self::NoEffectEither,
            Support::NoEffect(_) => Self::NoEffect,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Partial => "partial",
            Self::Ignored => "ignored",
            Self::Refused => "refused",
            Self::NoEffect => "no effect",
            Self::NoEffectEither => "as in ingress-nginx",
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Full => "served, with all values",
            Self::Partial => "served, except for some values that are refused or ignored",
            Self::Ignored => "not served; ignored with a warning, because responses are the same without it",
            Self::Refused => "not served; an annotation closes its routes, a key is refused with a problem",
            Self::NoEffectEither => "accepted with a warning; nginx ignores it, too",
            Self::NoEffect => "accepted with a warning; there is nothing to change in Sluice",
        }
    }
}

/// Returns a table as Markdown: counts, then the settings of each family, served ones first.
pub fn markdown<S>(table: &Table<S>) -> String {
    let mut text = counts(table);
    for (title, entries) in table.families() {
        line(&mut text, format_args!("\n## {title}\n"));
        text.push_str("| name | type | default | unreadable value | scope | risk | support | meaning |\n");
        text.push_str("|---|---|---|---|---|---|---|---|\n");
        let mut entries: Vec<_> = entries.iter().collect();
        entries.sort_by_key(|entry| SupportLevel::of(entry));
        for entry in entries {
            row(&mut text, entry);
        }
    }
    text
}

/// Returns the support status of a table, and what is not served, with links to its documentation.
pub fn support<S>(table: &Table<S>, file: &str) -> String {
    let mut text = counts(table);
    for level in &SupportLevel::ALL[1..] {
        let entries = table.entries().filter(|entry| SupportLevel::of(entry) == *level);
        let links: Vec<String> =
            entries.map(|entry| format!("[{name}]({file}#{name})", name = entry.name)).collect();
        if !links.is_empty() {
            line(&mut text, format_args!("\n{}: {}", upper_first(level.name()), links.join(", ")));
        }
    }
    text
}

/// The settings whose values may have variables that are known at this moment, with links into
/// their documentation.
pub fn accepting<S>(table: &Table<S>, moment: Moment, file: &str) -> String {
    let entries =
        table.entries().filter(|entry| entry.moment == Some(moment) && entry.support == Support::Served);
    let links = entries.map(|entry| format!("[{name}]({file}#{name})", name = entry.name));
    links.collect::<Vec<_>>().join(", ")
}

fn counts<S>(table: &Table<S>) -> String {
    let mut text = String::from("| support | number | meaning |\n|---|---|---|\n");
    for level in SupportLevel::ALL {
        let count = table.entries().filter(|entry| SupportLevel::of(entry) == level).count();
        line(&mut text, format_args!("| {} | {count} | {} |", level.name(), level.meaning()));
    }
    line(&mut text, format_args!("| all | {} | |", table.entries().count()));
    text
}

fn row<S>(text: &mut String, entry: &Setting<S>) {
    let support = match entry.support {
        Support::Served if entry.is_partial => {
            format!("in part: {}", entry.except.unwrap_or("other values close the routes with 503"))
        }
        Support::Served => "served".to_owned(),
        Support::NotYet(NotYet::Protects | NotYet::ChangesAnswers) if entry.never.is_some() => {
            "never; routes answer 503".to_owned()
        }
        Support::NotYet(NotYet::Harmless) => "not yet; ignored with a warning".to_owned(),
        Support::NotYet(NotYet::Protects) if entry.reach == Reach::Host => {
            "not yet; all routes of its hosts answer 503".to_owned()
        }
        Support::NotYet(NotYet::Protects) => "not yet; routes answer 503".to_owned(),
        Support::NotYet(NotYet::ChangesAnswers) if entry.scope == SettingScope::Global => {
            "not yet; refused".to_owned()
        }
        Support::NotYet(NotYet::ChangesAnswers) => "not yet; routes answer 503".to_owned(),
        Support::NoEffect(reason) => format!("no effect: {reason}"),
    };
    let scope = match entry.scope {
        SettingScope::Ingress => "Ingress",
        SettingScope::Location => "path",
        SettingScope::Global => "all",
    };
    let default = match (entry.fallback_key, entry.default) {
        (Some(key), "") => format!("ConfigMap `{key}`"),
        (Some(key), default) => format!("ConfigMap `{key}` (`{default}`)"),
        (None, "") => String::new(),
        (None, default) => format!("`{default}`"),
    };
    let names: Vec<String> = entry.names().map(|name| format!("<a id=\"{name}\"></a>`{name}`")).collect();
    let row = [
        names.join(", "),
        match entry.refers {
            Some(kind) => format!("{} of a {}", entry.words, kind.as_str()),
            None => entry.words.to_string(),
        },
        default,
        unreadable(entry),
        scope.to_owned(),
        entry.risk.as_str().to_owned(),
        support,
        entry.doc.to_owned(),
    ];
    let cells: Vec<String> = row.iter().map(|cell| cell.replace('|', "\\|")).collect();
    line(text, format_args!("| {} |", cells.join(" | ")));
}

/// Returns the treatment of unreadable values; with a difference, also that of ingress-nginx and
/// the reason.
fn unreadable<S>(entry: &Setting<S>) -> String {
    let here = match (entry.leniency.here, entry.fallback) {
        _ if entry.is_harmless() => "ignored",
        (Unreadable::Default, Some((words, _))) => words,
        (Unreadable::Default, None) => "the default",
        (Unreadable::SkipEntries, _) => "skips the entry",
        (Unreadable::Close, _) if entry.scope == SettingScope::Global => "503 for all routes",
        (Unreadable::Close, _) => "503",
        (Unreadable::Reject, _) => "rejects the Ingress",
    };
    let reference = entry.leniency.reference;
    let is_ignored = entry.is_harmless() && reference == ReferenceTreatment::Default;
    let falls_back_alone = entry.fallback.is_some() && reference != ReferenceTreatment::Fallback;
    let mut text = match entry.leniency.is_same() && !falls_back_alone && !entry.is_harmless() {
        true => here.to_owned(),
        false if is_ignored => here.to_owned(),
        false if reference == ReferenceTreatment::Absent => {
            format!("{here} (ingress-nginx does not have it)")
        }
        false => format!("ingress-nginx: {}; Sluice: {here}", reference.words()),
    };
    if !entry.leniency.reason.is_empty() {
        text.push_str(&format!(", because {}", entry.leniency.reason));
    }
    if entry.closes_if_empty {
        text.push_str(", also if it is empty");
    }
    if let Some(main) = entry.beside.filter(|_| !entry.is_harmless()) {
        text.push_str(&format!("; ignored without {main}"));
    }
    text
}

fn upper_first(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes any text");
}
