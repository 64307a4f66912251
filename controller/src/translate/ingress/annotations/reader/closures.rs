//! Annotations that close routes: values that are not served or unreadable.

use sluice_config::{Code, Deny};

use super::AnnotationReader;
use super::treatment::Treatment;
use crate::problem::{because, error};
use crate::translate::firewall::{self, GlobalFirewall};
use crate::translate::ingress::annotations::Annotation;
use crate::translate::routes::{HostClosure, REJECTED, UNABLE};
use crate::translate::setting::{NotYet, Reach, Risk, Support, Unreadable};
use crate::translate::value::{self, Author};

const SNIPPETS_OFF: &str =
    "the annotation is a snippet, and allow-snippet-annotations in the ConfigMap is not true";
const SWITCH_ON: &str = "set allow-snippet-annotations to true and annotations-risk-level to Critical in the ConfigMap \
                         to have its directives translated (docs/snippets.md), or replace the snippet by annotations; \
                         remove the snippet only when the routes may be served without it";

/// Completes [`SNIPPETS_OFF`] for rules that the engine of the ConfigMap would enforce.
const ENGINE_IS_ON: &str =
    ", and its rules would be enforced, because modsecurity-snippet of the ConfigMap switches the engine on";
const SWITCH_ON_RULES: &str = "set allow-snippet-annotations to true and annotations-risk-level to Critical in the ConfigMap to have its \
     rules applied (docs/waf.md); remove the snippet only when the routes may be served without it";

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

impl AnnotationReader<'_> {
    /// Reports a value of an annotation that is not served, or not without a flag.
    pub(super) fn unserved(&mut self, name: &str, text: &str, entry: &Annotation) {
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
        match (self.meanwhile(text, entry), entry.support) {
            (Some(NotYet::Harmless), _) if name == firewall::SNIPPET => {
                let message = format!("{text:?} is ignored: {SNIPPETS_OFF}");
                self.warn(Code::AnnotationNotServed, name, message, SWITCH_ON_RULES);
            }
            (Some(NotYet::Harmless), _) => {
                let message = format!("{text:?} is ignored: the annotation is not implemented yet");
                let remedy = "remove it, or accept that it has no effect for now";
                self.warn(Code::AnnotationNotServed, name, message, remedy);
            }
            (Some(_), _) => {
                let (mut reason, remedy) = match entry.never {
                    _ if name == firewall::SNIPPET => {
                        let engine = match entry.meanwhile(text) {
                            Some(NotYet::Harmless) => ENGINE_IS_ON,
                            _ => "",
                        };
                        (format!("{SNIPPETS_OFF}{engine}"), SWITCH_ON_RULES)
                    }
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

    /// Returns the effect of a value that is not served. A snippet of the firewall restricts access
    /// if the ConfigMap switches the engine on that runs its rules.
    fn meanwhile(&self, text: &str, entry: &Annotation) -> Option<NotYet> {
        let is_enforced = |firewall: &GlobalFirewall| {
            let enabled = self.ingress.annotation(firewall::ENABLE).and_then(|text| value::truth(text).ok());
            firewall.enforces_snippet(enabled, text)
        };
        match entry.meanwhile(text) {
            Some(NotYet::Harmless)
                if entry.name == firewall::SNIPPET
                    && self.annotation_limits.enforcing_firewall.as_ref().is_some_and(is_enforced) =>
            {
                Some(NotYet::Protects)
            }
            meanwhile => meanwhile,
        }
    }

    /// Closes all routes of the namespace on the hosts, if the value restricts access to them.
    pub(super) fn close_namespace_of_host(
        &mut self,
        name: &str,
        text: &str,
        entry: &Annotation,
        reason: &mut String,
    ) {
        if entry.reach != Reach::NamespaceOfHost || entry.meanwhile(text) != Some(NotYet::Protects) {
            return;
        }
        let reason_of_host = because(self.object, &self.field(name), reason);
        self.parsed.closes_hosts = Some(HostClosure { reason: reason_of_host, own_namespace_only: true });
        reason.push_str(
            ", and it restricts access to its hosts: all routes of this namespace on them are closed",
        );
    }

    /// Applies the table's treatment of an unreadable value.
    pub(super) fn invalid(
        &mut self,
        name: &str,
        text: &str,
        reason: &str,
        entry: &Annotation,
        author: &Author<'_>,
    ) {
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

    /// Closes the routes and reports why.
    pub(super) fn close(
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
}
