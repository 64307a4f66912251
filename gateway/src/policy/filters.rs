//! Header changes of Gateway API (`RequestHeaderModifier`, `ResponseHeaderModifier`), compiled to header types.

use http::{HeaderName, HeaderValue};
use sluice_config::Filter;
use sluice_config::rule::HeaderChanges;

use super::error::PolicyError;
use crate::pipeline::FieldsMut;

/// The filters of a rule or backend, by side, in list order.
#[derive(Clone, Debug, Default)]
pub struct HeaderEdits {
    request: Box<[Edit]>,
    response: Box<[Edit]>,
}

#[derive(Clone, Debug)]
struct Edit {
    set: Vec<(HeaderName, HeaderValue)>,
    add: Vec<(HeaderName, HeaderValue)>,
    remove: Vec<HeaderName>,
}

impl HeaderEdits {
    /// Compiles all filters. Fails on one that is not known here: a filter is never skipped.
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

    /// Changes the head that goes to the endpoint.
    pub fn request(&self, head: &mut impl FieldsMut) {
        self.request.iter().for_each(|edit| edit.apply(head));
    }

    /// Changes the head that goes to the client.
    pub fn response(&self, head: &mut impl FieldsMut) {
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

    fn apply(&self, head: &mut impl FieldsMut) {
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

fn name(text: &str) -> Result<HeaderName, PolicyError> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| PolicyError::HeaderName(text.to_owned()))
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
        let changed = |apply: fn(&HeaderEdits, &mut HeaderMap)| {
            let mut head = HeaderMap::new();
            head.insert("x-a", "0".parse().unwrap());
            head.insert("x-c", "0".parse().unwrap());
            apply(&edits, &mut head);
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
}
