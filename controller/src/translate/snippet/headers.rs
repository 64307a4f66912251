//! Directives that change response heads: `add_header`, `proxy_hide_header`, and those of
//! headers-more.

use std::sync::Arc;

use sluice_config::directives::{FieldChange, FieldOperation, ResponseChange, Statuses};
use sluice_config::{Moment, is_own_field};

use super::block::Block;
use super::context::DirectiveContext;
use super::fault::Fault;
use super::variables::Declared;
use crate::translate::value;

/// Response fields of which `add_header` sets the only value (`ngx_http_headers_filter_module`).
const SINGLE: [&str; 2] = ["last-modified", "etag"];

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    declared: &Declared,
    context: DirectiveContext,
    block: &mut Block,
) -> Result<String, Fault> {
    match name {
        "add_header" => add_header(arguments, declared, block),
        "proxy_hide_header" | "grpc_hide_header" => hide(arguments, context, block),
        "proxy_pass_header" | "grpc_pass_header" => pass(arguments, context, block),
        "default_type" => default_type(arguments, block),
        "expires" => expires(arguments, block),
        _ => headers_more(name == "more_set_headers", arguments, declared, block),
    }
}

fn add_header(arguments: &[String], declared: &Declared, block: &mut Block) -> Result<String, Fault> {
    let (name, value, always) = match arguments {
        [name, value] => (name, value, false),
        [name, value, always] if always == "always" => (name, value, true),
        _ => return Err("takes a name, a value and, if wanted, always".into()),
    };
    let name = field_name(name)?;
    let value = declared.template(field_value(value)?, Moment::Response)?;
    let operation = match SINGLE.contains(&&*name) {
        true => FieldOperation::Set(value),
        false => FieldOperation::Append(value),
    };
    let statuses = if always { Statuses::All } else { Statuses::Usual };
    let suffix = if always { "all statuses" } else { "statuses 200-206, 301-308 as in nginx" };
    let text = format!("adds the response field {name} ({suffix})");
    block.added.push(change(name, operation, statuses));
    Ok(text)
}

fn hide(arguments: &[String], context: DirectiveContext, block: &mut Block) -> Result<String, Fault> {
    let [name] = arguments else { return Err("takes a name".into()) };
    if context.in_if {
        return Err(context.not_permitted());
    }
    let name = field_name(name)?;
    let text = format!("removes the field {name} from responses of endpoints");
    block.hidden.push(name);
    Ok(text)
}

fn pass(arguments: &[String], context: DirectiveContext, block: &mut Block) -> Result<String, Fault> {
    let [name] = arguments else { return Err("takes a name".into()) };
    if context.in_if {
        return Err(context.not_permitted());
    }
    let name = field_name(name)?;
    let text = format!("passes the field {name} of endpoints, also where the ConfigMap hides it");
    block.passed.push(name);
    Ok(text)
}

/// `expires` sets `Expires` and `Cache-Control`.
fn expires(arguments: &[String], block: &mut Block) -> Result<String, Fault> {
    let [text] = arguments else { return Err("takes a time, epoch, max or off".into()) };
    if block.expires.is_some() {
        return Err("it is a duplicate, which nginx refuses".into());
    }
    let fixed = |date: &str| FieldOperation::Set(sluice_config::Template::plain(date));
    let (date, cache_control) = match &**text {
        "off" => {
            block.expires = Some(Vec::new());
            return Ok("leaves Expires and Cache-Control as they are".to_owned());
        }
        "epoch" => (fixed("Thu, 01 Jan 1970 00:00:01 GMT"), "no-cache".to_owned()),
        "max" => (fixed("Thu, 31 Dec 2037 23:55:55 GMT"), "max-age=315360000".to_owned()),
        text => {
            let (is_past, time) = text.strip_prefix('-').map_or((false, text), |time| (true, time));
            let time = value::time_of(time).map_err(|reason| format!("the time {text:?} {reason}"))?;
            let seconds = i64::try_from(time.as_secs()).map_err(|_| "the time is too long")?;
            match is_past {
                true => (FieldOperation::SetDate(-seconds), "no-cache".to_owned()),
                false => (FieldOperation::SetDate(seconds), format!("max-age={seconds}")),
            }
        }
    };
    let words = format!("sets the response fields expires and cache-control: {cache_control}");
    block.expires = Some(vec![
        change("expires".into(), date, Statuses::Usual),
        change("cache-control".into(), fixed(&cache_control), Statuses::Usual),
    ]);
    Ok(words)
}

fn default_type(arguments: &[String], block: &mut Block) -> Result<String, Fault> {
    let [text] = arguments else { return Err("takes a content type".into()) };
    if block.default_type.is_some() {
        return Err("it is a duplicate, which nginx refuses".into());
    }
    let content_type: Arc<str> = field_value(text)?.into();
    block.default_type = Some(content_type);
    Ok(format!("content type of texts that return answers with: {text}"))
}

/// `more_set_headers` and `more_clear_headers`: `-s` and `-t` limit all fields of the directive.
fn headers_more(
    sets: bool,
    arguments: &[String],
    declared: &Declared,
    block: &mut Block,
) -> Result<String, Fault> {
    let (mut statuses, mut content_types, mut fields) = (Vec::new(), Vec::new(), Vec::new());
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut list = || {
            let list = arguments.next().ok_or_else(|| Fault::from(format!("{argument} takes a list")))?;
            Ok::<_, Fault>(list.split_ascii_whitespace())
        };
        match &**argument {
            "-s" => {
                for status in list()? {
                    let status = status.parse().ok().filter(|status| (100..=599).contains(status));
                    statuses.push(status.ok_or("-s takes a list of statuses")?);
                }
            }
            "-t" => content_types.extend(list()?.map(|one| Arc::from(one.to_ascii_lowercase()))),
            option if option.starts_with('-') => return Err(format!("{option} is not translated").into()),
            field => fields.push(field),
        }
    }
    if fields.is_empty() {
        return Err("takes at least one field".into());
    }
    let statuses = if statuses.is_empty() { Statuses::All } else { Statuses::These(statuses) };
    let mut texts = Vec::new();
    for field in fields {
        let (name, operation) = match sets {
            true => set_field(field, declared, Moment::Response)?,
            false => cleared_field(field)?,
        };
        texts.push(match &operation {
            FieldOperation::Set(_) => format!("sets the response field {name}"),
            FieldOperation::RemovePrefix => format!("removes the response fields {name}*"),
            _ => format!("removes the response field {name}"),
        });
        block.changed.push(ResponseChange {
            is_continuation: texts.len() > 1,
            content_types: content_types.clone(),
            ..change(name, operation, statuses.clone())
        });
    }
    Ok(texts.join(", "))
}

/// `Name: value` of `more_set_headers`. Without a value the field is removed.
pub(super) fn set_field(
    text: &str,
    declared: &Declared,
    moment: Moment,
) -> Result<(Arc<str>, FieldOperation), Fault> {
    let (name, value) = text.split_once(':').unwrap_or((text, ""));
    let name = field_name(name.trim())?;
    Ok(match value.trim() {
        "" => (name, FieldOperation::Remove),
        value => (name, FieldOperation::Set(declared.template(field_value(value)?, moment)?)),
    })
}

/// The name of a field to remove; a `*` at its end stands for any text.
pub(super) fn cleared_field(text: &str) -> Result<(Arc<str>, FieldOperation), Fault> {
    let name = text.split_once(':').map_or(text, |(name, _)| name).trim();
    match name.strip_suffix('*') {
        Some("") => Err("removes all fields, also those of the gateway; name the fields".into()),
        Some(prefix) => Ok((valid_name(prefix)?, FieldOperation::RemovePrefix)),
        None => Ok((field_name(name)?, FieldOperation::Remove)),
    }
}

/// A name of a field that a snippet may change.
pub(super) fn field_name(text: &str) -> Result<Arc<str>, Fault> {
    let name = valid_name(text)?;
    match is_own_field(&name) {
        true => Err(format!("the field {text} belongs to the gateway").into()),
        false => Ok(name),
    }
}

fn valid_name(text: &str) -> Result<Arc<str>, Fault> {
    match value::is_token(text) {
        true => Ok(text.to_ascii_lowercase().into()),
        false => Err(format!("{text:?} is not the name of a field").into()),
    }
}

/// A value that a field can have, variables apart.
pub(super) fn field_value(text: &str) -> Result<&str, Fault> {
    match text.chars().any(|c| c.is_control() && c != '\t') {
        true => Err("the value has a line break or control character, which no field can have".into()),
        false => Ok(text),
    }
}

fn change(name: Arc<str>, operation: FieldOperation, statuses: Statuses) -> ResponseChange {
    ResponseChange {
        change: FieldChange { name, operation },
        is_continuation: false,
        statuses,
        content_types: Vec::new(),
    }
}
