//! Directives that change the request for the endpoint: `proxy_set_header`, `grpc_set_header`, and
//! those of headers-more for the client's fields.

use std::sync::Arc;

use sluice_config::directives::{FieldChange, FieldOperation};
use sluice_config::{Moment, is_own_field};

use super::block::Block;
use super::context::{DirectiveContext, SnippetContext};
use super::fault::Fault;
use super::headers::{cleared_field, field_name, field_value, set_field};
use super::request_fields::OF_GATEWAY;
use super::variables::Declared;

/// Values of the gateway's own fields that ask for what the gateway does.
const ACCEPTED: [(&str, &[&str]); 3] = [
    ("host", &["$host", "$http_host", "$best_http_host"]),
    ("upgrade", &["$http_upgrade"]),
    ("connection", &["upgrade", "Upgrade", "$connection_upgrade"]),
];

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    block: &mut Block,
) -> Result<String, Fault> {
    match name {
        "proxy_set_header" => set_header(arguments, declared, context, &mut block.request),
        "grpc_set_header" => set_header(arguments, declared, context, &mut block.grpc_request),
        _ => client_fields(name == "more_set_input_headers", arguments, declared, block),
    }
}

/// A second directive for the same field sends it twice, as in nginx, also where the gateway sets
/// the first.
fn set_header(
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    changes: &mut Vec<FieldChange>,
) -> Result<String, Fault> {
    let [name, value] = arguments else { return Err("takes a name and a value".into()) };
    if context.in_if {
        return Err(context.not_permitted());
    }
    if !matches!(context.place, SnippetContext::Location | SnippetContext::Authorisation) {
        declared.template(field_value(value)?, Moment::Request)?;
        return Ok(format!(
            "no effect on {name}, as in ingress-nginx: each location sets request fields of its own"
        ));
    }
    if is_own_field(name) {
        return own_field(name, value);
    }
    let name = field_name(name)?;
    let value = declared.template(field_value(value)?, Moment::Request)?;
    let is_repeated = OF_GATEWAY.contains(&&*name) || changes.iter().any(|known| known.name == name);
    let (operation, text) = match is_repeated {
        true => (FieldOperation::Append(value), format!("adds another request field {name}")),
        false => (FieldOperation::Set(value), format!("sets the request field {name}")),
    };
    changes.push(FieldChange { name, operation });
    Ok(text)
}

/// A field of the gateway: accepted if it asks for the value that the gateway sends.
fn own_field(name: &str, value: &str) -> Result<String, Fault> {
    let lower = name.to_ascii_lowercase();
    let accepted = ACCEPTED.iter().find(|(known, _)| *known == lower);
    match accepted {
        Some((_, values)) if values.contains(&value) => {
            Ok(format!("no change: the gateway sends {name} like this itself"))
        }
        _ => {
            let reason = format!("the field {name} belongs to the gateway");
            Err(match &*lower {
                "host" => Fault::with(reason, "the annotation upstream-vhost"),
                "connection" => Fault::with(reason, "the annotation connection-proxy-header"),
                _ => reason.into(),
            })
        }
    }
}

/// `more_set_input_headers` and `more_clear_input_headers`.
fn client_fields(
    sets: bool,
    arguments: &[String],
    declared: &Declared,
    block: &mut Block,
) -> Result<String, Fault> {
    // An option counts for all fields, wherever it stands.
    let is_option = |argument: &String| sets && argument == "-r";
    let replaces = arguments.iter().any(is_option);
    let mut texts = Vec::new();
    for argument in arguments.iter().filter(|argument| !is_option(argument)) {
        match &**argument {
            option if option.starts_with('-') => return Err(format!("{option} is not translated").into()),
            field => {
                let (name, operation) =
                    if sets { set_field(field, declared, Moment::Request)? } else { cleared_field(field)? };
                not_of_gateway(&name)?;
                let operation = match operation {
                    FieldOperation::Set(value) if replaces => FieldOperation::Replace(value),
                    other => other,
                };
                texts.push(match operation {
                    FieldOperation::Set(_) => format!("sets the client's field {name}"),
                    FieldOperation::Replace(_) => {
                        format!("replaces the client's field {name} if it is present")
                    }
                    FieldOperation::RemovePrefix => format!("removes the client's fields {name}*"),
                    _ => format!("removes the client's field {name}"),
                });
                block.input.push(FieldChange { name, operation });
            }
        }
    }
    match texts.is_empty() {
        true => Err("takes at least one field".into()),
        false => Ok(texts.join(", ")),
    }
}

/// The gateway computes its own fields from those that the client sent, and its checks read these.
fn not_of_gateway(name: &Arc<str>) -> Result<(), Fault> {
    match OF_GATEWAY.contains(&&**name) {
        true => Err(Fault::with(
            format!("the gateway sets the request field {name} itself"),
            "proxy_set_header, or the ConfigMap keys of forwarded fields",
        )),
        false => Ok(()),
    }
}
