//! Directives that have an annotation of the same meaning: they become the same settings.
//!
//! ingress-nginx's template sets most of them in each location, and nginx refuses a duplicate; here the snippet replaces
//! the template's value. In a server the template's value of each location would win, so they have no effect there.

use sluice_config::{Override, Policies, Replacement, Satisfy, Timeout};

use super::block::Block;
use super::context::{Context, Place};
use super::reader::Fault;
use crate::translate::replacement;
use crate::translate::value::{self, Author, Type, Wrong};

/// Settings of policies; `None` leaves that of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SettingOverrides {
    connect_timeout: Option<Timeout>,
    read_timeout: Option<Timeout>,
    send_timeout: Option<Timeout>,
    body_limit: Option<u64>,
    body_memory: Option<u64>,
    request_buffering: Option<bool>,
    http_1_0: Option<bool>,
    unlogged: Option<bool>,
    satisfy: Option<Satisfy>,
    cookie_domain: Option<Override<Replacement>>,
    cookie_path: Option<Override<Replacement>>,
}

/// Whether a directive is one of these.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "proxy_connect_timeout"
            | "grpc_connect_timeout"
            | "proxy_read_timeout"
            | "grpc_read_timeout"
            | "proxy_send_timeout"
            | "grpc_send_timeout"
            | "client_max_body_size"
            | "client_body_buffer_size"
            | "proxy_request_buffering"
            | "proxy_http_version"
            | "access_log"
            | "satisfy"
            | "proxy_cookie_domain"
            | "proxy_cookie_path"
            | "proxy_buffering"
            | "proxy_buffers"
            | "proxy_buffer_size"
            | "proxy_busy_buffers_size"
            | "proxy_max_temp_file_size"
    )
}

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    context: Context,
    block: &mut Block,
) -> Result<String, Fault> {
    if context.in_if {
        return Err(format!("it is not translated in {}", context.name()).into());
    }
    if name.starts_with("proxy_buff")
        || matches!(name, "proxy_busy_buffers_size" | "proxy_max_temp_file_size")
    {
        return Ok("no effect: responses are relayed as they arrive".to_owned());
    }
    match context.place {
        Place::Location => {}
        Place::Server if !matches!(name, "satisfy" | "access_log" | "client_body_buffer_size") => {
            return Ok("no effect, as in ingress-nginx: each location has a value of its own".to_owned());
        }
        Place::Server | Place::Block | Place::Authorisation => {
            return Err(format!("it is not translated in {}", context.name()).into());
        }
    }
    let settings = &mut block.settings;
    let text = arguments.join(" ");
    let is_new = match name {
        "proxy_connect_timeout" | "grpc_connect_timeout" => {
            timeout(&mut settings.connect_timeout, arguments)?
        }
        "proxy_read_timeout" | "grpc_read_timeout" => timeout(&mut settings.read_timeout, arguments)?,
        "proxy_send_timeout" | "grpc_send_timeout" => timeout(&mut settings.send_timeout, arguments)?,
        "client_max_body_size" => put(&mut settings.body_limit, parsed(&value::size(), arguments)?),
        "client_body_buffer_size" => put(&mut settings.body_memory, parsed(&value::size(), arguments)?),
        "proxy_request_buffering" => {
            put(&mut settings.request_buffering, word(arguments, &[("on", true), ("off", false)])?)
        }
        "proxy_http_version" => {
            put(&mut settings.http_1_0, word(arguments, &[("1.0", true), ("1.1", false)])?)
        }
        "access_log" => put(&mut settings.unlogged, word(arguments, &[("off", true)])?),
        "satisfy" => {
            put(&mut settings.satisfy, word(arguments, &[("all", Satisfy::All), ("any", Satisfy::Any)])?)
        }
        "proxy_cookie_domain" => {
            put(&mut settings.cookie_domain, replaced(&replacement::cookie_domain(), arguments)?)
        }
        _ => put(&mut settings.cookie_path, replaced(&replacement::cookie_path(), arguments)?),
    };
    match is_new {
        true => Ok(format!("sets {} to {text}", annotation(name))),
        false => Err("it stands twice".into()),
    }
}

/// The annotation of the same meaning.
fn annotation(name: &str) -> String {
    match name {
        "client_max_body_size" => "proxy-body-size".to_owned(),
        "access_log" => "enable-access-log".to_owned(),
        name => name.replacen("grpc_", "proxy_", 1).replace('_', "-"),
    }
}

/// Puts a value where there is none yet.
fn put<T>(place: &mut Option<T>, value: T) -> bool {
    place.replace(value).is_none()
}

fn parsed<T: 'static>(kind: &Type<T>, arguments: &[String]) -> Result<T, Fault> {
    let [text] = arguments else { return Err("takes one value".into()) };
    parse(kind, text)
}

fn parse<T: 'static>(kind: &Type<T>, text: &str) -> Result<T, Fault> {
    kind.parse(text, &Author::OPERATOR).map_err(|wrong| match wrong {
        Wrong::Invalid(reason) => format!("the value {text:?} {reason}").into(),
        _ => format!("the value {text:?} must be {}", kind.words()).into(),
    })
}

fn timeout(place: &mut Option<Timeout>, arguments: &[String]) -> Result<bool, Fault> {
    Ok(put(place, Timeout::After(parsed(&value::some_time(), arguments)?)))
}

fn word<T: Copy>(arguments: &[String], words: &[(&str, T)]) -> Result<T, Fault> {
    let found = match arguments {
        [text] => words.iter().find(|(word, _)| word == text).map(|(_, value)| *value),
        _ => None,
    };
    let all: Vec<_> = words.iter().map(|(word, _)| *word).collect();
    found.ok_or_else(|| format!("takes one of: {}", all.join(", ")).into())
}

/// `off`, or what is replaced and by what. Each word is quoted again for the parser of the annotation.
fn replaced(
    kind: &Type<Override<Replacement>>,
    arguments: &[String],
) -> Result<Override<Replacement>, Fault> {
    match arguments {
        [off] if off == "off" => Ok(Override::Off),
        [from, to] if !from.contains('"') && !to.contains('"') => {
            parse(kind, &format!("\"{from}\" \"{to}\""))
        }
        _ => Err("takes off, or what is replaced and by what".into()),
    }
}

impl SettingOverrides {
    /// Takes over the settings of a text of the same level that are not set yet.
    pub(super) fn extend(&mut self, other: &Self) {
        let Self {
            connect_timeout,
            read_timeout,
            send_timeout,
            body_limit,
            body_memory,
            request_buffering,
            http_1_0,
            unlogged,
            satisfy,
            cookie_domain,
            cookie_path,
        } = other;
        self.connect_timeout = self.connect_timeout.or(*connect_timeout);
        self.read_timeout = self.read_timeout.or(*read_timeout);
        self.send_timeout = self.send_timeout.or(*send_timeout);
        self.body_limit = self.body_limit.or(*body_limit);
        self.body_memory = self.body_memory.or(*body_memory);
        self.request_buffering = self.request_buffering.or(*request_buffering);
        self.http_1_0 = self.http_1_0.or(*http_1_0);
        self.unlogged = self.unlogged.or(*unlogged);
        self.satisfy = self.satisfy.or(*satisfy);
        self.cookie_domain = self.cookie_domain.take().or_else(|| cookie_domain.clone());
        self.cookie_path = self.cookie_path.take().or_else(|| cookie_path.clone());
    }

    /// Replaces the settings of the policies.
    pub(super) fn apply(&self, policies: &mut Policies) {
        let timeouts = &mut policies.timeouts;
        timeouts.connect = self.connect_timeout.unwrap_or(timeouts.connect);
        timeouts.read = self.read_timeout.unwrap_or(timeouts.read);
        timeouts.send = self.send_timeout.unwrap_or(timeouts.send);
        let bodies = &mut policies.bodies;
        bodies.limit = self.body_limit.or(bodies.limit);
        bodies.memory = self.body_memory.or(bodies.memory);
        bodies.request_buffering = self.request_buffering.or(bodies.request_buffering);
        policies.http_1_0 = self.http_1_0.or(policies.http_1_0);
        policies.unlogged = self.unlogged.unwrap_or(policies.unlogged);
        policies.satisfy = self.satisfy.unwrap_or(policies.satisfy);
        if self.cookie_domain.is_some() || self.cookie_path.is_some() {
            let mut replacements = policies.replacements.as_deref().cloned().unwrap_or_default();
            replacements.cookie_domain = self.cookie_domain.clone().unwrap_or(replacements.cookie_domain);
            replacements.cookie_path = self.cookie_path.clone().unwrap_or(replacements.cookie_path);
            policies.replacements = Some(replacements.into());
        }
    }
}
