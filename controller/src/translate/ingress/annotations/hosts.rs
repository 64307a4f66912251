//! Aliases of hosts, and TLS passthrough.

use sluice_config::{HostPattern, NamespacedName};

use super::{Annotation, Settings};
use crate::translate::ingress::names;
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, Type};

const ALIAS: &str = "server-alias";
/// Name of the annotation for TLS passthrough.
const PASSTHROUGH: &str = "ssl-passthrough";

/// Reports the entries that are left out.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.left_out.extend(settings.aliases.left_out());
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            ALIAS,
            aliases(),
            "",
            "Additional names of the host, for all its paths, including those of other Ingresses, unless \
             an Ingress has rules for them; *. at the beginning and .* at the end match one or more labels, a dot at the \
             beginning adds all names below, ~ begins a regular expression. Unlike in ingress-nginx, those of all \
             Ingresses of the host apply, not only those of the oldest one with any. Names that nginx would refuse are \
             skipped with a warning.",
            |settings, value| settings.aliases = value,
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .ingress(Risk::High),
        Annotation::served(
            PASSTHROUGH,
            value::bool(),
            "false",
            "Pass TLS of the host through to the Service of path /, by SNI; all other annotations then apply to plain \
             HTTP only, whose requests are sent to the endpoints over TLS.",
            |settings, value| settings.routes.passthrough = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "TLS is terminated all the same")
        .with_flag("--enable-ssl-passthrough", |options| options.enable_ssl_passthrough)
        .ingress(Risk::Low),
        Annotation::no_effect(
            "http2-push-preload",
            value::bool(),
            "false",
            "clients no longer accept pushed responses, and nginx no longer sends them",
            "HTTP/2 push from Link headers.",
        )
        .idle_in_reference()
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "it has no effect")
        .location(Risk::Low),
    ]
}

/// Parsed `server-alias`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Aliases {
    /// The names that are served.
    pub(crate) names: Vec<HostPattern>,
    /// The names that are not served, each with the reason.
    skipped: Vec<String>,
}

impl Aliases {
    /// Returns the annotation with left-out entries, and the reason.
    fn left_out(&self) -> Option<(&'static str, String)> {
        let reason =
            || format!("has {}; skipped, and the other names are in force", self.skipped.join(", and "));
        (!self.skipped.is_empty()).then(|| (ALIAS, reason()))
    }
}

fn aliases() -> Type<Aliases> {
    let is_allowed = |text: &str| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || br"-._~/:^$[](){}*+?|&=\".contains(&byte);
        text.split(',').all(|name| name.trim().bytes().all(fits))
    };
    value::list().called("comma-separated list of host names").allowing(is_allowed).map(|names| {
        let mut read = Aliases::default();
        for name in names {
            match names::aliases(&name) {
                Ok(patterns) => read.names.extend(patterns),
                Err(reason) => read.skipped.push(format!("{name:?}, which {reason}")),
            }
        }
        read
    })
}
