//! Compiled templates with variables, and their evaluation for a request.

mod computed;

use http::{HeaderName, HeaderValue};
use sluice_config::{LogEscape, Moment, TemplatePiece};

use super::assigned::Assigned;
use super::auth_reply::AuthReply;
use super::error::PolicyError;
use crate::expression::is_limit_reached;
use crate::message::fields::Fields;
use crate::variable::{CompiledVariable, HeadValues, RequestRecord, write_field};

pub use computed::ComputedVariables;

/// A compiled template.
#[derive(Clone, Debug, Default)]
pub struct Template(Box<[Part]>);

#[derive(Clone, Debug)]
enum Part {
    Text(Box<[u8]>),
    Variable(CompiledVariable),
    /// A computed variable that looks up this text, which is known with the response.
    Late {
        name: std::sync::Arc<str>,
        source: Template,
    },
}

/// The values that template variables are read from.
pub struct TemplateContext<'f> {
    /// The connection, the client and the rule.
    pub record: RequestRecord<'f>,
    /// The head.
    pub head: HeadValues<'f>,
    /// Variables that are looked up in tables.
    pub computed: &'f ComputedVariables,
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
        let part = |piece: &TemplatePiece| match piece {
            TemplatePiece::Text(text) => Ok(Part::Text(text.as_bytes().into())),
            TemplatePiece::Variable(variable) => match CompiledVariable::compile(variable) {
                Ok(CompiledVariable::Constant(text)) => Ok(Part::Text(text)),
                Ok(compiled) => Ok(Part::Variable(compiled)),
                Err(_) => Err(PolicyError::HeaderName(format!("{variable:?}"))),
            },
        };
        template.pieces.iter().map(part).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether the template has no variables and no groups.
    pub fn is_plain(&self) -> bool {
        self.0.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// Returns whether the template has variables of a request; groups do not count.
    pub fn has_variables(&self) -> bool {
        self.0.iter().any(|part| part.is_filled_in())
    }

    /// Returns whether the template has variables whose values are known with the response.
    pub fn is_of_response(&self) -> bool {
        self.0.iter().any(Part::is_of_response)
    }

    /// Returns whether the text may be one that only this client has.
    pub fn may_identify_client(&self) -> bool {
        self.0.iter().any(|part| match part {
            Part::Variable(variable) => variable.may_identify_client(),
            Part::Text(_) | Part::Late { .. } => false,
        })
    }

    /// Returns the template with all variables filled in, except groups.
    pub fn resolve(&self, context: &TemplateContext<'_>) -> Self {
        self.map(context, |part| part.is_filled_in())
    }

    /// The same with all variables filled in but those of the response.
    pub fn resolve_request(&self, context: &TemplateContext<'_>) -> Self {
        self.map(context, |part| !part.is_of_response())
    }

    fn map(&self, context: &TemplateContext<'_>, is_filled_in: impl Fn(&Part) -> bool) -> Self {
        let resolve = |part: &Part| match part {
            Part::Variable(CompiledVariable::Computed(name, _)) if !is_filled_in(part) => {
                let source = context.computed.source(name).map(|source| source.resolve_request(context));
                Part::Late { name: name.clone(), source: source.unwrap_or_default() }
            }
            Part::Variable(variable) if is_filled_in(part) => {
                let mut text = Vec::new();
                context.fill(variable, &mut text);
                Part::Text(text.into())
            }
            part => part.clone(),
        };
        Self(self.0.iter().map(resolve).collect())
    }

    /// Returns the constant text with groups inserted; other variables are omitted.
    pub fn with_groups<'g>(&self, group_of: impl Fn(&str) -> &'g [u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(CompiledVariable::Group(name)) => out.extend_from_slice(group_of(name)),
                Part::Variable(_) | Part::Late { .. } => {}
            }
        }
        out
    }

    /// Returns the constant text without variables.
    pub fn text(&self) -> Vec<u8> {
        self.with_groups(|_| &[])
    }

    /// Returns the text for a request.
    pub fn fill(&self, context: &TemplateContext<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => context.fill(variable, &mut out),
                // A request has no text with the values of its response.
                Part::Late { .. } => {}
            }
        }
        out
    }

    /// The field value that a response makes of a template whose variables of the request are
    /// filled in. What no field can have counts as empty, and so does a value whose expressions
    /// reached the step limit.
    pub fn fill_response(&self, context: &ResponseContext<'_>, sent: &impl Fields) -> HeaderValue {
        let text = self.text_of_response(context, sent).unwrap_or_default();
        HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
    }

    /// Returns `None` if a lookup is at the step limit: neither a match of an expression nor its
    /// absence is known.
    fn text_of_response(&self, context: &ResponseContext<'_>, sent: &impl Fields) -> Option<Vec<u8>> {
        let mut out = Vec::with_capacity(128);
        for part in &self.0 {
            match part {
                Part::Text(text) => out.extend_from_slice(text),
                Part::Variable(variable) => context.fill(variable, sent, &mut out),
                Part::Late { name, source } => {
                    let text = source.text_of_response(context, sent)?;
                    context.computed.write_of_response(name, &text, &mut out);
                    if is_limit_reached() {
                        return None;
                    }
                }
            }
        }
        Some(out)
    }

    /// The fields of the endpoint's response that it has.
    pub fn upstream_fields(&self) -> Vec<&HeaderName> {
        let fields = self.0.iter().flat_map(|part| match part {
            Part::Variable(CompiledVariable::Upstream(name)) => vec![name],
            Part::Late { source, .. } => source.upstream_fields(),
            Part::Variable(_) | Part::Text(_) => Vec::new(),
        });
        fields.collect()
    }
}

impl Part {
    /// Whether a request fills it in.
    fn is_filled_in(&self) -> bool {
        !matches!(self, Self::Text(_) | Self::Variable(CompiledVariable::Group(_)))
    }

    /// Whether its value is known with the response.
    fn is_of_response(&self) -> bool {
        match self {
            Self::Variable(CompiledVariable::Upstream(_) | CompiledVariable::Sent(_)) => true,
            Self::Variable(CompiledVariable::Record(variable)) => is_of_response(variable.known()),
            Self::Variable(CompiledVariable::Computed(_, known)) => is_of_response(*known),
            Self::Late { .. } => true,
            _ => false,
        }
    }
}

/// Whether a value that is known at this moment is known with the response, and not before.
fn is_of_response(known: Moment) -> bool {
    (Moment::Attempt..=Moment::Response).contains(&known)
}

impl TemplateContext<'_> {
    fn fill(&self, variable: &CompiledVariable, out: &mut Vec<u8>) {
        // A variable without a value adds nothing.
        let _ = match variable {
            CompiledVariable::Head(value) => value.write(&self.head, LogEscape::None, out),
            CompiledVariable::Record(variable) => self.record.write(variable, LogEscape::None, out),
            CompiledVariable::Assigned(name) => {
                self.assigned.map(|assigned| out.extend_from_slice(assigned.variable(name)))
            }
            CompiledVariable::Group(name) => {
                self.assigned.map(|assigned| out.extend_from_slice(assigned.group(name)))
            }
            CompiledVariable::Computed(name, _) => {
                self.computed.write(name, self, out);
                Some(())
            }
            CompiledVariable::Authorised(name) => {
                let value = self.authorised.and_then(|reply| reply.kept(name));
                value.map(|value| out.extend_from_slice(value.as_bytes()))
            }
            // Translation leaves bodies to log lines, and fields of responses to texts that are
            // evaluated with a response.
            CompiledVariable::Constant(_)
            | CompiledVariable::Body
            | CompiledVariable::Upstream(_)
            | CompiledVariable::Sent(_) => None,
        };
    }
}

/// The values that variables of a response are read from.
pub struct ResponseContext<'f> {
    /// The connection, the attempts and the status.
    pub record: RequestRecord<'f>,
    /// Fields of the endpoint's response that templates have.
    pub upstream: &'f Vec<(HeaderName, HeaderValue)>,
    /// Variables that are looked up in tables.
    pub computed: &'f ComputedVariables,
}

impl ResponseContext<'_> {
    /// `sent` has the fields of the response for the client.
    fn fill(&self, variable: &CompiledVariable, sent: &impl Fields, out: &mut Vec<u8>) {
        // A variable without a value adds nothing.
        let _ = match variable {
            CompiledVariable::Record(variable) => self.record.write(variable, LogEscape::None, out),
            CompiledVariable::Sent(name) => write_field(sent, name, LogEscape::None, out),
            CompiledVariable::Upstream(name) => write_field(self.upstream, name, LogEscape::None, out),
            // The request has filled in the others.
            _ => None,
        };
    }
}

#[cfg(test)]
pub(super) mod tests {
    use http::{Method, Version};
    use sluice_config::{ObjectRef, Origin, Variable};

    use super::*;
    use crate::message::field_list::FieldList;
    use crate::message::request_head::RequestHead;
    use crate::pipeline::tests::fixture::connection;
    use crate::variable::basic_user;

    /// Calls `use_them` with the context of a request.
    pub(in crate::policy) fn with_context(use_them: impl FnOnce(&TemplateContext<'_>)) {
        let mut headers = FieldList::default();
        headers.push_line(b"cookie", b"a=1; session=x=y; session2=no");
        headers.push_line(b"x-tenant", b"blue");
        headers.push_line(b"x-forwarded-for", b"203.0.113.9");
        headers.push_line(b"authorization", b"Basic YW5uOng6eQ");
        let head = RequestHead {
            method: &Method::POST,
            target: "/a%20b/c?x=1&y=é",
            received: None,
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
        let computed = ComputedVariables::default();
        let context = TemplateContext {
            record: RequestRecord {
                method: Some(head.method),
                authority: head.authority,
                client: "192.0.2.7".parse().unwrap(),
                request_id: b"r1",
                origin: Some(&origin),
                server_name: "shop.example",
                ..RequestRecord::at_start(&connection)
            },
            head: HeadValues {
                head: &head,
                path: Some(b"/a b/c"),
                query: head.query(),
                received: head.received,
                access_scheme: b"https",
                access_host: "public.example",
                client: "192.0.2.7".parse().unwrap(),
                user: basic_user,
            },
            computed: &computed,
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
            (Variable::Request, "POST /a%20b/c?x=1&y=é HTTP/1.1"),
            (Variable::ServerName, "shop.example"),
            (Variable::Unserved, ""),
            (Variable::Scheme, "https"),
            (Variable::RequestUri, "/a%20b/c?x=1&y=é"),
            (Variable::EscapedRequestUri, "%2Fa%2520b%2Fc%3Fx%3D1%26y%3D%C3%A9"),
            (Variable::Uri, "/a b/c"),
            (Variable::Args, "x=1&y=é"),
            (Variable::IsArgs, "?"),
            (Variable::RequestMethod, "POST"),
            (Variable::ServerProtocol, "HTTP/1.1"),
            (Variable::Https, "on"),
            (Variable::ForwardedFor, "203.0.113.9, 192.0.2.7"),
            (Variable::RemoteAddr, "192.0.2.7"),
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
            let pieces = vec![
                TemplatePiece::Text("<".into()),
                TemplatePiece::Variable(variable.clone()),
                TemplatePiece::Text(">".into()),
            ];
            let template = Template::compile(&sluice_config::Template { pieces }).unwrap();
            with_context(|context| {
                let filled = String::from_utf8(template.fill(context)).unwrap();
                assert_eq!(filled, format!("<{text}>"), "{variable:?}");
            });
        }
    }
}
