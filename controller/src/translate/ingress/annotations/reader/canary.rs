//! The annotations of a canary.

use sluice_config::Code;

use super::treatment::Treatment;
use super::{AnnotationReader, entry, given};
use crate::problem::{error, warning};
use crate::store::Ingress;
use crate::translate::routes::CanarySettings;

impl AnnotationReader<'_> {
    /// Reads the annotations that apply to a canary. The limits on annotations apply as to others.
    pub(super) fn canary(&mut self, ingress: &Ingress, is_certain: bool) {
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
}
