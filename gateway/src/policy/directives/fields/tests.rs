use http::HeaderMap;
use sluice_config::Template as T;

use super::*;

fn change(name: &str, operation: FieldOperation) -> FieldChange {
    FieldChange { name: name.into(), operation }
}

fn head(fields: &[(&'static str, &'static str)]) -> HeaderMap {
    fields.iter().fold(HeaderMap::new(), |mut head, (name, value)| {
        head.append(*name, HeaderValue::from_static(value));
        head
    })
}

fn text(head: &HeaderMap) -> Vec<String> {
    let mut fields: Vec<_> =
        head.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    fields.sort();
    fields
}

#[test]
fn fields_are_set_replaced_added_and_removed() {
    use FieldOperation as O;
    let changes = FieldChanges::compile(&[
        change("x-set", O::Set(T::plain("1"))),
        change("x-emptied", O::Set(T::plain(""))),
        change("x-replaced", O::Replace(T::plain("2"))),
        change("x-absent", O::Replace(T::plain("2"))),
        change("x-added", O::Append(T::plain("3"))),
        change("x-not-added", O::Append(T::plain(""))),
        change("x-gone", O::Remove),
        change("x-all-", O::RemovePrefix),
    ])
    .unwrap();
    let mut head = head(&[
        ("x-set", "0"),
        ("x-emptied", "0"),
        ("x-replaced", "0"),
        ("x-added", "0"),
        ("x-gone", "0"),
        ("x-all-a", "0"),
        ("x-all-b", "0"),
        ("x-al", "0"),
    ]);
    changes.apply(None, &mut Edit::new(&mut head));
    assert_eq!(text(&head), ["x-added: 0", "x-added: 3", "x-al: 0", "x-replaced: 2", "x-set: 1"]);
}

#[test]
fn a_date_is_counted_from_now() {
    let changes = FieldChanges::compile(&[change("expires", FieldOperation::SetDate(3600))]).unwrap();
    let mut head = HeaderMap::new();
    changes.apply(None, &mut Edit::new(&mut head));
    let date = head["expires"].to_str().unwrap();
    let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(date).unwrap();
    let seconds = time.duration_since(Timestamp::now()).as_secs();
    assert!((3595..=3600).contains(&seconds) && date.ends_with(" GMT"), "{date}");
}

#[test]
fn removing_by_prefix_leaves_the_gateways_own_fields() {
    let changes = FieldChanges::compile(&[change("c", FieldOperation::RemovePrefix)]).unwrap();
    let mut head = head(&[("content-length", "5"), ("connection", "close"), ("cache-control", "no-store")]);
    changes.apply(None, &mut Edit::new(&mut head));
    assert_eq!(text(&head), ["connection: close", "content-length: 5"]);
}

#[test]
fn a_response_change_applies_to_its_statuses_and_content_types() {
    let response = |statuses, content_types: &[&str]| ResponseChange {
        change: change("x-a", FieldOperation::Set(T::plain("1"))),
        is_continuation: false,
        statuses,
        content_types: content_types.iter().map(|one| (*one).into()).collect(),
    };
    for (condition, status, applies) in [
        (response(Statuses::All, &[]), 500, true),
        (response(Statuses::Usual, &[]), 206, true),
        (response(Statuses::Usual, &[]), 404, false),
        (response(Statuses::These(vec![404]), &[]), 404, true),
        (response(Statuses::These(vec![404]), &[]), 200, false),
        (response(Statuses::All, &["text/html"]), 200, true),
        (response(Statuses::All, &["text/plain"]), 200, false),
    ] {
        let changes = ResponseChanges::compile(std::slice::from_ref(&condition), 1).unwrap();
        let mut head = head(&[("content-type", "Text/html; charset=utf-8")]);
        changes.apply(ChangeLevel::Location, status, None, None, &mut Edit::new(&mut head));
        assert_eq!(head.contains_key("x-a"), applies, "{condition:?} {status}");
    }
}

#[test]
fn one_directive_tests_its_types_once() {
    let response = |name: &str, value: &str, is_continuation| ResponseChange {
        change: change(name, FieldOperation::Set(T::plain(value))),
        is_continuation,
        statuses: Statuses::All,
        content_types: vec!["text/html".into()],
    };
    let list = [
        response("content-type", "text/plain", false),
        response("x-same", "1", true),
        response("x-next", "1", false),
        response("x-of-next", "1", true),
    ];
    let changes = ResponseChanges::compile(&list, list.len()).unwrap();
    let mut head = head(&[("content-type", "text/html")]);
    changes.apply(ChangeLevel::Location, 200, None, None, &mut Edit::new(&mut head));
    assert_eq!(text(&head), ["content-type: text/plain", "x-same: 1"]);
}

#[test]
fn fields_of_the_gateway_cannot_be_named() {
    let error = FieldChanges::compile(&[change("content-length", FieldOperation::Remove)]).unwrap_err();
    assert_eq!(error, PolicyError::OwnHeader("content-length".into()));
}
