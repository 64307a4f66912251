//! Changes of fields, with values that are ready or filled in once per request.

use std::borrow::Cow;

use http::HeaderValue;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use jiff::{SignedDuration, Timestamp};
use sluice_config::directives::{FieldChange, FieldOperation, ResponseChange, Statuses};

use super::value;
use crate::message::edit::{Edit, EditableName, HeadMut};
use crate::message::fields::Fields;
use crate::policy::error::PolicyError;
use crate::policy::header_set;
use crate::policy::template::{ResponseContext, Template, TemplateContext};

/// Changes of fields, in order.
#[derive(Debug, Default)]
pub struct FieldChanges {
    changes: Box<[Change]>,
    templates: Box<[Template]>,
}

/// Changes of a response with their conditions, in order.
#[derive(Debug, Default)]
pub struct ResponseChanges {
    changes: FieldChanges,
    conditions: Box<[ResponseCondition]>,
    /// How many of them, the first, are of the location.
    of_location: usize,
}

/// Changes of a response that apply together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeLevel {
    /// Those before the fields of `custom-headers` and CORS.
    Location,
    /// Those behind them.
    Inner,
}

/// The values of the templates of a list, for one request. What no field can have counts as empty.
#[derive(Debug)]
pub struct FilledValues(Box<[FilledValue]>);

#[derive(Debug)]
enum FilledValue {
    Ready(HeaderValue),
    /// Known with the response.
    Late(Template),
}

#[derive(Debug)]
struct ResponseCondition {
    /// The condition is that of the change before it.
    is_continuation: bool,
    statuses: Statuses,
    content_types: Box<[Box<str>]>,
}

#[derive(Debug)]
struct Change {
    name: Name,
    operation: Operation,
}

#[derive(Debug)]
enum Name {
    Whole(EditableName),
    /// All fields whose names start with this text.
    Prefix(Box<str>),
}

#[derive(Debug)]
enum Operation {
    Set(Value),
    Replace(Value),
    Append(Value),
    SetDate(i64),
    Remove,
}

#[derive(Debug)]
enum Value {
    Fixed(HeaderValue),
    /// Position of the template.
    Template(usize),
}

impl FieldChanges {
    /// Compiles a list.
    ///
    /// # Errors
    /// A field cannot be changed, or not have the value.
    pub(in crate::policy) fn compile(changes: &[FieldChange]) -> Result<Self, PolicyError> {
        let mut templates = Vec::new();
        let changes = changes.iter().map(|change| Change::compile(change, &mut templates));
        Ok(Self { changes: changes.collect::<Result<_, _>>()?, templates: templates.into() })
    }

    /// Whether a value depends on the request.
    pub fn has_variables(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The values for one request; `None` if none depends on it.
    pub fn fill(&self, context: &TemplateContext<'_>) -> Option<FilledValues> {
        let one = |template: &Template| match template.is_of_response() {
            true => FilledValue::Late(template.resolve_request(context)),
            false => {
                let value = HeaderValue::try_from(template.fill(context));
                FilledValue::Ready(value.unwrap_or(HeaderValue::from_static("")))
            }
        };
        self.has_variables().then(|| FilledValues(self.templates.iter().map(one).collect()))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The names of the fields that change; of fields that are removed by the start of their names,
    /// that start.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.changes.iter().map(|change| match &change.name {
            Name::Whole(name) => name.get().as_str(),
            Name::Prefix(prefix) => &**prefix,
        })
    }

    /// Whether `Authorization` gets a value that depends on the request.
    pub fn sets_credentials(&self) -> bool {
        self.changes.iter().any(Change::sets_credentials)
    }

    /// The values of a request that only its client may have.
    pub fn values_of_client<'v>(
        &'v self,
        filled: Option<&'v FilledValues>,
    ) -> impl Iterator<Item = &'v HeaderValue> {
        let values = filled.into_iter().flat_map(|filled| &filled.0);
        self.templates.iter().zip(values).filter_map(|(template, value)| match value {
            FilledValue::Ready(value) => template.may_identify_client().then_some(value),
            FilledValue::Late(_) => None,
        })
    }

    /// Changes the head of a request.
    pub fn apply(&self, filled: Option<&FilledValues>, head: &mut Edit<'_, impl HeadMut>) {
        for change in &self.changes {
            change.apply(filled, None, head);
        }
    }
}

impl FilledValues {
    /// The templates whose values are known with the response.
    pub fn late(&self) -> impl Iterator<Item = &Template> {
        self.0.iter().filter_map(|value| match value {
            FilledValue::Late(template) => Some(template),
            FilledValue::Ready(_) => None,
        })
    }
}

impl ResponseChanges {
    /// Compiles a list.
    ///
    /// # Errors
    /// A field cannot be changed, or not have the value.
    pub(super) fn compile(changes: &[ResponseChange], of_location: usize) -> Result<Self, PolicyError> {
        let mut templates = Vec::new();
        let compiled = changes.iter().map(|change| Change::compile(&change.change, &mut templates));
        let compiled = compiled.collect::<Result<_, _>>()?;
        let conditions = changes.iter().map(|change| ResponseCondition {
            is_continuation: change.is_continuation,
            statuses: change.statuses.clone(),
            content_types: change.content_types.iter().map(|one| (**one).into()).collect(),
        });
        Ok(Self {
            changes: FieldChanges { changes: compiled, templates: templates.into() },
            conditions: conditions.collect(),
            of_location,
        })
    }

    /// Whether a value depends on the request.
    pub fn has_variables(&self) -> bool {
        self.changes.has_variables()
    }

    /// The values for one request; `None` if none depends on it.
    pub fn fill(&self, context: &TemplateContext<'_>) -> Option<FilledValues> {
        self.changes.fill(context)
    }

    /// Changes the head of a response with this status. The context is there if values are
    /// [late](FilledValues::late).
    pub fn apply(
        &self,
        level: ChangeLevel,
        status: u16,
        filled: Option<&FilledValues>,
        context: Option<&ResponseContext<'_>>,
        head: &mut Edit<'_, impl HeadMut>,
    ) {
        let (skipped, taken) = match level {
            ChangeLevel::Location => (0, self.of_location),
            ChangeLevel::Inner => (self.of_location, usize::MAX),
        };
        let changes = self.changes.changes.iter().zip(&self.conditions);
        let mut holds = false;
        for (change, condition) in changes.skip(skipped).take(taken) {
            if !condition.is_continuation {
                holds = condition.holds(status, head);
            }
            if holds && change.sets_content_type() {
                let charset = charset(head.fields());
                change.apply(filled, context, head);
                change.keep_charset(charset, head);
            } else if holds {
                change.apply(filled, context, head);
            }
        }
    }
}

impl ResponseCondition {
    fn holds(&self, status: u16, head: &mut Edit<'_, impl HeadMut>) -> bool {
        if !self.statuses.contain(status) {
            return false;
        }
        if self.content_types.is_empty() {
            return true;
        }
        let content_type = head.fields().first(&CONTENT_TYPE).unwrap_or_default();
        let bare = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        self.content_types.iter().any(|one| one.as_bytes().eq_ignore_ascii_case(bare))
    }
}

/// Returns the charset of the `Content-Type`.
fn charset(fields: &impl Fields) -> Option<Vec<u8>> {
    const NAME: &[u8] = b"charset=";
    let parameters = fields.first(&CONTENT_TYPE)?.split(|byte| *byte == b';').skip(1);
    let charset = parameters.map(<[u8]>::trim_ascii).find_map(|parameter| {
        let (name, value) = parameter.split_at_checked(NAME.len())?;
        name.eq_ignore_ascii_case(NAME).then_some(value)
    });
    charset.map(<[u8]>::to_vec)
}

impl Change {
    fn sets_content_type(&self) -> bool {
        let is_set = matches!(self.operation, Operation::Set(_) | Operation::Replace(_));
        is_set && matches!(&self.name, Name::Whole(name) if *name.get() == CONTENT_TYPE)
    }

    /// Adds the charset that a response had, unless its new `Content-Type` has parameters, as nginx
    /// does with that of headers-more.
    fn keep_charset(&self, charset: Option<Vec<u8>>, head: &mut Edit<'_, impl HeadMut>) {
        let (Some(charset), Name::Whole(name)) = (charset, &self.name) else { return };
        let new = head.fields().first(name.get()).filter(|value| !value.contains(&b';'));
        let whole = new.map(|media_type| [media_type, b"; charset=", &charset].concat());
        if let Some(whole) = whole.and_then(|whole| HeaderValue::from_bytes(&whole).ok()) {
            head.set(name, &whole);
        }
    }

    fn compile(change: &FieldChange, templates: &mut Vec<Template>) -> Result<Self, PolicyError> {
        let FieldChange { name, operation } = change;
        let mut compile = |template| {
            Ok(match value(template, name)? {
                Ok(value) => Value::Fixed(value),
                Err(template) => {
                    templates.push(template);
                    Value::Template(templates.len() - 1)
                }
            })
        };
        let operation = match operation {
            FieldOperation::Set(template) => Operation::Set(compile(template)?),
            FieldOperation::Replace(template) => Operation::Replace(compile(template)?),
            FieldOperation::Append(template) => Operation::Append(compile(template)?),
            FieldOperation::SetDate(offset) => Operation::SetDate(*offset),
            FieldOperation::Remove => Operation::Remove,
            FieldOperation::RemovePrefix => {
                let name = Name::Prefix(name.to_ascii_lowercase().into());
                return Ok(Self { name, operation: Operation::Remove });
            }
        };
        Ok(Self { name: Name::Whole(header_set::name(name)?), operation })
    }

    fn sets_credentials(&self) -> bool {
        let is_authorization = matches!(&self.name, Name::Whole(name) if *name.get() == AUTHORIZATION);
        let value = match &self.operation {
            Operation::Set(value) | Operation::Replace(value) | Operation::Append(value) => Some(value),
            Operation::SetDate(_) | Operation::Remove => None,
        };
        is_authorization && matches!(value, Some(Value::Template(_)))
    }

    fn apply(
        &self,
        filled: Option<&FilledValues>,
        context: Option<&ResponseContext<'_>>,
        head: &mut Edit<'_, impl HeadMut>,
    ) {
        let name = match &self.name {
            Name::Whole(name) => name,
            Name::Prefix(prefix) => return remove_prefix(prefix, head),
        };
        let value = match &self.operation {
            Operation::Set(new) | Operation::Append(new) => new.get(filled, context, head),
            Operation::Replace(new) if head.fields().has(name.get()) => new.get(filled, context, head),
            Operation::Replace(_) => return,
            Operation::SetDate(offset) => http_date(*offset).map(Cow::Owned),
            Operation::Remove => None,
        };
        match (value.filter(|value| !value.is_empty()), &self.operation) {
            (Some(value), Operation::Append(_)) => head.append(name, &value),
            (None, Operation::Append(_)) => {}
            (Some(value), _) => head.set(name, &value),
            (None, _) => head.remove(name),
        }
    }
}

impl Value {
    /// The value for a request; `None` if the request ended before its templates were filled in.
    fn get<'v>(
        &'v self,
        filled: Option<&'v FilledValues>,
        context: Option<&ResponseContext<'_>>,
        head: &mut Edit<'_, impl HeadMut>,
    ) -> Option<Cow<'v, HeaderValue>> {
        match self {
            Self::Fixed(value) => Some(Cow::Borrowed(value)),
            Self::Template(at) => match filled?.0.get(*at)? {
                FilledValue::Ready(value) => Some(Cow::Borrowed(value)),
                FilledValue::Late(template) => {
                    Some(Cow::Owned(template.fill_response(context?, head.fields())))
                }
            },
        }
    }
}

/// The time so many seconds from now (RFC 9110 §5.6.7).
fn http_date(offset: i64) -> Option<HeaderValue> {
    let time = Timestamp::now().checked_add(SignedDuration::from_secs(offset)).ok()?;
    HeaderValue::try_from(time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()).ok()
}

/// Removes all fields whose names start with `prefix`, except those of the gateway.
fn remove_prefix(prefix: &str, head: &mut Edit<'_, impl HeadMut>) {
    let mut names = Vec::new();
    head.fields().each(|name, _| {
        let matches =
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix.as_bytes()));
        if matches && let Ok(name) = str::from_utf8(name) {
            names.extend(EditableName::new(name));
        }
    });
    for name in &names {
        head.remove(name);
    }
}

#[cfg(test)]
mod tests;
