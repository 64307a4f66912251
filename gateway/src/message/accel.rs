//! Fields with which an endpoint controls the proxy in front of it, as nginx has them. Clients do
//! not receive them: they state nothing about the response, but paths and settings of the operator.

use crate::message::edit::EditableName;
use crate::message::fields::Fields;

/// Turns buffering of the response off with `no`. The others have no effect.
static BUFFERING: EditableName = EditableName::from_static("x-accel-buffering");

/// The fields that nginx hides (`ngx_http_proxy_hide_headers`), except `Date` and `Server`, which
/// the gateway replaces.
pub(crate) static HIDDEN: [EditableName; 6] = [
    EditableName::from_static("x-accel-buffering"),
    EditableName::from_static("x-accel-charset"),
    EditableName::from_static("x-accel-expires"),
    EditableName::from_static("x-accel-limit-rate"),
    EditableName::from_static("x-accel-redirect"),
    EditableName::from_static("x-pad"),
];

/// The lengths of these names.
const LENGTHS: u64 = 1 << 5 | 1 << 15 | 1 << 16 | 1 << 17 | 1 << 18;

/// Returns whether a response may have one of [`HIDDEN`]. Nearly none has: the lengths of its names
/// exclude most, and one pass over the names is cheaper than a lookup of each field.
pub(crate) fn may_have_any(fields: &impl Fields) -> bool {
    if !fields.may_have_lengths(LENGTHS) {
        return false;
    }
    let mut found = false;
    fields.each(|name, _| {
        found |= match name.len() {
            5 => name.eq_ignore_ascii_case(b"x-pad"),
            15..=18 => name[..8].eq_ignore_ascii_case(b"x-accel-"),
            _ => false,
        };
    });
    found
}

/// Returns whether the endpoint has turned off buffering of its response.
pub(crate) fn stops_buffering(fields: &impl Fields) -> bool {
    fields.first(BUFFERING.get()).is_some_and(|value| value.eq_ignore_ascii_case(b"no"))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::HeaderValue;

    use super::*;
    use crate::message::field_list::FieldList;
    use crate::message::fields::FieldsMut;

    fn finds_each(mut fields: impl FieldsMut) {
        for other in ["server", "x-frame-options"] {
            fields.set(EditableName::from_static(other).get(), &HeaderValue::from_static("a"));
            assert!(!may_have_any(&fields));
            for name in &HIDDEN {
                fields.set(name.get(), &HeaderValue::from_static("1"));
                assert!(may_have_any(&fields), "{name:?}");
                fields.remove(name.get());
            }
        }
    }

    #[test]
    fn each_hidden_field_is_found() {
        finds_each(HeaderMap::new());
        finds_each(FieldList::default());
    }
}
