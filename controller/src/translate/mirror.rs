//! Settings of the `mirror-target` family, and the resulting policy.

use sluice_config::{CallDestination, Mirror, Moment, Template, TemplatePiece, Variable};

use super::backend::Uses;
use super::remote::Remote;
use super::template;
use super::value::Type;
use super::view::View;

/// Parsed settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MirrorSettings {
    /// `mirror-target`.
    pub(crate) target: Option<Remote>,
    /// `mirror-host`.
    pub(crate) host: Option<Template>,
    /// `mirror-request-body`.
    pub(crate) body: bool,
}

impl Default for MirrorSettings {
    fn default() -> Self {
        Self { target: None, host: None, body: true }
    }
}

/// `mirror-host`.
pub(crate) fn host() -> Type<Template> {
    Type::new("a host, with a port or without", |text| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]${}".contains(&byte);
        match !text.is_empty() && text.bytes().all(fits) {
            true => template::parse(text, Moment::Request),
            false => Err("must be a host, with a port or without".to_owned()),
        }
    })
    .evaluated_at(Moment::Request)
}

impl MirrorSettings {
    /// Returns the policy for requests to `host`, or to any host if that is `None`; `None` without
    /// a target.
    pub(crate) fn policy(&self, view: &View<'_>, uses: &mut Uses, host: Option<&str>) -> Option<Mirror> {
        let target = self.target.as_ref()?;
        let to = target.resolve(view, uses, host);
        let of_target = || match &to {
            CallDestination::Fixed { host, .. } => Template::plain(&bracketed(host)),
            CallDestination::PerRequest { host, .. } => host.clone(),
        };
        Some(Mirror {
            host: self.host.clone().unwrap_or_else(of_target),
            to,
            target: with_query(target),
            body: self.body,
        })
    }
}

/// Returns path and query of a copy. nginx appends the query of the request to a URL without
/// variables.
fn with_query(url: &Remote) -> Template {
    let mut target = url.target.clone();
    if url.is_fixed() {
        target.pieces.extend([Variable::IsArgs, Variable::Args].map(TemplatePiece::Variable));
    }
    target
}

/// Returns an IPv6 address in the form of a `Host` field (RFC 3986 §3.2.2).
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}
