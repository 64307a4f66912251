//! Values of nginx's variables: the only evaluation of them, for templates and for log lines.
//!
//! A variable is compiled once, when its text is. A value comes from the head of the request, which
//! is gone when the request ends, from the record of the request, which is complete only then, or
//! from the head of the response. A template reads them as they are at its moment; a log line saves
//! those of heads when they pass.

pub(crate) mod clock;
pub(crate) mod escape;
mod head;
mod record;
pub(crate) mod record_text;

use std::fs;
use std::sync::{Arc, LazyLock};

use http::header::{HeaderName, InvalidHeaderName};
use sluice_config::{LogEscape, Moment, Variable};

use crate::message::fields::{Fields, separator};

pub use escape::log_name;
pub(crate) use head::basic_user;
pub use head::{HeadValue, HeadValues};
pub use record::{RequestRecord, UpstreamAttempt};

/// The host name of this machine, or `localhost`.
pub(crate) static HOSTNAME: LazyLock<String> = LazyLock::new(|| {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "localhost".to_owned() } else { name.to_owned() }
});

/// A variable, by the origin of its value.
#[derive(Clone, Debug)]
pub enum CompiledVariable {
    /// The same for all requests.
    Constant(Box<[u8]>),
    /// From the head of the request.
    Head(HeadValue),
    /// From the record of the request.
    Record(Variable),
    /// A field of the response, as the endpoint sent it.
    Upstream(HeaderName),
    /// A field of the response, as the client receives it.
    Sent(HeaderName),
    /// A variable that a snippet has assigned.
    Assigned(Arc<str>),
    /// A variable of `map` or `geo`, and when it is known.
    Computed(Arc<str>, Moment),
    /// A field of the reply of the authorisation service.
    Authorised(Arc<str>),
    /// The body of the request.
    Body,
    /// A group of an expression.
    Group(Arc<str>),
}

impl CompiledVariable {
    /// Compiles a variable.
    ///
    /// # Errors
    /// The name of a field is invalid.
    pub fn compile(variable: &Variable) -> Result<Self, InvalidHeaderName> {
        let name = |text: &Arc<str>| HeaderName::from_bytes(text.as_bytes());
        Ok(match variable {
            Variable::Hostname => Self::Constant(HOSTNAME.as_bytes().into()),
            Variable::Pid => Self::Constant(std::process::id().to_string().into_bytes().into()),
            Variable::UpstreamField(field) => Self::Upstream(name(field)?),
            Variable::SentField(field) => Self::Sent(name(field)?),
            Variable::Assigned(name) => Self::Assigned(name.clone()),
            Variable::Computed { name, known } => Self::Computed(name.clone(), *known),
            Variable::Authorised(name) => Self::Authorised(name.clone()),
            Variable::RequestBody => Self::Body,
            Variable::Group(name) => Self::Group(name.clone()),
            variable => match HeadValue::compile(variable)? {
                Some(value) => Self::Head(value),
                None => Self::Record(variable.clone()),
            },
        })
    }

    /// Returns whether the value may be one that only this client has, such as its session. Copies
    /// of its other fields count as these do: an endpoint names them in `Vary`.
    pub(crate) fn may_identify_client(&self) -> bool {
        match self {
            Self::Head(value) => matches!(value, HeadValue::Cookie(_) | HeadValue::RemoteUser),
            // Made of any other variables.
            Self::Assigned(_) | Self::Computed(..) | Self::Group(_) => true,
            Self::Authorised(_) => true,
            // The certificate is a part of every key.
            Self::Constant(_) | Self::Record(_) | Self::Upstream(_) | Self::Sent(_) | Self::Body => false,
        }
    }
}

/// Writes all lines of a field, separated as nginx does; `None` if there is none.
pub(crate) fn write_field(
    fields: &impl Fields,
    name: &HeaderName,
    mode: LogEscape,
    out: &mut Vec<u8>,
) -> Option<()> {
    let mut lines = fields.lines(name);
    escape::escape(mode, lines.next()?, out);
    for line in lines {
        out.extend_from_slice(separator(name));
        escape::escape(mode, line, out);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use http::header::COOKIE;

    use super::*;
    use crate::message::field_list::FieldList;

    #[test]
    fn lines_of_cookies_are_joined_as_in_nginx() {
        let mut fields = FieldList::default();
        for (name, value) in [("cookie", "a=1"), ("x-role", "user"), ("cookie", "b=2"), ("x-role", "admin")] {
            fields.push_line(name.as_bytes(), value.as_bytes());
        }
        for (name, text) in [(COOKIE, "a=1; b=2"), (HeaderName::from_static("x-role"), "user, admin")] {
            let mut out = Vec::new();
            write_field(&fields, &name, LogEscape::None, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), text);
            assert_eq!(fields.joined(&name).as_deref(), Some(text.as_bytes()));
        }
    }
}
