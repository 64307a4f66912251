//! Annotations of an Ingress: the table, and what the annotations of one Ingress amount to.
//!
//! One file per family, each with its entries and the types it fills in. An invalid value rejects the Ingress:
//! it keeps its hosts and paths, which answer 404, so that what it was to protect is not served by a broader
//! rule. That holds also when an earlier version of it was served: what is served is then a function of the
//! objects alone, and does not depend on which versions of them were seen. The exceptions are settings whose
//! default is safe (`OnInvalid::Default`) and settings without effect on requests.

mod access;
mod affinity;
mod authentication;
mod backend_protocol;
mod basic_auth;
mod buffering;
mod canary;
mod cors;
mod endpoints;
pub(crate) mod errors;
mod external_auth;
mod hosts;
mod https_redirect;
mod limits;
mod logging;
mod mirror;
mod redirect;
mod retry;
mod rewrite;
mod snippets;
#[cfg(test)]
mod tests;
mod timeouts;
mod upstream_tls;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use sluice_config::{
    Bodies, Code, Deny, HttpsRedirect, ObjectRef, Problem, ResourceKey, Retry, Timeouts, UpstreamProtocol,
};

use super::setting::{self, Fault, Lack, NotYet, OnInvalid, Risk, Setting, Support};
use super::value;
use crate::problem::{because, error, warning};
use crate::store::Ingress;
use crate::translate::external_auth::AuthSettings;

pub use affinity::Affinity;
pub use basic_auth::Auth;
pub use canary::Canary;
pub use errors::Errors;
pub(crate) use rewrite::compile;
pub use rewrite::{RewriteFault, Rewriting};

/// What the annotations of an Ingress say, typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Redirects from http to https.
    pub https_redirect: HttpsRedirect,
    /// Limits on the upstream side.
    pub timeouts: Timeouts,
    /// When another endpoint is tried.
    pub retry: Retry,
    /// What is spoken to endpoints.
    pub protocol: UpstreamProtocol,
    /// Sticky sessions.
    pub affinity: Affinity,
    /// Which requests it takes of another Ingress.
    pub canary: Canary,
    /// Paths as expressions, and other paths for the endpoints.
    pub rewriting: Rewriting,
    /// Names and passwords.
    pub auth: Auth,
    /// Request bodies.
    pub bodies: Bodies,
    /// Authorisation by another service.
    pub external_auth: AuthSettings,
    /// Whether the service for all rules is asked.
    pub global_auth: bool,
    /// Answers in place of errors.
    pub errors: Errors,
}

impl Settings {
    /// The resources without which the routes cannot be served, each with the annotation that names it.
    pub fn needs(&self) -> impl Iterator<Item = (ResourceKey, &'static str)> {
        let fields = self.external_auth.resource().map(|key| (key, external_auth::SET_HEADERS));
        self.auth.needs().into_iter().chain(fields)
    }

    /// What annotations lack that mean something together only.
    fn lacks(&self) -> impl Iterator<Item = Lack> {
        self.auth.lacks().into_iter()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            https_redirect: HttpsRedirect::default(),
            timeouts: Timeouts::default(),
            retry: Retry::default(),
            protocol: UpstreamProtocol::Http,
            affinity: Affinity::default(),
            auth: Auth::default(),
            canary: Canary::default(),
            rewriting: Rewriting::default(),
            bodies: Bodies::default(),
            external_auth: AuthSettings::default(),
            global_auth: true,
            errors: Errors::default(),
        }
    }
}

/// The families, whose concatenation is the table.
pub static FAMILIES: &[&[Setting<Settings>]] = &[
    access::SETTINGS,
    affinity::SETTINGS,
    authentication::SETTINGS,
    basic_auth::SETTINGS,
    backend_protocol::SETTINGS,
    buffering::SETTINGS,
    canary::SETTINGS,
    cors::SETTINGS,
    endpoints::SETTINGS,
    errors::SETTINGS,
    external_auth::SETTINGS,
    hosts::SETTINGS,
    https_redirect::SETTINGS,
    limits::SETTINGS,
    logging::SETTINGS,
    mirror::SETTINGS,
    redirect::SETTINGS,
    retry::SETTINGS,
    rewrite::SETTINGS,
    snippets::SETTINGS,
    timeouts::SETTINGS,
    upstream_tls::SETTINGS,
];

static BY_NAME: LazyLock<HashMap<&'static str, &'static Setting<Settings>>> = LazyLock::new(|| {
    setting::entries(FAMILIES).flat_map(|entry| entry.names().map(move |name| (name, entry))).collect()
});

/// The table as Markdown, for the reference documentation.
pub fn markdown_table() -> String {
    setting::markdown(FAMILIES)
}

/// What the ConfigMap says about annotations as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `annotations-risk-level`: the highest risk that is accepted.
    pub risk: Risk,
    /// `annotation-value-word-blocklist`: no value may contain one of these.
    pub blocked_words: Vec<Box<str>>,
    /// `allow-cross-namespace-resources`: annotations may name Secrets and ConfigMaps of other namespaces.
    pub cross_namespace: bool,
    /// `strict-validate-path-type`: report Exact and Prefix paths with unusual characters.
    pub strict_paths: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self { risk: Risk::High, blocked_words: Vec::new(), cross_namespace: false, strict_paths: true }
    }
}

/// What becomes of an Ingress because of its annotations; later ones are graver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is served.
    Serve,
    /// It keeps its hosts and paths, and they are closed: with 404 where the Ingress is rejected, with 503 where
    /// something that it asks for cannot be done.
    Close(Deny),
    /// It is a canary: it has no routes of its own and takes requests of others', unless it is rejected.
    Canary {
        /// Then it takes none.
        rejected: bool,
    },
}

/// Status of the routes of an Ingress that is rejected.
pub(crate) const REJECTED: u16 = 404;

/// Status of routes that ask for something which cannot be done.
pub(crate) const UNABLE: u16 = 503;

/// What the annotations of an Ingress amount to.
pub struct Parsed {
    /// Typed.
    pub settings: Settings,
    /// What becomes of the Ingress.
    pub verdict: Verdict,
    /// Why all routes of its hosts are closed with it, those of others too: it asks for something that holds for a
    /// whole host and cannot be done.
    pub closes_hosts: Option<Arc<str>>,
    /// What is wrong with them.
    pub problems: Vec<Problem>,
}

/// Reads the annotations of one Ingress. `prefix` is `--annotations-prefix`, `validate`
/// `--enable-annotation-validation`.
pub fn parse(ingress: &Ingress, prefix: &str, validate: bool, gates: &Gates) -> Parsed {
    let object = ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() };
    let mut reader = Reader {
        object: &object,
        prefix,
        validate,
        gates,
        parsed: Parsed {
            settings: Settings::default(),
            verdict: Verdict::Serve,
            closes_hosts: None,
            problems: Vec::new(),
        },
    };
    let canary = ingress.annotation("canary").map(|text| value::bool(text.trim()));
    if let Some(Ok(true) | Err(_)) = canary {
        reader.canary(ingress, canary == Some(Ok(true)));
        return reader.parsed;
    }
    for (name, text) in &ingress.annotations {
        match BY_NAME.get(&**name) {
            Some(entry) if entry.name != &**name && ingress.annotation(entry.name).is_some() => {
                reader.superseded(name, entry);
            }
            Some(entry) => reader.known(name, text.trim(), entry),
            None => reader.unknown(name),
        }
        if is_of_canary(name) && name.as_ref() != "canary" && !text.trim().is_empty() {
            let message = "has no effect without canary: \"true\"".to_owned();
            reader.warn(
                Code::AnnotationWithoutEffect,
                name,
                message,
                "add that annotation, or remove this one",
            );
        }
    }
    // What is closed already has told why.
    if reader.parsed.verdict == Verdict::Serve {
        for lack in reader.parsed.settings.lacks().collect::<Vec<_>>() {
            if let Some(entry) = BY_NAME.get(lack.annotation) {
                reader.close(
                    entry,
                    lack.annotation,
                    Code::AnnotationInvalid,
                    UNABLE,
                    lack.reason.to_owned(),
                    lack.remedy,
                );
            }
        }
    }
    reader.parsed
}

/// Whether an annotation counts on a canary, where those of the main Ingress hold for the rest.
fn is_of_canary(name: &str) -> bool {
    canary::SETTINGS.iter().any(|entry| entry.name == name) || canary::COUNTED.contains(&name)
}

/// The field of an annotation in a problem.
pub(crate) fn field(prefix: &str, name: &str) -> String {
    format!("metadata.annotations[{prefix}/{name}]")
}

/// How to fix an annotation that is not served. Where it protects, to remove it would open the routes.
fn without<S>(support: &Support<S>) -> &'static str {
    match support {
        Support::NotYet(NotYet::Protects) => {
            "leave it until Sluice serves it, because without it the routes are open to everybody; to serve them now, \
             protect them by other means first (in the application, with a NetworkPolicy), then remove the annotation"
        }
        Support::NotYet(NotYet::ChangesAnswers) => {
            "remove the annotation only if the routes may be served without what it asks for; if it protects them, do \
             that by other means first"
        }
        _ => "remove the annotation if the routes may be served without it",
    }
}

struct Reader<'a> {
    object: &'a ObjectRef,
    prefix: &'a str,
    validate: bool,
    gates: &'a Gates,
    parsed: Parsed,
}

impl Reader<'_> {
    /// Reads what counts on a canary. What it may say at all is limited as for others.
    fn canary(&mut self, ingress: &Ingress, is_certain: bool) {
        self.parsed.verdict = Verdict::Canary { rejected: !is_certain };
        let mut ignored = Vec::new();
        for (name, text) in &ingress.annotations {
            let Some(entry) = BY_NAME.get(&**name) else {
                self.unknown(name);
                continue;
            };
            if is_of_canary(name) {
                self.known(name, text.trim(), entry);
            } else if !self.is_forbidden(name, text.trim(), entry) {
                ignored.push(&**name);
            }
        }
        if !is_certain {
            let message =
                "says neither true nor false, so this Ingress takes no request, as canary or otherwise";
            let problem = error(
                Code::AnnotationInvalid,
                self.object,
                self.field("canary"),
                message,
                "write true, or remove the annotation to serve the Ingress as an ordinary one",
            );
            self.parsed.problems.retain(|known| known.field != problem.field);
            self.parsed.problems.push(problem);
        } else if self.parsed.settings.canary.is_idle() {
            let message =
                "is set, and no header, cookie or weight says which requests the canary takes: it gets none";
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

    fn known(&mut self, name: &str, text: &str, entry: &Setting<Settings>) {
        if !self.is_forbidden(name, text, entry) {
            self.allowed(name, text, entry);
        }
    }

    /// Whether the ConfigMap forbids it, which closes.
    fn is_forbidden(&mut self, name: &str, text: &str, entry: &Setting<Settings>) -> bool {
        if let Some(word) = self.gates.blocked_words.iter().find(|word| text.contains(&***word)) {
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
        // What is not served closes the routes in its own way below, whoever may use it.
        let is_served = matches!(entry.support, Support::Served(_) | Support::NoEffect(_));
        let is_harmless = matches!(entry.support, Support::NotYet(NotYet::Harmless));
        if entry.risk > self.gates.risk && (is_served || is_harmless) {
            let (risk, level) = (entry.risk.as_str(), self.gates.risk.as_str());
            self.close(
                entry,
                name,
                Code::AnnotationForbidden,
                REJECTED,
                format!("has the risk {risk}, and annotations-risk-level in the ConfigMap is {level}"),
                &format!(
                    "set annotations-risk-level to {risk}, or remove the annotation if the routes may be served \
                     without it"
                ),
            );
            return true;
        }
        false
    }

    fn allowed(&mut self, name: &str, text: &str, entry: &Setting<Settings>) {
        let harmless = matches!(entry.support, Support::NotYet(NotYet::Harmless) | Support::NoEffect(_));
        if let Err(reason) = entry.value.check(text)
            && (self.validate || harmless || entry.value.is_number())
        {
            self.invalid(name, text, &reason, entry, harmless);
            return;
        }
        let text = match self.referent(text, entry) {
            Ok(text) => text,
            Err(reason) => {
                let remedy = "name one in the namespace of the Ingress, or set allow-cross-namespace-resources to true \
                              in the ConfigMap";
                self.close(entry, name, Code::ReferenceForbidden, UNABLE, reason, remedy);
                return;
            }
        };
        let text = &*text;
        match &entry.support {
            Support::Served(apply) => match apply(text, &mut self.parsed.settings) {
                Ok(()) => {}
                Err(Fault::Invalid(reason)) => self.invalid(name, text, &reason, entry, false),
                Err(Fault::NotYet) => {
                    let reason = format!("the value {text:?} is not implemented yet");
                    self.close(
                        entry,
                        name,
                        Code::AnnotationNotServed,
                        UNABLE,
                        reason,
                        "give it a value that is served, see docs/annotations.md",
                    );
                }
            },
            Support::NotYet(_) | Support::NoEffect(_) if entry.is_idle(text) => {}
            Support::NotYet(NotYet::Harmless) => {
                let message = format!("{text:?} is ignored: the annotation is not implemented yet");
                self.warn(
                    Code::AnnotationNotServed,
                    name,
                    message,
                    "remove it, or accept that it has no effect for now",
                );
            }
            Support::NotYet(NotYet::Protects | NotYet::ChangesAnswers) => {
                let reason = "the annotation is not implemented yet".to_owned();
                self.close(entry, name, Code::AnnotationNotServed, UNABLE, reason, without(&entry.support));
            }
            Support::NoEffect(reason) => {
                self.warn(
                    Code::AnnotationWithoutEffect,
                    name,
                    format!("{text:?} has no effect: {reason}"),
                    "remove the annotation",
                );
            }
        }
    }

    /// The text for the setter: a name of an object gets its namespace, if the Ingress may name it at all.
    fn referent<'t>(&self, text: &'t str, entry: &Setting<Settings>) -> Result<Cow<'t, str>, String> {
        let own = &self.object.name.namespace;
        match (entry.refers, text.split_once('/')) {
            (None, _) => Ok(text.into()),
            (Some(_), None) => Ok(format!("{own}/{text}").into()),
            (Some(kind), Some((namespace, _))) if *namespace != **own && !self.gates.cross_namespace => {
                Err(format!("names a {} of another namespace, {text:?}, which is not allowed", kind.as_str()))
            }
            (Some(_), Some(_)) => Ok(text.into()),
        }
    }

    fn unknown(&mut self, name: &str) {
        let remedy = match setting::nearest(FAMILIES, name) {
            Some(near) => format!("did you mean {}/{near}?", self.prefix),
            None => "remove it, or look its name up in the table of annotations".to_owned(),
        };
        self.warn(
            Code::AnnotationUnknown,
            name,
            "is no annotation that Sluice knows, and is ignored".to_owned(),
            &remedy,
        );
    }

    fn superseded(&mut self, alias: &str, entry: &Setting<Settings>) {
        let message = format!("is ignored, because {}/{} is given too", self.prefix, entry.name);
        self.warn(Code::AnnotationSuperseded, alias, message, "remove the older name");
    }

    fn invalid(&mut self, name: &str, text: &str, reason: &str, entry: &Setting<Settings>, harmless: bool) {
        let message = format!("the value {text:?} {reason}");
        if harmless {
            self.warn(Code::AnnotationInvalid, name, message, "correct the value");
        } else if entry.on_invalid == OnInvalid::Default {
            let message = format!("{message}; it is ignored, and the default is used");
            let problem =
                error(Code::AnnotationInvalid, self.object, self.field(name), message, "correct the value");
            self.parsed.problems.push(problem);
        } else {
            let status = if self.validate { REJECTED } else { UNABLE };
            self.close(entry, name, Code::AnnotationInvalid, status, message, "correct the value");
        }
    }

    /// The routes are closed, which each of these problems has to say.
    fn close(
        &mut self,
        entry: &Setting<Settings>,
        name: &str,
        code: Code,
        status: u16,
        mut reason: String,
        remedy: &str,
    ) {
        let field = self.field(name);
        if entry.whole_host {
            // For whatever reason it closes: it was to hold for others too.
            self.parsed.closes_hosts = Some(because(self.object, &field, &reason));
            reason.push_str(", and it holds for all routes of its hosts, which are closed too");
        }
        if let Verdict::Canary { rejected } = &mut self.parsed.verdict {
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
        let graver = match &self.parsed.verdict {
            Verdict::Serve => true,
            Verdict::Close(deny) => deny.status == UNABLE && status == REJECTED,
            Verdict::Canary { .. } => false,
        };
        if graver {
            let reason = because(self.object, &field, &reason);
            self.parsed.verdict = Verdict::Close(Deny { status, reason });
        }
    }

    fn warn(&mut self, code: Code, name: &str, message: String, remedy: &str) {
        self.parsed.problems.push(warning(code, self.object, self.field(name), message, remedy));
    }

    fn field(&self, name: &str) -> String {
        field(self.prefix, name)
    }
}
