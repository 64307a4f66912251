//! Annotations of Sluice's own for the most frequent uses of snippets, as the same typed
//! directives: fields of requests and responses, and a fixed response.

use std::sync::Arc;

use sluice_config::Moment;
use sluice_config::directives::{FieldChange, FieldOperation, Instruction, ResponseChange, Return, Statuses};

use super::block::Block;
use super::fault::Fault;
use super::headers::{field_name, field_value};
use super::variables::Declared;
use crate::translate::value::{self, Author, Type, Wrong};

/// Lines `Name: value`, with variables in the value.
pub(crate) fn fields(moment: Moment) -> Type<Vec<FieldChange>> {
    Type::with_author("lines of the form Name: value", move |text, author| {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| field(line, moment, author).map_err(|fault| Wrong::Invalid(fault.reason))).collect()
    })
    .evaluated_at(moment)
}

fn field(line: &str, moment: Moment, author: &Author<'_>) -> Result<FieldChange, Fault> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("has the line {line:?} without a colon"))?;
    let name = field_name(name.trim()).map_err(completed)?;
    let declared = Declared { http: author.http.clone(), ..Declared::default() };
    let value =
        declared.template(field_value(value.trim())?, moment).map_err(|reason| completed(reason.into()))?;
    Ok(FieldChange { name, operation: FieldOperation::Set(value) })
}

/// A comma-separated list of names of fields to remove.
pub(crate) fn names() -> Type<Vec<FieldChange>> {
    value::list().called("comma-separated list of names of fields").and_then(|names: Vec<Arc<str>>| {
        let removal = |name: &Arc<str>| {
            let name = field_name(name).map_err(|fault| completed(fault).reason)?;
            Ok::<_, String>(FieldChange { name, operation: FieldOperation::Remove })
        };
        names.iter().map(removal).collect::<Result<Vec<_>, _>>()
    })
}

/// A status and, behind a blank, the text of the response.
pub(crate) fn response() -> Type<Return> {
    Type::of("a status from 200 to 599 (other than of a redirect), and a text if wanted", |text| {
        let (status, body) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let status = status.parse().ok().filter(|status| matches!(status, 200..=299 | 400..=599))?;
        Some(match body.trim_start() {
            "" if status >= 400 => Return::Page(status),
            body => Return::Text { status, body: sluice_config::Template::plain(body) },
        })
    })
}

/// The reason of a fault as the completion of "the value ...".
fn completed(fault: Fault) -> Fault {
    Fault::from(format!("cannot be used: {}", fault.reason))
}

impl Block {
    /// Appends changes of the request for the endpoint.
    pub(crate) fn change_request(&mut self, changes: Vec<FieldChange>) {
        self.request.extend(changes);
    }

    /// Appends changes of all responses.
    pub(crate) fn change_response(&mut self, changes: Vec<FieldChange>) {
        let change = |change| ResponseChange {
            change,
            is_continuation: false,
            statuses: Statuses::All,
            content_types: Vec::new(),
        };
        self.changed.extend(changes.into_iter().map(change));
    }

    /// Appends an answer to all requests.
    pub(crate) fn answer(&mut self, answer: Return) {
        self.program.push(Instruction::Return(answer));
    }

    /// Returns whether it has no directives.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::Template;

    use super::*;

    #[test]
    fn fields_are_lines_and_names_a_list() {
        let read = |text: &str| fields(Moment::Request).parse(text, &Author::OPERATOR);
        let set = |name: &str, value: &str| FieldChange {
            name: name.into(),
            operation: FieldOperation::Set(Template::plain(value)),
        };
        assert_eq!(read("X-A: a: b\n\n X-B:\n").unwrap(), [set("x-a", "a: b"), set("x-b", "")]);
        assert!(matches!(
            &read("X-A: $host").unwrap()[0].operation,
            FieldOperation::Set(value) if value.pieces.len() == 1
        ));
        for bad in ["X-A", "X A: 1", "Host: a", "Connection: close", "X-A: $none", "X-A: $upstream_status"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(fields(Moment::Response).parse("X-A: $upstream_status", &Author::OPERATOR).is_ok());
        assert_eq!(names().parse("X-A, x-b", &Author::OPERATOR).unwrap().len(), 2);
        assert!(names().parse("X-A, Content-Length", &Author::OPERATOR).is_err());
    }

    #[test]
    fn a_response_is_a_status_and_a_text() {
        let read = |text: &str| response().parse(text, &Author::OPERATOR).ok();
        assert_eq!(read("503"), Some(Return::Page(503)));
        let text = |status, body: &str| Some(Return::Text { status, body: Template::plain(body) });
        assert_eq!(read("200 all $good"), text(200, "all $good"));
        assert_eq!(read("204"), text(204, ""));
        for bad in ["301", "100", "x", "", "600"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
