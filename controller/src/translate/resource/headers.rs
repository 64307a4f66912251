//! A ConfigMap with one key per header field.

use std::sync::Arc;

use sluice_config::{Code, HeaderSet, Moment, ObjectRef, Problem, Template, Variable, is_own_field};

use super::Bad;
use crate::problem::{error, warning};
use crate::store::ConfigMap;
use crate::translate::template;
use crate::translate::value::Author;

/// Fields for one rule, whose values may have variables. One bad field makes the whole unusable:
/// the others may mean nothing without it.
pub(super) fn strict(
    config_map: &ConfigMap,
    author: &Author<'_>,
    problems: &mut Vec<Problem>,
) -> Result<HeaderSet, Bad> {
    let fields = config_map.data.iter().map(|(name, text)| field(name, text, Moment::Request, author));
    let set = HeaderSet { fields: fields.collect::<Result<_, _>>()? };
    problems.extend(without_value(config_map, Moment::Request));
    Ok(set)
}

/// Parses fields for all rules. A field with an invalid value is reported and only removed, so that
/// the client's own field of that name never replaces it. Closing all rules of all Ingresses would
/// do more harm.
pub(super) fn lenient(
    config_map: &ConfigMap,
    moment: Moment,
    author: &Author<'_>,
    problems: &mut Vec<Problem>,
) -> HeaderSet {
    problems.extend(without_value(config_map, moment));
    let mut fields = Vec::with_capacity(config_map.data.len());
    for (name, text) in &config_map.data {
        match field(name, text, moment, author) {
            Ok(field) => fields.push(field),
            Err(Bad { reason, remedy }) => {
                let can_be_removed =
                    http::HeaderName::from_bytes(name.as_bytes()).is_ok() && !is_own_field(name);
                if can_be_removed {
                    fields.push((Arc::from(&**name), Template::default()));
                }
                let effect = if can_be_removed { "the field is removed" } else { "the field is left out" };
                let object = object(config_map);
                let message = format!("{reason}; {effect}");
                problems.push(error(
                    Code::ConfigMapInvalid,
                    &object,
                    format!("data[{name}]"),
                    message,
                    remedy,
                ));
            }
        }
    }
    HeaderSet { fields }
}

/// Fields of the responses of one rule, of which the operator has to allow each. Their values are
/// plain text, as in ingress-nginx.
pub(super) fn response(config_map: &ConfigMap, allowed: &[Arc<str>]) -> Result<HeaderSet, Bad> {
    let mut fields = Vec::with_capacity(config_map.data.len());
    for (name, text) in &config_map.data {
        if !allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name)) {
            return Err(Bad {
                reason: format!(
                    "has the field {name:?}, which global-allowed-response-headers does not name"
                ),
                remedy: "add the name to that key of the program's ConfigMap, or take the field out",
            });
        }
        fields.push((Arc::from(&**name), Template::plain(sendable(name, text)?)));
    }
    Ok(HeaderSet { fields })
}

/// Warnings about variables that have no value at this moment.
fn without_value(config_map: &ConfigMap, moment: Moment) -> impl Iterator<Item = Problem> {
    config_map.data.iter().filter_map(move |(name, text)| {
        let reason = template::without_value(text, moment)?;
        let field = format!("data[{name}]");
        Some(warning(Code::VariableWithoutValue, &object(config_map), field, reason, template::REMEDY))
    })
}

fn object(config_map: &ConfigMap) -> ObjectRef {
    ObjectRef { kind: "ConfigMap".into(), name: config_map.name.clone() }
}

/// Returns the value of a field without surrounding blanks, if both the name and the value can be
/// sent.
fn sendable<'t>(name: &str, text: &'t str) -> Result<&'t str, Bad> {
    let text = text.trim();
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(Bad {
            reason: format!("has the key {name:?}, which is not the name of a header field"),
            remedy: "write letters, digits and hyphens",
        });
    }
    if is_own_field(name) {
        return Err(Bad {
            reason: format!(
                "has the field {name:?}, which is about the connection, the length of a message or where it goes, and \
                 belongs to the gateway"
            ),
            remedy: "take the field out; for Host there is the annotation upstream-vhost, for Connection \
                     connection-proxy-header",
        });
    }
    if http::HeaderValue::from_str(text).is_err() {
        return Err(Bad {
            reason: format!("has a value in its key {name:?} that no header field can have"),
            remedy: "write one line without control characters",
        });
    }
    Ok(text)
}

fn field(name: &str, text: &str, moment: Moment, author: &Author<'_>) -> Result<(Arc<str>, Template), Bad> {
    let text = sendable(name, text)?;
    // Without an expression, a group is empty, as in nginx.
    let is_group = |name: &str| matches!(name.as_bytes(), [b'1'..=b'9']);
    let resolve = |name: &str| match is_group(name) {
        true => Ok(Variable::Group(name.into())),
        false => template::variable_for(name, moment, author),
    };
    let template = template::parse_with(text, resolve).map_err(|reason| Bad {
        reason: format!("has a value in its key {name:?} that {reason}"),
        remedy: "use a variable of docs/variables.md, or write the value without one",
    })?;
    Ok((name.into(), template))
}

#[cfg(test)]
mod tests {
    use sluice_config::{NamespacedName, TemplatePiece};

    use super::*;
    use crate::store::DataFields;

    fn map(data: &[(&str, &str)]) -> ConfigMap {
        let data = data.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        ConfigMap {
            name: NamespacedName::new("n", "headers"),
            identity: Default::default(),
            fields: DataFields::All,
            data,
        }
    }

    fn fault(data: &[(&str, &str)]) -> String {
        strict(&map(data), &Author::OPERATOR, &mut Vec::new()).unwrap_err().reason
    }

    #[test]
    fn fields_are_checked_and_bad_ones_named_without_their_value() {
        let fields = map(&[("X-A", " 1\n"), ("X-Empty", ""), ("X-Host", "$host")]);
        let set = strict(&fields, &Author::OPERATOR, &mut Vec::new()).unwrap();
        let host = Template { pieces: vec![TemplatePiece::Variable(Variable::Host)] };
        assert_eq!(
            set.fields,
            [
                ("X-A".into(), Template::plain("1")),
                ("X-Empty".into(), Template::default()),
                ("X-Host".into(), host)
            ]
        );
        assert!(fault(&[("X A", "1")]).contains("\"X A\""));
        let bad = fault(&[("X-A", "secret\nX-B: 1")]);
        assert!(bad.contains("\"X-A\"") && !bad.contains("secret"), "{bad}");
        assert!(fault(&[("content-Length", "1")]).contains("belongs to the gateway"));
        assert!(fault(&[("X-Geo", "$nothing")]).contains("$nothing"));
    }

    #[test]
    fn an_operators_field_without_a_usable_value_is_removed() {
        let mut problems = Vec::new();
        let fields = map(&[("Host", "a"), ("X-A", "1"), ("X-Bad", "$nothing")]);
        let set = lenient(&fields, Moment::Request, &Author::OPERATOR, &mut problems);
        assert_eq!(set.fields, [("X-A".into(), Template::plain("1")), ("X-Bad".into(), Template::default())]);
        let fields: Vec<_> = problems.iter().map(|problem| &*problem.field).collect();
        assert_eq!(fields, ["data[Host]", "data[X-Bad]"]);
    }

    #[test]
    fn a_variable_that_is_known_later_is_named() {
        let fields = map(&[("X-Status", "$status")]);
        let value = |moment, problems: &mut Vec<Problem>| {
            lenient(&fields, moment, &Author::OPERATOR, problems).fields[0].1.clone()
        };
        let mut problems = Vec::new();
        let served = Template { pieces: vec![TemplatePiece::Variable(Variable::Status)] };
        assert_eq!(value(Moment::Response, &mut problems), served);
        assert_eq!(problems, []);
        let empty = Template { pieces: vec![TemplatePiece::Variable(Variable::Unserved)] };
        assert_eq!(value(Moment::Request, &mut problems), empty);
        let found: Vec<_> = problems.iter().map(|problem| (problem.code, &*problem.field)).collect();
        assert_eq!(found, [(Code::VariableWithoutValue, "data[X-Status]")]);
    }

    #[test]
    fn fields_of_responses_must_be_allowed() {
        let allowed = ["x-a".into()];
        let response = |data: &[(&str, &str)], allowed: &[Arc<str>]| response(&map(data), allowed);
        let bad = response(&[("X-A", "1"), ("X-B", "2")], &allowed).unwrap_err();
        assert!(bad.reason.contains("\"X-B\"") && bad.reason.contains("global-allowed"), "{}", bad.reason);
        assert!(response(&[("Connection", "x")], &["connection".into()]).is_err());
    }

    #[test]
    fn a_dollar_in_fields_of_responses_is_literal() {
        let texts = ["$upstream_status", "costs $5", "${host}", "$nothing", "$"];
        for text in texts {
            let set = response(&map(&[("X-A", text)]), &["X-A".into()]).unwrap();
            assert_eq!(set.fields, [("X-A".into(), Template::plain(text))]);
        }
    }
}
