//! Header changes of Gateway API (`RequestHeaderModifier`, `ResponseHeaderModifier`), compiled to
//! header types.
//!
//! They are applied last and override other policies. [`EditableName`] rejects names that rules may
//! not change; `Host` has a setting of its own.

use http::HeaderValue;
use sluice_config::Filter;
use sluice_config::rule::HeaderChanges;

use super::error::PolicyError;
use crate::message::edit::{Edit as HeadEdit, EditableName, HeadMut, NameError};

/// The filters of a rule or backend, by direction, in list order.
#[derive(Clone, Debug, Default)]
pub struct HeaderEdits {
    request: Box<[Edit]>,
    response: Box<[Edit]>,
}

#[derive(Clone, Debug)]
struct Edit {
    set: Vec<(EditableName, HeaderValue)>,
    add: Vec<(EditableName, HeaderValue)>,
    remove: Vec<EditableName>,
}

impl HeaderEdits {
    /// Compiles the filters.
    ///
    /// # Errors
    /// A name or value is invalid, or the kind of a filter is unknown: a filter is never skipped.
    pub fn compile(filters: &[Filter]) -> Result<Self, PolicyError> {
        let mut request = Vec::new();
        let mut response = Vec::new();
        for filter in filters {
            match filter {
                Filter::RequestHeaders(changes) => request.push(Edit::compile(changes)?),
                Filter::ResponseHeaders(changes) => response.push(Edit::compile(changes)?),
                _ => return Err(PolicyError::UnknownFilter),
            }
        }
        Ok(Self { request: request.into(), response: response.into() })
    }

    /// Edits the head of a request to the endpoint.
    pub fn request(&self, head: &mut HeadEdit<'_, impl HeadMut>) {
        self.request.iter().for_each(|edit| edit.apply(head));
    }

    /// Edits the head of a response to the client.
    pub fn response(&self, head: &mut HeadEdit<'_, impl HeadMut>) {
        self.response.iter().for_each(|edit| edit.apply(head));
    }
}

impl Edit {
    fn compile(changes: &HeaderChanges) -> Result<Self, PolicyError> {
        let HeaderChanges { set, add, remove } = changes;
        let field = |(header, text): &(std::sync::Arc<str>, std::sync::Arc<str>)| {
            let value =
                HeaderValue::from_str(text).map_err(|_| PolicyError::HeaderValue(header.to_string()))?;
            Ok((name(header)?, value))
        };
        Ok(Self {
            set: set.iter().map(field).collect::<Result<_, _>>()?,
            add: add.iter().map(field).collect::<Result<_, _>>()?,
            remove: remove.iter().map(|header| name(header)).collect::<Result<_, _>>()?,
        })
    }

    fn apply(&self, head: &mut HeadEdit<'_, impl HeadMut>) {
        for (name, value) in &self.set {
            head.set(name, value);
        }
        for (name, value) in &self.add {
            head.append(name, value);
        }
        for name in &self.remove {
            head.remove(name);
        }
    }
}

/// Parses a name. The error states the reason.
pub(super) fn name(text: &str) -> Result<EditableName, PolicyError> {
    EditableName::new(text).map_err(|error| match error {
        NameError::Malformed => PolicyError::HeaderName(text.to_owned()),
        NameError::Own => PolicyError::OwnHeader(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn fields_are_set_then_added_then_removed() {
        let changes = HeaderChanges {
            set: vec![("X-A".into(), "1".into())],
            add: vec![("x-a".into(), "2".into()), ("X-B".into(), "3".into())],
            remove: vec!["X-C".into()],
        };
        let filters = [Filter::RequestHeaders(changes.clone()), Filter::ResponseHeaders(changes)];
        let edits = HeaderEdits::compile(&filters).unwrap();
        let changed = |apply: fn(&HeaderEdits, &mut HeadEdit<'_, HeaderMap>)| {
            let mut head = HeaderMap::new();
            head.insert("x-a", "0".parse().unwrap());
            head.insert("x-c", "0".parse().unwrap());
            apply(&edits, &mut HeadEdit::new(&mut head));
            head
        };
        for head in [changed(|edits, head| edits.request(head)), changed(|edits, head| edits.response(head))]
        {
            let values: Vec<_> = head.get_all("x-a").iter().collect();
            assert_eq!(values, ["1", "2"]);
            assert_eq!(head["x-b"], "3");
            assert!(!head.contains_key("x-c"));
        }
    }

    #[test]
    fn what_is_no_field_is_refused() {
        let changes = HeaderChanges { remove: vec!["a b".into()], ..HeaderChanges::default() };
        let error = HeaderEdits::compile(&[Filter::RequestHeaders(changes)]).unwrap_err();
        assert_eq!(error, PolicyError::HeaderName("a b".into()));
        let changes = HeaderChanges { set: vec![("a".into(), "b\n".into())], ..HeaderChanges::default() };
        let error = HeaderEdits::compile(&[Filter::ResponseHeaders(changes)]).unwrap_err();
        assert_eq!(error, PolicyError::HeaderValue("a".into()));
    }

    #[test]
    fn changes_could_name_the_length_of_a_message() {
        type Change = fn(&str) -> HeaderChanges;
        let changes: [Change; 3] = [
            |name| HeaderChanges { set: vec![(name.into(), "1".into())], ..HeaderChanges::default() },
            |name| HeaderChanges { add: vec![(name.into(), "1".into())], ..HeaderChanges::default() },
            |name| HeaderChanges { remove: vec![name.into()], ..HeaderChanges::default() },
        ];
        for name in
            sluice_config::OWN_FIELDS.into_iter().chain(["Content-Length", "TRANSFER-ENCODING", "Host"])
        {
            for change in changes {
                for filter in [Filter::RequestHeaders(change(name)), Filter::ResponseHeaders(change(name))] {
                    let error = HeaderEdits::compile(&[filter]).unwrap_err();
                    assert_eq!(error, PolicyError::OwnHeader(name.to_owned()));
                }
            }
        }
        let fine = changes[0]("x-content-length");
        assert!(HeaderEdits::compile(&[Filter::RequestHeaders(fine)]).is_ok());
    }
}
