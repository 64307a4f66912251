//! A compiled set of header fields from a ConfigMap (`proxy-set-headers`, `add-headers`,
//! `custom-headers`, `auth-proxy-set-headers`). Each field replaces all fields of its name; an
//! empty value removes them, as in nginx.

use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::error::PolicyError;
use super::template::{ResponseContext, Template, TemplateContext};
use crate::message::edit::{Edit, EditableName, HeadMut, NameError};

/// A set of header fields.
#[derive(Debug, Default)]
pub struct HeaderSet {
    fixed: FilledHeaders,
    /// Fields whose values depend on the request.
    templates: Box<[(EditableName, Template)]>,
}

/// Fields with their values for one request; `None` removes the field.
#[derive(Clone, Debug, Default)]
pub struct FilledHeaders {
    values: Box<[(EditableName, Option<HeaderValue>)]>,
    /// Positions of values that only the client of the request may have.
    of_client: Box<[usize]>,
    /// Fields whose values are known with the response.
    late: Box<[(EditableName, Template)]>,
}

impl HeaderSet {
    /// Compiles a set.
    ///
    /// # Errors
    /// A name or value is invalid, or a field must not be changed.
    pub fn compile(set: &sluice_config::HeaderSet) -> Result<Self, PolicyError> {
        let (mut fixed, mut templates) = (Vec::new(), Vec::new());
        for (text, template) in &set.fields {
            let name = name(text)?;
            match Template::compile(template)? {
                template if template.is_plain() => {
                    let value = HeaderValue::from_bytes(&template.text());
                    let value = value.map_err(|_| PolicyError::HeaderValue(text.to_string()))?;
                    fixed.push((name, (!value.is_empty()).then_some(value)));
                }
                template => {
                    // Removed until the template is evaluated, so that the client's field never
                    // replaces the operator's.
                    fixed.push((name.clone(), None));
                    templates.push((name, template));
                }
            }
        }
        let fixed = FilledHeaders { values: fixed.into(), ..FilledHeaders::default() };
        Ok(Self { fixed, templates: templates.into() })
    }

    /// Returns whether a value depends on the request. The set must then be [filled](Self::fill)
    /// for each request.
    pub fn has_variables(&self) -> bool {
        !self.templates.is_empty()
    }

    /// Returns whether `Authorization` gets a value that depends on the request.
    pub fn sets_credentials(&self) -> bool {
        self.templates.iter().any(|(name, _)| *name.get() == AUTHORIZATION)
    }

    /// Returns the constant fields, and removals of all others.
    pub fn fixed(&self) -> &FilledHeaders {
        &self.fixed
    }

    /// Returns all fields with their values for a request. A value that no field can have counts as
    /// empty: a decoded path may contain a line break.
    pub fn fill(&self, context: &TemplateContext<'_>) -> FilledHeaders {
        let (mut values, mut of_client, mut late) = (self.fixed.values.to_vec(), Vec::new(), Vec::new());
        for (name, template) in &self.templates {
            match template.is_of_response() {
                true => late.push((name.clone(), template.resolve_request(context))),
                false => {
                    of_client.extend(template.may_identify_client().then_some(values.len()));
                    let value = HeaderValue::try_from(template.fill(context)).ok();
                    values.push((name.clone(), value.filter(|value| !value.is_empty())));
                }
            }
        }
        FilledHeaders { values: values.into(), of_client: of_client.into(), late: late.into() }
    }
}

impl FilledHeaders {
    /// Edits a head.
    pub fn apply(&self, head: &mut Edit<'_, impl HeadMut>) {
        for (name, value) in &self.values {
            match value {
                Some(value) => head.set(name, value),
                None => head.remove(name),
            }
        }
    }

    /// The values that only the client of the request may have; `None` for an empty one.
    pub fn values_of_client(&self) -> impl Iterator<Item = Option<&HeaderValue>> {
        self.of_client.iter().filter_map(|at| self.values.get(*at)).map(|(_, value)| value.as_ref())
    }

    /// The templates whose values are known with the response.
    pub fn late(&self) -> impl Iterator<Item = &Template> {
        self.late.iter().map(|(_, template)| template)
    }

    /// Edits the head of a response by these templates.
    pub fn apply_late(&self, context: &ResponseContext<'_>, head: &mut Edit<'_, impl HeadMut>) {
        for (name, template) in &self.late {
            let value = template.fill_response(context, head.fields());
            if !value.is_empty() {
                head.set(name, &value);
            }
        }
    }
}

/// Parses a name. The error contains the reason.
pub(super) fn name(text: &str) -> Result<EditableName, PolicyError> {
    EditableName::new(text).map_err(|error| match error {
        NameError::Malformed => PolicyError::HeaderName(text.to_owned()),
        NameError::Own => PolicyError::OwnHeader(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sluice_config::{TemplatePiece, Variable};

    use super::*;
    use crate::policy::template::tests::with_context;

    fn set(fields: &[(&str, sluice_config::Template)]) -> Result<HeaderSet, PolicyError> {
        let fields = fields.iter().map(|(name, value)| ((*name).into(), value.clone())).collect();
        HeaderSet::compile(&sluice_config::HeaderSet { fields })
    }

    fn variable(variable: Variable) -> sluice_config::Template {
        sluice_config::Template { pieces: vec![TemplatePiece::Variable(variable)] }
    }

    #[test]
    fn fields_replace_those_of_the_head_and_an_empty_one_removes_them() {
        let plain = sluice_config::Template::plain;
        let set = set(&[
            ("X-A", plain("1")),
            ("X-B", plain("")),
            ("X-Host", variable(Variable::Host)),
            ("X-C", variable(Variable::Argument("none".into()))),
        ])
        .unwrap();
        assert!(set.has_variables());
        let mut head = HeaderMap::new();
        for name in ["x-a", "x-a", "x-b", "x-c", "x-host", "x-d"] {
            head.append(name, HeaderValue::from_static("client"));
        }
        with_context(|context| set.fill(context).apply(&mut Edit::new(&mut head)));
        let mut fields: Vec<_> = head.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        fields.sort_unstable();
        assert_eq!(fields, [("x-a", &b"1"[..]), ("x-d", b"client"), ("x-host", b"shop.example")]);
    }

    #[test]
    fn a_value_that_no_field_can_have_is_none() {
        let set = set(&[("X-Path", variable(Variable::Field("x-path".into())))]).unwrap();
        let mut head = HeaderMap::new();
        head.insert("x-path", HeaderValue::from_static("client"));
        with_context(|context| set.fill(context).apply(&mut Edit::new(&mut head)));
        assert!(head.is_empty());
    }

    #[test]
    fn fields_of_the_gateway_are_refused() {
        let plain = sluice_config::Template::plain("1");
        for name in
            sluice_config::OWN_FIELDS.into_iter().chain(["Content-Length", "TRANSFER-ENCODING", "Host"])
        {
            let error = set(&[(name, plain.clone())]).unwrap_err();
            assert_eq!(error, PolicyError::OwnHeader(name.to_owned()));
        }
        assert!(set(&[("x-content-length", plain.clone())]).is_ok());
        assert_eq!(set(&[("a b", plain)]).unwrap_err(), PolicyError::HeaderName("a b".into()));
        let error = set(&[("x-a", sluice_config::Template::plain("b\n"))]).unwrap_err();
        assert_eq!(error, PolicyError::HeaderValue("x-a".into()));
    }
}
