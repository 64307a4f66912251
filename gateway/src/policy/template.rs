//! Compiled templates with variables, and their evaluation for a request.

use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderName, HeaderValue};
use sluice_config::{LogEscape, LogVariable, Piece, Variable};

use super::digest_auth;
use super::directives::Assigned;
use super::error::PolicyError;
use super::external_auth::AuthReply;
use crate::message::fields::Fields;
use crate::message::parts::{argument, basic_credentials, cookie};
use crate::message::request_head::RequestHead;
use crate::router::host_of;
use crate::telemetry;

static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A compiled template.
#[derive(Clone, Debug)]
pub struct Template(Box<[Part]>);

#[derive(Clone, Debug)]
enum Part {
    Text(Box<[u8]>),
    Variable(Variable),
    Field(HeaderName),
}

/// The values that template variables are read from.
pub struct TemplateContext<'f> {
    /// The connection, the client and the rule.
    pub request: telemetry::LogRecord<'f>,
    /// The head.
    pub head: &'f RequestHead<'f>,
    /// The normalised path.
    pub path: &'f str,
    /// The scheme that the client used, from trusted fields or the connection.
    pub access_scheme: &'f [u8],
    /// The host that the client used, from trusted fields or the authority.
    pub access_host: &'f str,
    /// Whether the rule checks digest credentials, which then name the user.
    pub checks_digest: bool,
    /// Values that the programs of snippets have assigned.
    pub assigned: Option<&'f Assigned>,
    /// The reply of the authorisation service, once it has admitted the request.
    pub authorised: Option<&'f AuthReply>,
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// The name of a field is invalid.
    pub fn compile(template: &sluice_config::Template) -> Result<Self, PolicyError> {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Ok(Part::Text(text.as_bytes().into())),
            Piece::Variable(Variable::Logged(LogVariable::Hostname)) => {
                Ok(Part::Text(telemetry::hostname().into_bytes().into()))
            }
            Piece::Variable(Variable::Logged(LogVariable::Pid)) => {
                Ok(Part::Text(std::process::id().to_string().into_bytes().into()))
            }
            Piece::Variable(Variable::Field(name)) => HeaderName::from_bytes(name.as_bytes())
                .map(Part::Field)
                .map_err(|_| PolicyError::HeaderName(name.to_string())),
            Piece::Variable(variable) => Ok(Part::Variable(variable.clone())),
        };
        template.pieces.iter().map(part).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the template has no variables and no groups.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Returns whether the template has variables of a request; groups do not count.
    pub fn has_variables(&self) -> bool {
        let is_variable = |part: &Part| match part {
            Part::Text(_) | Part::Variable(Variable::Group(_)) => false,
            Part::Variable(_) | Part::Field(_) => true,
        };
        self.0.iter().any(is_variable)
    }

    /// The same with all variables filled in but groups.
    pub fn resolve(&self, context: &TemplateContext<'_>) -> Self {
        let resolve = |part: &Part| match part {
            Part::Text(_) | Part::Variable(Variable::Group(_)) => part.clone(),
            Part::Variable(_) | Part::Field(_) => {
                Part::Text(Self([part.clone()].into()).fill(context).into())
            }
        };
        Self(self.0.iter().map(resolve).collect())
    }

    /// Returns the constant text with groups inserted; other variables are omitted.
    pub fn with_groups<'g>(&self, group_of: impl Fn(&str) -> &'g [u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(Variable::Group(name)) => out.extend_from_slice(group_of(name)),
                Part::Variable(_) | Part::Field(_) => {}
            }
        }
        out
    }

    /// Returns the constant text without variables.
    pub fn text(&self) -> Vec<u8> {
        let texts = self.0.iter().filter_map(|part| match part {
            Part::Text(text) => Some(&**text),
            Part::Variable(_) | Part::Field(_) => None,
        });
        texts.flatten().copied().collect()
    }

    /// What a request makes of it.
    pub fn fill(&self, context: &TemplateContext<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Field(name) => {
                    for (index, line) in context.head.headers.lines(name).enumerate() {
                        if index > 0 {
                            out.extend_from_slice(b", ");
                        }
                        out.extend_from_slice(line);
                    }
                }
                Part::Variable(variable) => context.fill(variable, &mut out),
            }
        }
        out
    }
}

impl TemplateContext<'_> {
    /// The user that credentials name: digest credentials only where the rule checks them, others
    /// always, as in nginx.
    fn user(&self) -> Option<Vec<u8>> {
        match self.checks_digest {
            true => digest_auth::user(self.head.headers),
            false => basic_credentials(self.head.headers).map(|(user, _)| user),
        }
    }

    fn fill(&self, variable: &Variable, out: &mut Vec<u8>) {
        let (head, request) = (self.head, &self.request);
        let (connection, origin) = (request.connection, request.origin);
        let query = head.query();
        let mut put = |bytes: &[u8]| out.extend_from_slice(bytes);
        match variable {
            Variable::Host => put(host_of(head.authority).as_bytes()),
            Variable::HttpHost => put(head.authority.as_bytes()),
            Variable::BestHttpHost => put(self.access_host.as_bytes()),
            Variable::RemoteUser => put(&self.user().unwrap_or_default()),
            Variable::Scheme => put(connection.scheme().as_bytes()),
            Variable::AccessScheme => put(self.access_scheme),
            Variable::RequestUri => put(head.target.as_bytes()),
            Variable::EscapedRequestUri => escape(head.target.as_bytes(), out),
            Variable::Uri => put(self.path.as_bytes()),
            Variable::Args => put(query.unwrap_or_default().as_bytes()),
            Variable::IsArgs => put(query.map_or(&b""[..], |_| b"?")),
            Variable::Method => put(head.method.as_str().as_bytes()),
            Variable::Protocol => put(format!("{:?}", head.version).as_bytes()),
            Variable::RequestLine => {
                put(format!("{} {} {:?}", head.method, head.target, head.version).as_bytes());
            }
            Variable::ClientAddress => put(request.client.to_string().as_bytes()),
            Variable::ServerPort => put(connection.declared_port.to_string().as_bytes()),
            Variable::RequestId => put(request.request_id),
            Variable::Https => put(if connection.is_https() { b"on" } else { b"" }),
            Variable::Seconds => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                put(format!("{}.{:03}", since.as_secs(), since.subsec_millis()).as_bytes());
            }
            Variable::ForwardedFor => {
                for line in head.headers.lines(&X_FORWARDED_FOR) {
                    put(line);
                    put(b", ");
                }
                put(request.client.to_string().as_bytes());
            }
            Variable::Namespace => put(origin.map_or("", |of| &of.object.name.namespace).as_bytes()),
            Variable::IngressName => put(origin.map_or("", |of| &of.object.name.name).as_bytes()),
            Variable::ServiceName => put(request.service.map_or("", |service| &service.name).as_bytes()),
            Variable::ServicePort => put(request.service.map_or("", |service| &service.port).as_bytes()),
            Variable::LocationPath => put(origin.map_or("", |of| &of.path).as_bytes()),
            Variable::Logged(variable) => request.fill(variable, LogEscape::None, out),
            Variable::Assigned(name) => put(self.assigned.map_or(&[], |assigned| assigned.variable(name))),
            Variable::Authorised(name) => {
                let value = self.authorised.and_then(|reply| reply.kept(name));
                put(value.map_or(&[], HeaderValue::as_bytes));
            }
            Variable::Group(name) => put(self.assigned.map_or(&[], |assigned| assigned.group(name))),
            // Fields are compiled to `Part::Field`.
            Variable::Unset | Variable::Field(_) => {}
            Variable::Cookie(name) => {
                put(cookie(head.headers, name).unwrap_or_default());
            }
            Variable::Argument(name) => {
                put(query.and_then(|query| argument(query, name)).unwrap_or_default().as_bytes());
            }
        }
    }
}

/// Escapes all characters that are not unreserved (RFC 3986 §2.3), as nginx does.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(*byte),
            _ => {
                out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use http::{Method, Version};
    use sluice_config::{ObjectRef, Origin};

    use super::*;
    use crate::message::field_list::FieldList;
    use crate::pipeline::tests::fixture::connection;

    /// What is known of a request.
    pub(in crate::policy) fn with_context(use_them: impl FnOnce(&TemplateContext<'_>)) {
        let mut headers = FieldList::default();
        headers.push_line(b"cookie", b"a=1; session=x=y; session2=no");
        headers.push_line(b"x-tenant", b"blue");
        headers.push_line(b"x-forwarded-for", b"203.0.113.9");
        headers.push_line(b"authorization", b"Basic YW5uOng6eQ");
        let head = RequestHead {
            method: &Method::POST,
            target: "/a%20b/c?x=1&y=é",
            authority: "Shop.example:8443",
            version: Version::HTTP_11,
            headers: &headers,
            length: 0,
        };
        let origin = Origin {
            object: ObjectRef::new("Ingress", "shop", "web"),
            rule: 0,
            match_index: 0,
            rule_name: None,
            path: "/a".into(),
        };
        let connection = connection(true);
        let context = TemplateContext {
            request: telemetry::LogRecord {
                client: "192.0.2.7".parse().unwrap(),
                request_id: b"r1",
                origin: Some(&origin),
                server_name: "shop.example",
                ..telemetry::LogRecord::at_start(&connection)
            },
            head: &head,
            path: "/a b/c",
            access_scheme: b"https",
            access_host: "public.example",
            checks_digest: false,
            assigned: None,
            authorised: None,
        };
        use_them(&context);
    }

    #[test]
    fn variables_are_filled_in_from_the_request() {
        for (variable, text) in [
            (Variable::Host, "shop.example"),
            (Variable::HttpHost, "Shop.example:8443"),
            (Variable::BestHttpHost, "public.example"),
            (Variable::RemoteUser, "ann"),
            (Variable::RequestLine, "POST /a%20b/c?x=1&y=é HTTP/1.1"),
            (Variable::Logged(LogVariable::ServerName), "shop.example"),
            (Variable::Unset, ""),
            (Variable::Scheme, "https"),
            (Variable::RequestUri, "/a%20b/c?x=1&y=é"),
            (Variable::EscapedRequestUri, "%2Fa%2520b%2Fc%3Fx%3D1%26y%3D%C3%A9"),
            (Variable::Uri, "/a b/c"),
            (Variable::Args, "x=1&y=é"),
            (Variable::IsArgs, "?"),
            (Variable::Method, "POST"),
            (Variable::Protocol, "HTTP/1.1"),
            (Variable::Https, "on"),
            (Variable::ForwardedFor, "203.0.113.9, 192.0.2.7"),
            (Variable::ClientAddress, "192.0.2.7"),
            (Variable::ServerPort, "443"),
            (Variable::RequestId, "r1"),
            (Variable::Namespace, "shop"),
            (Variable::IngressName, "web"),
            (Variable::ServiceName, ""),
            (Variable::LocationPath, "/a"),
            (Variable::Field("x-tenant".into()), "blue"),
            (Variable::Field("x-none".into()), ""),
            (Variable::Cookie("session".into()), "x=y"),
            (Variable::Argument("x".into()), "1"),
            (Variable::Argument("z".into()), ""),
        ] {
            let pieces =
                vec![Piece::Text("<".into()), Piece::Variable(variable.clone()), Piece::Text(">".into())];
            let template = Template::compile(&sluice_config::Template { pieces }).unwrap();
            with_context(|context| {
                let filled = String::from_utf8(template.fill(context)).unwrap();
                assert_eq!(filled, format!("<{text}>"), "{variable:?}");
            });
        }
    }
}
