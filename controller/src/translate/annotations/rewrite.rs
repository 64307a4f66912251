//! Paths as regular expressions, other paths for the endpoints, and other changes to requests and responses on their
//! way.

mod template;

use std::sync::Arc;

use sluice_config::Rewrite;

use super::Settings;
use crate::translate::setting::{Fault, NotYet, Risk, Setting};
use crate::translate::value::{self, Value};

pub use template::RewriteFault;
pub(crate) use template::compile;
use template::{Target, Text};

/// What the annotations of this family say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewriting {
    /// `use-regex`.
    use_regex: bool,
    /// `rewrite-target`, as it was written and as it was read.
    target: Option<(Arc<str>, Target)>,
    /// `x-forwarded-prefix`.
    forwarded_prefix: Option<Text>,
    /// `app-root`.
    pub app_root: Option<Arc<str>>,
}

impl Rewriting {
    /// Whether it asks for anything.
    pub fn is_idle(&self) -> bool {
        *self == Self::default()
    }

    /// Whether this path makes all paths of its host expressions.
    pub fn makes_expressions(&self, path: &str) -> bool {
        self.use_regex || self.is_rewritten(path)
    }

    /// A target that is the path itself asks for nothing.
    fn is_rewritten(&self, path: &str) -> bool {
        self.target.as_ref().is_some_and(|(text, _)| **text != *path)
    }

    /// What a path becomes.
    ///
    /// # Errors
    /// The target names a group that the path does not have.
    pub fn for_path(&self, path: &str) -> Result<Option<Rewrite>, RewriteFault> {
        match &self.target {
            Some((_, target)) if self.is_rewritten(path) => {
                target.resolve(path, self.forwarded_prefix.as_ref()).map(Some)
            }
            _ => Ok(None),
        }
    }
}

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "rewrite-target",
        Value::CapturePath,
        "",
        "Path sent upstream, with $1 to $9 and named groups of the path, which is a regular expression then. A URL \
         redirects to it (302).",
        |text, settings: &mut Settings| {
            if !text.is_empty() {
                settings.rewriting.target = Some((text.into(), Target::read(text)?));
            }
            Ok(())
        },
    )
    .ingress(Risk::Medium),
    Setting::served(
        "use-regex",
        Value::Bool,
        "false",
        "Paths of the host, of all its Ingresses, are regular expressions from the start of the path, without regard \
         to case.",
        |text, settings: &mut Settings| {
            settings.rewriting.use_regex = value::bool(text)?;
            Ok(())
        },
    )
    .location(Risk::Low),
    Setting::served(
        "app-root",
        Value::CapturePath,
        "",
        "Path that / of the host is redirected to with 302.",
        |text, settings: &mut Settings| {
            if !text.is_empty() {
                settings.rewriting.app_root = Some(app_root(text)?.into());
            }
            Ok(())
        },
    )
    .location(Risk::Medium)
    .invalid_means_default(),
    Setting::served(
        "x-forwarded-prefix",
        Value::CapturePath,
        "",
        "X-Forwarded-Prefix to upstream, with groups of the path, where rewrite-target changes the path.",
        |text, settings: &mut Settings| {
            if !text.is_empty() {
                settings.rewriting.forwarded_prefix = Some(Text::read(text)?);
            }
            Ok(())
        },
    )
    .location(Risk::Medium)
    .invalid_means_default(),
    Setting::not_yet(
        "upstream-vhost",
        Value::Text,
        "$host",
        NotYet::ChangesAnswers,
        "Host header sent upstream.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "connection-proxy-header",
        Value::OneOf(&["keep-alive", "close"]),
        "",
        NotYet::Harmless,
        "Value of the Connection header sent upstream.",
    )
    .location(Risk::Low),
    Setting::not_yet(
        "proxy-cookie-domain",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrites Domain of upstream Set-Cookie.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "proxy-cookie-path",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Rewrites Path of upstream Set-Cookie.",
    )
    .location(Risk::Medium),
    Setting::not_yet(
        "proxy-redirect-from",
        Value::Text,
        "off",
        NotYet::ChangesAnswers,
        "Text in Location/Refresh to replace.",
    )
    .location(Risk::Medium)
    .idle_at(&["default"]),
    Setting::not_yet(
        "proxy-redirect-to",
        Value::Text,
        "off",
        NotYet::Harmless,
        "Text that replaces proxy-redirect-from.",
    )
    .location(Risk::Medium),
];

fn app_root(text: &str) -> Result<&str, Fault> {
    let good = |b: u8| b.is_ascii_graphic() && !b"$#\"<>\\^`{|}".contains(&b);
    match text.starts_with('/') && !text.starts_with("//") && text.bytes().all(good) {
        true => Ok(text),
        false => Err("must be a path from the root, without $".to_owned().into()),
    }
}
