//! Reads the annotations of an Ingress and decides its treatment.

use sluice_config::{Code, Deny, ObjectRef, Problem};

use super::{Annotation, AnnotationLimits, Settings, TABLE};
use crate::options::Options;
use crate::problem::{because, error, warning};
use crate::store::{Ingress, OWN_PREFIX};
use crate::translate::routes::{CanarySettings, HostClosure, REJECTED, UNABLE};
use crate::translate::setting::{NotYet, Reach, Reference, Risk, Support, Unreadable};
use crate::translate::template;
use crate::translate::value::{self, Author, Wrong};

/// The treatment of an Ingress because of its annotations; later variants are more severe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is served.
    Serve,
    /// It keeps its hosts and paths, which are closed: with 404 if the Ingress is rejected, with
    /// 503 if a setting is not available.
    Close(Deny),
    /// It is a canary: without routes of its own, it receives requests of other Ingresses.
    Canary {
        /// It is rejected and receives none.
        rejected: bool,
    },
}

/// The result of the annotations of an Ingress.
pub struct Parsed {
    /// Typed settings.
    pub settings: Settings,
    /// Treatment of the Ingress.
    pub treatment: Treatment,
    /// Closure of other routes on its hosts, because of a setting for the whole host that is not
    /// available.
    pub(crate) closes_hosts: Option<HostClosure>,
    /// Whether only snippets close it.
    pub closed_by_snippets: bool,
    /// Problems of the annotations.
    pub problems: Vec<Problem>,
}

/// Reads the annotations of an Ingress.
pub fn parse(ingress: &Ingress, options: &Options, annotation_limits: &AnnotationLimits) -> Parsed {
    let object = ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() };
    let mut reader = AnnotationReader {
        object: &object,
        ingress,
        options,
        prefix: &options.annotations_prefix,
        annotation_limits,
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
        if name != "canary" && TABLE.get(name).is_some_and(|entry| entry.on_canary) {
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
    for (lack, missing) in std::mem::take(&mut reader.parsed.settings.missing) {
        // An invalid value of it has been reported.
        let is_given = given(ingress).any(|(name, _)| name == missing);
        if let Some(entry) = TABLE.get(lack.name).filter(|_| !is_given) {
            reader.close(entry, lack.name, lack.code, UNABLE, lack.reason.to_owned(), lack.remedy);
        }
    }
    let is_closed = matches!(reader.parsed.treatment, Treatment::Close(_));
    reader.parsed.closed_by_snippets = is_closed && !reader.other_cause;
    reader.parsed
}

/// Removed or commonly mistaken annotation names, each with the current one.
const FORMER: [(&str, &str); 9] = [
    ("secure-backends", "set backend-protocol to HTTPS: without it endpoints are spoken to by HTTP"),
    ("secure-verify-ca-secret", "set proxy-ssl-secret and proxy-ssl-verify"),
    ("grpc-backend", "set backend-protocol to GRPC: without it endpoints are spoken to by HTTP"),
    ("add-base-url", "remove it, and configure the base path in the application; see x-forwarded-prefix"),
    ("base-url-scheme", "remove it, and configure the base path in the application; see x-forwarded-prefix"),
    ("client-max-body-size", "write proxy-body-size"),
    ("session-cookie-hash", "remove it: cookies need no hash any more"),
    ("upstream-fail-timeout", "remove it: ingress-nginx ignores it too"),
    ("upstream-max-fails", "remove it: ingress-nginx ignores it too"),
];

/// Returns the annotations with a value: an empty one counts as absent, as in ingress-nginx.
fn given(ingress: &Ingress) -> impl Iterator<Item = (&str, &str)> {
    let trimmed = ingress.annotations.iter().map(|(name, text)| (&**name, text.trim()));
    trimmed.filter(|(_, text)| !text.is_empty())
}

/// Returns the field of an annotation for problems. Sluice's own annotations have their own prefix.
pub(crate) fn field(prefix: &str, name: &str) -> String {
    match name.contains('/') {
        true => format!("metadata.annotations[{name}]"),
        false => format!("metadata.annotations[{prefix}/{name}]"),
    }
}

/// Returns the entry of an annotation. If `--annotations-prefix` is Sluice's own, names have no
/// prefix.
fn entry(prefix: &str, name: &str) -> Option<&'static Annotation> {
    let own = OWN_PREFIX.strip_suffix('/') == Some(prefix);
    TABLE.get(name).or_else(|| TABLE.get(&format!("{OWN_PREFIX}{name}")).filter(|_| own))
}

const SNIPPETS_OFF: &str =
    "the annotation is a snippet, and allow-snippet-annotations in the ConfigMap is not true";
const SWITCH_ON: &str = "set allow-snippet-annotations to true and annotations-risk-level to Critical in the ConfigMap \
                         to have its directives translated (docs/snippets.md), or replace the snippet by annotations; \
                         remove the snippet only when the routes may be served without it";

/// Returns the remedy for an annotation that is not served. Removing a protecting one would open
/// the routes.
fn without(support: Support) -> &'static str {
    match support {
        Support::NotYet(NotYet::Protects) => {
            "leave it until Sluice serves it, because without it the routes are open to all clients; to serve them \
             now, protect them by other means first (in the application, with a NetworkPolicy), then remove \
             the annotation"
        }
        Support::NotYet(NotYet::ChangesAnswers) => {
            "remove the annotation only if the routes may be served without what it asks for; if it protects them, do \
             that by other means first"
        }
        _ => "remove the annotation if the routes may be served without it",
    }
}

struct AnnotationReader<'a> {
    object: &'a ObjectRef,
    ingress: &'a Ingress,
    options: &'a Options,
    prefix: &'a str,
    annotation_limits: &'a AnnotationLimits,
    /// Something other than a snippet closes the Ingress.
    other_cause: bool,
    parsed: Parsed,
}

impl AnnotationReader<'_> {
    /// Reads the annotations that apply to a canary. The limits on annotations apply as to others.
    fn canary(&mut self, ingress: &Ingress, is_certain: bool) {
        self.parsed.treatment = Treatment::Canary { rejected: !is_certain };
        let mut ignored = Vec::new();
        for (name, text) in given(ingress) {
            let Some(entry) = entry(self.prefix, name) else {
                self.unknown(name);
                continue;
            };
            if entry.on_canary {
                self.known(name, text, entry);
            } else if !self.is_forbidden(name, text, entry) {
                ignored.push(name);
            }
        }
        if !is_certain {
            let message =
                "is neither true nor false, so this Ingress takes no requests, as a canary or otherwise";
            let problem = error(
                Code::AnnotationInvalid,
                self.object,
                self.field("canary"),
                message,
                "write true, or remove the annotation to serve the Ingress as an ordinary one",
            );
            self.parsed.problems.retain(|known| known.field != problem.field);
            self.parsed.problems.push(problem);
        } else if self.parsed.settings.routes.canary.as_ref().is_none_or(CanarySettings::is_idle)
            && !given(ingress).any(|(name, _)| name == "canary-weight")
        {
            // A weight of 0 waits for its release; an unreadable one has been reported.
            let message =
                "is set, but no header, cookie or weight selects requests for the canary: it gets none";
            self.warn(
                Code::CanaryIdle,
                "canary",
                message.to_owned(),
                "add canary-weight, canary-by-header or canary-by-cookie",
            );
        }
        if !ignored.is_empty() {
            let message =
                format!("{} have no effect on a canary: those of the main Ingress hold", ignored.join(", "));
            let field = "metadata.annotations";
            let remedy = "remove them, or set them on the main Ingress";
            self.parsed.problems.push(warning(
                Code::CanaryAnnotationIgnored,
                self.object,
                field,
                message,
                remedy,
            ));
        }
    }

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
        };
        let alone = entry.beside.filter(|main| !self.is_given(main));
        if let Some(main) = alone.filter(|_| entry.is_protection() && !entry.is_idle(text)) {
            return self.alone(name, text, main);
        }
        if self.is_switched_off(entry) {
            return self.unserved(name, text, entry);
        }
        match (entry.apply(text, &author, &mut self.parsed.settings), alone) {
            (Err(_), Some(main)) => self.alone(name, text, main),
            (Err(Wrong::Invalid(reason)), None) => self.invalid(name, text, &reason, entry, &author),
            (Err(Wrong::Forbidden(reason)), None) if !entry.is_harmless() => {
                let remedy = "name one in the namespace of the Ingress, or set allow-cross-namespace-resources to true \
                              in the ConfigMap";
                self.close(entry, name, Code::ReferenceForbidden, UNABLE, reason, remedy);
            }
            (Err(Wrong::NotServed), None) if !entry.is_harmless() => {
                let reason = format!("the value {text:?} is not implemented yet");
                let remedy = "give it a value that is served, see docs/annotations.md";
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, remedy);
            }
            (Err(Wrong::Untranslated { reason, remedy }), None) => {
                let mut reason = format!("the snippet is not translated: {reason}");
                self.close_namespace_of_host(name, text, entry, &mut reason);
                self.close(entry, name, Code::SnippetNotTranslated, UNABLE, reason, &remedy);
            }
            (Err(Wrong::Refused { reason, remedy }), None) if !entry.is_harmless() => {
                let reason = format!("the value {text:?} {reason}");
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, remedy);
            }
            (Ok(()), _) => {
                if let Some(reason) = entry.without_value(text) {
                    self.warn(Code::VariableWithoutValue, name, reason, template::REMEDY);
                }
                self.unserved(name, text, entry);
            }
            (Err(_), _) => self.unserved(name, text, entry),
        }
    }

    /// Reports an annotation without the one that it requires.
    fn alone(&mut self, name: &str, text: &str, main: &str) {
        let message = format!("{text:?} has no effect without {main}, as in ingress-nginx");
        let remedy = format!("set {main}, or remove the annotation");
        self.warn(Code::AnnotationWithoutEffect, name, message, &remedy);
    }

    fn is_given(&self, main: &str) -> bool {
        let names = TABLE.get(main).into_iter().flat_map(Annotation::names);
        names.into_iter().any(|known| given(self.ingress).any(|(name, _)| name == known))
    }

    /// Reports a value of an annotation that is not served, or not without a flag.
    fn unserved(&mut self, name: &str, text: &str, entry: &Annotation) {
        if entry.is_idle(text) {
            return;
        }
        if let Some((flag, is_set)) = entry.flag
            && !is_set(self.options)
        {
            let message = format!("{text:?} has no effect without {flag}");
            return self.warn(
                Code::AnnotationWithoutEffect,
                name,
                message,
                "remove the annotation, or set the flag",
            );
        }
        if entry.support == Support::Served && !self.is_switched_off(entry) {
            return;
        }
        match (entry.meanwhile(text), entry.support) {
            (Some(NotYet::Harmless), _) => {
                let message = format!("{text:?} is ignored: the annotation is not implemented yet");
                let remedy = "remove it, or accept that it has no effect for now";
                self.warn(Code::AnnotationNotServed, name, message, remedy);
            }
            (Some(_), _) => {
                let (mut reason, remedy) = match entry.never {
                    _ if entry.snippet.is_some() => (SNIPPETS_OFF.to_owned(), SWITCH_ON),
                    Some(instead) => (
                        "the annotation is text or rules for nginx, which is never executed".to_owned(),
                        instead,
                    ),
                    None => ("the annotation is not implemented yet".to_owned(), without(entry.support)),
                };
                self.close_namespace_of_host(name, text, entry, &mut reason);
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, remedy);
            }
            (None, Support::NoEffect(reason)) => {
                let message = format!("{text:?} has no effect: {reason}");
                self.warn(Code::AnnotationWithoutEffect, name, message, "remove the annotation");
            }
            (None, _) => {}
        }
    }

    /// Returns whether it is a snippet while snippets are disabled.
    fn is_switched_off(&self, entry: &Annotation) -> bool {
        entry.snippet.is_some() && !self.annotation_limits.snippets
    }

    /// Closes all routes of the namespace on the hosts, if the value restricts access to them.
    fn close_namespace_of_host(&mut self, name: &str, text: &str, entry: &Annotation, reason: &mut String) {
        if entry.reach != Reach::NamespaceOfHost || entry.meanwhile(text) != Some(NotYet::Protects) {
            return;
        }
        let reason_of_host = because(self.object, &self.field(name), reason);
        self.parsed.closes_hosts = Some(HostClosure { reason: reason_of_host, own_namespace_only: true });
        reason.push_str(
            ", and it restricts access to its hosts: all routes of this namespace on them are closed",
        );
    }

    /// Reports empty protecting annotations: their author, or a template, may rely on them.
    fn empty(&mut self, ingress: &Ingress) {
        for (name, _) in ingress.annotations.iter().filter(|(_, text)| text.trim().is_empty()) {
            if TABLE.get(name).is_some_and(Annotation::is_protection) {
                let message =
                    "is empty, which counts as if it were not there, and protects nothing".to_owned();
                self.warn(Code::AnnotationWithoutEffect, name, message, "give it a value, or remove it");
            }
        }
    }

    fn unknown(&mut self, name: &str) {
        let former = FORMER.iter().find(|(former, _)| *former == name);
        let remedy = match (former, TABLE.nearest(name)) {
            (Some((_, instead)), _) => (*instead).to_owned(),
            (None, Some(near)) if near.contains('/') => format!("did you mean {near}?"),
            (None, Some(near)) => format!("did you mean {}/{near}?", self.prefix),
            (None, None) => "remove it, or look its name up in docs/annotations.md".to_owned(),
        };
        self.warn(Code::AnnotationUnknown, name, "is unknown to Sluice and is ignored".to_owned(), &remedy);
    }

    fn superseded(&mut self, alias: &str, entry: &Annotation) {
        let message = format!("is ignored, because {}/{} is given too", self.prefix, entry.name);
        self.warn(Code::AnnotationSuperseded, alias, message, "remove the older name");
    }

    /// Applies the table's treatment of an unreadable value.
    fn invalid(&mut self, name: &str, text: &str, reason: &str, entry: &Annotation, author: &Author<'_>) {
        let message = format!("the value {text:?} {reason}");
        match entry.leniency.here {
            _ if entry.is_harmless() => {
                self.warn(Code::AnnotationInvalid, name, message, "correct the value");
            }
            Unreadable::SkipEntries => {
                let (good, bad) = entry.readable_entries(text, author);
                let kept = !good.is_empty() && entry.apply(&good, author, &mut self.parsed.settings).is_ok();
                let outcome = match kept {
                    true => format!("{message}; {bad:?} skipped, {good:?} in force"),
                    false => format!("{message}; it is ignored, and the default is used"),
                };
                self.ignored(name, outcome, entry);
            }
            Unreadable::Default => {
                let instead = match entry.fallback {
                    Some((words, put)) => {
                        put(&mut self.parsed.settings);
                        words
                    }
                    None => "the default is used",
                };
                self.ignored(name, format!("{message}; it is ignored, and {instead}"), entry);
            }
            Unreadable::Close => {
                self.close(entry, name, Code::AnnotationInvalid, UNABLE, message, "correct the value");
            }
            Unreadable::Reject => {
                let is_validated = self.options.enable_annotation_validation;
                let status = if is_validated { REJECTED } else { UNABLE };
                self.close(entry, name, Code::AnnotationInvalid, status, message, "correct the value");
            }
        }
    }

    /// Reports a value that is ignored; the Ingress is served. ingress-nginx serves it too, unless
    /// the annotation is Sluice's own.
    fn ignored(&mut self, name: &str, message: String, entry: &Annotation) {
        let make = if entry.leniency.reference == Reference::Absent { error } else { warning };
        let field = self.field(name);
        self.parsed.problems.push(make(
            Code::AnnotationInvalid,
            self.object,
            &field,
            &message,
            "correct the value",
        ));
    }

    /// Closes the routes and reports why.
    fn close(
        &mut self,
        entry: &Annotation,
        name: &str,
        code: Code,
        status: u16,
        mut reason: String,
        remedy: &str,
    ) {
        let field = self.field(name);
        self.other_cause |= entry.risk < Risk::Critical;
        if entry.reach == Reach::Host {
            // Whatever the reason: the setting applies to routes of other Ingresses, too.
            let cause = because(self.object, &field, &reason);
            self.parsed.closes_hosts = Some(HostClosure { reason: cause, own_namespace_only: false });
            reason.push_str(", and it holds for all routes of its hosts, which are closed too");
        }
        if let Treatment::Canary { rejected } = &mut self.parsed.treatment {
            *rejected = true;
            let message = format!("{reason}; the Ingress is rejected, and takes no request as a canary");
            self.parsed.problems.push(error(code, self.object, field, message, remedy));
            return;
        }
        let fate = match status {
            REJECTED => "the Ingress is rejected, and all its routes answer 404",
            _ => "the routes of this Ingress answer 503",
        };
        let message = format!("{reason}; {fate}");
        self.parsed.problems.push(error(code, self.object, field.clone(), message, remedy));
        let graver = match &self.parsed.treatment {
            Treatment::Serve => true,
            Treatment::Close(deny) => deny.status == UNABLE && status == REJECTED,
            Treatment::Canary { .. } => false,
        };
        if graver {
            let reason = because(self.object, &field, &reason);
            self.parsed.treatment = Treatment::Close(Deny { status, reason });
        }
    }

    fn warn(&mut self, code: Code, name: &str, message: String, remedy: &str) {
        self.parsed.problems.push(warning(code, self.object, self.field(name), message, remedy));
    }

    fn field(&self, name: &str) -> String {
        field(self.prefix, name)
    }
}
