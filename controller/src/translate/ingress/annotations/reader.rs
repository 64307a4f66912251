//! Reads the annotations of an Ingress and decides its treatment.

mod canary;
mod closures;
mod empty;
mod treatment;
mod warnings;

use sluice_config::{Code, ObjectRef};

use super::{Annotation, Settings, TABLE};
use crate::options::Options;
use crate::store::{Ingress, OWN_PREFIX};
use crate::translate::declarations::{HttpDeclarations, SnippetVariables};
use crate::translate::routes::{REJECTED, UNABLE};
use crate::translate::setting::{AnnotationLimits, Support};
use crate::translate::snippet::{self, AUTHORISATION, CONFIGURATION, SERVER};
use crate::translate::template;
use crate::translate::value::{self, Author, Wrong};
pub use treatment::{Parsed, Treatment};

/// Reads the annotations of an Ingress.
/// `http` are the names that `http-snippet` declares.
pub fn parse(
    ingress: &Ingress,
    options: &Options,
    annotation_limits: &AnnotationLimits,
    http: &HttpDeclarations,
) -> Parsed {
    let object = ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() };
    let text_of = |name| ingress.annotation(name).unwrap_or_default();
    let variables = match ingress.annotation(AUTHORISATION) {
        Some(_) => snippet::assigned_variables(text_of(CONFIGURATION), text_of(SERVER)),
        None => SnippetVariables::default(),
    };
    let mut reader = AnnotationReader {
        object: &object,
        ingress,
        options,
        prefix: &options.annotations_prefix,
        annotation_limits,
        http,
        variables: &variables,
        other_cause: false,
        parsed: Parsed {
            settings: Settings::default(),
            treatment: Treatment::Serve,
            closes_hosts: None,
            closed_by_snippets: false,
            problems: Vec::new(),
        },
    };
    let canary = ingress.annotation("canary").map(value::truth);
    if let Some(Ok(true) | Err(_)) = canary {
        reader.canary(ingress, canary == Some(Ok(true)));
        TABLE.finish(&mut reader.parsed.settings, &ingress.name);
        return reader.parsed;
    }
    for (name, text) in given(ingress) {
        match entry(reader.prefix, name) {
            Some(entry) if entry.aliases.contains(&name) && ingress.annotation(entry.name).is_some() => {
                reader.superseded(name, entry);
            }
            Some(entry) => reader.known(name, text, entry),
            None => reader.unknown(name),
        }
        if TABLE.get(name).is_some_and(|entry| !entry.on_main) {
            let message = "has no effect without canary: \"true\"".to_owned();
            reader.warn(
                Code::AnnotationWithoutEffect,
                name,
                message,
                "add that annotation, or remove this one",
            );
        }
    }
    reader.empty(ingress);
    TABLE.finish(&mut reader.parsed.settings, &ingress.name);
    for (name, reason) in std::mem::take(&mut reader.parsed.settings.left_out) {
        if let Some(entry) = TABLE.get(name) {
            reader.ignored(name, reason, entry);
        }
    }
    for (missing, required) in std::mem::take(&mut reader.parsed.settings.missing) {
        // An invalid value of it has been reported.
        let is_given = given(ingress).any(|(name, _)| name == required);
        if let Some(entry) = TABLE.get(missing.name).filter(|_| !is_given) {
            reader.close(
                entry,
                missing.name,
                missing.code,
                UNABLE,
                missing.reason.to_owned(),
                missing.remedy,
            );
        }
    }
    let is_closed = matches!(reader.parsed.treatment, Treatment::Close(_));
    reader.parsed.closed_by_snippets = is_closed && !reader.other_cause;
    reader.parsed
}

/// Returns the annotations with a value: an empty one counts as absent, unless it closes the routes
/// ([`AnnotationReader::empty`]).
fn given(ingress: &Ingress) -> impl Iterator<Item = (&str, &str)> {
    let trimmed = ingress.annotations.iter().map(|(name, text)| (&**name, text.trim()));
    trimmed.filter(|(_, text)| !text.is_empty())
}

/// Returns the entry of an annotation. If `--annotations-prefix` is Sluice's own, names have no
/// prefix.
fn entry(prefix: &str, name: &str) -> Option<&'static Annotation> {
    let own = OWN_PREFIX.strip_suffix('/') == Some(prefix);
    TABLE.get(name).or_else(|| TABLE.get(&format!("{OWN_PREFIX}{name}")).filter(|_| own))
}

struct AnnotationReader<'a> {
    object: &'a ObjectRef,
    ingress: &'a Ingress,
    options: &'a Options,
    prefix: &'a str,
    annotation_limits: &'a AnnotationLimits,
    http: &'a HttpDeclarations,
    variables: &'a SnippetVariables,
    /// Something other than a snippet closes the Ingress.
    other_cause: bool,
    parsed: Parsed,
}

impl AnnotationReader<'_> {
    fn known(&mut self, name: &str, text: &str, entry: &Annotation) {
        if !self.is_forbidden(name, text, entry) {
            self.allowed(name, text, entry);
        }
    }

    /// Returns whether the ConfigMap forbids the annotation, which closes the routes.
    fn is_forbidden(&mut self, name: &str, text: &str, entry: &Annotation) -> bool {
        if let Some(word) = self.annotation_limits.blocked_words.iter().find(|word| text.contains(&***word)) {
            self.close(
                entry,
                name,
                Code::AnnotationForbidden,
                REJECTED,
                format!("{text:?} contains the word {word:?}, which annotation-value-word-blocklist forbids"),
                "take the word out of the value or, if it is harmless, out of the list in the ConfigMap",
            );
            return true;
        }
        // An annotation that is not served closes the routes below, whatever its risk.
        if entry.risk > self.annotation_limits.risk
            && !self.is_switched_off(entry)
            && (entry.support == Support::Served || entry.is_harmless())
        {
            let (risk, level) = (entry.risk.as_str(), self.annotation_limits.risk.as_str());
            let mut reason =
                format!("has the risk {risk}, and annotations-risk-level in the ConfigMap is {level}");
            self.close_namespace_of_host(name, text, entry, &mut reason);
            self.close(
                entry,
                name,
                Code::AnnotationForbidden,
                REJECTED,
                reason,
                &format!(
                    "set annotations-risk-level to {risk}, or remove the annotation if the routes may be served \
                     without it"
                ),
            );
            return true;
        }
        false
    }

    fn allowed(&mut self, name: &str, text: &str, entry: &Annotation) {
        let author = Author {
            namespace: &self.object.name.namespace,
            crosses: self.annotation_limits.cross_namespace,
            is_validated: self.options.enable_annotation_validation,
            integers_have_bases: false,
            http: self.http,
            variables: self.variables,
        };
        if let Some(main) = entry.beside.filter(|main| !self.is_given(main)) {
            if !entry.is_idle(text) {
                self.alone(name, text, entry, main);
            }
            return;
        }
        if self.is_switched_off(entry) {
            return self.unserved(name, text, entry);
        }
        match entry.apply(text, &author, &mut self.parsed.settings) {
            Err(Wrong::Invalid(reason)) => self.invalid(name, text, &reason, entry, &author),
            Err(Wrong::Forbidden(reason)) if !entry.is_harmless() => {
                let remedy = "name one in the namespace of the Ingress, or set allow-cross-namespace-resources to true \
                              in the ConfigMap";
                self.close(entry, name, Code::ReferenceForbidden, UNABLE, reason, remedy);
            }
            Err(Wrong::NotServed) if !entry.is_harmless() => {
                let reason = format!("the value {text:?} is not implemented yet");
                let remedy = "give it a value that is served, see docs/annotations.md";
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, remedy);
            }
            Err(Wrong::Untranslated { reason, remedy }) => {
                let mut reason = format!("the snippet is not translated: {reason}");
                self.close_namespace_of_host(name, text, entry, &mut reason);
                self.close(entry, name, Code::SnippetNotTranslated, UNABLE, reason, &remedy);
            }
            Err(Wrong::Refused { reason, remedy }) if !entry.is_harmless() => {
                let reason = format!("the value {text:?} {reason}");
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, remedy);
            }
            Ok(()) => {
                if let Some(reason) = entry.without_value(text) {
                    self.warn(Code::VariableWithoutValue, name, reason, template::REMEDY);
                }
                self.unserved(name, text, entry);
            }
            Err(_) => self.unserved(name, text, entry),
        }
    }

    fn is_given(&self, main: &str) -> bool {
        let names = TABLE.get(main).into_iter().flat_map(Annotation::names);
        names.into_iter().any(|known| given(self.ingress).any(|(name, _)| name == known))
    }

    /// Returns whether it is a snippet while snippets are disabled.
    fn is_switched_off(&self, entry: &Annotation) -> bool {
        entry.snippet.is_some() && !self.annotation_limits.snippets
    }
}
